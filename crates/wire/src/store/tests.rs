//! Golden bytes and order of keys, golden bytes and round trips of records.

use alloc::string::String;
use alloc::vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::tests::{golden, hex};

#[test]
fn golden_keys() {
    let cases = [
        (Key::Superblock, "6d"),
        (Key::NextObject, "69"),
        (Key::Gaps, "67"),
        (Key::Counters, "6e"),
        (Key::LayoutEpoch, "79"),
        (Key::Server(0x0102), "76 0102"),
        (Key::Object(ObjectId(0x0102)), "6f 0000000000000102"),
        (Key::Content(ObjectId(2)), "63 0000000000000002"),
        (
            Key::Entry(ObjectId(2), b"ab".to_vec()),
            "65 0000000000000002 6162",
        ),
        (
            Key::Link(ObjectId(2), ObjectId(3), b"a".to_vec()),
            "6c 0000000000000002 0000000000000003 61",
        ),
        (Key::Removal(ObjectId(2)), "72 0000000000000002"),
        (Key::Xattrs(ObjectId(2)), "78 0000000000000002"),
        (
            Key::Session(0x0203, 4),
            "73 00000000000000000000000000000203 0004",
        ),
    ];
    for (key, expected) in cases {
        let expected: String = expected.split_whitespace().collect();
        assert_eq!(hex(&key.to_bytes()), expected, "{key:?}");
        assert_eq!(Key::parse(&key.to_bytes()), Ok(key));
    }
    assert!(Key::parse(b"").is_err());
    assert!(Key::parse(b"x").is_err());
    assert!(Key::parse(b"o1234567").is_err());
    assert!(Key::parse(b"o123456789").is_err());
    assert!(Key::parse(&entry_key(ObjectId(1), &[b'n'; MAX_NAME_BYTES + 1])).is_err());
}

fn record() -> ObjectRecord {
    ObjectRecord {
        mode: 0o640,
        uid: 1,
        gid: 2,
        links: 3,
        size: 4,
        accessed: Timestamp::default(),
        modified: Timestamp {
            seconds: 5,
            nanoseconds: 6,
        },
        changed: Timestamp::default(),
        parent: ObjectId(7),
        name: b"n".to_vec(),
        body: Body::Link(b"t".to_vec()),
    }
}

#[test]
fn golden_records() {
    golden(
        &record(),
        "03 a001 01000000 02000000 03000000 0400000000000000 0000000000000000 00000000
         0500000000000000 06000000 0000000000000000 00000000 0700000000000000 01000000 6e
         02 01000000 74",
    );
    golden(
        &Superblock {
            file_system: 2,
            generation: Generation(3),
            incarnation: Incarnation(4),
        },
        "03 02000000000000000000000000000000 0300000000000000 0400000000000000",
    );
    golden(
        &ServerRecord {
            name: "io0".into(),
            generation: Generation(3),
            accepted: Generation(4),
            active: true,
        },
        "03 03000000 696f30 0300000000000000 0400000000000000 01",
    );
    golden(&Counter(9), "03 0900000000000000");
    let xattr = StoredXattr {
        name: b"user.a".to_vec(),
        value: vec![1, 2],
    };
    golden(
        &XattrsRecord {
            xattrs: vec![xattr],
        },
        "03 01000000 06000000 757365722e61 02000000 0102",
    );
    golden(
        &Gaps(vec![(5, 9)]),
        "03 01000000 0500000000000000 0900000000000000",
    );
    let counters = Counters {
        objects: 1,
        removals: 2,
    };
    golden(&counters, "03 0100000000000000 0200000000000000");
    let entry = EntryRecord {
        object: ObjectId(9),
        kind: Kind::File,
    };
    golden(&entry, "03 0900000000000000 01");
    let removal = RemovalRecord {
        servers: vec![3],
        writes: 4,
    };
    golden(&removal, "03 01000000 0300 04000000");
    let session = SessionRecord {
        sequence: 1,
        lease_s: 2,
        reply: vec![3],
    };
    golden(&session, "03 0100000000000000 02000000 01000000 03");
}

#[test]
fn golden_seals_and_marks() {
    assert_eq!(
        hex(&seal(b"key", b"value", Stamp::new(9, 7))),
        "76616c7565090000000000000002000000e7fc7461"
    );
    let mark = Mark {
        boot: 1,
        acknowledged: 2,
        flushed: 3,
    };
    golden(
        &mark,
        "43576d61726b0001 01000000000000000000000000000000 0200000000000000 0300000000000000
         00000000000000000000000000000000 b1b23d0e45344bc5",
    );
    assert_eq!(mark.to_bytes().len(), MARK_BYTES);
}

#[test]
fn every_flipped_bit_of_a_seal_or_mark_is_noticed() {
    let stamp = Stamp::new(9, 7);
    assert_eq!(
        (stamp.synced(), Stamp::new(1 << 40, 0).unsynced),
        (7, u32::MAX)
    );
    let sealed = seal(b"key", b"value", stamp);
    assert_eq!(sealed.len(), b"value".len() + SEAL_BYTES);
    assert_eq!(unseal(b"key", &sealed), Ok((&b"value"[..], stamp)));
    assert!(unseal(b"kez", &sealed).is_err());
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unseal(b"key", &flipped).is_err(), "bit {bit}");
    }
    for len in 0..sealed.len() {
        assert!(unseal(b"key", &sealed[..len]).is_err(), "{len} bytes");
    }
    let mark = Mark::default().to_bytes();
    for bit in 0..mark.len() * 8 {
        let mut flipped = mark.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Mark::from_bytes(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn another_version_is_refused() {
    let mut bytes = record().to_bytes();
    bytes[0] = RECORD_VERSION + 1;
    assert!(ObjectRecord::from_bytes(&bytes).is_err());
}

proptest! {
    #[test]
    fn keys_sort_as_they_are_walked(
        one in (any::<u64>(), vec(any::<u8>(), 0..20)),
        other in (any::<u64>(), vec(any::<u8>(), 0..20)),
    ) {
        let keys = (entry_key(ObjectId(one.0), &one.1), entry_key(ObjectId(other.0), &other.1));
        prop_assert_eq!(keys.0.cmp(&keys.1), one.cmp(&other));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(key) = Key::parse(&bytes) {
            prop_assert_eq!(key.to_bytes(), bytes.clone());
        }
        if let Ok(record) = ObjectRecord::from_bytes(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes.clone());
        }
        if let Ok(record) = SessionRecord::from_bytes(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes.clone());
        }
        if let Ok(record) = RemovalRecord::from_bytes(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes.clone());
        }
    }

    #[test]
    fn truncated_records_are_refused(end in 0..80usize) {
        let bytes = record().to_bytes();
        let end = end.min(bytes.len() - 1);
        prop_assert!(ObjectRecord::from_bytes(&bytes[..end]).is_err());
    }
}

#[test]
fn one_extended_attribute_is_found_without_those_behind_it() {
    let xattr = |name: &[u8], value: &[u8]| StoredXattr {
        name: name.to_vec(),
        value: value.to_vec(),
    };
    let record = XattrsRecord {
        xattrs: [(b"a", b"1"), (b"c", b"2"), (b"e", b"3")]
            .map(|(name, value)| xattr(name, value))
            .to_vec(),
    };
    let mut bytes = record.to_bytes();
    for (name, value) in [
        (b"a", Some(b"1")),
        (b"b", None),
        (b"c", Some(b"2")),
        (b"e", Some(b"3")),
        (b"f", None),
    ] {
        let value = value.map(|value| value.to_vec());
        assert_eq!(XattrsRecord::value_in(&bytes, name), Ok(value));
    }
    bytes.pop();
    let found = XattrsRecord::value_in(&bytes, b"c");
    assert_eq!(found, Ok(Some(b"2".to_vec())));
    assert!(XattrsRecord::value_in(&bytes, b"e").is_err());
}
