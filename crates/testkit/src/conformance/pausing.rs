//! Peers whose packets are held back: nothing is lost, other peers are not affected, and the receiver can sleep.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::method::Readiness;
use causeway_transport::{Access, Direction, Method, Peer};

use super::Factory;
use super::node::{List, Node, Pair, receive, send};
use crate::patience::{GENEROUS, Patience};
use crate::random::{Random, seed};

/// Refusals in a row, with progress on both sides in between, after which a sender counts as held up.
const REFUSALS: u32 = 1000;

/// Sends numbered packets until the receiver, which holds them back, holds up the sender. Returns how many were accepted.
fn fill<M: Method>(pair: &mut Pair<M>) -> u32 {
    let (mut sent, mut refusals) = (0, 0);
    let mut patience = Patience::new("a sender is held up");
    while refusals < REFUSALS {
        if pair.a.try_send(pair.to_b, &numbered(sent)) {
            (sent, refusals) = (sent + 1, 0);
        } else {
            refusals += 1;
        }
        if refusals == REFUSALS - 1 {
            // Room may still be reported, as slowly as the method sends.
            pair.settle();
        }
        pair.step();
        patience.spend();
    }
    sent
}

fn numbered(number: u32) -> Vec<u8> {
    let mut packet = vec![number as u8; 4096];
    packet[..4].copy_from_slice(&number.to_le_bytes());
    packet
}

/// Takes packets from `first` up to below `end`, in this order.
fn take<M: Method>(pair: &mut Pair<M>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert!(
            pair.b_receives() == (pair.to_a, numbered(number)),
            "{number}"
        );
    }
}

/// Sends would block, nothing is delivered meanwhile, and all packets arrive in order afterwards.
pub fn holds_up_the_sender<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    pair.b.method.pause(pair.to_a);
    let sent = fill(&mut pair);
    assert!(sent > 0 && pair.b.packet().is_none(), "after {sent}");
    pair.a.writable(pair.to_b);
    // The other way is open.
    pair.b_sends(b"wait");
    assert_eq!(pair.a_receives().1, b"wait");
    pair.b.method.resume(pair.to_a);
    take(&mut pair, 0..sent);
    let mut patience = Patience::new("room is reported to the sender");
    while !pair.a.writable(pair.to_b) {
        pair.step();
        patience.spend();
    }
    pair.still_works();
}

/// Pauses of any length, at any moment, neither lose nor reorder; and none is broken.
pub fn keeps_the_order<F: Factory>(factory: &F) {
    const PACKETS: u32 = 3000;
    let mut pair = Pair::new(factory);
    let mut random = Random::new(seed(11));
    let (mut sent, mut taken, mut paused) = (0, 0, false);
    let mut patience = Patience::new("all packets between the pauses");
    while taken < PACKETS {
        if random.one_in(20) {
            paused = !paused;
            match paused {
                true => pair.b.method.pause(pair.to_a),
                false => pair.b.method.resume(pair.to_a),
            }
        }
        if sent < PACKETS && pair.a.try_send(pair.to_b, &numbered(sent)) {
            sent += 1;
        }
        pair.a.step();
        if random.one_in(2) {
            pair.b.step();
        }
        while let Some((from, packet)) = pair.b.packet() {
            assert!(!paused, "packet {taken} came all the same");
            assert!((from, packet) == (pair.to_a, numbered(taken)));
            taken += 1;
        }
        patience.spend();
    }
    pair.b.method.resume(pair.to_a);
    pair.still_works();
}

/// Peers that are not paused send packets and move bytes as usual.
pub fn leaves_others_alone<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let mut other = Node::new(factory.method());
    let to_b = other.connect(&pair.address);
    send(&mut other, to_b, &mut pair.b, b"hello");
    let (from, _) = receive(&mut pair.b, &mut other);
    pair.b.method.pause(pair.to_a);
    let sent = fill(&mut pair);
    let theirs = Memory::zeroed(100_000);
    let region = pair.b.export(from, &theirs, Access::Write);
    for round in 0..100_u32 {
        send(&mut other, to_b, &mut pair.b, &numbered(round));
        let received = receive(&mut pair.b, &mut other);
        assert!(received == (from, numbered(round)), "round {round}");
    }
    let ours = Memory::from_vec(vec![5; 100_000]);
    let list = List::simple(Direction::Put, &ours, region).notifying(b"moved");
    let result = super::node::run(&mut other, to_b, &mut pair.b, &list);
    assert_eq!(result, Ok(()));
    assert_eq!(receive(&mut pair.b, &mut other), (from, b"moved".to_vec()));
    assert_eq!(theirs.to_vec(), ours.to_vec());
    pair.b.method.resume(pair.to_a);
    take(&mut pair, 0..sent);
    pair.still_works();
}

/// Transfers go on, in either direction, as long as no packet stands before them.
pub fn stops_at_packets_only<F: Factory>(factory: &F) {
    const LEN: usize = 300_000;
    let mut pair = Pair::new(factory);
    pair.b.method.pause(pair.to_a);
    let (ours, theirs) = (Memory::from_vec(vec![1; LEN]), Memory::zeroed(LEN));
    let there = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let here = pair.a.export(pair.to_b, &ours, Access::Read);
    let put = List::simple(Direction::Put, &ours, there);
    assert_eq!(pair.a_transfers(&put), Ok(()));
    assert_eq!(theirs.to_vec(), ours.to_vec());
    theirs.clear();
    let get = List::simple(Direction::Get, &theirs, here);
    assert_eq!(pair.b_transfers(&get), Ok(()));
    assert_eq!(theirs.to_vec(), ours.to_vec());
    // Events behind a packet arrive at the latest when that is delivered.
    theirs.clear();
    pair.a_sends(b"first");
    let put = List::simple(Direction::Put, &ours, there).notifying(b"second");
    let token = pair.a.try_transfer(pair.to_b, &put).expect("room");
    for _ in 0..1000 {
        pair.step();
    }
    assert!(pair.b.packet().is_none());
    pair.b.method.resume(pair.to_a);
    assert_eq!(pair.b_receives().1, b"first");
    assert_eq!(pair.b_receives().1, b"second");
    assert_eq!(theirs.to_vec(), ours.to_vec());
    let mut patience = Patience::new("the transfer completes");
    while pair.a.in_progress() > 0 {
        pair.step();
        patience.spend();
    }
    assert_eq!(pair.a.seen.done.pop_front(), Some((token, Ok(()))));
}

/// The end of a peer is reported, and packets that it sent before are delivered.
pub fn ends_with_the_peer<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    pair.b.method.pause(pair.to_a);
    for number in 0..3 {
        pair.a_sends(&numbered(number));
    }
    pair.settle();
    assert!(pair.b.packet().is_none());
    drop(pair.a);
    pair.b.await_down(pair.to_a);
    for number in 0..3 {
        let packet = pair.b.packet();
        assert!(packet == Some((pair.to_a, numbered(number))), "{number}");
    }
    assert_eq!(pair.b.method.readiness(pair.to_a), Readiness::default());
}

/// A receiver that holds packets back sleeps, also when more arrive, until it takes them.
pub fn lets_the_receiver_sleep<F: Factory>(factory: &F) {
    const NAP: Duration = Duration::from_millis(30);
    for is_full in [false, true] {
        let mut pair = Pair::new(factory);
        pair.b.method.pause(pair.to_a);
        let sent = match is_full {
            true => fill(&mut pair),
            false => {
                pair.a_sends(&numbered(0));
                1
            }
        };
        let mut quiet_naps = 0;
        let mut patience = Patience::new("undisturbed naps beside packets");
        while quiet_naps < 5 {
            pair.settle();
            pair.b.fall_asleep();
            quiet_naps += usize::from(!pair.b.wait_readable(NAP));
            pair.b.method.disarm();
            patience.spend();
        }
        pair.b.method.resume(pair.to_a);
        if pair.b.method.arm(Instant::now()) {
            let woken = pair.b.wait_readable(GENEROUS);
            assert!(woken, "asleep beside packets that are wanted");
        }
        pair.b.method.disarm();
        take(&mut pair, 0..sent);
        pair.still_works();
    }
}

/// Waits until a peer's readiness is as it should be.
fn becomes<M: Method>(
    pair: &mut Pair<M>,
    readiness: impl Fn(&mut Pair<M>) -> Readiness,
    readable: bool,
    writable: bool,
) {
    let wanted = Readiness { readable, writable };
    let mut patience = Patience::new(format!("{wanted:?}"));
    while readiness(pair) != wanted {
        pair.step();
        patience.spend();
    }
    assert_eq!(readiness(pair), wanted, "reading it changes nothing");
}

/// Readiness for reading and writing is known for each peer, at any time.
pub fn readiness_is_what_it_says<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let at_a = |pair: &mut Pair<F::Method>| pair.a.method.readiness(pair.to_b);
    let at_b = |pair: &mut Pair<F::Method>| pair.b.method.readiness(pair.to_a);
    becomes(&mut pair, at_a, false, true);
    becomes(&mut pair, at_b, false, true);
    pair.b.method.pause(pair.to_a);
    pair.settle();
    becomes(&mut pair, at_b, false, true);
    pair.a_sends(&numbered(0));
    becomes(&mut pair, at_b, true, true);
    pair.b.method.resume(pair.to_a);
    take(&mut pair, 0..1);
    becomes(&mut pair, at_b, false, true);
    pair.b.method.pause(pair.to_a);
    let sent = fill(&mut pair);
    becomes(&mut pair, at_a, false, false);
    becomes(&mut pair, at_b, true, true);
    // A sender that knows from readiness alone that there is no room gets notice of room as well.
    pair.a.writable(pair.to_b);
    pair.b.method.resume(pair.to_a);
    take(&mut pair, 0..sent);
    becomes(&mut pair, at_a, false, true);
    let mut patience = Patience::new("room is reported to the sender");
    while !pair.a.writable(pair.to_b) {
        pair.step();
        patience.spend();
    }
    for unknown in [Peer(u64::MAX), Peer::new(77, 1)] {
        assert_eq!(pair.a.method.readiness(unknown), Readiness::default());
        pair.a.method.pause(unknown);
        pair.a.method.resume(unknown);
    }
    pair.a.disconnect(pair.to_b);
    assert_eq!(at_a(&mut pair), Readiness::default());
}

/// A peer can be paused before there is a connection with it.
pub fn holds_for_a_connection_to_come<F: Factory>(factory: &F) {
    let (mut b, address) = Node::listening(factory);
    let mut a = Node::new(factory.method());
    let to_b = a.connect(&address);
    assert!(a.method.readiness(to_b).writable);
    a.method.pause(to_b);
    send(&mut a, to_b, &mut b, b"hello");
    let (to_a, _) = receive(&mut b, &mut a);
    send(&mut b, to_a, &mut a, b"welcome");
    let mut patience = Patience::new("the packet is there");
    while !a.method.readiness(to_b).readable {
        assert!(a.packet().is_none());
        a.step();
        b.step();
        patience.spend();
    }
    a.method.resume(to_b);
    assert_eq!(receive(&mut a, &mut b), (to_b, b"welcome".to_vec()));
}
