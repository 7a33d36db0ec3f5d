//! Golden bytes of files that are open, which formats before 11 do not have.

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;

pub(super) fn any_files() -> impl Strategy<Value = Operation> {
    let file = |(handle, object)| OpenHandle {
        handle,
        object: ObjectId(object),
    };
    let numbers = vec(any::<(u64, u64)>(), 0..30);
    (any::<u128>(), numbers, any::<bool>()).prop_map(move |(session, numbers, closes)| match closes
    {
        true => Operation::CloseFiles {
            session,
            handles: numbers.into_iter().map(|(handle, _)| handle).collect(),
        },
        false => Operation::KeepFiles {
            session,
            files: numbers.into_iter().map(file).collect(),
        },
    })
}

/// An opening by an operation that may open something.
pub(super) fn any_opening_of(operation: &Operation, closed: Option<Vec<u64>>) -> Option<Opening> {
    let opens = matches!(operation, Operation::Create { .. });
    closed.filter(|_| opens).map(|closed| Opening {
        session: 1 << 100 | closed.len() as u128,
        handle: u64::MAX - closed.len() as u64,
        closed,
    })
}

fn opening() -> Opening {
    Opening {
        session: 0x0a,
        handle: 0x0b,
        closed: vec![0x0c, 0x0d],
    }
}

const OPENING: &str = "78 0a000000000000000000000000000000 0b00000000000000
    02000000 0c00000000000000 0d00000000000000";

fn opened(operation: Operation, opening: Option<Opening>) -> Request {
    Request {
        opening,
        ..request(operation)
    }
}

#[test]
fn golden_openings() {
    let get = || Operation::GetNode {
        object: ObjectId(9),
        content: false,
    };
    let formats = Formats {
        lowest: 5,
        highest: OPENS,
    };
    let with = opened(get(), Some(opening()));
    let bytes = with.to_bytes(formats);
    let plain = opened(get(), None).to_bytes(formats);
    // An opening stands in front of the operation, and changes nothing else.
    let (head, operation) = plain.split_at(plain.len() - 10);
    let expected = [head, &from_hex(OPENING), operation].concat();
    assert_eq!(hex(&bytes), hex(&expected));
    assert_eq!(Request::from_bytes(&bytes), Ok((with.clone(), formats)));
    // Earlier formats open nothing.
    let earlier = Formats {
        highest: OPENS - 1,
        ..formats
    };
    assert_eq!(
        with.to_bytes(earlier),
        opened(get(), None).to_bytes(earlier)
    );
    let mut refused = bytes;
    refused[0] = OPENS - 1;
    assert!(Request::from_bytes(&refused).is_err());
}

#[test]
fn only_what_finds_or_makes_a_file_opens_it() {
    let formats = Formats::only(FORMATS.highest);
    let wrong = opened(Operation::Commit, Some(opening())).to_bytes(formats);
    assert!(Request::from_bytes(&wrong).is_err());
    // Nor are there two openings.
    let one = opened(
        Operation::GetNode {
            object: ObjectId(9),
            content: true,
        },
        Some(opening()),
    )
    .to_bytes(formats);
    let (head, operation) = one.split_at(one.len() - 10);
    let twice = [head, &from_hex(OPENING), operation].concat();
    assert!(Request::from_bytes(&twice).is_err());
}

#[test]
fn golden_operations_on_open_files() {
    let file = OpenHandle {
        handle: 3,
        object: ObjectId(9),
    };
    let cases = [
        (
            Operation::CloseFiles {
                session: 0x0a,
                handles: vec![4, 5],
            },
            "79 0a000000000000000000000000000000 02000000 0400000000000000 0500000000000000",
        ),
        (
            Operation::KeepFiles {
                session: 0x0a,
                files: vec![file],
            },
            "7a 0a000000000000000000000000000000 01000000 0300000000000000 0900000000000000",
        ),
    ];
    for (operation, expected) in cases {
        assert_eq!(operation.lowest_format(), OPENS);
        golden(&operation, expected);
    }
}
