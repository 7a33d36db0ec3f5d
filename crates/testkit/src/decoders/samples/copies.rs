//! Requests about copies of files, and a reply.

use causeway_wire::fs::{DataSource, Moment, ObjectId, Operation, Region, ReplyBody};

use super::leases;

pub(super) fn operations() -> [Operation; 2] {
    let lie_like = Operation::LieLike {
        object: ObjectId(42),
        other: ObjectId(43),
    };
    [lie_like, copy()]
}

fn copy() -> Operation {
    Operation::CopyData {
        object: ObjectId(42),
        number: 7,
        repeated: Some(Moment { boot: 3, at: 4 }),
        at_least: 5,
        region: Region { offset: 6, len: 7 },
        source: Box::new(DataSource {
            object: ObjectId(43),
            offset: 8,
            at_least: 9,
            capability: Some(leases::capability()),
        }),
    }
}

pub(super) fn reply() -> ReplyBody {
    ReplyBody::Copied {
        bytes: 9,
        stored: 8,
        reached: 7,
    }
}
