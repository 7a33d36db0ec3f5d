//! Requests and replies about leases.

use causeway_wire::fs::formats::Granted;
use causeway_wire::fs::{Capability, Leased, MAC_BYTES, ObjectId, Operation, ReplyBody, Rights};

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
pub(super) fn granted() -> Granted {
    Granted {
        capability: Some(capability()),
        lease_ms: Some(5000),
    }
}

pub(super) fn capability() -> Capability {
    Capability {
        object: ObjectId(7),
        rights: Rights::READ,
        uid: 1000,
        node: 0,
        client: 0x0123_4567,
        version: 1_700_000_000_000,
        lifetime_ms: 60_000,
        servers: 3,
        mac: [9; MAC_BYTES],
    }
}
