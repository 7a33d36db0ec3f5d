//! Requests about files that are open.

use causeway_wire::fs::{ObjectId, OpenHandle, Opening, Operation};

pub(super) fn requests() -> [(Option<Opening>, Operation); 3] {
    let (session, handle, object) = (0x1234_5678, 9, ObjectId(42));
    let opening = Opening {
        session,
        handle,
        closed: vec![7, 8],
    };
    let get = Operation::GetNode {
        object,
        content: true,
    };
    let handles = vec![7, 8];
    let files = vec![OpenHandle { handle, object }];
    [
        (Some(opening), get),
        (None, Operation::CloseFiles { session, handles }),
        (None, Operation::KeepFiles { session, files }),
    ]
}
