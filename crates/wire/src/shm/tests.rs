//! Golden bytes and bounds of records in shared memory and on its sockets.

use alloc::vec;

use super::*;

const PROCESS: ProcessInfo = ProcessInfo {
    incarnation: 0x1122_3344_5566_7788,
    doorbell_bit: 5,
    probe_address: 0x7fff_0000_1000,
    probe_value: 0xaabb,
};

fn golden(record: &Record, bytes: &[u8]) {
    assert_eq!(record.to_bytes(), bytes);
    assert_eq!(&Record::from_bytes(bytes).unwrap(), record);
    assert!(bytes.len() <= MAX_RECORD_BYTES);
    for end in 0..bytes.len() {
        assert!(Record::from_bytes(&bytes[..end]).is_err());
    }
}

#[test]
fn records_have_these_bytes() {
    let process = [
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0, 0, 0x10, 0, 0, 0xff, 0x7f, 0,
        0, 0xbb, 0xaa, 0, 0, 0, 0, 0, 0,
    ];
    let nonce: [u8; 16] = core::array::from_fn(|at| at as u8);
    let hello = Record::Hello(Hello {
        formats: FORMATS,
        flags: FLAG_MEMBARRIER,
        ring_bytes: 32 << 10,
        region_slots: 8192,
        nonce: 0,
        process: PROCESS,
    });
    let preamble = *b"CWSM\x05\0\x01\x02";
    golden(
        &hello,
        &[
            &[1][..],
            &preamble,
            &[0, 0x80, 0, 0, 0, 0x20, 0, 0],
            &process,
        ]
        .concat(),
    );
    let welcome = Record::Welcome(Welcome {
        formats: FORMATS,
        flags: FLAG_MEMBARRIER,
        process: PROCESS,
    });
    golden(&welcome, &[&[2][..], &preamble, &process].concat());
    let refused = Record::Refused {
        reason: "no".into(),
        why: RefuseReason::Unauthorised,
    };
    golden(&refused, &[3, 1, 2, 0, 0, 0, b'n', b'o']);
    golden(&Record::Wake, &WAKE_RECORD);
    golden(&Record::Goodbye, &[5]);
    let object = Record::Object {
        object: 7,
        base: 0x2000,
        len: 4096,
    };
    golden(
        &object,
        &[
            6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
        ],
    );
    golden(
        &Record::ObjectUnmapped { object: 7 },
        &[7, 7, 0, 0, 0, 0, 0, 0, 0],
    );
    golden(
        &Record::ObjectFreed { object: 7 },
        &[8, 7, 0, 0, 0, 0, 0, 0, 0],
    );
    golden(&Record::Bulk, &[9]);
    let challenge = Record::Challenge(Challenge {
        nonce: u128::from_le_bytes(nonce),
        proof: Proof([7; PROOF_BYTES]),
    });
    golden(&challenge, &[&[10][..], &nonce, &[7; PROOF_BYTES]].concat());
    let proof = Record::Proof(Proof([8; PROOF_BYTES]));
    golden(&proof, &[&[11][..], &[8; PROOF_BYTES]].concat());
    golden(&Record::Node(vec![9; 3]), &[12, 3, 0, 0, 0, 9, 9, 9]);
    let longest = Record::Node(vec![9; MAX_NODE_MESSAGE]).to_bytes();
    assert!(longest.len() <= MAX_RECORD_BYTES);
    assert!(Record::from_bytes(&longest).is_ok());
    let longer = Record::Node(vec![9; MAX_NODE_MESSAGE + 1]).to_bytes();
    assert!(Record::from_bytes(&longer).is_err());
    // A caller that demands to know nodes states format 7 alone.
    let caller = Record::Hello(Hello {
        formats: Formats::only(NODES),
        flags: FLAG_KEYED | FLAG_NODES,
        ring_bytes: 32 << 10,
        region_slots: 8192,
        nonce: u128::from_le_bytes(nonce),
        process: PROCESS,
    });
    let head = b"\x01CWSM\x07\0\x06\0\0\x80\0\0\0\x20\0\0";
    golden(&caller, &[&head[..], &nonce, &process].concat());
}

/// The process of [`PROCESS`], as all formats have it.
const PROCESS_BYTES: &[u8; 28] =
    b"\x88\x77\x66\x55\x44\x33\x22\x11\x05\0\0\0\0\x10\0\0\xff\x7f\0\0\xbb\xaa\0\0\0\0\0\0";

/// Greetings as builds of earlier formats wrote them: the first, those that have pieces as well, and those of which the caller proves
/// that it holds a key. This build reads them, agrees on the highest format that they have, and writes the same.
#[test]
fn greetings_of_builds_of_each_earlier_format_have_these_bytes() {
    let five_and_six = Formats {
        lowest: 5,
        highest: PIECES,
    };
    let nonce: [u8; 16] = *b"sixteen of nonce";
    let rings = b"\0\x80\0\0\0\x20\0\0";
    for (formats, flags, preamble, nonce) in [
        (Formats::only(5), 0, b"CWSM\x05\0\0\0", None),
        (Formats::only(5), FLAG_MEMBARRIER, b"CWSM\x05\0\x01\0", None),
        (five_and_six, FLAG_MEMBARRIER, b"CWSM\x05\0\x01\x01", None),
        (five_and_six, FLAG_KEYED, b"CWSM\x05\0\x02\x01", Some(nonce)),
    ] {
        let hello = Record::Hello(Hello {
            formats,
            flags,
            ring_bytes: 32 << 10,
            region_slots: 8192,
            nonce: nonce.map_or(0, u128::from_le_bytes),
            process: PROCESS,
        });
        let nonce = nonce.as_ref().map_or(&[][..], |nonce| nonce);
        let bytes = [b"\x01", &preamble[..], rings, nonce, PROCESS_BYTES].concat();
        golden(&hello, &bytes);
        assert_eq!(mismatch_of(&bytes), None);
        let welcome = Record::Welcome(Welcome {
            formats,
            flags,
            process: PROCESS,
        });
        let bytes = [b"\x02", &preamble[..], PROCESS_BYTES].concat();
        golden(&welcome, &bytes);
        assert_eq!(FORMATS.common(formats), Some(formats.highest));
    }
}

/// Words of slots of earlier formats: pieces have come with format 6.
#[test]
fn slot_words_of_earlier_formats_have_these_bits() {
    for (kind, bits) in [
        (SlotKind::Packet, 0xC500_0001_0000_0038),
        (SlotKind::Internal, 0xC500_0002_0000_0038),
        (SlotKind::Pad, 0xC500_0003_0000_0038),
        (SlotKind::Piece, 0xC500_0004_0000_0038),
    ] {
        let word = SlotWord { kind, len: 56 };
        assert_eq!((word.pack(), SlotWord::unpack(bits)), (bits, Ok(word)));
    }
}

#[test]
fn another_format_or_a_doorbell_bit_that_is_not_there_is_refused() {
    let mut hello = Record::Welcome(Welcome {
        formats: FORMATS,
        flags: 0,
        process: PROCESS,
    })
    .to_bytes();
    for (lowest, above, fits) in [
        (1, 0, false),
        (1, 4, true),
        (5, 3, true),
        (6, 0, true),
        (7, 0, true),
        (8, 0, false),
        (8, 9, false),
    ] {
        (hello[5], hello[8]) = (lowest, above);
        let read = Record::from_bytes(&hello);
        match read {
            Ok(Record::Welcome(read)) if fits => assert_eq!(read.formats.above(), above),
            Err(Malformed::Unknown { value, .. }) if !fits => assert_eq!(value, lowest.into()),
            other => panic!("{lowest} {above}: {other:?}"),
        }
    }
    (hello[5], hello[8]) = (FORMATS.lowest, 0);
    hello[18] = 0xff;
    assert!(matches!(
        Record::from_bytes(&hello),
        Err(Malformed::TooLarge { .. })
    ));
}

#[test]
fn slot_words_have_these_bits() {
    let word = SlotWord {
        kind: SlotKind::Internal,
        len: 0x102,
    };
    assert_eq!(word.pack(), 0xC500_0002_0000_0102);
    for kind in [
        SlotKind::Packet,
        SlotKind::Internal,
        SlotKind::Pad,
        SlotKind::Piece,
    ] {
        let word = SlotWord { kind, len: 9 };
        assert_eq!(SlotWord::unpack(word.pack()), Ok(word));
    }
    assert!(SlotWord::unpack(1).is_err());
    assert!(SlotWord::unpack(0xC500_0005_0000_0000).is_err());
    assert!(SlotWord::unpack(0xC501_0001_0000_0000).is_err());
    assert_eq!(
        [slots_of(0), slots_of(56), slots_of(57), slots_of(8448)],
        [1, 1, 2, 133]
    );
}

#[test]
fn internal_packets_have_these_bytes() {
    let copy = Internal::Copy(CopyRequest {
        piece: 3,
        into_regions: true,
        fragments: vec![CopyFragment {
            key: 1,
            base: 2,
            len: 3,
        }],
    });
    let bytes = [
        1, 3, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,
    ];
    assert_eq!(copy.to_bytes(), bytes);
    assert_eq!(Internal::from_bytes(&bytes), Ok(copy));
    let copied = Internal::Copied {
        piece: 2,
        outcome: CopyOutcome::Protection,
    };
    assert_eq!(copied.to_bytes(), [2, 2, 1]);
    assert_eq!(Internal::from_bytes(&[2, 2, 1]), Ok(copied));
    assert!(Internal::from_bytes(&[2, 8, 0]).is_err());
    let atomic = Internal::Atomic(AtomicRequest {
        id: 7,
        key: 8,
        base: 9,
        operation: Operation::FetchAdd(10),
    });
    let golden = [
        3, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 10, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(atomic.to_bytes(), golden);
    assert_eq!(Internal::from_bytes(&golden), Ok(atomic));
    let done = Internal::AtomicDone {
        id: 7,
        outcome: Outcome::Old(11),
    };
    let golden = [4, 7, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(done.to_bytes(), golden);
    assert_eq!(Internal::from_bytes(&golden), Ok(done));
    let mut too_long = bytes;
    too_long[25] = 2;
    assert!(matches!(
        Internal::from_bytes(&too_long),
        Err(Malformed::TooLarge { .. })
    ));
}

#[test]
fn layouts_out_of_bounds_are_refused() {
    let layout = PairLayout::new(32 << 10, 8192).unwrap();
    assert_eq!(layout.split_copies(0), 4096 + (64 << 10) + (512 << 10));
    assert_eq!(layout.len(), layout.split_copies(0) + 8192);
    assert_eq!(
        layout.split_copy_block(1, 2),
        layout.split_copies(0) + 4096 + 384
    );
    assert_eq!(layout.max_packet(), 8448);
    assert_eq!((layout.ring(0), layout.ring(1)), (1536, 2560 + (32 << 10)));
    assert_eq!((layout.control(0), layout.control(1)), (34304, 34816));
    assert_eq!((layout.first_slot(0), layout.first_slot(1)), (488, 0));
    assert_eq!(layout.region(0, 0), 4096 + (64 << 10));
    for (ring, slots) in [(0, 128), (24 << 10, 128), (2 << 20, 128), (32 << 10, 100)] {
        assert!(PairLayout::new(ring, slots).is_err());
    }
}
