use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn peer() -> PeerRow {
    let count = |number| Count {
        number,
        bytes: number * 256,
    };
    PeerRow {
        instance: 1,
        peer: 2,
        phase: PhaseCode::Up,
        outbound: true,
        blocked: false,
        stalled: true,
        pid: 0x1234,
        reports: 3,
        sent: count(0x11),
        sent_large: count(0x12),
        received: count(0x13),
        received_large: count(0x14),
        moved: count(0x15),
        credit: 0x21,
        window: 0x22,
        granted: 0x23,
        held: 0x24,
        sends: 0x25,
        unexpected_sends: 0x26,
        announced: 0x27,
        receives: 0x28,
        transfers: 0x29,
        early: 0x2a,
        unexpected: 0x2b,
        published_ns: 0x31,
        progress_ns: 0x32,
        waiting: Some(Waiting {
            kind: OpKind::Send,
            why: WaitReason::Receive,
            tag: 7,
            size: 4 << 20,
            moved: 0,
            since_ns: 0x33,
        }),
        address: "shm:///a".into(),
    }
}

/// The bytes at `at`, of which the others are all 0.
fn placed(parts: &[(usize, &[u8])]) -> [u8; ROW_BODY_BYTES] {
    let mut body = [0; ROW_BODY_BYTES];
    for (at, bytes) in parts {
        body[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    body
}

#[test]
fn a_peers_row_has_these_bytes() {
    let mut parts: Vec<(usize, Vec<u8>)> = vec![(0, vec![2, 3, 5, 2, 6, 8])];
    let mut at = 8;
    for short in [1u32, 2, 0x1234, 3] {
        parts.push((at, short.to_le_bytes().to_vec()));
        at += 4;
    }
    for number in 0x11..=0x15u64 {
        parts.push((at, number.to_le_bytes().to_vec()));
        parts.push((at + 8, (number * 256).to_le_bytes().to_vec()));
        at += 16;
    }
    for short in 0x21..=0x2bu32 {
        parts.push((at, short.to_le_bytes().to_vec()));
        at += 4;
    }
    for long in [0x31u64, 0x32, 7, 4 << 20, 0, 0x33] {
        parts.push((at, long.to_le_bytes().to_vec()));
        at += 8;
    }
    assert_eq!(at, 196);
    parts.push((at, b"shm:///a".to_vec()));
    let parts: Vec<_> = parts.iter().map(|(at, part)| (*at, &part[..])).collect();
    let row = Row::Peer(peer());
    assert_eq!(row.encode(), placed(&parts));
    assert_eq!(Row::decode(&row.encode()), Ok(row));
}

#[test]
fn an_instances_row_has_these_bytes() {
    let row = Row::Instance(InstanceRow {
        instance: 1,
        peers: 2,
        operations: 3,
        transfers: 4,
        unexpected_waiting: 5,
        early_bytes: 6,
        early_limit: 7,
        stall_after_ms: 8,
        published_ns: 9,
        received: Count {
            number: 10,
            bytes: 11,
        },
        sent: Count {
            number: 12,
            bytes: 13,
        },
        refused: 0x1234,
        listening: "tcp://h:1".into(),
    });
    let mut expected = vec![1, 9, 0x34, 0x12];
    for short in [1u32, 2, 3, 4, 5] {
        expected.extend(short.to_le_bytes());
    }
    for long in 6..=13u64 {
        expected.extend(long.to_le_bytes());
    }
    expected.extend(b"tcp://h:1");
    assert_eq!(row.encode(), placed(&[(0, &expected)]));
    assert_eq!(Row::decode(&row.encode()), Ok(row));
}

#[test]
fn an_event_has_these_bytes() {
    let event = LogEvent {
        at_ns: 1,
        thread: 2,
        level: 3,
        target: "bmi".into(),
        text: "hello".into(),
    };
    let body = event.encode();
    let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 3, 5, 0];
    expected.extend(b"bmihello");
    assert_eq!(body[..expected.len()], expected);
    assert!(body[expected.len()..].iter().all(|byte| *byte == 0));
    assert_eq!(LogEvent::decode(&body), Ok(event));
}

#[test]
fn text_that_is_too_long_is_cut_between_characters() {
    let event = LogEvent {
        at_ns: 1,
        thread: 2,
        level: 5,
        target: "ä".repeat(100),
        text: "ö".repeat(1000),
    };
    let again = LogEvent::decode(&event.encode()).unwrap();
    assert_eq!(again.target, "ä".repeat(MAX_TARGET / 2));
    assert_eq!(again.text, "ö".repeat((MAX_EVENT_TEXT - MAX_TARGET) / 2));
    let mut long = peer();
    long.address = format!("shm://{}/the-end.sock", "ü".repeat(300));
    let Ok(Row::Peer(again)) = Row::decode(&Row::Peer(long).encode()) else {
        panic!("a peer's row");
    };
    assert!(again.address.len() <= MAX_ADDRESS);
    assert!(again.address.starts_with("shm://") && again.address.ends_with("the-end.sock"));
    assert_eq!(ends("abcdef", 2), "");
}

#[test]
fn invalid_bytes_are_refused() {
    let good = Row::Peer(peer()).encode();
    for (at, byte) in [
        (0, 3),
        (1, 0),
        (2, 8),
        (3, 6),
        (4, 12),
        (5, 53),
        (6, 1),
        (247, 1),
    ] {
        let mut bad = good;
        bad[at] = byte;
        assert!(Row::decode(&bad).is_err(), "{at}: {byte}");
    }
    let mut idle = peer();
    idle.waiting = None;
    let mut bad = Row::Peer(idle).encode();
    bad[164] = 1;
    assert!(Row::decode(&bad).is_err(), "a tag without an operation");
}

#[test]
fn pages_state_their_format_and_others_are_refused_with_both_ranges() {
    assert_eq!(pack_format(77), 77 << 32 | u64::from(FORMATS.highest));
    for format in FORMATS.lowest..=FORMATS.highest {
        assert_eq!(unpack_format(77 << 32 | u64::from(format)), Ok(77));
    }
    let newer = unpack_format((77 << 32) | (u64::from(FORMATS.highest) + 1));
    assert_eq!(
        newer.unwrap_err(),
        "it speaks format 3 of the page that processes show, this process formats 1 to 2; run builds on both sides that share one"
    );
    for nonsense in [0, 256, u64::from(u32::MAX)] {
        assert!(unpack_format(77 << 32 | nonsense).is_err(), "{nonsense}");
    }
}
