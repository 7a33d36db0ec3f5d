//! Golden bytes of locks, which formats before 9 do not have.

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;

fn lock() -> Lock {
    Lock {
        object: ObjectId(9),
        family: LockFamily::Record,
        owner: 3,
        exclusive: true,
        range: LockRange { first: 4, last: 5 },
        pid: 7,
    }
}

pub(super) fn any_lock() -> impl Strategy<Value = Operation> {
    any::<(u64, u64, u64, u64, u32, bool)>().prop_map(
        |(object, one, other, owner, pid, exclusive)| Operation::Lock {
            lock: Lock {
                object: ObjectId(object),
                family: LockFamily::Record,
                owner,
                exclusive,
                range: LockRange {
                    first: one.min(other),
                    last: one.max(other),
                },
                pid,
            },
            wait: owner / 2,
        },
    )
}

#[test]
fn golden_operations_on_locks() {
    let (lock, object) = (lock(), ObjectId(9));
    let cases = [
        (
            Operation::Lock { lock, wait: 6 },
            "60 0900000000000000 01 0300000000000000 01 0400000000000000 0500000000000000 07000000
             0600000000000000",
        ),
        (
            Operation::Unlock {
                object,
                family: LockFamily::Whole,
                owner: 3,
                range: LockRange::ALL,
            },
            "61 0900000000000000 02 0300000000000000 0000000000000000 ffffffffffffffff",
        ),
        (
            Operation::TestLock { lock },
            "62 0900000000000000 01 0300000000000000 01 0400000000000000 0500000000000000 07000000",
        ),
        (Operation::CancelLock { wait: 6 }, "63 0600000000000000"),
    ];
    for (operation, expected) in cases {
        golden(&operation, expected);
    }
}

#[test]
fn formats_before_9_have_no_locks() {
    let lock = lock();
    let (object, family, owner) = (lock.object, lock.family, lock.owner);
    let range = LockRange { first: 5, last: 5 };
    let operations = [
        Operation::Lock { lock, wait: 6 },
        Operation::Unlock {
            object,
            family,
            owner,
            range,
        },
        Operation::TestLock { lock },
        Operation::CancelLock { wait: 6 },
    ];
    for operation in operations {
        assert_eq!(operation.lowest_format(), LOCKS);
        let mut bytes = request(operation.clone()).to_bytes(Formats::only(LOCKS));
        let read = Request::from_bytes(&bytes).map(|(request, _)| request.operation);
        assert_eq!(read, Ok(operation.clone()));
        (bytes[0], bytes[9]) = (LOCKS - 1, LOCKS - 1);
        assert!(Request::from_bytes(&bytes).is_err(), "{operation:?}");
    }
    let holder = LockHolder {
        exclusive: true,
        range,
        pid: 7,
    };
    let holder = Some(holder);
    let replies = [
        (ReplyBody::LockWaits, "40"),
        (ReplyBody::LockHolder { holder: None }, "41 00"),
        (
            ReplyBody::LockHolder { holder },
            "41 01 01 0500000000000000 0500000000000000 07000000",
        ),
    ];
    for (body, expected) in replies {
        let reply = Reply { result: Ok(body) };
        let bytes = from_hex(&format!("09 00 {expected}"));
        assert_eq!(hex(&reply.to_bytes(LOCKS)), hex(&bytes));
        assert_eq!(Reply::from_bytes(&bytes), Ok((reply.clone(), LOCKS)));
        assert!(Reply::from_bytes(&reply.to_bytes(LOCKS - 1)).is_err());
    }
    // A range that ends before it begins.
    let mut bytes = Operation::TestLock { lock }.to_bytes();
    bytes[19..27].copy_from_slice(&9_u64.to_le_bytes());
    bytes[27..35].copy_from_slice(&8_u64.to_le_bytes());
    let read = Operation::from_bytes(&bytes);
    assert!(matches!(read, Err(Malformed::Unknown { .. })), "{read:?}");
}
