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
fn bodies_return_as_they_left() {
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
fn lists_must_cover_what_they_say() {
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
            *first = (round % 16) as u8;
        }
        if let Some(flags) = bytes.get_mut(1) {
            *flags &= 3;
        }
        accepted += u32::from(decode(&bytes).is_ok());
    }
    assert!(accepted > 0);
}
