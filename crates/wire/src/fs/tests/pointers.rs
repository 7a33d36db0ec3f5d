//! Golden bytes of shared pointers and of append locks that are asked after, which formats before 14 do not have.

use alloc::borrow::ToOwned;

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;

#[test]
fn golden_operations_on_pointers_and_append_locks() {
    let object = ObjectId(9);
    let step = |step| Operation::MovePointer {
        object,
        pointer: 3,
        number: 4,
        step,
    };
    let pointer = "25 0900000000000000 0300000000000000 0400000000000000";
    let cases = [
        (
            Operation::CheckAppendLock {
                object,
                append_lock: 7,
                end: true,
            },
            "24 0900000000000000 0700000000000000 01".to_owned(),
        ),
        (
            step(PointerStep::Put(5)),
            format!("{pointer} 01 0500000000000000"),
        ),
        (
            step(PointerStep::Add(6)),
            format!("{pointer} 02 0600000000000000"),
        ),
        (step(PointerStep::Get), format!("{pointer} 03")),
        (step(PointerStep::End), format!("{pointer} 04")),
    ];
    for (operation, expected) in cases {
        golden(&operation, &expected);
        assert_eq!(operation.lowest_format(), POINTERS);
        let bytes = request(operation.clone()).to_bytes(Formats::only(POINTERS));
        let read = Request::from_bytes(&bytes).map(|(request, _)| request.operation);
        assert_eq!(read, Ok(operation));
        let mut older = bytes;
        (older[0], older[9]) = (POINTERS - 1, POINTERS - 1);
        assert!(Request::from_bytes(&older).is_err());
    }
    let reply = Reply {
        result: Ok(ReplyBody::Pointer(6)),
    };
    let bytes = from_hex("0e 00 3c 0600000000000000 00 00");
    assert_eq!(hex(&reply.to_bytes(POINTERS)), hex(&bytes));
    assert_eq!(Reply::from_bytes(&bytes), Ok((reply.clone(), POINTERS)));
    assert!(Reply::from_bytes(&reply.to_bytes(POINTERS - 1)).is_err());
}
