//! Golden bytes of each format that this build speaks, and refusals where there is no common format.

use alloc::borrow::ToOwned;

use super::*;
use crate::codec::tests::hex;

pub(super) fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A reply has these bytes behind its format, in every format.
pub(super) fn golden_reply(reply: &Reply, expected: &str) {
    for format in FORMATS.lowest..=FORMATS.highest {
        let nothing_granted = match reply.result.is_ok() {
            true if format >= LEASES => "00 00",
            true if format >= CAPABILITIES => "00",
            _ => "",
        };
        let no_list = match reply.result {
            Ok(ReplyBody::Node(_) | ReplyBody::AppendLock { .. }) if format >= ACLS => "00",
            _ => "",
        };
        let bytes = from_hex(&format!(
            "{format:02x} {expected} {nothing_granted} {no_list}"
        ));
        assert_eq!(hex(&reply.to_bytes(format)), hex(&bytes));
        assert_eq!(Reply::from_bytes(&bytes), Ok((reply.clone(), format)));
    }
}

pub(super) fn request(operation: Operation) -> Request {
    Request {
        reply_tag: 0x0102,
        target: Target {
            file_system: 0x10,
            generation: Generation(0x20),
            incarnation: Incarnation(0x30),
        },
        client: 0xff,
        slot: 3,
        sequence: 4,
        caller: Caller {
            uid: 1000,
            gid: 100,
            groups: vec![5],
            umask: 0,
        },
        capability: None,
        opening: None,
        holder: None,
        operation,
    }
}

fn write(number: u64, repeated: Option<Moment>, append_lock: u64) -> Operation {
    Operation::Write {
        object: ObjectId(9),
        number,
        repeated,
        at_least: 8,
        regions: Regions::Here(vec![Region { offset: 1, len: 2 }]),
        memory: vec![],
        inline: vec![6, 7],
        append_lock,
    }
}

fn extend(end: u64, from: u64) -> Operation {
    Operation::Extend {
        object: ObjectId(9),
        end,
        modified: Timestamp::default(),
        version: 6,
        reached: vec![Reach {
            position: 7,
            end: 8,
        }],
        from,
    }
}

fn extended(end: &str) -> String {
    format!(
        "0e 0900000000000000 {end}00000000000000 0000000000000000 00000000
     0600000000000000 01000000 0700 0800000000000000"
    )
}

const TAG: &str = "0201000000000000";

const FROM_TARGET_ON: &str = "10000000000000000000000000000000 2000000000000000 3000000000000000
     ff000000000000000000000000000000 0300 0400000000000000 e8030000 64000000 01000000 05000000";

const WRITTEN: &str =
    "0800000000000000 01 01000000 0100000000000000 0200000000000000 00000000 02000000 0607";

/// Bytes of builds of each format: 5 and 6 as those builds wrote them.
#[test]
fn golden_requests_of_each_format() {
    let numbered = format!(
        "41 0900000000000000 0300000000000000 01 04000000000000000000000000000000 0500000000000000 {WRITTEN}"
    );
    let only = |format| Formats::only(format);
    let five_to_seven = Formats {
        lowest: 5,
        highest: 7,
    };
    let repeated = Some(Moment { boot: 4, at: 5 });
    let status = Operation::StorageStatus;
    let cases = [
        (only(5), "05", status.clone(), "47".to_owned()),
        (
            only(5),
            "05",
            write(0, None, 0),
            format!("41 0900000000000000 {WRITTEN}"),
        ),
        (only(6), "06", status.clone(), "47".to_owned()),
        (only(6), "06", write(3, repeated, 0), numbered.clone()),
        (five_to_seven, "07", status.clone(), "47".to_owned()),
        (five_to_seven, "07", write(3, repeated, 0), numbered.clone()),
        (only(7), "07", status.clone(), "47".to_owned()),
        (only(8), "08", status.clone(), "47".to_owned()),
        (only(10), "0a", status.clone(), "47".to_owned()),
        (only(11), "0b", status.clone(), "47".to_owned()),
        (only(8), "08", extend(5, 0), extended("05")),
        // Of a hole.
        (only(8), "08", extend(0, NOT_KNOWN), extended("00")),
        (
            only(10),
            "0a",
            extend(5, 9),
            format!("{} 0900000000000000", extended("05")),
        ),
        (
            only(8),
            "08",
            write(3, repeated, 6),
            format!("{numbered} 0600000000000000"),
        ),
        (only(9), "09", status.clone(), "47".to_owned()),
        (
            only(9),
            "09",
            Operation::CancelLock { wait: 6 },
            "63 0600000000000000".to_owned(),
        ),
        (only(12), "0c", status.clone(), "00 47".to_owned()),
        (only(12), "0c", Operation::Authorize, "00 70".to_owned()),
        // With the caller's umask.
        (only(13), "0d", status.clone(), "0000 00 47".to_owned()),
        // Without a holder.
        (only(14), "0e", status.clone(), "0000 00 00 47".to_owned()),
    ];
    for (formats, first, operation, expected) in cases {
        let lowest = match formats.highest {
            7.. => format!("{:02x}", formats.lowest),
            _ => String::new(),
        };
        let bytes = from_hex(&format!(
            "{first} {TAG} {lowest} {FROM_TARGET_ON} {expected}"
        ));
        let request = request(operation);
        assert_eq!(hex(&request.to_bytes(formats)), hex(&bytes), "{formats}");
        assert_eq!(Request::from_bytes(&bytes), Ok((request, formats)));
        for end in 0..bytes.len() {
            assert!(Request::from_bytes(&bytes[..end]).is_err());
        }
        assert_eq!(Request::reply_tag_of(&bytes[..9]), Some(0x0102));
        assert_eq!(Request::reply_tag_of(&bytes[..8]), None);
    }
}

#[test]
fn format_5_has_no_clock() {
    for (format, fits) in [(5, false), (6, true)] {
        let asks = request(Operation::Clock).to_bytes(Formats::only(format));
        assert_eq!(Request::from_bytes(&asks).is_ok(), fits);
        let result = Ok(ReplyBody::Clock(Moment { boot: 1, at: 2 }));
        let tells = Reply { result }.to_bytes(format);
        assert_eq!(Reply::from_bytes(&tells).is_ok(), fits);
    }
}

#[test]
fn formats_before_8_have_no_append_locks() {
    let object = ObjectId(9);
    let node = Node {
        object,
        attributes: attributes(),
        body: Body::Link(Vec::new()),
        acl: None,
    };
    let operations = [
        write(3, None, 6),
        Operation::Append {
            object,
            data: vec![1],
        },
        Operation::BeginAppend { object },
        Operation::CancelAppend {
            object,
            append_lock: 6,
        },
    ];
    for operation in operations {
        assert_eq!(operation.lowest_format(), EXTENDED);
        let bytes = request(operation.clone()).to_bytes(FORMATS);
        let read = Request::from_bytes(&bytes).map(|(request, _)| request.operation);
        assert_eq!(read, Ok(operation.clone()));
        if !matches!(operation, Operation::Write { .. }) {
            let mut older = bytes;
            older[0] = EXTENDED - 1;
            assert!(Request::from_bytes(&older).is_err(), "{operation:?}");
        }
    }
    for (format, fits) in [(7, false), (8, true)] {
        let result = Ok(ReplyBody::AppendLock {
            append_lock: 6,
            node: Box::new(node.clone()),
        });
        let tells = Reply { result }.to_bytes(format);
        assert_eq!(Reply::from_bytes(&tells).is_ok(), fits);
    }
}

#[test]
fn stated_formats_of_other_clients_are_known() {
    let of = |highest, lowest| Formats { lowest, highest };
    let (last, next) = (FORMATS.highest, FORMATS.highest + 1);
    let cases = [
        // Of clients that do not state their formats.
        (&[4, 1][..], Some(Formats::only(4))),
        (&[1, 9], Some(Formats::only(1))),
        // Of newer ones, whose formats meet ours or do not.
        (&[next, 6], Some(of(next, 6))),
        (&[next, next], Some(of(next, next))),
        (&[200, 1], Some(of(200, 1))),
        // Ours.
        (&[5, 0], Some(Formats::only(5))),
        (&[7, 5], Some(of(7, 5))),
        (&[8, 5], Some(of(8, 5))),
        (&[9, 5], Some(of(9, 5))),
        (&[10, 5], Some(of(10, 5))),
        (&[11, 5], Some(of(11, 5))),
        (&[12, 5], Some(of(12, 5))),
        (&[13, 5], Some(of(13, 5))),
        (&[last, 5], Some(FORMATS)),
        // Nonsense.
        (&[0, 0], None),
        (&[last, 0], None),
        (&[last, next], None),
    ];
    for (ends, expected) in cases {
        let bytes = [&ends[..1], &[0; 8], &ends[1..], &[0; 80]].concat();
        assert_eq!(Request::formats_of(&bytes), expected, "{ends:?}");
        assert!(Request::from_bytes(&bytes).is_err());
    }
    for lowest in [0, FORMATS.highest + 1] {
        let mut bytes = request(Operation::Commit).to_bytes(FORMATS);
        bytes[9] = lowest;
        let read = Request::from_bytes(&bytes);
        assert!(matches!(read, Err(Malformed::Unknown { .. })), "{read:?}");
    }
}

/// A refusal has the same bytes in every format, and is read by clients of every format.
#[test]
fn refusals_say_which_format_to_use_and_name_both_sides() {
    let (lowest, highest) = (FORMATS.lowest, FORMATS.highest);
    for (asked, format) in [
        (1, 1),
        (lowest - 1, lowest - 1),
        (highest + 1, highest),
        (255, highest),
    ] {
        assert_eq!(format_of_refusal(asked), format);
        let failure = Failure {
            errno: Errno::EPROTO,
            message: refusal_text(Formats::only(asked)),
        };
        let result = Err(failure.clone());
        let bytes = Reply { result }.to_bytes(format);
        let expected = (format != asked).then_some((format, failure.clone()));
        assert_eq!(Reply::refusal_of(&bytes, asked), expected);
        for named in [
            format!("format {asked} "),
            FORMATS.to_string(),
            "run builds".to_owned(),
        ] {
            assert!(failure.message.contains(&named), "{}", failure.message);
        }
    }
    // The refusal of a build of format 4.
    let old = from_hex("04 01 4700 09000000 756e6b6e6f776e2037");
    let (format, failure) = Reply::refusal_of(&old, highest).expect("a refusal");
    let text = refused_text(format, failure);
    assert!(
        text.contains("format 4 ") && text.contains(&FORMATS.to_string()),
        "{text}"
    );
    // Of a later build, which states its formats.
    let new = Failure {
        errno: Errno::EPROTO,
        message: "words".into(),
    };
    assert_eq!(refused_text(13, new.clone()), "words");
    let result = Err(new);
    for bytes in [
        Reply {
            result: Ok(ReplyBody::Done),
        }
        .to_bytes(4),
        Reply { result }.to_bytes(highest),
        vec![4, 1, 0x47, 0],
        vec![],
    ] {
        assert_eq!(Reply::refusal_of(&bytes, highest), None);
    }
}

#[test]
fn values_out_of_bounds_are_refused() {
    let unknown = |result: Result<Operation, Malformed>| {
        assert!(
            matches!(result, Err(Malformed::Unknown { .. })),
            "{result:?}"
        );
    };
    for code in [0, 26, 63, 78, 84, 127, 128, 132, 255] {
        unknown(Operation::from_bytes(&[code]));
    }
    let path = Place {
        base: ObjectId(1),
        path: vec![b'x'; MAX_PATH_BYTES + 1],
    };
    let too_large = Place::from_bytes(&path.to_bytes());
    assert!(
        matches!(too_large, Err(Malformed::TooLarge { .. })),
        "{too_large:?}"
    );
    let caller = Caller {
        groups: vec![0; MAX_GROUPS + 1],
        ..Caller::default()
    };
    assert!(matches!(
        Caller::from_bytes(&caller.to_bytes()),
        Err(Malformed::TooLarge { .. })
    ));
    // No divisor that is zero reaches a client.
    assert!(Distribution::from_bytes(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]).is_err());
    assert!(Distribution::from_bytes(&[1, 0, 0, 0, 0, 0, 0, 0]).is_err());
    let time = Timestamp {
        seconds: 0,
        nanoseconds: 1_000_000_000,
    };
    assert!(Timestamp::from_bytes(&time.to_bytes()).is_err());
    let other_protocol = [FORMATS.highest + 1, 0, 1];
    assert!(Reply::from_bytes(&other_protocol).is_err());
    let mut long = Reply {
        result: Ok(ReplyBody::Done),
    }
    .to_bytes(FORMATS.highest);
    long.resize(MAX_MESSAGE_BYTES + 1, 0);
    assert!(matches!(
        Reply::from_bytes(&long),
        Err(Malformed::TooLarge { .. })
    ));
}
