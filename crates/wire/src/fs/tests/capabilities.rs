//! What formats 12 and 13 have in addition: capabilities, and short ones.

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;
use crate::codec::{Reader, Writer};

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

/// A capability that fits a request, as its receiver sees it.
pub(super) fn shown_with(request: &Request) -> Capability {
    let mut shown = capability();
    let needed = request.operation.needs().what();
    shown.object = needed.map_or(ObjectId(0), |(object, _)| object);
    shown.client = request.client;
    shown.uid = request.caller.uid;
    shown.mac[PROOF_BYTES..].fill(0);
    shown
}

/// The bytes of a capability in a request.
fn shown_bytes(uid: u32, shown: &Capability) -> Vec<u8> {
    let mut out = Writer::onto(vec![]);
    shown.encode_shown(uid, &mut out);
    out.finish()
}

/// A request says itself for which object, client and user its capability is.
#[test]
fn golden_capabilities_of_requests() {
    const REST: &str = "0000010000000000 60ea0000 0500000000000000";
    let proof = "ab".repeat(PROOF_BYTES);
    let sender = (1000, 0xff);
    let mut shown = shown_with(&request(Operation::StorageStatus));
    let golden = |shown: &Capability, expected: &str| {
        let bytes = from_hex(expected);
        assert_eq!(hex(&shown_bytes(sender.0, shown)), hex(&bytes));
        let read = Capability::decode_shown(sender, &mut Reader::new(&bytes));
        assert_eq!(read.as_ref(), Ok(shown));
    };
    golden(&shown, &format!("43 {REST} 0700000000000000 {proof}"));
    shown.node = 0;
    golden(&shown, &format!("03 {REST} {proof}"));
    shown.uid = NOBODY;
    golden(&shown, &format!("83 {REST} {proof}"));

    let refused = |uid, bytes: &str| {
        let bytes = from_hex(bytes);
        assert!(Capability::decode_shown((uid, 0xff), &mut Reader::new(&bytes)).is_err());
    };
    let unknown = format!("10 {REST} {proof}");
    refused(1000, &unknown);
    // Each has one form only.
    refused(1000, &format!("43 {REST} 0000000000000000 {proof}"));
    refused(NOBODY, &format!("83 {REST} {proof}"));
}

/// Requests carry one behind the caller, replies behind their body; cut short, neither is accepted.
#[test]
fn messages_have_capabilities_from_format_12_on() {
    let mut asks = request(Operation::StorageStatus);
    asks.capability = Some(capability());
    let whole = Formats::only(CAPABILITIES);
    let bytes = asks.to_bytes(whole);
    assert_eq!(Request::from_bytes(&bytes), Ok((asks.clone(), whole)));
    let mut short = asks.clone();
    short.capability = Some(shown_with(&asks));
    let short_bytes = short.to_bytes(FORMATS);
    assert_eq!(Request::from_bytes(&short_bytes), Ok((short, FORMATS)));
    for bytes in [bytes, short_bytes] {
        for end in 0..bytes.len() {
            assert!(Request::from_bytes(&bytes[..end]).is_err());
        }
    }
    let older = Formats::only(CAPABILITIES - 1);
    let (read, _) = Request::from_bytes(&asks.to_bytes(older)).unwrap();
    assert_eq!(read.capability, None);

    let done = Reply {
        result: Ok(ReplyBody::Done),
    };
    let given = Granted {
        capability: Some(capability()),
        lease: None,
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
            Operation::CopyData {
                object,
                number: 1,
                repeated: None,
                at_least,
                region,
                source: Box::new(DataSource {
                    object: ObjectId(10),
                    offset: 0,
                    at_least,
                    capability: Some(capability()),
                }),
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
        (Operation::Authorize, Needs::Operator),
        (Operation::Clock, Needs::Nothing),
    ];
    for (operation, expected) in needs {
        assert_eq!(operation.needs(), expected, "{operation:?}");
        if let Operation::CopyData { source, .. } = &operation {
            let shown = source.capability.as_ref();
            let expected = Some((source.object, Rights::READ, shown));
            assert_eq!(operation.also_needs(), expected);
        } else {
            assert_eq!(operation.also_needs(), None);
        }
    }
}
