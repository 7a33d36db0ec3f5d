//! Arming and waking: a sleeping process is woken by every event that a poll would find.

use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::{Access, Direction, Method, Parking, Peer, WakeFlag};

use super::Factory;
use super::node::{List, Node, Pair};
use crate::patience::{GENEROUS, Patience};
use crate::random::{Random, seed};

/// Lets `awake` make progress until `sleeper`, which is armed, is woken; disarms it.
fn until_woken<M: Method>(awake: &mut Node<M>, sleeper: &mut Node<M>, what: &str) {
    let mut patience = Patience::new(format!("a sleeper is woken by {what}"));
    while !sleeper.is_woken() {
        awake.step();
        patience.spend();
    }
    sleeper.method.disarm();
}

/// A packet wakes its receiver, on either side, time and again.
pub fn a_packet_wakes<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    for round in 0..100 {
        pair.b.fall_asleep();
        assert!(pair.a.try_send(pair.to_b, &[round]));
        until_woken(&mut pair.a, &mut pair.b, "a packet");
        assert_eq!(pair.b_receives().1, [round]);
        pair.a.fall_asleep();
        assert!(pair.b.try_send(pair.to_a, &[round]));
        until_woken(&mut pair.b, &mut pair.a, "a packet");
        assert_eq!(pair.a_receives().1, [round]);
    }
}

/// The notify packet of a transfer wakes its receiver like any other packet.
pub fn a_notify_wakes<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::zeroed(100_000);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    for direction in [Direction::Get, Direction::Put] {
        let ours = Memory::zeroed(100_000);
        let list = List::simple(direction, &ours, region).notifying(b"landed");
        let mut patience = Patience::new("the notify packet wakes the sleeper");
        pair.a.try_transfer(pair.to_b, &list).expect("room");
        // The sleeper may have to help with the transfer first, and sleeps again in between.
        loop {
            pair.b.fall_asleep();
            if let Some((_, packet)) = pair.b.packet() {
                pair.b.method.disarm();
                assert_eq!(packet, b"landed");
                break;
            }
            until_woken(&mut pair.a, &mut pair.b, "a notify packet");
            patience.spend();
        }
        while pair.a.seen.done.pop_front().is_none() {
            pair.step();
            patience.spend();
        }
    }
}

/// A process that started a transfer and sleeps is woken by its completion.
pub fn a_completion_wakes<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::zeroed(3 << 20);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    for direction in [Direction::Get, Direction::Put] {
        let ours = Memory::zeroed(3 << 20);
        let list = List::simple(direction, &ours, region);
        pair.a.try_transfer(pair.to_b, &list).expect("room");
        let mut patience = Patience::new("the completion wakes the sleeper");
        loop {
            pair.a.fall_asleep();
            if pair.a.in_progress() == 0 {
                pair.a.method.disarm();
                break;
            }
            until_woken(&mut pair.b, &mut pair.a, "progress of a transfer");
            patience.spend();
        }
        assert_eq!(
            pair.a.seen.done.pop_front().map(|(_, result)| result),
            Some(Ok(()))
        );
    }
}

/// The departure of a peer wakes, on either side.
pub fn a_departure_wakes<F: Factory>(factory: &F) {
    let Pair { a, mut b, to_a, .. } = Pair::new(factory);
    b.fall_asleep();
    drop(a);
    asleep_until_down(&mut b, to_a);
    let Pair { mut a, b, to_b, .. } = Pair::new(factory);
    a.fall_asleep();
    drop(b);
    asleep_until_down(&mut a, to_b);
}

/// Sleeps, armed, again and again until `peer` is reported down.
pub(super) fn asleep_until_down<M: Method>(node: &mut Node<M>, peer: Peer) {
    let mut patience = Patience::new("the departure of a peer wakes the sleeper");
    loop {
        node.sleep_until_woken("the departure of a peer");
        node.fall_asleep();
        if node.down(peer).is_some() {
            node.method.disarm();
            return;
        }
        patience.spend();
    }
}

/// A new caller wakes a listener.
pub fn an_arrival_wakes<F: Factory>(factory: &F) {
    let (mut listener, address) = Node::listening(factory);
    for _ in 0..10 {
        let mut caller = Node::new(factory.method());
        let peer = caller.connect(&address);
        let mut patience = Patience::new("a caller wakes the listener");
        let mut sent = false;
        loop {
            listener.fall_asleep();
            if let Some((_, packet)) = listener.packet() {
                listener.method.disarm();
                assert_eq!(packet, b"hello");
                break;
            }
            sent = sent || caller.try_send(peer, b"hello");
            until_woken_or(&mut caller, &mut listener, &mut sent, peer);
            patience.spend();
        }
    }
}

/// As [`until_woken`], sending the first packet as soon as there is room for it.
fn until_woken_or<M: Method>(
    caller: &mut Node<M>,
    listener: &mut Node<M>,
    sent: &mut bool,
    peer: Peer,
) {
    let mut patience = Patience::new("a listener is woken by a caller");
    while !listener.is_woken() {
        caller.step();
        *sent = *sent || caller.try_send(peer, b"hello");
        patience.spend();
    }
    listener.method.disarm();
}

/// Arming while something waits to be polled for either refuses to sleep, or wakes at once.
pub fn arming_with_work_pending_does_not_sleep<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    for round in 0..200 {
        pair.settle();
        assert!(pair.a.try_send(pair.to_b, &[round]));
        // Let the packet reach the other side without polling there.
        for _ in 0..20 {
            pair.a.step();
        }
        if pair.b.method.arm(Instant::now()) {
            assert!(
                pair.b.wait_readable(GENEROUS),
                "round {round}: asleep beside a packet"
            );
        }
        pair.b.method.disarm();
        assert_eq!(pair.b_receives().1, [round]);
    }
}

/// Disarming without arming, twice, or after a poll; arming twice.
pub fn disarming_is_harmless<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    pair.b.method.disarm();
    pair.b.method.disarm();
    pair.still_works();
    pair.b.fall_asleep();
    pair.b.method.arm(Instant::now());
    pair.b.method.disarm();
    pair.b.method.disarm();
    pair.still_works();
    // Polling without disarming must not lose later wake-ups.
    pair.b.fall_asleep();
    pair.a_sends(b"while armed");
    assert_eq!(pair.b_receives().1, b"while armed");
    pair.b.method.disarm();
    pair.b.fall_asleep();
    assert!(pair.a.try_send(pair.to_b, b"asleep again"));
    until_woken(&mut pair.a, &mut pair.b, "a packet");
    assert_eq!(pair.b_receives().1, b"asleep again");
}

/// Instances that are connected but have nothing to send agree to sleep, and are not woken without a reason.
pub fn idle_methods_sleep<F: Factory>(factory: &F) {
    const NAP: Duration = Duration::from_millis(30);
    let mut pair = Pair::new(factory);
    let mut quiet_naps = 0;
    let mut patience = Patience::new("undisturbed naps");
    while quiet_naps < 5 {
        pair.settle();
        pair.a.fall_asleep();
        pair.b.fall_asleep();
        let woken = pair.a.wait_readable(NAP) | pair.b.wait_readable(NAP);
        quiet_naps += usize::from(!woken);
        pair.a.method.disarm();
        pair.b.method.disarm();
        patience.spend();
    }
    pair.still_works();
}

/// A sender whose send would have blocked, and that sleeps, is woken when there is room.
pub fn room_wakes_the_sender<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let packet = vec![1; 4096];
    let mut refusals = 0;
    while refusals < 100 {
        if !pair.a.try_send(pair.to_b, &packet) {
            refusals += 1;
            pair.a.step();
        }
    }
    pair.a.writable(pair.to_b);
    let mut patience = Patience::new("room wakes the sender");
    while !pair.a.writable(pair.to_b) {
        pair.a.fall_asleep();
        if pair.a.writable(pair.to_b) {
            pair.a.method.disarm();
            break;
        }
        until_woken(&mut pair.b, &mut pair.a, "room");
        pair.a.step();
        pair.b.seen.packets.clear();
        patience.spend();
    }
    let mut patience = Patience::new("room after it was announced");
    while !pair.a.try_send(pair.to_b, &packet) {
        pair.step();
        patience.spend();
    }
}

/// Thousands of rounds between two threads in which either side may fall asleep at any moment.
pub fn no_wake_up_is_lost_between_threads<F: Factory>(factory: &F)
where
    F::Method: Send,
{
    const ROUNDS: u64 = 5_000;
    let Pair {
        mut a,
        mut b,
        to_b,
        to_a,
        ..
    } = Pair::new(factory);
    let seed = seed(7);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sleeper = Sleeper::new(seed + 1);
            for round in 0..ROUNDS {
                assert_eq!(sleeper.next_packet(&mut b), round.to_le_bytes());
                while !b.try_send(to_a, &round.to_le_bytes()) {
                    b.step();
                }
            }
            sleeper.check();
        });
        let mut sleeper = Sleeper::new(seed);
        for round in 0..ROUNDS {
            while !a.try_send(to_b, &round.to_le_bytes()) {
                a.step();
            }
            assert_eq!(sleeper.next_packet(&mut a), round.to_le_bytes());
        }
        sleeper.check();
    });
}

/// Rests with a random mixture of polling and sleeping, and finds out whether it overslept.
pub(super) struct Sleeper {
    random: Random,
    spins: usize,
    naps: usize,
    overslept: usize,
}

impl Sleeper {
    /// Longer than any partner that is awake takes to reply on a loaded machine.
    const ALARM: Duration = GENEROUS;
    /// A packet may come in the very moment in which a nap ends by its own deadline; that this
    /// happens often is too unlikely.
    const MOST_COINCIDENCES: usize = 10;

    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            spins: 0,
            naps: 0,
            overslept: 0,
        }
    }

    /// The next packet of `node`, whose partner is awake.
    pub(super) fn next_packet<M: Method>(&mut self, node: &mut Node<M>) -> Vec<u8> {
        let alarm = Instant::now() + Self::ALARM;
        loop {
            if let Some((_, packet)) = node.packet() {
                return packet;
            }
            assert!(Instant::now() < alarm, "no packet within {:?}", Self::ALARM);
            if !node.step() {
                self.rest(node, alarm);
            }
        }
    }

    /// Lets a random number of calls pass, then sleeps until there is something to poll for, the
    /// method's deadline or `alarm`.
    pub(super) fn rest<M: Method>(&mut self, node: &mut Node<M>, alarm: Instant) {
        if self.spins > 0 {
            self.spins -= 1;
            return;
        }
        self.spins = self.random.spread(10);
        // In the method's own way, where it has one, half of the time.
        let parking = match self.random.one_in(2) {
            true => node
                .method
                .prepare_park(Instant::now(), &WakeFlag::default()),
            false => Parking::Unsupported,
        };
        match parking {
            Parking::Prepared(sleep) => self.nap(node, alarm, |node, until| {
                let limit = until.saturating_duration_since(Instant::now());
                let parker = node.method.parker().expect("it has prepared to park there");
                parker.park(sleep, Some(limit))
            }),
            Parking::Unsupported if node.method.arm(Instant::now()) => {
                self.nap(node, alarm, |node, until| {
                    node.wait_readable(until.saturating_duration_since(Instant::now()))
                })
            }
            Parking::Unsupported | Parking::Refused => node.method.disarm(),
        }
    }

    /// Sleeps once; an end of the nap by the clock that finds a packet counts as overslept.
    fn nap<M: Method>(
        &mut self,
        node: &mut Node<M>,
        alarm: Instant,
        sleep: impl FnOnce(&Node<M>, Instant) -> bool,
    ) {
        self.naps += 1;
        let until = node.method.deadline().map_or(alarm, |at| at.min(alarm));
        let woken = sleep(node, until);
        node.method.disarm();
        if woken {
            return;
        }
        node.method.tick(Instant::now(), &mut node.seen);
        node.method.poll(Instant::now(), &mut node.seen);
        if !node.seen.packets.is_empty() {
            self.overslept += 1;
            assert!(
                self.overslept <= Self::MOST_COINCIDENCES,
                "{} naps of {} ended by the clock beside a packet: wake-ups are lost",
                self.overslept,
                self.naps
            );
        }
    }

    /// Makes sure that there was some sleeping at all.
    pub(super) fn check(&self) {
        assert!(self.naps > 0, "the test never slept");
    }
}
