//! Golden bytes of leases, which formats before 14 do not have.

use super::formats::{from_hex, request};
use super::*;
use crate::codec::tests::hex;

pub(super) fn any_leases() -> impl Strategy<Value = Operation> {
    prop_oneof![
        any::<(u128, u64, u64)>().prop_map(|(holder, recalls, ended)| Operation::HoldLeases {
            holder,
            recalls,
            ended,
        }),
        any::<u128>().prop_map(|holder| Operation::EndLeases { holder }),
    ]
}

#[test]
fn golden_operations_on_leases() {
    let hold = Operation::HoldLeases {
        holder: 0x0a,
        recalls: 3,
        ended: 2,
    };
    let cases = [
        (
            hold,
            "82 0a000000000000000000000000000000 0300000000000000 0200000000000000",
        ),
        (
            Operation::EndLeases { holder: 0x0a },
            "83 0a000000000000000000000000000000",
        ),
    ];
    for (operation, expected) in cases {
        assert_eq!(operation.lowest_format(), LEASES);
        golden(&operation, expected);
    }
    golden(&ReplyBody::NoEntry, "42");
    let leases = vec![
        Leased::Attributes(ObjectId(9)),
        Leased::Entry(ObjectId(8), b"ab".to_vec()),
    ];
    golden(
        &ReplyBody::Recall { number: 7, leases },
        "43 0700000000000000 02000000 01 0900000000000000 02 0800000000000000 02000000 6162",
    );
    assert!(Leased::from_bytes(&from_hex("03 0900000000000000")).is_err());
}

/// A holder stands behind the capability of a request, the time of a lease behind that of a reply.
#[test]
fn messages_have_leases_from_format_14_on() {
    let mut asks = request(Operation::GetNode {
        object: ObjectId(9),
        content: false,
    });
    let plain = asks.to_bytes(FORMATS);
    asks.holder = Some(0x0a);
    let bytes = asks.to_bytes(FORMATS);
    let (head, operation) = plain.split_at(plain.len() - 11);
    assert_eq!(operation[0], 0, "no holder");
    let holder = from_hex("01 0a000000000000000000000000000000");
    let expected = [head, &holder, &operation[1..]].concat();
    assert_eq!(hex(&bytes), hex(&expected));
    assert_eq!(Request::from_bytes(&bytes), Ok((asks.clone(), FORMATS)));
    let older = Formats::only(LEASES - 1);
    let (read, _) = Request::from_bytes(&asks.to_bytes(older)).unwrap();
    assert_eq!(read.holder, None);

    let done = Reply {
        result: Ok(ReplyBody::Done),
    };
    let granted = Granted {
        capability: None,
        lease: Some(GrantedLease {
            time_ms: 5000,
            ..GrantedLease::default()
        }),
    };
    let bytes = done.to_bytes_with(&granted, LEASES);
    assert_eq!(hex(&bytes), "0e0001000188130000");
    let expected = Ok((done.clone(), granted.clone(), LEASES));
    assert_eq!(Reply::from_bytes_with(&bytes), expected);
    for end in 0..bytes.len() {
        assert!(Reply::from_bytes_with(&bytes[..end]).is_err());
    }
    assert_eq!(hex(&done.to_bytes_with(&granted, LEASES - 1)), "0d000100");
}

/// From format 15 on, a lease says for whom it is good, and how a change has left its directory.
#[test]
fn leases_say_more_from_format_15_on() {
    let done = Reply {
        result: Ok(ReplyBody::Done),
    };
    let lease = GrantedLease {
        time_ms: 5000,
        of_changes: true,
        for_all_users: true,
        directory: None,
    };
    let granted = |lease| Granted {
        capability: None,
        lease: Some(lease),
    };
    let bytes = done.to_bytes_with(&granted(lease), LEASES_OF_CHANGES);
    assert_eq!(hex(&bytes), "0f00010001881300000100");
    let directory = Attributes {
        kind: Kind::Directory,
        mode: 0o755,
        uid: 1,
        gid: 2,
        links: 3,
        size: 4,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    let whole = GrantedLease {
        directory: Some(directory),
        ..lease
    };
    let bytes = done.to_bytes_with(&granted(whole), LEASES_OF_CHANGES);
    let attributes = hex(&directory.to_bytes());
    assert_eq!(
        hex(&bytes),
        format!("0f000100018813000001 01{attributes}").replace(' ', "")
    );
    let expected = Ok((done.clone(), granted(whole), LEASES_OF_CHANGES));
    assert_eq!(Reply::from_bytes_with(&bytes), expected);
    for end in 0..bytes.len() {
        assert!(Reply::from_bytes_with(&bytes[..end]).is_err());
    }
    // Earlier clients learn of the time alone.
    let earlier = done.to_bytes_with(&granted(whole), LEASES);
    assert_eq!(hex(&earlier), "0e0001000188130000");
}

/// The longest message that recalls leases fits.
#[test]
fn the_longest_recall_fits_in_a_message() {
    let longest = Leased::Entry(ObjectId(u64::MAX), vec![b'x'; MAX_NAME_BYTES]);
    let recall = |count| Reply {
        result: Ok(ReplyBody::Recall {
            number: 1,
            leases: vec![longest.clone(); count],
        }),
    };
    let bytes = recall(MAX_RECALLED).to_bytes(FORMATS.highest);
    assert!(bytes.len() <= MAX_MESSAGE_BYTES / 2, "{}", bytes.len());
    assert!(Reply::from_bytes(&bytes).is_ok());
    let more = recall(MAX_RECALLED + 1).to_bytes(FORMATS.highest);
    assert!(Reply::from_bytes(&more).is_err());
}
