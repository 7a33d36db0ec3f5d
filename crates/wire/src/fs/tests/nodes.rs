//! Additions of format 10: files that may have holes, pipes, sockets and devices.

use super::*;
use crate::codec::tests::hex;

#[test]
fn golden_operations_on_nodes() {
    let object = ObjectId(9);
    let cases = [
        (
            Operation::MakeSpecial {
                place: place(),
                kind: Kind::Fifo,
                mode: 0o640,
                device: 0,
            },
            format!("64 {PLACE} 04 a001 00000000"),
        ),
        (
            Operation::Filled {
                object,
                changed: Timestamp {
                    seconds: -1,
                    nanoseconds: 2,
                },
            },
            "65 0900000000000000 ffffffffffffffff 02000000".into(),
        ),
        (
            Operation::StoredData { object },
            "6e 0900000000000000".into(),
        ),
    ];
    for (operation, expected) in cases {
        assert_eq!(operation.lowest_format(), NODES);
        golden(&operation, &expected);
    }
    golden(&ReplyBody::Stored(8192), "3a 0020000000000000");
}

#[test]
fn formats_before_10_do_not_report_holes() {
    let object = ObjectId(9);
    let node = |sparse| {
        let body = Body::Striped {
            distribution: Distribution {
                strip_size: 65536,
                servers: vec![2],
            },
            version: 3,
            truncating: None,
            lengths: vec![],
            sparse,
        };
        Box::new(Node {
            object,
            attributes: attributes(),
            body,
            acl: None,
        })
    };
    let results: [fn(Box<Node>) -> ReplyBody; 2] =
        [ReplyBody::Node, |node| ReplyBody::AppendLock {
            append_lock: 4,
            node,
        }];
    for result in results {
        let reply = |sparse| Reply {
            result: Ok(result(node(sparse))),
        };
        let told = reply(true).to_bytes(10);
        assert_eq!(Reply::from_bytes(&told), Ok((reply(true), 10)));
        let earlier = reply(true).to_bytes(9);
        assert_eq!(Reply::from_bytes(&earlier), Ok((reply(false), 9)));
        let mut wrong = told;
        wrong[0] = 9;
        assert!(Reply::from_bytes(&wrong).is_err());
    }
    let told = Reply {
        result: Ok(ReplyBody::Node(node(true))),
    };
    assert_eq!(hex(&told.to_bytes(10))[4 + 2 + 16 + 118..][..2], *"06");
    let asks = formats::request(Operation::StoredData { object }).to_bytes(Formats::only(9));
    assert!(Request::from_bytes(&asks).is_err());
}

#[test]
fn formats_before_10_have_no_pipes_sockets_and_devices() {
    let make = Operation::MakeSpecial {
        place: place(),
        kind: Kind::BlockDevice,
        mode: 0o640,
        device: 0x0801,
    };
    assert_eq!(make.lowest_format(), NODES);
    let device = |kind, device| Node {
        object: ObjectId(9),
        attributes: Attributes {
            kind: Kind::BlockDevice,
            ..attributes()
        },
        body: Body::Special { kind, device },
        acl: None,
    };
    let reply = Reply {
        result: Ok(ReplyBody::Node(Box::new(device(Kind::BlockDevice, 0x0801)))),
    };
    let bytes = reply.to_bytes(10);
    assert!(hex(&bytes).ends_with("050701080000"), "{}", hex(&bytes));
    assert_eq!(Reply::from_bytes(&bytes), Ok((reply.clone(), 10)));
    let (earlier, _) = Reply::from_bytes(&reply.to_bytes(9)).unwrap();
    let failure = earlier.result.unwrap_err();
    assert_eq!(failure.errno, Errno::EOPNOTSUPP);
    assert!(failure.message.contains("format 10"), "{}", failure.message);
    // A regular file in the place of a device, and a pipe with a device number.
    for (kind, number) in [(Kind::File, 0), (Kind::Fifo, 1)] {
        let wrong = ReplyBody::Node(Box::new(device(kind, number)));
        assert!(Reply::from_bytes(&Reply { result: Ok(wrong) }.to_bytes(10)).is_err());
    }
    // A listing shows earlier clients the names.
    let entries = |kind| Reply {
        result: Ok(ReplyBody::Entries {
            entries: vec![Entry {
                name: b"n".to_vec(),
                object: ObjectId(9),
                kind,
                attributes: Some(Attributes {
                    kind,
                    ..attributes()
                }),
            }],
            end: true,
        }),
    };
    let (listed, special) = (entries(Kind::File), entries(Kind::Socket));
    assert_eq!(Reply::from_bytes(&special.to_bytes(9)), Ok((listed, 9)));
    assert_eq!(Reply::from_bytes(&special.to_bytes(10)), Ok((special, 10)));
}

#[test]
fn names_that_would_lead_elsewhere_are_no_entries() {
    let reply = |name: &[u8]| Reply {
        result: Ok(ReplyBody::Entries {
            entries: vec![Entry {
                name: name.to_vec(),
                object: ObjectId(9),
                kind: Kind::File,
                attributes: None,
            }],
            end: true,
        }),
    };
    let refused = [&b""[..], b".", b"..", b"/", b"../x", b"/etc/passwd"];
    for name in refused
        .into_iter()
        .chain([&b"a/b"[..], b"a/", b"\0", b"a\0b"])
    {
        let bytes = reply(name).to_bytes(FORMATS.highest);
        assert!(Reply::from_bytes(&bytes).is_err(), "{name:?}");
    }
    for name in [&b"..."[..], b".x", b"..x", b" ", b"\xff", b"\\"] {
        let sent = reply(name);
        let format = FORMATS.highest;
        let read = Reply::from_bytes(&sent.to_bytes(format));
        assert_eq!(read, Ok((sent, format)), "{name:?}");
    }
}
