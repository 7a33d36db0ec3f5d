//! Golden bytes of operations on datafiles.

use super::*;

#[test]
fn golden_operations_on_data() {
    let object = ObjectId(9);
    let region = Region { offset: 1, len: 2 };
    let cases = [
        (
            Operation::Read {
                object,
                at_least: 8,
                regions: Regions::Here(vec![region]),
                memory: vec![descriptor()],
                sums: WantedSums::Stored,
            },
            format!(
                "40 0900000000000000 0800000000000000 01 01000000 0100000000000000 0200000000000000
                 01000000 {DESCRIPTOR} 01"
            ),
        ),
        (
            Operation::Write {
                object,
                number: 3,
                repeated: Some(Moment { boot: 4, at: 5 }),
                at_least: 8,
                regions: Regions::There {
                    count: 7,
                    list: descriptor(),
                },
                memory: vec![],
                inline: vec![6],
                append_lock: 7,
            },
            format!(
                "41 0900000000000000 0300000000000000
                 01 04000000000000000000000000000000 0500000000000000 0800000000000000 02 0700000000000000 {DESCRIPTOR} 00000000
                 01000000 06 0700000000000000"
            ),
        ),
        (
            Operation::Read {
                object,
                at_least: 8,
                regions: Regions::Strided {
                    offset: 1,
                    len: 2,
                    stride: 3,
                    count: 4,
                },
                memory: vec![],
                sums: WantedSums::None,
            },
            "40 0900000000000000 0800000000000000 03 0100000000000000 0200000000000000 0300000000000000
             0400000000000000 00000000 00"
                .into(),
        ),
        (
            Operation::Seed {
                object,
                content: vec![5],
            },
            "42 0900000000000000 01000000 05".into(),
        ),
        (
            Operation::TruncateData {
                object,
                size: 1,
                version: 2,
                at_least: 3,
            },
            "43 0900000000000000 0100000000000000 0200000000000000 0300000000000000".into(),
        ),
        (
            Operation::Flush {
                object,
                at_least: 3,
            },
            "44 0900000000000000 0300000000000000".into(),
        ),
        (
            Operation::Remove {
                objects: vec![object],
            },
            "45 01000000 0900000000000000".into(),
        ),
        (
            Operation::ListData {
                after: object,
                limit: 3,
            },
            "46 0900000000000000 03000000".into(),
        ),
        (Operation::StorageStatus, "47".into()),
        (
            Operation::FindData {
                object,
                at_least: 1,
                offset: 2,
            },
            "49 0900000000000000 0100000000000000 0200000000000000".into(),
        ),
        (Operation::Clock, "4a".into()),
        (
            Operation::PunchData {
                object,
                number: 3,
                repeated: Some(Moment { boot: 4, at: 5 }),
                at_least: 8,
                region,
            },
            "4b 0900000000000000 0300000000000000
             01 04000000000000000000000000000000 0500000000000000 0800000000000000 0100000000000000 0200000000000000"
                .into(),
        ),
        (
            Operation::ReserveData {
                object,
                at_least: 8,
                region,
            },
            "4c 0900000000000000 0800000000000000 0100000000000000 0200000000000000".into(),
        ),
        (
            Operation::CheckData {
                datafiles: vec![(object, 3)],
            },
            "50 01000000 0900000000000000 0300000000000000".into(),
        ),
        (
            Operation::RemoveOrphans {
                objects: vec![object],
                numbers: 3,
            },
            "51 01000000 0900000000000000 0300000000000000".into(),
        ),
        (
            Operation::Scrub {
                from: Some(ScrubPosition { object, offset: 3 }),
                bytes: 4,
            },
            "52 01 0900000000000000 0300000000000000 0400000000000000".into(),
        ),
        (
            Operation::AcceptData {
                objects: vec![object],
            },
            "53 01000000 0900000000000000".into(),
        ),
    ];
    for (operation, expected) in cases {
        golden(&operation, &expected);
    }
}

#[test]
fn golden_results_on_holes() {
    golden(&ReplyBody::Data { first: None }, "19 00");
    let first = Some(Region { offset: 1, len: 2 });
    let expected = "19 01 0100000000000000 0200000000000000";
    golden(&ReplyBody::Data { first }, expected);
    golden(&ReplyBody::Punched { next: None }, "28 00");
    let next = Some(7);
    golden(&ReplyBody::Punched { next }, "28 01 0700000000000000");
}

#[test]
fn golden_reads_by_clients_themselves_and_formats_before_16_have_none() {
    let object = ObjectId(9);
    let find = Operation::FindDescriptor { object };
    golden(&find, "4d 0900000000000000");
    golden(&ReplyBody::Descriptor(None), "3b 00");
    let descriptor = FileDescriptor {
        number: 1,
        device: 2,
        inode: 3,
    };
    let found = ReplyBody::Descriptor(Some(descriptor));
    golden(&found, "3b 01 01000000 0200000000000000 0300000000000000");
    let region = Region {
        offset: 4096,
        len: 8192,
    };
    let read = Operation::Read {
        object,
        at_least: 8,
        regions: Regions::Here(vec![region]),
        memory: vec![],
        sums: WantedSums::Only,
    };
    golden(
        &read,
        "40 0900000000000000 0800000000000000 01 01000000 0010000000000000 0020000000000000 00000000 03",
    );
    for operation in [find, read] {
        assert_eq!(operation.lowest_format(), DESCRIPTORS);
        let bytes = |format| formats::request(operation.clone()).to_bytes(Formats::only(format));
        assert!(Request::from_bytes(&bytes(16)).is_ok());
        assert!(Request::from_bytes(&bytes(15)).is_err());
    }
    let mut reply = Reply { result: Ok(found) }.to_bytes(16);
    assert!(Reply::from_bytes(&reply).is_ok());
    reply[0] = 15;
    assert!(Reply::from_bytes(&reply).is_err());
}
