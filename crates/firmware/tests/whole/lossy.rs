//! Random programs on a wire that loses, doubles and reorders, against a small model of what virtual
//! interfaces mean: the n-th message that wants a receive descriptor takes the n-th one, whole, once.

use std::collections::VecDeque;

use causeway_firmware::{Reliability, Retransmission, Settings, ViId};
use causeway_wire::random::SplitMix64;
use causeway_wire::vi::{control, status};

use crate::designs::{LEVELS, designs, pattern};
use crate::world::host::Span;
use crate::world::{Faults, World, chance, level};

/// A message that consumes a receive descriptor at the peer.
struct Message {
    bytes: Vec<u8>,
    /// The status with which its receive completes.
    bits: u32,
    /// An RDMA write's place in the peer's memory.
    written: Option<Span>,
}

/// One direction of a connection.
struct Way {
    from: usize,
    vi: ViId,
    peer: ViId,
    reliability: Reliability,
    messages: Vec<Message>,
    receives: Vec<(u64, Span)>,
    sends: Vec<u64>,
    /// RDMA reads and writes without immediate data: descriptor, node and span that get the bytes, the bytes.
    moves: Vec<(u64, usize, Span, Vec<u8>)>,
}

const LONGEST: u64 = 9000;

impl Way {
    fn post_receive(&mut self, world: &mut World) {
        let node = &mut world.nodes[1 - self.from];
        let into = node.host.span(LONGEST as u32);
        let descriptor = node.receive(world.now, self.peer, &[into]);
        self.receives.push((descriptor, into));
    }

    fn post_send(&mut self, world: &mut World, random: &mut SplitMix64) {
        let seed = self.sends.len() as u32;
        let node = &mut world.nodes[self.from];
        let (descriptor, bytes, bits) = if chance(random, 30) {
            let bytes = pattern(random.below(65) as u32, seed);
            let inside = if bytes.is_empty() { 0 } else { status::PAYLOAD };
            (node.send_inside(world.now, self.vi, &bytes), bytes, inside)
        } else {
            let bytes = pattern(random.below(LONGEST) as u32, seed);
            let cut = random.below(bytes.len() as u64 + 1) as usize;
            let spans = [node.host.with(&bytes[..cut]), node.host.with(&bytes[cut..])];
            (node.send(world.now, self.vi, &spans), bytes, 0)
        };
        self.sends.push(descriptor);
        self.messages.push(Message {
            bytes,
            bits: bits | status::DONE | status::RECEIVE,
            written: None,
        });
    }

    fn post_write(&mut self, world: &mut World, random: &mut SplitMix64) {
        let bytes = pattern(random.below(LONGEST) as u32, 77);
        let to = world.nodes[1 - self.from].host.span(bytes.len() as u32);
        let remote = world.nodes[1 - self.from].host.segment(to);
        let node = &mut world.nodes[self.from];
        let from = node.host.with(&bytes);
        let immediate = chance(random, 50);
        let bits = if immediate { 1 | control::IMMEDIATE } else { 1 };
        let descriptor = node.rdma(world.now, self.vi, bits, &[remote], &[from]);
        self.sends.push(descriptor);
        if immediate {
            self.messages.push(Message {
                bytes,
                bits: status::DONE | status::REMOTE_RDMA_WRITE | status::IMMEDIATE,
                written: Some(to),
            });
        } else {
            self.moves.push((descriptor, 1 - self.from, to, bytes));
        }
    }

    fn post_read(&mut self, world: &mut World, random: &mut SplitMix64) {
        let bytes = pattern(random.below(LONGEST) as u32, 99);
        let peer = &mut world.nodes[1 - self.from];
        let from = peer.host.with(&bytes);
        let remote = peer.host.segment(from);
        let node = &mut world.nodes[self.from];
        let to = node.host.span(bytes.len() as u32);
        let descriptor = node.rdma(world.now, self.vi, 2, &[remote], &[to]);
        self.sends.push(descriptor);
        self.moves.push((descriptor, self.from, to, bytes));
    }

    fn post(&mut self, world: &mut World, random: &mut SplitMix64) {
        let reliable = self.reliability != Reliability::Unreliable;
        match random.below(10) {
            0..=3 => self.post_receive(world),
            4..=6 => self.post_send(world, random),
            7 | 8 if reliable => self.post_write(world, random),
            9 if reliable => self.post_read(world, random),
            _ => {}
        }
    }

    /// A receive for every message, so that nothing waits for ever.
    fn balance(&mut self, world: &mut World) {
        while self.receives.len() < self.messages.len() {
            self.post_receive(world);
        }
    }

    fn arrived(&self, world: &World, at: usize) -> (u32, Vec<u8>, Span) {
        let (descriptor, into) = self.receives[at];
        let node = &world.nodes[1 - self.from];
        let done = node.status(descriptor);
        let bytes = match done.bits & status::PAYLOAD {
            0 => node.host.read(into.address, done.length as usize),
            _ => node.host.read(descriptor + 32, done.length as usize),
        };
        (done.bits, bytes, into)
    }

    /// Every operation has completed as it must.
    fn check_reliable(&self, world: &World) {
        for &descriptor in &self.sends {
            let done = world.nodes[self.from].status(descriptor);
            assert_eq!(done.bits, status::DONE, "{:?}", self.reliability);
        }
        for (at, message) in self.messages.iter().enumerate() {
            let (bits, bytes, _) = self.arrived(world, at);
            assert_eq!(bits, message.bits, "message {at}");
            match message.written {
                None => assert_eq!(bytes, message.bytes, "message {at}"),
                Some(to) => {
                    let written = world.nodes[1 - self.from].host.contents(to);
                    assert_eq!(written, message.bytes, "message {at}");
                }
            }
        }
        for (_, at, to, bytes) in &self.moves {
            assert_eq!(world.nodes[*at].host.contents(*to), *bytes);
        }
        for &(descriptor, _) in &self.receives[self.messages.len()..] {
            assert_eq!(world.nodes[1 - self.from].status(descriptor).bits, 0);
        }
    }

    /// What arrived is part of what was sent, in order, each message whole.
    fn check_unreliable(&self, world: &World) {
        for &descriptor in &self.sends {
            assert_eq!(world.nodes[self.from].status(descriptor).bits, status::DONE);
        }
        let mut rest: VecDeque<_> = self.messages.iter().collect();
        for at in 0..self.receives.len() {
            let (bits, bytes, _) = self.arrived(world, at);
            if bits == 0 {
                let others = at + 1..self.receives.len();
                let mut others = others.map(|at| self.arrived(world, at).0);
                assert!(others.all(|bits| bits == 0), "completed out of order");
                return;
            }
            let found = std::iter::from_fn(|| rest.pop_front())
                .find(|message| message.bytes == bytes && message.bits == bits);
            assert!(found.is_some(), "receive {at} has bytes that were not sent");
        }
    }
}

fn play(name: &str, settings: &Settings, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut world = World::pair(settings);
    world.shuffled = true;
    world.random = SplitMix64::new(seed ^ 0x55);
    for node in &mut world.nodes {
        node.concurrent = chance(&mut random, 30);
    }
    let mut ways = Vec::new();
    for reliability in LEVELS {
        let (a, b) = world.connect(0, 1, level(reliability));
        for (from, vi, peer) in [(0, a, b), (1, b, a)] {
            ways.push(Way {
                from,
                vi,
                peer,
                reliability,
                messages: Vec::new(),
                receives: Vec::new(),
                sends: Vec::new(),
                moves: Vec::new(),
            });
        }
    }
    let bad = random.below(4) * 7;
    // Without reliability a doubled message would be received twice, a reordered one be mixed up.
    let levels_mixed = chance(&mut random, 50);
    world.faults = Faults {
        lost: bad,
        doubled: if levels_mixed { 0 } else { bad },
        reordered: if levels_mixed { 0 } else { 10 },
        ..Faults::default()
    };
    if !levels_mixed {
        ways.retain(|way| way.reliability != Reliability::Unreliable);
    }
    for _ in 0..60 {
        let way = random.below(ways.len() as u64) as usize;
        let way = &mut ways[way];
        if way.sends.len() < 24 && way.receives.len() < 24 {
            way.post(&mut world, &mut random);
        }
        for _ in 0..random.below(30) {
            world.step();
        }
    }
    for way in &mut ways {
        way.balance(&mut world);
    }
    world.rest();
    for way in &ways {
        match way.reliability {
            Reliability::Unreliable => way.check_unreliable(&world),
            _ => way.check_reliable(&world),
        }
    }
    for node in &world.nodes {
        assert_eq!(node.reports, [], "{name}");
        assert_eq!(node.firmware.ignored_inputs(), 0, "{name}");
    }
}

#[test]
fn virtual_interfaces_keep_their_meaning_on_any_wire() {
    for (number, (name, settings)) in designs().into_iter().enumerate() {
        for retransmission in [Retransmission::GoBack, Retransmission::Selective] {
            let mut settings = settings.clone();
            settings.reliable.retransmission = retransmission;
            settings.reliable.retries = 40;
            for round in 0..12 {
                let seed = (number as u64) << 8 | round;
                println!("{name}, {retransmission:?}, seed {seed}");
                play(name, &settings, seed);
            }
        }
    }
}
