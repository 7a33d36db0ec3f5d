//! What format 12 has in addition: capabilities.

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;

pub(super) fn capability() -> Capability {
    Capability {
        object: ObjectId(9),
        rights: Rights::READ.with(Rights::WRITE),
        uid: 1000,
        node: 7,
        client: 0xff,
        version: 0x1_0000,
        lifetime_ms: 60_000,
        servers: 5,
        mac: [0xab; MAC_BYTES],
    }
}

const SIGNED: &str = "0900000000000000 03 e8030000 0700000000000000
    ff000000000000000000000000000000 0000010000000000 60ea0000 0500000000000000";

#[test]
fn golden_capabilities() {
    let mac = "ab".repeat(MAC_BYTES);
    golden(&capability(), &format!("{SIGNED} {mac}"));
    assert_eq!(hex(&capability().signed()), hex(&from_hex(SIGNED)));
    golden(&Operation::Authorize, "70");
    let ended = vec![(ObjectId(9), 3)];
    golden(
        &Operation::EndCapabilities { ended },
        "71 01000000 0900000000000000 0300000000000000",
    );
    let mut bytes = capability().to_bytes();
    bytes[8] = 16;
    assert!(Capability::from_bytes(&bytes).is_err(), "an unknown right");
}

/// Requests carry one behind the caller, replies behind their body; cut short, neither is accepted.
#[test]
fn messages_have_capabilities_from_format_12_on() {
    let mut asks = request(Operation::StorageStatus);
    asks.capability = Some(capability());
    let bytes = asks.to_bytes(FORMATS);
    assert_eq!(Request::from_bytes(&bytes), Ok((asks.clone(), FORMATS)));
    for end in 0..bytes.len() {
        assert!(Request::from_bytes(&bytes[..end]).is_err());
    }
    let older = Formats::only(CAPABILITIES - 1);
    let (read, _) = Request::from_bytes(&asks.to_bytes(older)).unwrap();
    assert_eq!(read.capability, None);

    let done = Reply {
        result: Ok(ReplyBody::Done),
    };
    let given = Granted {
        capability: Some(capability()),
        lease_ms: None,
    };
    let bytes = done.to_bytes_with(&given, FORMATS.highest);
    let expected = Ok((done.clone(), given.clone(), FORMATS.highest));
    assert_eq!(Reply::from_bytes_with(&bytes), expected);
    for end in 0..bytes.len() {
        assert!(Reply::from_bytes_with(&bytes[..end]).is_err());
    }
    let older = done.to_bytes_with(&given, CAPABILITIES - 1);
    assert_eq!(hex(&older), "0b0001");
}

#[test]
fn every_operation_on_datafiles_needs_a_right() {
    let object = ObjectId(9);
    let (at_least, region) = (0, Region { offset: 0, len: 1 });
    let needs = [
        (
            Operation::FindData {
                object,
                at_least,
                offset: 0,
            },
            Needs::Object(object, Rights::READ),
        ),
        (
            Operation::ReserveData {
                object,
                at_least,
                region,
            },
            Needs::Object(object, Rights::WRITE),
        ),
        (
            Operation::Flush { object, at_least },
            Needs::Object(object, Rights::READ.with(Rights::WRITE)),
        ),
        (
            Operation::StoredData { object },
            Needs::Object(object, Rights::NONE),
        ),
        (
            Operation::Remove {
                objects: vec![object],
            },
            Needs::Any(Rights::OPERATE),
        ),
        (
            Operation::EndCapabilities { ended: vec![] },
            Needs::Any(Rights::SERVE),
        ),
        (Operation::Clock, Needs::Nothing),
    ];
    for (operation, expected) in needs {
        assert_eq!(operation.needs(), expected, "{operation:?}");
    }
}
