use alloc::format;
use alloc::vec;

use super::*;

#[test]
fn hello_has_its_golden_bytes_both_ways() {
    let hello = Hello {
        formats: FORMATS,
        auth: Auth::ClusterKey,
        encrypt: true,
        holder: Holder {
            pid: 0x0403_0200,
            descriptor: 0x0807_0605,
        },
        fast_aes: true,
        nodes: false,
        connections: 4,
        purpose: Purpose::Subflow,
    };
    let golden = *b"causeway\x05\x00\x01\x01\x00\x02\x03\x04\x05\x06\x07\x08\x01\x04\x01\x03";
    assert_eq!(hello.encode(), golden);
    assert_eq!(Hello::decode(&golden), Ok(hello));
    // A side that does not want encryption states that only to peers that authenticate without it.
    let unencrypted = Hello {
        encrypt: false,
        ..hello
    };
    let golden = *b"causeway\x05\x00\x01\x01\x01\x02\x03\x04\x05\x06\x07\x08\x01\x04\x01\x03";
    assert_eq!(unencrypted.encode(), golden);
    assert_eq!(Hello::decode(&golden), Ok(unencrypted));
}

#[test]
fn hello_of_a_build_of_format_5_has_its_golden_bytes_both_ways() {
    for (encrypt, byte) in [(false, 0), (true, 1)] {
        let hello = Hello {
            formats: Formats::only(5),
            auth: Auth::ClusterKey,
            encrypt,
            holder: Holder {
                pid: 0x0403_0201,
                descriptor: 0x0807_0605,
            },
            fast_aes: true,
            nodes: false,
            connections: 4,
            purpose: Purpose::Subflow,
        };
        let mut golden =
            *b"causeway\x05\x00\x01\x01\x01\x02\x03\x04\x05\x06\x07\x08\x01\x04\x01\x00";
        golden[11] = byte;
        assert_eq!(hello.encode(), golden);
        assert_eq!(Hello::decode(&golden), Ok(hello));
    }
}

#[test]
fn hello_of_a_side_that_demands_to_know_nodes_has_its_golden_bytes_both_ways() {
    let hello = Hello {
        formats: Formats::only(NODES_FROM),
        auth: Auth::ClusterKey,
        encrypt: true,
        holder: Holder {
            pid: 0x0403_0200,
            descriptor: 0x0807_0605,
        },
        fast_aes: true,
        nodes: true,
        connections: 4,
        purpose: Purpose::Peer,
    };
    let golden = *b"causeway\x07\x00\x01\x01\x00\x02\x03\x04\x05\x06\x07\x08\x03\x04\x00\x00";
    assert_eq!(hello.encode(), golden);
    assert_eq!(Hello::decode(&golden), Ok(hello));
    // It takes a key, and no format without nodes.
    for (at, value) in [(8, 6), (10, 0), (20, 4)] {
        let mut bad = golden;
        bad[at] = value;
        if at == 8 {
            bad[23] = 1;
        }
        assert!(Hello::decode(&bad).is_err(), "byte {at} = {value}");
    }
}

#[test]
fn hello_with_a_key_refuses_what_no_side_states_of_encryption() {
    let golden = *b"causeway\x05\x00\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x03";
    assert!(Hello::decode(&golden).is_ok());
    for (at, value) in [(11, 0), (11, 2), (12, 2), (12, 0xff)] {
        let mut bad = golden;
        bad[at] = value;
        assert!(Hello::decode(&bad).is_err(), "byte {at} = {value}");
    }
    // To a build of format 5 alone, the byte is part of a random number.
    let mut older = golden;
    (older[12], older[23]) = (0xff, 0);
    assert!(Hello::decode(&older).is_ok());
}

#[test]
fn drawn_numbers_leave_room_for_what_is_stated_in_their_first_byte() {
    let drawn = Holder::drawn([0xff; 8]);
    assert_eq!((drawn.pid, drawn.descriptor), (0xffff_ff00, u32::MAX));
}

#[test]
fn hello_refuses_every_unknown_value() {
    let golden = *b"causeway\x05\x00\x00\x00\0\0\0\0\0\0\0\0\0\x01\0\0";
    assert!(Hello::decode(&golden).is_ok());
    for (at, value) in [
        (0, b'C'),
        (7, 0),
        (10, 2),
        (11, 2),
        (20, 2),
        (21, 0),
        (21, MAX_CONNECTIONS + 1),
        (22, 2),
        (8, 0),
        (9, 1),
        (23, 251),
    ] {
        let mut bad = golden;
        bad[at] = value;
        assert!(Hello::decode(&bad).is_err(), "byte {at} = {value}");
    }
    let with = |lowest, above| {
        let mut hello = golden;
        (hello[8], hello[23]) = (lowest, above);
        hello
    };
    // Of formats that this build does not speak only the common beginning is read.
    for (lowest, above, fits) in [
        (4, 0, false),
        (4, 1, true),
        (4, 9, true),
        (5, 1, true),
        (6, 1, true),
        (7, 1, true),
        (8, 1, true),
        (9, 1, false),
    ] {
        let mut hello = with(lowest, above);
        let formats = Formats::stated(lowest.into(), above);
        assert_eq!(Hello::decode(&hello).map(|hello| hello.formats), formats);
        hello[22] = 9;
        assert_eq!(Hello::decode(&hello).is_err(), fits, "{lowest} {above}");
    }
}

#[test]
fn steps_have_their_golden_bytes_and_wait_for_the_rest() {
    let mut bytes = Vec::new();
    Step {
        kind: StepKind::Noise,
        refusal: Refusal::None,
        payload: b"abc",
    }
    .encode(&mut bytes);
    assert_eq!(bytes, b"\x01\x00\x03\x00abc");
    for end in 0..bytes.len() {
        assert_eq!(Step::decode(&bytes[..end]), Ok(None));
    }
    bytes.push(9);
    let (step, used) = Step::decode(&bytes).unwrap().unwrap();
    assert_eq!(
        (step.kind, step.payload, used),
        (StepKind::Noise, &b"abc"[..], 7)
    );

    assert_eq!(
        Step::decode(b"\x03\x04\x00\x00")
            .unwrap()
            .unwrap()
            .0
            .refusal,
        Refusal::WrongKey
    );
    let (step, _) = Step::decode(b"\x03\x07\x00\x00").unwrap().unwrap();
    assert_eq!(step.refusal, Refusal::NoDescriptors);
    assert!(Step::decode(b"\x04\x00\x00\x00").is_err());
    let (step, _) = Step::decode(b"\x03\x0e\x00\x00").unwrap().unwrap();
    assert_eq!(step.refusal, Refusal::WrongRole);
    assert!(Step::decode(b"\x01\x0f\x00\x00").is_err());
    let longest = (MAX_STEP_PAYLOAD as u16).to_le_bytes();
    assert_eq!(Step::decode(&[1, 0, longest[0], longest[1]]), Ok(None));
    let longer = (MAX_STEP_PAYLOAD as u16 + 1).to_le_bytes();
    assert!(Step::decode(&[1, 0, longer[0], longer[1]]).is_err());
}

#[test]
fn headers_have_their_golden_bytes_both_ways() {
    let put = Header {
        kind: Kind::Put,
        flag: false,
        len: 0x0003_0201,
        id: 0x1817_1615_1413_1211,
        key: 0x2827_2625_2423_2221,
        base: 0x3837_3635_3433_3231,
    };
    let golden = [
        2, 0, 0, 0, 0x01, 0x02, 0x03, 0x00, //
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, //
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
        0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    ];
    assert_eq!(put.encode(), golden);
    assert_eq!(Header::decode(&golden), Ok(put));

    let kinds = [
        Header::new(Kind::Packet, MAX_PACKET),
        Header::new(Kind::PutEnd, 7).with_id(3).with_flag(true),
        Header::new(Kind::PutEnd, 0).with_id(3),
        Header::new(Kind::PutDone, 0).with_id(3).with_flag(true),
        Header::new(Kind::Get, 24).with_id(1),
        Header::new(Kind::GetData, 9).with_id(1),
        Header::new(Kind::GetDone, 0).with_id(1).with_base(9),
        Header::new(Kind::Invite, 0).with_id(1).with_base(3),
        Header::new(Kind::Probe, 0),
        Header::new(Kind::ProbeReply, 0),
        Header::new(Kind::Goodbye, 0),
        Header::new(Kind::Error, MAX_ERROR_TEXT),
        Header::new(Kind::Atomic, OPERATION_BYTES)
            .with_id(1)
            .with_base(9),
        Header::new(Kind::AtomicDone, OUTCOME_BYTES).with_id(1),
    ];
    for header in kinds {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
}

#[test]
fn headers_refuse_oversize_unknown_kinds_and_unused_fields() {
    for kind in 1..=14 {
        let known = Kind::from_code(kind).unwrap();
        let len = match known {
            Kind::Atomic | Kind::AtomicDone => known.max_payload() as u32,
            _ => 0,
        };
        let mut bytes = Header {
            kind: known,
            flag: known == Kind::PutEnd,
            len,
            id: 0,
            key: 0,
            base: 0,
        }
        .encode();
        assert!(Header::decode(&bytes).is_ok());
        let too_long = known.max_payload() as u32 + 1;
        bytes[4..8].copy_from_slice(&too_long.to_le_bytes());
        assert!(matches!(
            Header::decode(&bytes),
            Err(Malformed::TooLarge { .. })
        ));
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes[2] = 1;
        assert!(Header::decode(&bytes).is_err(), "reserved bytes");
    }
    for kind in [Kind::Atomic, Kind::AtomicDone] {
        let mut short = Header::new(kind, kind.max_payload()).encode();
        short[4] -= 1;
        assert!(Header::decode(&short).is_err(), "{kind:?} cut short");
    }
    for kind in [0, 15, 255] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = kind;
        assert!(Header::decode(&bytes).is_err());
    }
    for at in [1, 8, 16, 24] {
        let mut packet = Header::new(Kind::Packet, 0).encode();
        packet[at] = 1;
        assert!(Header::decode(&packet).is_err(), "byte {at} of a packet");
    }
    let mut silent = Header::new(Kind::PutEnd, 1).with_flag(true).encode();
    assert!(Header::decode(&silent).is_ok());
    silent[1] = 0;
    assert!(Header::decode(&silent).is_err(), "payload without a packet");
}

#[test]
fn tickets_survive_as_words_and_are_not_shown() {
    let ticket = Ticket(*b"0123456789abcdef");
    let (id, key) = ticket.words();
    assert_eq!(id, u64::from_le_bytes(*b"01234567"));
    assert_eq!(Ticket::from_words(id, key), ticket);
    assert_eq!(format!("{ticket:?}"), "Ticket(secret)");
}

#[test]
fn get_lists_round_trip_and_are_bounded() {
    let list = [
        Fragment {
            key: 1,
            base: u64::MAX,
            len: 5,
        },
        Fragment {
            key: u64::MAX,
            base: 0,
            len: MAX_GET_BYTES - 5,
        },
    ];
    let mut bytes: Vec<u8> = list.iter().flat_map(Fragment::encode).collect();
    assert_eq!(Fragment::decode_list(&bytes).unwrap()[..], list[..]);
    for end in 0..bytes.len() {
        let whole = end == FRAGMENT_BYTES;
        assert_eq!(Fragment::decode_list(&bytes[..end]).is_ok(), whole, "{end}");
    }
    bytes[16] = 6;
    assert!(matches!(
        Fragment::decode_list(&bytes),
        Err(Malformed::TooLarge { .. })
    ));
    bytes[16..24].fill(0xff);
    assert!(Fragment::decode_list(&bytes).is_err(), "sum overflows");
    bytes[16..24].fill(0);
    assert!(Fragment::decode_list(&bytes).is_err(), "empty fragment");
    let long = vec![1; (MAX_GET_FRAGMENTS + 1) * FRAGMENT_BYTES];
    assert!(Fragment::decode_list(&long).is_err());
}

#[test]
fn record_lengths_are_bounded_both_ways() {
    assert_eq!(record::encode(17), [17, 0]);
    assert_eq!(record::decode([17, 0]), Ok(17));
    assert_eq!(record::decode([0x10, 0x80]), Ok(MAX_RECORD_PLAIN + 16));
    assert!(record::decode([0x11, 0x80]).is_err());
    assert!(record::decode([16, 0]).is_err());
    assert!(record::decode([0, 0]).is_err());
}
