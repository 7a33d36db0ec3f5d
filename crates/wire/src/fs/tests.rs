//! Golden bytes of each kind, round trips, and invalid inputs.

mod acls;
mod attributes;
mod capabilities;
mod data;
mod formats;
mod leases;
mod locks;
mod nodes;
mod opens;
mod pointers;

use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::formats::*;
use super::*;
use crate::codec::tests::golden;
use crate::codec::{Malformed, Wire};
use crate::formats::Formats;
use crate::region::{ObjectSpan, RegionDescriptor};

fn place() -> Place {
    Place {
        base: ObjectId(1),
        path: b"a/b".to_vec(),
    }
}

const PLACE: &str = "0100000000000000 03000000 612f62";

fn descriptor() -> RegionDescriptor {
    RegionDescriptor {
        key: 0x11,
        base: 0x1000,
        len: 0x20,
        object: None,
    }
}

const DESCRIPTOR: &str = "1100000000000000 0010000000000000 2000000000000000 00";

#[test]
fn golden_operations_on_names() {
    let hint = DistributionHint {
        strip_size: 65536,
        servers: 4,
        start: 1,
    };
    let (object, from, to) = (ObjectId(9), place(), place());
    let cases = [
        (
            Operation::Lookup {
                place: place(),
                follow: true,
                content: false,
            },
            format!("01 {PLACE} 01 00"),
        ),
        (
            Operation::GetNode {
                object,
                content: true,
            },
            "02 0900000000000000 01".into(),
        ),
        (
            Operation::Create {
                place: place(),
                exclusive: true,
                mode: 0o644,
                distribution: Some(hint),
                content: vec![7],
            },
            format!("03 {PLACE} 01 a401 01 00000100 0400 0100 01000000 07"),
        ),
        (
            Operation::MakeDirectory {
                place: place(),
                mode: 0o755,
                distribution: None,
            },
            format!("04 {PLACE} ed01 00"),
        ),
        (
            Operation::SymbolicLink {
                place: place(),
                target: b"x".to_vec(),
            },
            format!("05 {PLACE} 01000000 78"),
        ),
        (
            Operation::HardLink {
                object,
                place: place(),
            },
            format!("06 0900000000000000 {PLACE}"),
        ),
        (
            Operation::Rename {
                from,
                to,
                no_replace: true,
            },
            format!("07 {PLACE} {PLACE} 01"),
        ),
        (
            Operation::Unlink {
                place: place(),
                expected: Some(object),
            },
            format!("08 {PLACE} 01 0900000000000000"),
        ),
        (
            Operation::RemoveDirectory {
                place: place(),
                expected: None,
            },
            format!("09 {PLACE} 00"),
        ),
        (
            Operation::ReadDirectory {
                object,
                after: b"m".to_vec(),
                limit: 16,
                attributes: true,
            },
            "0a 0900000000000000 01000000 6d 10000000 01".into(),
        ),
    ];
    for (operation, expected) in cases {
        golden(&operation, &expected);
    }
}

#[test]
fn golden_operations_on_objects() {
    let object = ObjectId(9);
    let time = Timestamp {
        seconds: -1,
        nanoseconds: 2,
    };
    let cases = [
        (
            Operation::SetAttributes {
                object,
                set: SetAttributes {
                    uid: Some(8),
                    modified: Some(time),
                    ..SetAttributes::default()
                },
            },
            "0b 0900000000000000 12 08000000 ffffffffffffffff 02000000",
        ),
        (
            Operation::Append {
                object,
                data: vec![6],
            },
            "20 0900000000000000 01000000 06",
        ),
        (Operation::BeginAppend { object }, "21 0900000000000000"),
        (
            Operation::EndAppend {
                object,
                append_lock: 7,
                end: 5,
                modified: time,
                version: 4,
                reached: vec![Reach {
                    position: 1,
                    end: 3,
                }],
            },
            "22 0900000000000000 0700000000000000 0500000000000000 ffffffffffffffff 02000000
             0400000000000000 01000000 0100 0300000000000000",
        ),
        (
            Operation::CancelAppend {
                object,
                append_lock: 7,
            },
            "23 0900000000000000 0700000000000000",
        ),
        (
            Operation::Truncate { object, size: 5 },
            "0c 0900000000000000 0500000000000000",
        ),
        (
            Operation::FinishTruncate { object, version: 5 },
            "0d 0900000000000000 0500000000000000",
        ),
        (
            Operation::Extend {
                object,
                end: 5,
                modified: time,
                version: 6,
                reached: vec![Reach {
                    position: 7,
                    end: 8,
                }],
                from: 9,
            },
            "0e 0900000000000000 0500000000000000 ffffffffffffffff 02000000
             0600000000000000 01000000 0700 0800000000000000 0900000000000000",
        ),
        (
            Operation::WriteStuffed {
                object,
                offset: 5,
                data: vec![1, 2],
            },
            "0f 0900000000000000 0500000000000000 02000000 0102",
        ),
        (Operation::BeginUnstuff { object }, "10 0900000000000000"),
        (Operation::FinishUnstuff { object }, "11 0900000000000000"),
        (Operation::Commit, "12"),
        (
            Operation::AddServer { name: "io4".into() },
            "16 03000000 696f34",
        ),
        (
            Operation::AcceptServer {
                name: "io4".into(),
                generation: Generation(5),
            },
            "17 03000000 696f34 0500000000000000",
        ),
        (
            Operation::DrainServer { name: "io4".into() },
            "18 03000000 696f34",
        ),
        (Operation::EndSession, "19"),
        (Operation::MetadataStatus, "13"),
        (
            Operation::Exist {
                objects: vec![object],
            },
            "14 01000000 0900000000000000",
        ),
        (
            Operation::Check {
                after: Some(CheckCursor {
                    phase: 2,
                    key: vec![3],
                }),
                repair: true,
            },
            "15 01 02 01000000 03 01",
        ),
        (
            Operation::ListStriped {
                after: object,
                limit: 3,
            },
            "28 0900000000000000 03000000",
        ),
        (
            Operation::Paths {
                objects: vec![object],
            },
            "29 01000000 0900000000000000",
        ),
    ];
    for (operation, expected) in cases {
        golden(&operation, expected);
    }
}

const ATTRIBUTES: &str = "01 a401 01000000 02000000 03000000 0400000000000000
    0000000000000000 00000000 0100000000000000 02000000 0000000000000000 00000000";

fn attributes() -> Attributes {
    Attributes {
        kind: Kind::File,
        mode: 0o644,
        uid: 1,
        gid: 2,
        links: 3,
        size: 4,
        accessed: Timestamp::default(),
        modified: Timestamp {
            seconds: 1,
            nanoseconds: 2,
        },
        changed: Timestamp::default(),
    }
}

#[test]
fn golden_nodes() {
    let distribution = Distribution {
        strip_size: 65536,
        servers: vec![2, 0],
    };
    let striped = "00000100 02000000 0200 0000";
    let bodies = [
        (
            Body::Directory(DistributionHint::default()),
            "01 00000000 0000 0000".into(),
        ),
        (Body::Link(b"t".to_vec()), "02 01000000 74".into()),
        (
            Body::Stuffed {
                distribution: distribution.clone(),
                content: Some(vec![9]),
                moving: true,
            },
            format!("03 {striped} 01 01000000 09 01"),
        ),
        (
            Body::Striped {
                distribution,
                version: 3,
                truncating: Some(4),
                lengths: vec![5],
                sparse: false,
            },
            format!("04 {striped} 0300000000000000 01 0400000000000000 01000000 0500000000000000"),
        ),
    ];
    for (body, expected) in bodies {
        let node = Node {
            object: ObjectId(9),
            attributes: attributes(),
            body,
            acl: None,
        };
        let result = Ok(ReplyBody::Node(Box::new(node)));
        formats::golden_reply(
            &Reply { result },
            &format!("00 02 0900000000000000 {ATTRIBUTES} {expected}"),
        );
    }
}

fn fault() -> DataFault {
    DataFault {
        object: ObjectId(9),
        offset: 1,
        len: 2,
        text: "x".into(),
    }
}

#[test]
fn golden_results() {
    let failure = Reply {
        result: Err(Failure {
            errno: Errno::ENOENT,
            message: "no".into(),
        }),
    };
    formats::golden_reply(&failure, "01 0200 02000000 6e6f");
    let entry = |attributes| Entry {
        name: b"n".to_vec(),
        object: ObjectId(9),
        kind: Kind::Directory,
        attributes,
    };
    let cases = [
        (ReplyBody::Done, "01".into()),
        (
            ReplyBody::Entries {
                entries: vec![entry(None), entry(Some(attributes()))],
                end: true,
            },
            format!(
                "03 02000000 01000000 6e 0900000000000000 02 00
                 01000000 6e 0900000000000000 02 01 {ATTRIBUTES} 01"
            ),
        ),
        (
            ReplyBody::Transferred {
                bytes: 1,
                size: 2,
                copy_us: 4,
                storage_us: 5,
                inline: vec![3],
                sums: vec![7],
            },
            "04 0100000000000000 0200000000000000 04000000 05000000 01000000 03 01000000 07000000"
                .into(),
        ),
        (
            ReplyBody::Objects(vec![ObjectId(9)]),
            "05 01000000 0900000000000000".into(),
        ),
        (
            ReplyBody::Datafiles {
                datafiles: vec![(ObjectId(9), 1)],
                end: false,
            },
            "06 01000000 0900000000000000 0100000000000000 00".into(),
        ),
        (
            ReplyBody::Checked {
                next: Some(CheckCursor {
                    phase: 0,
                    key: vec![1],
                }),
                records: 2,
                findings: vec!["f".into()],
                mended: 1,
            },
            "07 01 00 01000000 01 0200000000000000 01000000 01000000 66 0100000000000000".into(),
        ),
        (
            ReplyBody::MetadataStatus {
                objects: 1,
                removals: 2,
                numbers: 3,
                gaps: vec![(ObjectId(1), 2)],
            },
            "08 0100000000000000 0200000000000000 0300000000000000
             01000000 0100000000000000 0200000000000000"
                .into(),
        ),
        (
            ReplyBody::StorageStatus {
                total: 1,
                free: 2,
                written: 3,
                read: 4,
                busy: 5,
                aside: 6,
                aside_bytes: 7,
            },
            "09 0100000000000000 0200000000000000 0300000000000000 0400000000000000 05000000
             0600000000000000 0700000000000000"
                .into(),
        ),
        (
            ReplyBody::StripedFiles {
                files: vec![StripedFile {
                    object: ObjectId(9),
                    servers: vec![1, 0],
                    lengths: vec![2],
                }],
                end: true,
            },
            "14 01000000 0900000000000000 02000000 0100 0000 01000000 0200000000000000 01".into(),
        ),
        (
            ReplyBody::Paths(vec![ObjectPath {
                object: ObjectId(9),
                path: b"/p".to_vec(),
            }]),
            "15 01000000 0900000000000000 02000000 2f70".into(),
        ),
        (
            ReplyBody::Faults(vec![fault()]),
            "16 01000000 0900000000000000 0100000000000000 0200000000000000 01000000 78".into(),
        ),
        (
            ReplyBody::OrphansRemoved {
                deleted: 1,
                moved: 2,
            },
            "17 0100000000000000 0200000000000000".into(),
        ),
        (
            ReplyBody::Scrubbed {
                next: Some(ScrubPosition {
                    object: ObjectId(9),
                    offset: 1,
                }),
                bytes: 2,
                datafiles: 3,
                faults: vec![fault()],
            },
            "18 01 0900000000000000 0100000000000000 0200000000000000 0300000000000000
             01000000 0900000000000000 0100000000000000 0200000000000000 01000000 78"
                .into(),
        ),
    ];
    for (result, expected) in cases {
        golden(&result, &expected);
    }
}

#[test]
fn long_sentences_are_cut_between_characters() {
    let failure = Failure {
        errno: Errno::EIO,
        message: "é".repeat(MAX_FAILURE_BYTES),
    };
    let decoded = Failure::from_bytes(&failure.to_bytes()).expect("decodes");
    assert_eq!(decoded.message, "é".repeat(MAX_FAILURE_BYTES / 2));
}

#[test]
fn errors_have_names_and_words() {
    assert_eq!(
        Errno::ENOENT.to_string(),
        "no such file or directory (ENOENT)"
    );
    assert_eq!(Errno(999).to_string(), "error 999");
    let mut numbers: Vec<_> = Errno::ALL.iter().map(|errno| errno.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), Errno::ALL.len());
}

fn any_place() -> impl Strategy<Value = Place> {
    (any::<u64>(), vec(any::<u8>(), 0..60)).prop_map(|(base, path)| Place {
        base: ObjectId(base),
        path,
    })
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanoseconds)| Timestamp {
        seconds,
        nanoseconds,
    })
}

fn any_hint() -> impl Strategy<Value = DistributionHint> {
    (any::<u32>(), any::<u16>(), any::<u16>()).prop_map(|(strip_size, servers, start)| {
        DistributionHint {
            strip_size,
            servers,
            start,
        }
    })
}

fn any_set() -> impl Strategy<Value = SetAttributes> {
    let (mode, uid, gid) = (
        any::<Option<u16>>(),
        any::<Option<u32>>(),
        any::<Option<u32>>(),
    );
    let times = (option::of(any_time()), option::of(any_time()));
    (mode, uid, gid, times, option::of(any_hint())).prop_map(|(mode, uid, gid, times, hint)| {
        SetAttributes {
            mode,
            uid,
            gid,
            accessed: times.0,
            modified: times.1,
            distribution: hint,
        }
    })
}

fn any_descriptor() -> impl Strategy<Value = RegionDescriptor> {
    let object = option::of(any::<(u64, u64)>());
    (any::<u64>(), any::<u64>(), any::<u64>(), object).prop_map(|(key, base, len, object)| {
        RegionDescriptor {
            key,
            base,
            len,
            object: object.map(|(object, offset)| ObjectSpan { object, offset }),
        }
    })
}

fn any_regions() -> impl Strategy<Value = Regions> {
    let region = any::<(u64, u64)>().prop_map(|(offset, len)| Region { offset, len });
    prop_oneof![
        vec(region, 0..20).prop_map(Regions::Here),
        (any::<u64>(), any_descriptor()).prop_map(|(count, list)| Regions::There { count, list }),
        any::<[u64; 4]>().prop_map(|[offset, len, stride, count]| Regions::Strided {
            offset,
            len,
            stride,
            count,
        }),
    ]
}

fn check_cursor() -> impl Strategy<Value = Option<CheckCursor>> {
    proptest::option::of(
        (any::<u8>(), vec(any::<u8>(), 0..100)).prop_map(|(phase, key)| CheckCursor { phase, key }),
    )
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let object = || any::<u64>().prop_map(ObjectId);
    let bytes = || vec(any::<u8>(), 0..100);
    prop_oneof![
        (any_place(), any::<u16>(), option::of(any_hint()), bytes()).prop_map(
            |(place, mode, distribution, content)| Operation::Create {
                place,
                exclusive: mode % 2 == 0,
                mode,
                distribution,
                content,
            }
        ),
        (any_place(), any_place(), any::<bool>()).prop_map(|(from, to, no_replace)| {
            Operation::Rename {
                from,
                to,
                no_replace,
            }
        }),
        (object(), any_set()).prop_map(|(object, set)| Operation::SetAttributes { object, set }),
        (object(), any::<u64>(), any_time()).prop_map(|(object, end, modified)| {
            Operation::Extend {
                object,
                end,
                modified,
                version: end / 2,
                reached: vec![Reach { position: 1, end }],
                from: end / 3,
            }
        }),
        (
            object(),
            any_regions(),
            vec(any_descriptor(), 0..9),
            bytes()
        )
            .prop_map(|(object, regions, memory, inline)| Operation::Write {
                append_lock: inline.len() as u64 / 2,
                object,
                number: memory.len() as u64,
                repeated: (inline.len() % 2 == 1).then_some(Moment { boot: 1, at: 2 }),
                at_least: inline.len() as u64,
                regions,
                memory,
                inline,
            }),
        (object(), bytes()).prop_map(|(object, data)| Operation::Append { object, data }),
        (object(), any::<u64>()).prop_map(|(object, append_lock)| Operation::CancelAppend {
            object,
            append_lock
        }),
        locks::any_lock(),
        opens::any_files(),
        leases::any_leases(),
        vec(object(), 0..30).prop_map(|objects| Operation::Exist { objects }),
        (check_cursor(), any::<bool>())
            .prop_map(|(after, repair)| Operation::Check { after, repair }),
    ]
}

proptest! {
    #[test]
    fn requests_round_trip(
        reply_tag: u64,
        target: (u128, u64, u64),
        client: u128,
        slot: u16,
        sequence: u64,
        ids: (u32, u32),
        groups in vec(any::<u32>(), 0..=MAX_GROUPS),
        operation in any_operation(),
        closed in option::of(vec(any::<u64>(), 0..30)),
        lowest in 1..=FORMATS.highest,
    ) {
        let caller = Caller { uid: ids.0, gid: ids.1, groups, umask: slot & 0o777 };
        let target = Target {
            file_system: target.0,
            generation: Generation(target.1),
            incarnation: Incarnation(target.2),
        };
        let holder = (slot % 3 == 0).then_some(client ^ 1);
        let opening = opens::any_opening_of(&operation, closed);
        let mut request = Request {
            reply_tag, target, client, slot, sequence, caller, capability: None, holder, opening, operation,
        };
        request.capability = (slot % 2 == 0).then(|| capabilities::shown_with(&request));
        let formats = Formats { lowest, highest: FORMATS.highest };
        let bytes = request.to_bytes(formats);
        prop_assert_eq!(Request::from_bytes(&bytes), Ok((request, formats)));
        // Every shorter input is refused, and none panics.
        for end in 0..bytes.len() {
            prop_assert!(Request::from_bytes(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn random_bytes_are_refused_or_canonical(bytes in vec(any::<u8>(), 0..400)) {
        if let Ok((request, formats)) = Request::from_bytes(&bytes) {
            prop_assert_eq!(request.to_bytes(formats), bytes.clone());
        }
        if let Ok(operation) = Operation::from_bytes(&bytes) {
            prop_assert_eq!(operation.to_bytes(), bytes.clone());
        }
        if let Ok((reply, granted, format)) = Reply::from_bytes_with(&bytes) {
            prop_assert_eq!(reply.to_bytes_with(&granted, format), bytes.clone());
        }
    }

    #[test]
    fn flipped_bits_never_panic(
        operation in any_operation(),
        flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..6),
    ) {
        let mut bytes = operation.to_bytes();
        for (index, bit) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= 1 << bit;
        }
        if let Ok(decoded) = Operation::from_bytes(&bytes) {
            prop_assert_eq!(decoded.to_bytes(), bytes);
        }
    }
}

/// A count that claims more than the input holds is refused before anything is allocated for it.
#[test]
fn counts_beyond_the_input_are_refused() {
    for code in [20u8, 69] {
        let mut bytes = vec![code];
        bytes.extend_from_slice(&8192u32.to_le_bytes());
        bytes.extend_from_slice(&[0; 64]);
        let result = Operation::from_bytes(&bytes);
        assert!(
            matches!(result, Err(Malformed::Truncated { .. })),
            "{result:?}"
        );
        bytes[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        let result = Operation::from_bytes(&bytes);
        assert!(
            matches!(result, Err(Malformed::TooLarge { .. })),
            "{result:?}"
        );
    }
}
