//! Requests and replies about leases.

use causeway_wire::fs::formats::{Granted, GrantedLease};
use causeway_wire::fs::{
    Attributes, Capability, Kind, Leased, MAC_BYTES, ObjectId, Operation, ReplyBody, Rights,
    Timestamp,
};

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
        lease: Some(GrantedLease {
            time_ms: 5000,
            of_changes: true,
            for_all_users: true,
            directory: Some(Attributes {
                kind: Kind::Directory,
                mode: 0o755,
                uid: 1000,
                gid: 100,
                links: 2,
                size: 0,
                accessed: Timestamp::default(),
                modified: Timestamp::default(),
                changed: Timestamp::default(),
            }),
        }),
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
