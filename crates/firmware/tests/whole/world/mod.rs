//! Cards of bytes: host memory, card buffers, engines that finish when the test has them finish, a wire that
//! may lose, double and reorder. Everything that the program must not do to a card is an assertion here.

pub(crate) mod fuzz;
pub(crate) mod host;
pub(crate) mod node;

use std::collections::{BTreeMap, VecDeque};

use causeway_firmware::{
    Connection, Engine, NodeId, Processor, Reliability, Settings, Time, Turn, ViAttributes, ViId,
};

pub(crate) use host::Host;
pub(crate) use node::Node;

use causeway_wire::random::SplitMix64;

/// True in this percentage of all cases.
pub(crate) fn chance(random: &mut SplitMix64, percent: u64) -> bool {
    random.below(100) < percent
}

/// What the wire does to frames, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) reordered: u64,
    /// Of frames that the program knew of when they began to come in.
    pub(crate) broken: u64,
}

/// A frame on the wire.
#[derive(Debug, Clone)]
pub(crate) struct WireFrame {
    pub(crate) to: u32,
    pub(crate) header: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Cards and the wire between them.
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Time,
    pub(crate) wire: VecDeque<WireFrame>,
    pub(crate) faults: Faults,
    pub(crate) random: SplitMix64,
    /// Whether events happen in random order, or the oldest first.
    pub(crate) shuffled: bool,
    keys: u32,
    /// Key of the latest connection of each virtual interface of the first node.
    key_of: BTreeMap<u32, u32>,
}

/// The longest time that a world may take to become idle.
const MOST_STEPS: u64 = 2_000_000;
const NS: Time = 1000;

impl World {
    pub(crate) fn new(settings: &[Settings]) -> Self {
        Self::with_memory(settings, host::BYTES)
    }

    /// Cards in nodes whose processes have this number of bytes.
    pub(crate) fn with_memory(settings: &[Settings], bytes: usize) -> Self {
        let nodes = settings.iter().enumerate();
        Self {
            nodes: nodes
                .map(|(number, settings)| {
                    let mut settings = settings.clone();
                    settings.node = NodeId(number as u32);
                    Node::with_memory(settings, bytes)
                })
                .collect(),
            now: 0,
            wire: VecDeque::new(),
            faults: Faults::default(),
            random: SplitMix64::new(1),
            shuffled: false,
            keys: 0,
            key_of: BTreeMap::new(),
        }
    }

    /// Two cards of a kind.
    pub(crate) fn pair(settings: &Settings) -> Self {
        Self::new(&[settings.clone(), settings.clone()])
    }

    /// A connection between virtual interfaces made for it, one on each card.
    pub(crate) fn connect(&mut self, a: usize, b: usize, attributes: ViAttributes) -> (ViId, ViId) {
        let first = self.nodes[a].create_vi(attributes);
        let second = self.nodes[b].create_vi(attributes);
        self.join((a, first), (b, second));
        (first, second)
    }

    pub(crate) fn join(&mut self, (a, first): (usize, ViId), (b, second): (usize, ViId)) {
        self.keys += 1;
        let key = self.keys;
        if a == 0 {
            self.key_of.insert(first.0, key);
        }
        if b == 0 {
            self.key_of.insert(second.0, key);
        }
        for (at, vi, peer, peer_vi) in [(a, first, b, second), (b, second, a, first)] {
            let connection = Connection {
                node: NodeId(peer as u32),
                vi: peer_vi,
                key,
            };
            let node = &mut self.nodes[at];
            node.firmware.connect(vi, connection).expect("it is idle");
            node.wake();
        }
    }

    /// Connects to a peer that does not exist: virtual interface 9 of node 5.
    pub(crate) fn meet(&mut self, vi: ViId) {
        let connection = Connection {
            node: NodeId(5),
            vi: ViId(9),
            key: self.keys + 1,
        };
        if self.nodes[0].firmware.connect(vi, connection).is_ok() {
            self.keys += 1;
            self.key_of.insert(vi.0, self.keys);
        }
        self.nodes[0].wake();
    }

    /// Key of this virtual interface's connection, on the first node.
    pub(crate) fn key_of(&self, vi: ViId) -> u32 {
        self.key_of.get(&vi.0).copied().unwrap_or(0)
    }

    /// Connects two virtual interfaces of the first node, unless one is not idle.
    pub(crate) fn join_if_idle(&mut self, a: ViId, b: ViId) {
        self.keys += 1;
        for (vi, peer) in [(a, b), (b, a)] {
            let connection = Connection {
                node: NodeId(0),
                vi: peer,
                key: self.keys,
            };
            if self.nodes[0].firmware.connect(vi, connection).is_ok() {
                self.key_of.insert(vi.0, self.keys);
            }
        }
        self.nodes[0].wake();
    }

    /// Processes one event; false if there is none but deadlines.
    pub(crate) fn step(&mut self) -> bool {
        let mut possible = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            for (processor, &due) in node.due.iter().enumerate() {
                if due {
                    possible.push((0, at, processor));
                }
            }
            for engine in 0..2 {
                let waits = match engine {
                    0 => node.next(self.now + NS, Engine::Host).is_none(),
                    _ => node.send_waits(),
                };
                if !waits && !node.running[engine].is_empty() {
                    possible.push((1, at, engine));
                }
            }
            if node.may_begin_frame() {
                possible.push((4, at, 0));
            }
            if !node.posted.is_empty() && !node.inbox.is_empty() {
                possible.push((2, at, 0));
            }
        }
        if !self.wire.is_empty() {
            possible.push((3, 0, 0));
        }
        if possible.is_empty() {
            return false;
        }
        let pick = match self.shuffled {
            true => self.random.below(possible.len() as u64) as usize,
            false => 0,
        };
        self.now += NS;
        let (what, at, which) = possible[pick];
        match what {
            0 => self.turn(at, which),
            1 => self.finish(at, which),
            2 if self.nodes[at].coming().is_some()
                && chance(&mut self.random, self.faults.broken) =>
            {
                self.nodes[at].break_frame(self.now);
            }
            2 => self.nodes[at].take_frame(self.now),
            4 => self.nodes[at].begin_frame(self.now),
            _ => self.carry(),
        }
        true
    }

    /// The host DMA engine of a node finishes a transfer, if it has one that waits for nothing.
    pub(crate) fn finish_host(&mut self, at: usize) {
        self.now += NS;
        self.finish(at, 0);
    }

    /// The first processor of a node does one step.
    pub(crate) fn turn_of(&mut self, at: usize) {
        self.turn(at, 0);
    }

    fn turn(&mut self, at: usize, which: usize) {
        let processor = [Processor::First, Processor::Second][which];
        let node = &mut self.nodes[at];
        node.due[which] = false;
        node.waits_for[which] = None;
        match node.turn(self.now, processor) {
            Turn::Worked => node.due[which] = true,
            Turn::Waiting(engine) => node.waits_for[which] = Some(engine),
            Turn::Polling { ahead } => {
                node.polled(self.now, processor, ahead);
                node.due[which] = true;
            }
            Turn::Idle => {}
        }
    }

    fn finish(&mut self, at: usize, engine: usize) {
        let sent = self.nodes[at].finish(self.now, [Engine::Host, Engine::NetSend][engine]);
        self.wire.extend(sent);
    }

    /// The wire carries a frame, or does not.
    fn carry(&mut self) {
        let at = match chance(&mut self.random, self.faults.reordered) {
            true => self.random.below(self.wire.len() as u64) as usize,
            false => 0,
        };
        let Some(frame) = self.wire.remove(at) else {
            return;
        };
        if chance(&mut self.random, self.faults.lost) {
            return;
        }
        if chance(&mut self.random, self.faults.doubled) {
            self.wire.push_back(frame.clone());
        }
        if let Some(node) = self.nodes.get_mut(frame.to as usize) {
            node.inbox.push_back(frame);
        }
    }

    /// Runs until no event is left at the present time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..MOST_STEPS {
            if !self.step() {
                return;
            }
        }
        panic!("the world does not become idle");
    }

    /// Runs until no event is left, deadlines included, or `until` is true.
    pub(crate) fn run(&mut self, mut until: impl FnMut(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if until(self) {
                return;
            }
            if self.step() {
                continue;
            }
            let deadlines = self
                .nodes
                .iter()
                .filter_map(|node| node.firmware.deadline());
            let Some(deadline) = deadlines.min() else {
                return;
            };
            self.now = self.now.max(deadline);
            for node in &mut self.nodes {
                node.wake();
            }
        }
        panic!("the world does not become idle");
    }

    /// All deadlines included.
    pub(crate) fn rest(&mut self) {
        self.run(|_| false);
    }
}

/// Attributes of this level, everything allowed.
pub(crate) fn level(reliability: Reliability) -> ViAttributes {
    ViAttributes {
        tag: host::TAG,
        reliability,
        rdma_write: true,
        rdma_read: true,
        ..ViAttributes::default()
    }
}
