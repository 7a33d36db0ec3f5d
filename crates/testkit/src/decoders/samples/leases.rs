//! Requests and replies about leases.

use causeway_wire::fs::{Leased, ObjectId, Operation, ReplyBody};

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
