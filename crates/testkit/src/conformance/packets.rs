//! Packets: order, sizes, back-pressure, fairness, many peers, sending to oneself.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use causeway_sys::blocks::{Source, Target, copy_one};
use causeway_transport::{Method, SendError};

use super::Factory;
use super::node::{Node, Pair, SetOnDrop, receive, send};
use crate::patience::Patience;
use crate::random::{Random, seed};

/// How many packets may be accepted for a peer that does not poll, before a method must say that
/// it would block: far more than any sensible queue, far less than memory.
const MOST_HELD: usize = 1 << 20;
/// Most bytes that may be accepted for such a peer.
const MOST_HELD_BYTES: usize = 256 << 20;

/// The `index`th packet of a stream: sizes are mostly small, sometimes up to `largest`.
fn nth_packet(stream: u64, index: u64, largest: usize) -> Vec<u8> {
    let mut random = Random::new(stream.wrapping_mul(0x1_0001).wrapping_add(index));
    let len = match random.below(20) {
        0 => 0,
        1 => random.below(largest + 1),
        2 => largest,
        _ => random.below(129),
    };
    random.bytes(len)
}

/// A long stream of packets of random sizes, each gathered from random parts, arrives once and in
/// order.
pub fn keep_their_order<F: Factory>(factory: &F) {
    const PACKETS: u64 = 20_000;
    let mut pair = Pair::new(factory);
    let largest = pair.a.method.limits().max_packet;
    let stream = seed(1);
    let mut cuts = Random::new(stream);
    let mut scratch = Vec::new();
    let mut patience = Patience::new("a stream of packets arrives");
    let (mut sent, mut received) = (0, 0);
    while received < PACKETS {
        while sent < PACKETS {
            let packet = nth_packet(stream, sent, largest);
            let mut rest = &packet[..];
            let mut parts = Vec::new();
            for part in cuts.cut(packet.len(), 4) {
                let (head, tail) = rest.split_at(part);
                parts.push(head);
                rest = tail;
            }
            // Some are filled in by the sender where they shall lie.
            let head = parts.first().copied().unwrap_or_default();
            let body = &packet[head.len()..];
            let fill = |mut into: Target<'_>| {
                copy_one(&mut into, 0, Source::from(body), 0, body.len());
            };
            let method = &mut pair.a.method;
            let accepted = match sent % 3 {
                0 => method.send_filled(pair.to_b, head, (body.len(), &fill), &mut scratch),
                _ => method.send(pair.to_b, &parts),
            };
            match accepted {
                Ok(()) => sent += 1,
                Err(SendError::WouldBlock) => break,
                Err(error) => panic!("packet {sent}: {error}"),
            }
        }
        pair.step();
        while let Some((peer, packet)) = pair.b.packet() {
            assert_eq!(peer, pair.to_a);
            assert!(
                packet == nth_packet(stream, received, largest),
                "packet {received} differs from the sent one ({} bytes)",
                packet.len()
            );
            received += 1;
        }
        patience.spend();
    }
    pair.still_works();
}

/// Zero bytes, one byte, every size around the powers of two, and the largest size.
pub fn of_every_size_arrive<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let largest = pair.a.method.limits().max_packet;
    assert!(largest >= 4096 + 256, "the contract requires this much");
    let mut sizes: Vec<usize> = (0..=80).collect();
    let mut power = 128;
    while power <= largest {
        sizes.extend(power - 9..=power + 9);
        power *= 2;
    }
    sizes.extend(largest - 20..=largest);
    sizes.retain(|size| *size <= largest);
    for size in sizes {
        let bytes = Random::new(size as u64).bytes(size);
        pair.a_sends(&bytes);
        let (_, there) = pair.b_receives();
        assert!(there == bytes, "{size} bytes from a to b");
        pair.b_sends(&bytes);
        let (_, back) = pair.a_receives();
        assert!(back == bytes, "{size} bytes from b to a");
    }
    // No parts, and parts without bytes, are a packet of zero bytes.
    pair.a
        .method
        .send(pair.to_b, &[])
        .expect("room for nothing");
    assert_eq!(pair.b_receives().1, b"");
    let hollow: &[&[u8]] = &[b"", b"x", b"", b"y", b""];
    pair.a
        .method
        .send(pair.to_b, hollow)
        .expect("room for two bytes");
    assert_eq!(pair.b_receives().1, b"xy");
}

/// A packet above the limit is refused whole, and the error says both numbers.
pub fn too_large_are_refused<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let limit = pair.a.method.limits().max_packet;
    let bytes = vec![7; limit + 1];
    let refused = SendError::TooLarge {
        len: limit + 1,
        limit,
    };
    assert_eq!(
        pair.a.method.send(pair.to_b, &[&bytes]),
        Err(refused.clone())
    );
    let (head, tail) = bytes.split_at(limit / 2);
    assert_eq!(pair.a.method.send(pair.to_b, &[head, tail]), Err(refused));
    pair.still_works();
}

/// A receiver that does not poll holds its sender back: soon a send would block; once the receiver polls again, room is
/// reported to the sender; and exactly the accepted packets arrive.
pub fn are_held_back_by_a_receiver_that_does_not_poll<F: Factory>(factory: &F) {
    for size in [0, 8, 1000, 4096] {
        let mut pair = Pair::new(factory);
        let mut packet = vec![0; size];
        let number = |packet: &mut [u8], n: u64| {
            if let Some(front) = packet.first_chunk_mut() {
                *front = n.to_le_bytes();
            }
        };
        let mut sent = 0_u64;
        let mut refusals = 0;
        // A sender that polls in between may get on a little further, but not for ever.
        while refusals < 200 {
            number(&mut packet, sent);
            if pair.a.try_send(pair.to_b, &packet) {
                sent += 1;
                assert!(
                    (sent as usize) < MOST_HELD && sent as usize * size < MOST_HELD_BYTES,
                    "{sent} packets of {size} bytes are held for a peer that does not poll"
                );
            } else {
                refusals += 1;
                pair.a.step();
            }
        }
        pair.a.writable(pair.to_b);
        let mut patience = Patience::new("room is announced when the receiver polls again");
        let mut received = 0_u64;
        let mut take = |pair: &mut Pair<F::Method>| {
            while let Some((_, bytes)) = pair.b.packet() {
                assert_eq!(bytes.len(), size);
                if let Some(front) = bytes.first_chunk() {
                    assert_eq!(u64::from_le_bytes(*front), received);
                }
                received += 1;
            }
            received
        };
        while !pair.a.writable(pair.to_b) {
            pair.step();
            take(&mut pair);
            patience.spend();
        }
        number(&mut packet, sent);
        pair.a_sends(&packet);
        sent += 1;
        while take(&mut pair) < sent {
            pair.step();
            patience.spend();
        }
        pair.settle();
        assert_eq!(take(&mut pair), sent, "no packet came twice");
        pair.still_works();
    }
}

/// Both sides send as much as they can, at the same time, and neither blocks the other for good.
pub fn flow_both_ways_at_once<F: Factory>(factory: &F) {
    const PACKETS: u64 = 5_000;
    let mut pair = Pair::new(factory);
    let largest = pair.a.method.limits().max_packet;
    let (mut a_sent, mut b_sent, mut a_heard, mut b_heard) = (0, 0, 0, 0);
    let mut patience = Patience::new("two streams cross");
    while a_heard < PACKETS || b_heard < PACKETS {
        while a_sent < PACKETS && pair.a.try_send(pair.to_b, &nth_packet(3, a_sent, largest)) {
            a_sent += 1;
        }
        while b_sent < PACKETS && pair.b.try_send(pair.to_a, &nth_packet(4, b_sent, largest)) {
            b_sent += 1;
        }
        pair.step();
        while let Some((_, packet)) = pair.b.packet() {
            assert!(
                packet == nth_packet(3, b_heard, largest),
                "packet {b_heard}"
            );
            b_heard += 1;
        }
        while let Some((_, packet)) = pair.a.packet() {
            assert!(
                packet == nth_packet(4, a_heard, largest),
                "packet {a_heard}"
            );
            a_heard += 1;
        }
        patience.spend();
    }
}

/// While one peer fills its queue again after every poll, the single packet of another arrives
/// within a few polls.
pub fn of_a_quiet_peer_are_not_starved<F: Factory>(factory: &F) {
    const POLLS: usize = 200;
    let Pair {
        a: mut flooder,
        b: mut receiver,
        to_b: flood,
        address,
        ..
    } = Pair::new(factory);
    let mut quiet = Node::new(factory.method());
    let to_receiver = quiet.connect(&address);
    send(&mut quiet, to_receiver, &mut receiver, b"hello");
    let (quiet_peer, _) = receive(&mut receiver, &mut quiet);
    let packet = [1; 2048];
    for round in 0..20 {
        while flooder.try_send(flood, &packet) {}
        send(&mut quiet, to_receiver, &mut receiver, &[round]);
        let mut polls = 0;
        loop {
            receiver.step();
            quiet.step();
            let theirs = |(peer, _): &(_, Vec<u8>)| *peer == quiet_peer;
            let arrived = receiver.seen.packets.iter().any(theirs);
            receiver.seen.packets.clear();
            if arrived {
                break;
            }
            polls += 1;
            assert!(polls < POLLS, "a quiet peer waits behind a flood");
            flooder.step();
            while flooder.try_send(flood, &packet) {}
        }
    }
}

/// 200 peers: the packets of each arrive in order, and each gets its own replies.
pub fn of_many_peers<F: Factory>(factory: &F) {
    const PEERS: usize = 200;
    const ROUNDS: u8 = 5;
    // Many peers in one process need many descriptors.
    causeway_sys::limits::raise_open_files();
    let (mut hub, address) = Node::listening(factory);
    let mut spokes: Vec<_> = (0..PEERS)
        .map(|_| {
            let mut spoke = Node::new(factory.method());
            let peer = spoke.connect(&address);
            (spoke, peer, 0_u8, 0_u8)
        })
        .collect();
    let mut names: HashMap<_, usize> = HashMap::new();
    let mut rounds: HashMap<_, u8> = HashMap::new();
    let mut replies = Vec::new();
    let mut patience = Patience::new("200 peers are served");
    while spokes.iter().any(|(.., echoed)| *echoed < ROUNDS) {
        for (index, (spoke, peer, sent, echoed)) in spokes.iter_mut().enumerate() {
            if sent == echoed && *sent < ROUNDS {
                let mut packet = (index as u64).to_le_bytes().to_vec();
                packet.push(*sent);
                if spoke.try_send(*peer, &packet) {
                    *sent += 1;
                }
            }
            spoke.step();
            if let Some((_, packet)) = spoke.packet() {
                let mut expected = (index as u64).to_le_bytes().to_vec();
                expected.push(*echoed);
                assert_eq!(packet, expected);
                *echoed += 1;
            }
        }
        hub.step();
        while let Some((peer, packet)) = hub.packet() {
            let index = u64::from_le_bytes(*packet.first_chunk().expect("nine bytes")) as usize;
            assert_eq!(*names.entry(peer).or_insert(index), index, "one name each");
            let round = rounds.entry(peer).or_default();
            assert_eq!(packet[8], *round);
            *round += 1;
            replies.push((peer, packet));
        }
        replies.retain(|(peer, packet)| !hub.try_send(*peer, packet));
        patience.spend();
    }
    assert_eq!(names.len(), PEERS);
    let ups: HashSet<_> = std::iter::from_fn(|| hub.up()).collect();
    assert_eq!(ups.len(), PEERS);
    // All of them end; each end is reported once (the sink checks the rest).
    drop(spokes);
    let mut patience = Patience::new("200 departures are noticed");
    let mut left: HashSet<_> = names.into_keys().collect();
    while !left.is_empty() {
        hub.step();
        left.retain(|peer| hub.down(*peer).is_none());
        patience.spend();
    }
}

/// A process may listen and send to its own address.
pub fn to_oneself<F: Factory>(factory: &F) {
    const PACKETS: u64 = 2_000;
    let (mut node, address) = Node::listening(factory);
    let me = node.connect(&address);
    let mut patience = Patience::new("a process receives its own packets");
    let (mut sent, mut received) = (0, 0);
    let mut from = None;
    while received < PACKETS {
        while sent < PACKETS && node.try_send(me, &nth_packet(5, sent, 4096)) {
            sent += 1;
        }
        node.step();
        while let Some((peer, packet)) = node.packet() {
            assert_eq!(*from.get_or_insert(peer), peer);
            assert!(packet == nth_packet(5, received, 4096), "packet {received}");
            received += 1;
        }
        patience.spend();
    }
    // And replies to itself.
    let back = from.expect("something arrived");
    while !node.try_send(back, b"reply") {
        node.step();
        patience.spend();
    }
    loop {
        if let Some((_, packet)) = node.packet() {
            assert_eq!(packet, b"reply");
            break;
        }
        node.step();
        patience.spend();
    }
}

/// One poll does a bounded amount of work, even while a peer in another thread sends without end.
pub fn of_a_poll_are_bounded<F: Factory>(factory: &F)
where
    F::Method: Send,
{
    const POLLS: usize = 300;
    const MOST_PER_POLL: usize = 1 << 16;
    let Pair {
        a: mut flooder,
        b: mut receiver,
        to_b,
        ..
    } = Pair::new(factory);
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&enough);
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                if !flooder.try_send(to_b, b"again") {
                    flooder.step();
                }
            }
        });
        let mut patience = Patience::new("polls under a flood return");
        let mut with_packets = 0;
        while with_packets < POLLS {
            receiver.step();
            let packets = receiver.seen.packets.len();
            receiver.seen.packets.clear();
            assert!(
                packets < MOST_PER_POLL,
                "one poll delivered {packets} packets"
            );
            with_packets += usize::from(packets > 0);
            patience.spend();
        }
    });
}

/// One call for several peers: each that can take the packet gets it, as often as it is named, and each that cannot is
/// named with the reason, independently of the others.
pub fn to_several_peers_at_once<F: Factory>(factory: &F) {
    let mut sender = Node::new(factory.method());
    let mut receivers = Vec::new();
    for _ in 0..3 {
        let (mut receiver, address) = Node::listening(factory);
        let to = sender.connect(&address);
        send(&mut sender, to, &mut receiver, b"hello");
        receive(&mut receiver, &mut sender);
        receivers.push((receiver, to));
    }
    let [first, slow, last] = [0, 1, 2].map(|at: usize| receivers[at].1);
    let packet = vec![0x5c; sender.method.limits().max_packet];
    let (head, tail) = packet.split_at(packet.len() / 3);
    let mut patience = Patience::new("a receiver that does not poll holds packets back");
    while sender.try_send(slow, &packet) {
        patience.spend();
    }
    let mut refused = Vec::new();
    let to = [first, slow, last, first];
    sender.method.send_many(&to, &[head, tail], &mut refused);
    assert_eq!(refused, [(1, SendError::WouldBlock)]);
    for (at, count) in [(0, 2), (2, 1)] {
        for _ in 0..count {
            let (_, bytes) = receive(&mut receivers[at].0, &mut sender);
            assert!(bytes == packet, "receiver {at}");
        }
    }
    sender.disconnect(last);
    refused.clear();
    sender
        .method
        .send_many(&[last, first], &[b"again"], &mut refused);
    assert!(
        matches!(refused[..], [(0, SendError::Gone(_))]),
        "{refused:?}"
    );
    assert_eq!(receive(&mut receivers[0].0, &mut sender).1, b"again");
    // A packet above the limit is refused for each.
    let limit = sender.method.limits().max_packet;
    let too_large = vec![0; limit + 1];
    refused.clear();
    sender
        .method
        .send_many(&[first, slow], &[&too_large], &mut refused);
    let len = limit + 1;
    let error = SendError::TooLarge { len, limit };
    assert_eq!(refused, [(0, error.clone()), (1, error)]);
}

/// A packet that a method states not to hold arrives although its sender does nothing more, after a flush or polls of the
/// sender where it was held before.
pub fn that_are_not_held_need_no_poll<F: Factory>(factory: &F) {
    const ROUNDS: u64 = 20;
    const PACKETS: u64 = 30;
    let mut pair = Pair::new(factory);
    let may_hold = pair.a.method.capabilities().holds_packets;
    let mut held = 0;
    for round in 0..ROUNDS {
        let mut patience = Patience::new("the packets leave, then arrive");
        let is_sent = |index: &u64| {
            let packet = [round as u8, *index as u8];
            pair.a.try_send(pair.to_b, &packet)
        };
        let sent = (0..PACKETS).take_while(is_sent).count() as u64;
        while pair.a.method.holds_packets(pair.to_b) {
            held += 1;
            match round % 2 {
                0 => pair.a.method.flush(),
                _ => _ = pair.a.step(),
            }
            patience.spend();
        }
        for index in 0..sent {
            let packet = loop {
                if let Some((_, packet)) = pair.b.packet() {
                    break packet;
                }
                pair.b.step();
                patience.spend();
            };
            assert_eq!(packet, [round as u8, index as u8]);
        }
    }
    assert!(
        may_hold || held == 0,
        "it holds packets, and does not state it"
    );
    pair.still_works();
}

/// A look that is no poll returns at once that there is something, and delivers nothing.
pub fn are_not_missed_by_looks<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    pair.still_works();
    pair.settle();
    for round in 0..100 {
        while !pair.b.method.finds_nothing(Instant::now()) && pair.b.step() {}
        pair.a_sends(b"found");
        let mut patience = Patience::new("the look finds the packet");
        while pair.b.method.finds_nothing(Instant::now()) {
            patience.spend();
        }
        assert!(pair.b.seen.packets.is_empty(), "round {round}");
        assert_eq!(pair.b_receives().1, b"found");
    }
}
