//! Requests and replies about leases.

use causeway_wire::fs::formats::Granted;
use causeway_wire::fs::{Capability, Leased, ObjectId, Operation, ReplyBody};

pub(super) fn operations() -> [Operation; 2] {
    let holder = 5;
    let (recalls, ended) = (6, 7);
    [
        Operation::HoldLeases {
            holder,
            recalls,
            ended,
        },
        Operation::EndLeases { holder },
    ]
}

pub(super) fn replies() -> [ReplyBody; 2] {
    let leases = vec![
        Leased::Attributes(ObjectId(42)),
        Leased::Entry(ObjectId(1), b"name".to_vec()),
    ];
    [ReplyBody::NoEntry, ReplyBody::Recall { number: 8, leases }]
}

/// Everything that a reply may grant.
pub(super) fn granted(capability: Capability) -> Granted {
    Granted {
        capability: Some(capability),
        lease_ms: Some(5000),
    }
}
