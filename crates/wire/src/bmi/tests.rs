use alloc::vec;

use super::*;
use crate::region::ObjectSpan;

fn region(len: u64, object: bool) -> RegionDescriptor {
    RegionDescriptor {
        key: 0x0102_0304_0506_0708,
        base: 0x1000,
        len,
        object: object.then_some(ObjectSpan {
            object: 9,
            offset: 64,
        }),
    }
}

#[test]
fn header_golden_bytes() {
    let header = Header {
        kind: Kind::Announce,
        flags: FLAG_BUSY_SERVER,
        regions: 0x0302,
        credit: 0x0706_0504,
        word: 0x0f0e_0d0c_0b0a_0908,
    };
    let bytes = [4, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    assert_eq!(header.encode(), bytes);
    assert_eq!(Header::decode(bytes), Ok(header));
}

#[test]
fn bodies_survive_encoding_and_decoding() {
    let announcement = Announcement {
        send: 7,
        size: 30,
        load: 3,
        regions: vec![region(10, true), region(20, false)].into(),
    };
    let packet = encode_announcement(Header::new(Kind::Announce, 5), &announcement, Vec::new());
    let (header, body) = decode(&packet).unwrap();
    assert_eq!((header.word, header.regions), (5, 2));
    assert_eq!(body, Body::Announcement(announcement));

    let clearance = Clearance {
        receive: 8,
        offset: 100,
        len: 20,
        regions: vec![region(20, false)].into(),
    };
    let packet = encode_clearance(Header::new(Kind::ClearToSend, 6), &clearance, Vec::new());
    assert_eq!(decode(&packet).unwrap().1, Body::Clearance(clearance));

    for refusal in [
        Refusal::TooLarge { room: 3 },
        Refusal::Failed,
        Refusal::Cancelled,
    ] {
        let packet = encode_refusal(Header::new(Kind::Refuse, 1), refusal, Vec::new());
        assert_eq!(decode(&packet).unwrap().1, Body::Refusal(refusal));
    }
}

#[test]
fn every_truncation_is_refused() {
    let packet = encode_announcement(
        Header::new(Kind::Announce, 5),
        &Announcement {
            send: 7,
            size: 30,
            load: 3,
            regions: vec![region(10, true), region(20, false)].into(),
        },
        Vec::new(),
    );
    for len in 0..packet.len() {
        assert!(decode(&packet[..len]).is_err(), "{len} bytes");
    }
    let mut longer = packet.clone();
    longer.push(0);
    assert_eq!(decode(&longer), Err(Malformed::Trailing { count: 1 }));
}

#[test]
fn lists_must_cover_the_bytes_that_they_state() {
    let packet = encode_clearance(
        Header::new(Kind::ClearToSend, 6),
        &Clearance {
            receive: 8,
            offset: 0,
            len: 21,
            regions: vec![region(20, false)].into(),
        },
        Vec::new(),
    );
    assert!(decode(&packet).is_err());
    let packet = encode_announcement(
        Header::new(Kind::Announce, 5),
        &Announcement {
            send: 7,
            size: u64::MAX,
            load: 0,
            regions: vec![].into(),
        },
        Vec::new(),
    );
    assert!(decode(&packet).is_err());
}

#[test]
fn any_bytes_are_decoded_or_refused() {
    let mut random = crate::random::SplitMix64::new(1);
    let mut accepted = 0;
    for round in 0..20_000u64 {
        let len = random.below(120) as usize;
        let mut bytes = random.bytes(len);
        if let Some(first) = bytes.first_mut() {
            *first = (round % 24) as u8;
        }
        if let Some(flags) = bytes.get_mut(1) {
            *flags &= 3;
        }
        accepted += u32::from(decode(&bytes).is_ok());
    }
    assert!(accepted > 0);
}

/// The greeting of builds that spoke format 1 only; they accept 16 bytes with this word, and read no other
/// field but the credit.
const FORMAT_1: [u8; HEADER_BYTES] = *b"\x01\0\0\0\0\x80\0\0CWBM\x01\0\0\0";

#[test]
fn greeting_golden_bytes() {
    let one = Formats::only(1);
    let mut hello = one.hello(false);
    hello.credit = 0x8000;
    assert_eq!(hello.encode(), FORMAT_1);
    assert_eq!(Formats::of_hello(&hello), Ok((one, false)));

    let two = Formats {
        lowest: 1,
        highest: 2,
    };
    for (formats, callable, [highest, byte]) in [
        (two, false, [2, 0]),
        (two, true, [2, 1]),
        (Formats::OURS, false, [3, 0]),
        (Formats::OURS, true, [3, 1]),
    ] {
        let mut hello = formats.hello(callable);
        hello.credit = 0x8000;
        let mut bytes = FORMAT_1;
        bytes[2..4].copy_from_slice(&[highest, byte]);
        assert_eq!(hello.encode(), bytes);
        assert_eq!(hello.word, HELLO_WORD, "what builds of format 1 compare");
        assert_eq!(Formats::of_hello(&hello), Ok((formats, callable)));
    }
    assert_eq!(Formats::OURS.common(one), Some(1));
    assert_eq!(Formats::OURS.common(two), Some(2));
}

#[test]
fn a_greeting_states_formats_or_is_refused() {
    let of = |lowest, highest| Formats { lowest, highest };
    for formats in [of(1, 255), of(255, 255), of(7, 8)] {
        assert_eq!(Formats::of_hello(&formats.hello(true)), Ok((formats, true)));
    }
    for (word, regions) in [
        (HELLO_WORD, 1),
        (HELLO_WORD, 512),
        (HELLO_WORD & !(0xff << 32), 0),
        (HELLO_WORD | 1 << 40, 0),
        (HELLO_WORD ^ 1, 0),
    ] {
        let mut hello = Header::new(Kind::Hello, word);
        hello.regions = regions;
        assert!(Formats::of_hello(&hello).is_err(), "{word:x} {regions}");
    }
}

#[test]
fn introduction_golden_bytes() {
    let introduction = Introduction {
        id: InstanceId(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100),
        addresses: vec!["mem://a".into(), "tcp://h:1".into()],
    };
    let packet = encode_introduction(&introduction, 4096);
    let mut bytes = vec![14, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(0..16);
    bytes.extend(b"\x07\0mem://a\x09\0tcp://h:1");
    assert_eq!(packet, bytes);
    assert_eq!(
        decode(&packet).unwrap().1,
        Body::Introduction(introduction.clone())
    );
    // The second address does not fit.
    let packet = encode_introduction(&introduction, packet.len() - 1);
    let Body::Introduction(short) = decode(&packet).unwrap().1 else {
        panic!("another body");
    };
    assert_eq!(short.addresses, introduction.addresses[..1]);
}

#[test]
fn odd_introductions_are_refused() {
    let packet = |count: u64, rest: &[u8]| {
        let mut packet = Header::new(Kind::Introduce, count).encode().to_vec();
        packet.extend([0; 16]);
        packet.extend(rest);
        packet
    };
    assert!(decode(&packet(0, b"")).is_ok());
    for (count, rest) in [
        (1, &b""[..]),
        (1, b"\0\0"),
        (1, b"\x02\0a\n"),
        (1, b"\x01\0\xff"),
        (1, b"\x02\0a"),
        (0, b"\0"),
        (17, &[1, 0, b'a'].repeat(17)),
        (1, &[&[1, 4][..], &[b'a'; 1025]].concat()),
    ] {
        assert!(decode(&packet(count, rest)).is_err(), "{count} {rest:?}");
    }
}

#[test]
fn offer_golden_bytes() {
    let offer = Offer {
        receive: 0x0f0e_0d0c_0b0a_0908,
        seen: 0x1312_1110,
        region: region(0x5000, false),
    };
    let packet = encode_offer(Header::new(Kind::ReadyToReceive, 7), &offer, Vec::new());
    let mut bytes = vec![18, 0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    bytes.extend([8, 7, 6, 5, 4, 3, 2, 1]);
    bytes.extend([0, 0x10, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet, bytes);
    assert_eq!(decode(&packet).unwrap().1, Body::Offer(offer));
    for len in 0..packet.len() {
        assert!(decode(&packet[..len]).is_err(), "{len} bytes");
    }

    let packet = send_complete(0x0f0e_0d0c_0b0a_0908, 0x4321);
    let mut bytes = vec![19, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([8, 9, 10, 11, 12, 13, 14, 15]);
    bytes.extend([0x21, 0x43, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet[..], bytes);
    let (header, body) = decode(&packet).unwrap();
    assert_eq!((header.word, body), (offer.receive, Body::Written(0x4321)));

    let retract = Header::new(Kind::Retract, 5).encode();
    assert_eq!(retract[0], 20);
    assert_eq!(decode(&retract).unwrap().1, Body::Empty);
}

#[test]
fn parts_golden_bytes() {
    let announcement = Announcement {
        send: 0x0f0e_0d0c_0b0a_0908,
        size: 0x1000,
        load: 0,
        regions: Regions::new(),
    };
    let mut header = Header::new(Kind::Announce, 7);
    header.flags = FLAG_IN_PARTS;
    let packet = encode_announcement(header, &announcement, Vec::new());
    assert_eq!(packet[..8], [4, 4, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        decode(&packet).unwrap(),
        (header, Body::Announcement(announcement))
    );

    let clearance = Clearance {
        receive: 3,
        offset: 0,
        len: 0x1000,
        regions: Regions::new(),
    };
    let packet = encode_clearance(Header::new(Kind::ClearToSend, 7), &clearance, Vec::new());
    let mut bytes = vec![6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0x10, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet, bytes);
    assert_eq!(decode(&packet).unwrap().1, Body::Clearance(clearance));

    let mut packet = Header::new(Kind::Part, 3).encode().to_vec();
    assert_eq!(packet, [21, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([1, 2, 3]);
    assert_eq!(decode(&packet).unwrap().1, Body::Payload(3));
    packet[1] = 8;
    assert!(decode(&packet).is_err(), "an unknown flag");
    assert_eq!(Formats::IN_PARTS.common(Formats::OURS), None);
}

#[test]
fn packets_of_recalls_are_these() {
    let packet = Header::new(Kind::Recall, 3).encode();
    assert_eq!(packet, [22, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(decode(&packet).unwrap().1, Body::Empty);
    // Builds before them speak the format of parts alone.
    let before = Formats::only(IN_PARTS);
    assert_eq!(Formats::IN_PARTS.common(before), Some(IN_PARTS));
    assert_eq!(Formats::IN_PARTS.common(Formats::IN_PARTS), Some(RECALLING));
}

#[test]
fn odd_offers_are_refused() {
    let offer = Offer {
        receive: 1,
        seen: 2,
        region: region(100, true),
    };
    let packet = encode_offer(Header::new(Kind::ReadyToReceive, 7), &offer, Vec::new());
    assert!(decode(&packet).is_ok());
    // No region, and two.
    let mut none = packet[..HEADER_BYTES + 12].to_vec();
    none[2] = 0;
    let mut two = packet.clone();
    two[2] = 2;
    two.extend_from_slice(&packet[HEADER_BYTES + 12..]);
    let mut long = offer;
    long.region.len = MAX_MESSAGE_BYTES + 1;
    let long = encode_offer(Header::new(Kind::ReadyToReceive, 7), &long, Vec::new());
    for odd in [none, two, long, send_complete(1, u64::MAX).to_vec()] {
        assert!(decode(&odd).is_err(), "{odd:?}");
    }
}
