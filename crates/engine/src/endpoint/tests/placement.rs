//! Whole messages that their method writes straight into a receive's memory.

use super::*;
use crate::operation::State;

/// Large enough to be placed, and so small that more of them may be sent ahead than one poll reads.
const LEN: usize = 30_000;
const TAG: Tag = 5;
/// All of them together take less than half of the largest window.
const MESSAGES: usize = 16;

/// A pair over sockets whose client may send half a megabyte ahead.
fn warm_pair() -> (Node, Node, Addr, Addr) {
    let (mut a, mut b, to, from) = pair_over(Medium::Tcp, "placed", Config::default());
    let into = Memory::zeroed(LEN);
    for _ in 0..10 {
        for _ in 0..MESSAGES {
            b.recv(from, std::slice::from_ref(&into), TAG, 0);
            a.send(to, &[memory(1, LEN)], TAG, 0);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes.iter().all(|node| node.done.len() == MESSAGES)
        });
        a.done.clear();
        b.done.clear();
    }
    (a, b, to, from)
}

/// Posts receives, sends to them, and goes on until one of them is half filled: returns the receives, with
/// their memory, and the index of that one.
fn half_placed(
    a: &mut Node,
    b: &mut Node,
    (to, from): (Addr, Addr),
) -> (Vec<(OpId, Memory)>, usize) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        a.done.clear();
        b.done.clear();
        let posted: Vec<_> = (0..MESSAGES)
            .map(|at| {
                let into = Memory::zeroed(LEN);
                let parts = [into.slice(0..LEN / 3), into.slice(LEN / 3..LEN)];
                (b.recv(from, &parts, TAG, at as u64), into)
            })
            .collect();
        for at in 0..MESSAGES {
            a.send(to, &[memory(at, LEN)], TAG, at as u64);
        }
        while b.done.len() < MESSAGES {
            a.step();
            b.step();
            let placed = posted.iter().position(|(op, _)| {
                let op = b.bmi.conversations.shared.ops.find(op.0);
                op.is_some_and(|op| {
                    matches!(
                        b.bmi.conversations.shared.ops[op].state,
                        State::Placed { .. }
                    )
                })
            });
            if let Some(placed) = placed {
                return (posted, placed);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no end in sight");
        }
        for (at, (_, into)) in posted.iter().enumerate() {
            assert_eq!(b.result(at as u64), Some(&Ok(LEN as u64)));
            assert!(into.to_vec() == bytes(at, LEN), "message {at}");
        }
    }
    panic!("no message lands");
}

#[test]
fn a_receive_that_is_cancelled_gives_its_message_to_the_next() {
    let (mut a, mut b, to, from) = warm_pair();
    let (posted, placed) = half_placed(&mut a, &mut b, (to, from));
    b.bmi.cancel(posted[placed].0);
    b.step();
    let cancelled = Some(&Err(OpError::Cancelled));
    assert_eq!(b.result(placed as u64), cancelled);
    let left = posted[placed].1.to_vec();
    // One receive more, for the last message.
    let last = Memory::zeroed(LEN);
    b.recv(from, std::slice::from_ref(&last), TAG, 100);
    drive(&mut [&mut a, &mut b], |nodes| {
        nodes[0].done.len() == MESSAGES && nodes[1].done.len() == MESSAGES + 1
    });
    let whole = posted.iter().enumerate().filter(|(at, _)| *at != placed);
    let places = whole.map(|(_, (_, into))| into).chain([&last]);
    for (at, into) in places.enumerate() {
        assert!(into.to_vec() == bytes(at, LEN), "message {at}");
    }
    assert!(posted[placed].1.to_vec() == left, "touched after the end");
    let info = b.bmi.get_info(None);
    assert_eq!((info.operations, info.early_bytes), (0, 0));
}

#[test]
fn a_receive_whose_peer_is_dropped_releases_its_memory() {
    let (mut a, mut b, to, from) = warm_pair();
    let (posted, placed) = half_placed(&mut a, &mut b, (to, from));
    let peer = b.bmi.conversations.peers.find(from.0).unwrap();
    b.bmi.drop_connection(peer);
    b.step();
    assert!(matches!(
        b.result(placed as u64),
        Some(Err(OpError::Peer { .. }))
    ));
    let left = posted[placed].1.to_vec();
    idle(&mut [&mut a, &mut b]);
    assert!(posted[placed].1.to_vec() == left, "touched after the end");
}

#[test]
fn a_message_that_is_too_long_fails_its_receive_only() {
    let (mut a, mut b, to, from) = warm_pair();
    let short = Memory::zeroed(LEN - 1);
    b.recv(from, std::slice::from_ref(&short), TAG, 1);
    let into = Memory::zeroed(LEN + 1);
    b.recv(from, std::slice::from_ref(&into), TAG, 2);
    a.send(to, &[memory(1, LEN)], TAG, 1);
    a.send(to, &[memory(2, LEN)], TAG, 2);
    drive(&mut [&mut a, &mut b], |nodes| nodes[1].done.len() == 2);
    let error = OpError::TooLarge {
        size: LEN as u64,
        room: LEN as u64 - 1,
    };
    assert_eq!(b.result(1), Some(&Err(error)));
    assert_eq!(b.result(2), Some(&Ok(LEN as u64)));
    assert!(into.to_vec()[..LEN] == bytes(2, LEN));
    assert!(short.to_vec().iter().all(|byte| *byte == 0));
}
