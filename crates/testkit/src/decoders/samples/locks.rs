//! Requests and replies about locks.

use causeway_wire::fs::{Lock, LockFamily, LockHolder, LockRange, ObjectId, Operation, ReplyBody};

pub(super) fn operations() -> [Operation; 4] {
    let object = ObjectId(42);
    let lock = Lock {
        object,
        family: LockFamily::Record,
        owner: 5,
        exclusive: true,
        range: LockRange { first: 6, last: 7 },
        pid: 8,
    };
    [
        Operation::Lock { lock, wait: 9 },
        Operation::Unlock {
            object,
            family: LockFamily::Whole,
            owner: 5,
            range: LockRange::ALL,
        },
        Operation::TestLock { lock },
        Operation::CancelLock { wait: 9 },
    ]
}

pub(super) fn replies() -> [ReplyBody; 3] {
    let holder = LockHolder {
        exclusive: true,
        range: LockRange { first: 5, last: 6 },
        pid: 7,
    };
    let holders = [None, Some(holder)];
    let [none, found] = holders.map(|holder| ReplyBody::LockHolder { holder });
    [ReplyBody::LockWaits, none, found]
}
