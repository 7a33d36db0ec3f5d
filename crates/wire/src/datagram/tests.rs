use alloc::vec;

use super::*;

const PREFIX: Prefix = Prefix {
    kind: Kind::Plain,
    to: 0x1817_1615_1413_1211,
    from: 0x2827_2625_2423_2221,
};

/// The golden prefix of a kind.
fn golden_prefix(kind: u8) -> Vec<u8> {
    let mut bytes = vec![kind, 5, 0, 0];
    bytes.extend(0x11..=0x18);
    bytes.extend(0x21..=0x28);
    bytes
}

fn plain(segment: &Segment<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin_segment(PREFIX, 0x0807_0605_0403_0201, &mut bytes);
    segment.encode_head(&mut bytes);
    bytes.extend_from_slice(segment.data);
    seal_with_check(0, &mut bytes);
    bytes
}

const ACK: Ack = Ack {
    delay_us: 0x0403_0201,
    largest: 0x3837_3635_3433_3231,
    bitmap: [1, 2, 3, 0x4847_4645_4443_4241],
    received: 7,
    limit: 9,
};

#[test]
fn segments_have_their_golden_bytes_both_ways() {
    let segment = Segment {
        wants_ack: true,
        ack: Some(ACK),
        offset: 0x5857_5655_5453_5251,
        data: b"data",
    };
    let mut golden = golden_prefix(6);
    golden.extend(1..=8); // number
    golden.extend([3, 0, 0, 0, 1, 2, 3, 4]); // flags, delay
    golden.extend(0x51..=0x58); // offset
    golden.extend(0x31..=0x38); // largest
    for word in [1_u8, 2, 3] {
        golden.extend([word, 0, 0, 0, 0, 0, 0, 0]);
    }
    golden.extend(0x41..=0x48);
    golden.extend([7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend(b"data");
    golden.extend(GOLDEN_CHECK.to_le_bytes());
    assert_eq!(plain(&segment), golden);
    let number = 0x0807_0605_0403_0201;
    let read = Datagram::decode(&golden);
    assert_eq!(read, Ok(Datagram::Plain(PREFIX, number, segment)));
    assert_eq!(
        golden.len(),
        PREFIX_BYTES + 8 + SEGMENT_BYTES + ACK_BYTES + 4 + CHECK_BYTES
    );
}

/// The checksum of the datagram above.
const GOLDEN_CHECK: u64 = 0x192d_da7c_ec0a_b456;

#[test]
fn greetings_have_their_golden_bytes_both_ways() {
    let greeting = Greeting {
        formats: FORMATS,
        auth: Auth::ClusterKey,
        refusal: Refusal::WrongKey,
        holder: Holder {
            pid: 0x0403_0201,
            descriptor: 0x0807_0605,
        },
        cookie: [0xaa; COOKIE_BYTES],
        noise: [0xbb; NOISE_BYTES],
    };
    for (kind, byte) in [
        (Kind::Open, 1),
        (Kind::Cookie, 2),
        (Kind::Accept, 3),
        (Kind::Refuse, 4),
    ] {
        let prefix = Prefix { kind, ..PREFIX };
        let mut bytes = Vec::new();
        greeting.encode(prefix, &mut bytes);
        assert_eq!(bytes.len(), GREETING_BYTES);
        let mut golden = golden_prefix(byte);
        golden.extend([1, 4, 0, 0]);
        golden.extend(1..=8);
        golden.extend([0xaa; 24]);
        golden.extend([0xbb; 48]);
        assert_eq!(bytes[..GREETING_BYTES - CHECK_BYTES], golden);
        let read = Datagram::decode(&bytes);
        assert_eq!(read, Ok(Datagram::Greeting(prefix, greeting)));
    }
}

#[test]
fn resets_and_sealed_segments_are_read() {
    let mut bytes = Vec::new();
    encode_reset(PREFIX.to, PREFIX.from, &mut bytes);
    assert_eq!(bytes.len(), PREFIX_BYTES + CHECK_BYTES);
    assert_eq!(bytes[..PREFIX_BYTES], golden_prefix(5));
    let kind = Kind::Reset;
    let read = Datagram::decode(&bytes);
    assert_eq!(read, Ok(Datagram::Reset(Prefix { kind, ..PREFIX })));
    let kind = Kind::Sealed;
    let prefix = Prefix { kind, ..PREFIX };
    let mut bytes = Vec::new();
    begin_segment(prefix, 5, &mut bytes);
    bytes.extend(b"secret");
    let read = Datagram::decode(&bytes);
    assert_eq!(read, Ok(Datagram::Sealed(prefix, 5, b"secret")));
}

#[test]
fn every_altered_bit_and_every_missing_byte_is_noticed() {
    let segment = Segment {
        wants_ack: true,
        ack: Some(ACK),
        offset: 1,
        data: &[0; 40],
    };
    let mut greeting = Vec::new();
    let kind = Kind::Open;
    Greeting::default().encode(Prefix { kind, ..PREFIX }, &mut greeting);
    for whole in [plain(&segment), greeting] {
        for at in 0..whole.len() {
            assert!(Datagram::decode(&whole[..at]).is_err());
            for bit in 0..8 {
                let mut altered = whole.clone();
                altered[at] ^= 1 << bit;
                // The receiver checks a seal, not the decoder.
                let noticed = matches!(
                    Datagram::decode(&altered),
                    Err(_) | Ok(Datagram::Sealed(..))
                );
                assert!(noticed, "byte {at} bit {bit}");
            }
        }
    }
}

#[test]
fn segments_have_one_encoding() {
    let empty = Segment {
        wants_ack: false,
        ack: None,
        offset: 0,
        data: b"",
    };
    let mut head = Vec::new();
    empty.encode_head(&mut head);
    assert_eq!(Segment::decode(&head), Ok(empty));
    for (at, value) in [(0, 4), (1, 1), (2, 1), (3, 1), (4, 1), (8, 1)] {
        let mut bad = head.clone();
        bad[at] = value;
        assert!(Segment::decode(&bad).is_err(), "byte {at} = {value}");
    }
    // Data without the flag that asks for an acknowledgement, and data behind the last position.
    head.push(b'x');
    assert!(Segment::decode(&head).is_err());
    head[0] = FLAG_WANTS_ACK;
    assert!(Segment::decode(&head).is_ok());
    head[8..16].fill(0xff);
    assert!(Segment::decode(&head).is_err());
}

#[test]
fn another_format_is_named() {
    let mut bytes = Vec::new();
    encode_reset(PREFIX.to, PREFIX.from, &mut bytes);
    bytes[1] = 9;
    assert!(Datagram::decode(&bytes).is_err(), "an altered byte");
    bytes.truncate(PREFIX_BYTES);
    seal_with_check(0, &mut bytes);
    let kind = Kind::Reset;
    let read = Datagram::decode(&bytes);
    let nine = Formats::only(9);
    assert_eq!(read, Ok(Datagram::Foreign(Prefix { kind, ..PREFIX }, nine)));
}

#[test]
fn greetings_of_builds_that_speak_several_formats_are_read() {
    let kind = Kind::Open;
    let prefix = Prefix { kind, ..PREFIX };
    for (lowest, above) in [(4, 0), (4, 1), (5, 3), (6, 0), (4, 250)] {
        let greeting = Greeting {
            formats: Formats::stated(lowest, above).unwrap(),
            ..Greeting::default()
        };
        let mut bytes = Vec::new();
        greeting.encode(prefix, &mut bytes);
        let expected = match FORMATS.common(greeting.formats) {
            Some(_) => Datagram::Greeting(prefix, greeting),
            None => Datagram::Foreign(prefix, greeting.formats),
        };
        assert_eq!(
            Datagram::decode(&bytes),
            Ok(expected),
            "{}",
            greeting.formats
        );
    }
}
