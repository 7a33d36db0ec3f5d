//! Conversations of the engine, driven without methods, sockets or a clock: the seed decides what happens next.
//!
//! Nodes send each other messages of all sizes, and connect when they have something to send, often two nodes to each other
//! at the same time. They disconnect when they have nothing to send. Packets wait in channels with little room, transfers
//! happen some time after they were started, connections break, operations are cancelled. Each message carries its number and
//! bytes that follow from it, so that the right content of each receive is known. The method of a node may hold packets back,
//! but holds packets for a peer only while a send to this peer is incomplete.

mod connections;
mod messages;
mod plan;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_engine::conversations::{Conversations, Event, ToStart};
use causeway_engine::matcher::{ByTag, FromTag, Matcher};
use causeway_engine::types::{Completion, OpError, OpId, RendezvousPolicy};
use causeway_engine::{Access, CallerDecision, Direction, LinkLimits, Memory, Transmit, Tuning};
use causeway_transport::{Packet, PeerError, Transfer, TransferError};
use causeway_wire::bmi::{InstanceId, Introduction, Kind};
use causeway_wire::formats::Formats;
use causeway_wire::region::RegionDescriptor;

use self::connections::{Connection, End};
use self::messages::{InPieces, MOST, STAMP, content};
pub use self::plan::{Outcome, Plan};
use crate::random::Random;
use causeway_mpi::matching::{Mpi, MpiPattern};

/// Packets that a channel has room for.
const CHANNEL: usize = 4;
const LIMITS: LinkLimits = LinkLimits {
    max_packet: 4 << 10,
    eager_bytes: 1 << 10,
    mapped_eager_bytes: 1 << 10,
    max_list: 3,
    shares_copies: false,
    one_sided: true,
    holds_packets: true,
};
const TAGS: usize = 3;

/// How a matcher's patterns are made.
pub trait Patterns: Matcher {
    /// The messages of a tag of one peer, or of any if that is possible.
    fn pattern(peer: Option<u32>, tag: u64) -> Option<Self::Pattern>;
}

impl Patterns for ByTag {
    fn pattern(peer: Option<u32>, tag: u64) -> Option<FromTag> {
        peer.map(|peer| FromTag { peer, tag })
    }
}

impl Patterns for Mpi {
    fn pattern(source: Option<u32>, tag: u64) -> Option<MpiPattern> {
        Some(MpiPattern {
            context: 0,
            source,
            tag: Some(tag as u32),
        })
    }
}

struct Node<M> {
    all: Conversations<M>,
    queue: u32,
    exports: BTreeMap<u64, (Memory, Access)>,
    /// The number of the peer by node, and the other way round.
    peers: Vec<u32>,
    nodes: HashMap<u32, usize>,
    /// The connection of each peer, callers included, and which end of it is here.
    links: BTreeMap<u32, (u64, usize)>,
    /// The memory of receives, and the messages that may match, by user number.
    receives: BTreeMap<u64, Receive>,
    /// The messages that came from each node under each tag, by the receive that got them: in order of posting.
    got: BTreeMap<(usize, u64), BTreeMap<u64, u64>>,
    sent: u64,
    pending: Vec<OpId>,
}

struct Receive {
    memory: Memory,
    tag: u64,
    from: Option<usize>,
}

/// A transfer that a node has started.
struct Moving {
    connection: u64,
    node: usize,
    to: usize,
    transfer: Transfer,
}

struct World<M> {
    random: Random,
    nodes: Vec<Node<M>>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    moving: Vec<Moving>,
    next_key: u64,
    next_user: u64,
    now: Instant,
    outcome: Outcome,
    faults: bool,
    in_pieces: bool,
}

/// Runs a simulation.
///
/// # Panics
/// If a message arrives with other bytes, twice, or out of order, or if one is missing although there was no fault.
pub fn run<M: Patterns>(seed: u64, plan: Plan) -> Outcome {
    let mut world = World::<M>::new(seed, plan);
    for _ in 0..plan.steps {
        world.step();
    }
    world.finish();
    world.outcome
}

impl<M: Patterns> World<M> {
    fn new(seed: u64, plan: Plan) -> Self {
        let mut random = Random::new(seed);
        let policies = [
            RendezvousPolicy::Adaptive,
            RendezvousPolicy::Pull,
            RendezvousPolicy::Push,
        ];
        let nodes = (0..plan.nodes).map(|own| {
            let tuning = Tuning {
                eager_limit: 1 << 10,
                unexpected_limit: MOST,
                offers: true,
                announced_limit: causeway_wire::bmi::MAX_ANNOUNCED,
                policy: policies[random.below(3)],
                server: random.one_in(2),
            };
            let mut all = Conversations::new(tuning, 64 << 10);
            all.introduce_as(Introduction {
                id: InstanceId(random.below(1 << 30) as u128),
                addresses: vec![own.to_string()],
            });
            if plan.in_pieces {
                all.set_formats(Formats::IN_PARTS);
            }
            let others = (0..plan.nodes).map(|other| all.add(format!("{own} to {other}")));
            let peers: Vec<u32> = others.collect();
            let nodes = peers.iter().enumerate().map(|(node, peer)| (*peer, node));
            Node {
                queue: all.add_queue(),
                nodes: nodes.collect(),
                links: BTreeMap::new(),
                peers,
                all,
                exports: BTreeMap::new(),
                receives: BTreeMap::new(),
                got: BTreeMap::new(),
                sent: 0,
                pending: Vec::new(),
            }
        });
        Self {
            nodes: nodes.collect(),
            random,
            connections: BTreeMap::new(),
            next_connection: 1,
            moving: Vec::new(),
            next_key: 1,
            next_user: 1,
            now: Instant::now(),
            outcome: Outcome::default(),
            faults: plan.faults,
            in_pieces: plan.in_pieces,
        }
    }

    fn note(&mut self, what: &[u8]) {
        self.outcome.log.extend_from_slice(what);
    }

    fn step(&mut self) {
        let node = self.random.below(self.nodes.len());
        match self.random.below(16) {
            0..2 => self.send(node),
            2..4 => self.receive(node),
            4 if self.faults && self.random.one_in(4) => self.cancel(node),
            5 if self.faults && self.random.one_in(40) => self.break_connection(),
            5 if self.random.one_in(8) => self.leave(node),
            5 => self.nodes[node].all.make_offers(),
            6..9 => self.move_bytes(),
            9 if self.random.one_in(2) => self.flush(node),
            _ => self.deliver(),
        }
        self.settle();
    }

    /// A different node than this one.
    fn other(&mut self, node: usize) -> usize {
        (node + 1 + self.random.below(self.nodes.len() - 1)) % self.nodes.len()
    }

    fn send(&mut self, node: usize) {
        let to = self.other(node);
        self.connect(node, to);
        let tag = self.random.below(TAGS) as u64;
        let len = STAMP + self.random.spread(14).min(MOST - STAMP);
        let parts = 1 + self.random.below(3);
        let cuts = self.random.cut(len, parts);
        let in_pieces = self.is_in_pieces();
        let entry = &mut self.nodes[node];
        entry.sent += 1;
        let bytes = content(node, entry.sent, len);
        let mut rest = &bytes[..];
        let memory: Vec<Memory> = cuts
            .into_iter()
            .map(|len| {
                let (part, behind) = rest.split_at(len);
                rest = behind;
                Memory::from_vec(part.to_vec())
            })
            .collect();
        let caller = (entry.queue, 0);
        let peer = entry.peers[to];
        let op = match in_pieces {
            true => {
                let message = (Box::new(InPieces(Memory::from_vec(bytes))) as _, len as u64);
                entry.all.post_send_pieces(peer, message, tag, caller)
            }
            false => entry.all.post_send(peer, &memory, tag, caller, false),
        };
        entry.pending.push(entry.all.id(op));
    }

    fn is_in_pieces(&mut self) -> bool {
        self.in_pieces && self.random.one_in(2)
    }

    fn receive(&mut self, node: usize) {
        let other = self.other(node);
        self.connect(node, other);
        let tag = self.random.below(TAGS) as u64;
        let any = self.random.one_in(3);
        self.post_receive(node, other, tag, any);
    }

    fn post_receive(&mut self, node: usize, other: usize, tag: u64, any: bool) {
        let memory = Memory::zeroed(MOST);
        let in_pieces = self.is_in_pieces();
        let user = self.next_user;
        self.next_user += 1;
        let entry = &mut self.nodes[node];
        let peer = entry.peers[other];
        let wildcard = any.then(|| M::pattern(None, tag)).flatten();
        let from = wildcard.is_none().then_some(other);
        let named = || M::pattern(Some(peer), tag).expect("every matcher knows peers");
        let pattern = wildcard.unwrap_or_else(named);
        let receive = Receive {
            memory: memory.clone(),
            tag,
            from,
        };
        entry.receives.insert(user, receive);
        let caller = (entry.queue, user);
        let posted = match in_pieces {
            true => {
                let room = (Box::new(InPieces(memory)) as _, MOST as u64);
                entry.all.post_receive_pieces(pattern, room, caller)
            }
            false => entry.all.post_receive(pattern, &[memory], caller),
        };
        if entry.all.wants_time() {
            entry.all.begin_poll(self.now);
        }
        match posted {
            Ok(result) => self.received(node, user, result),
            Err(op) => entry.pending.push(entry.all.id(op)),
        }
    }

    fn cancel(&mut self, node: usize) {
        let entry = &mut self.nodes[node];
        let at = self.random.below(entry.pending.len());
        if !entry.pending.is_empty() {
            let op = entry.pending.swap_remove(at);
            entry.all.cancel(op);
        }
    }

    /// Delivers the next packet of one direction of a connection, or its end.
    fn deliver(&mut self) {
        let at = self.random.below(2 * self.connections.len());
        let Some((&number, connection)) = self.connections.iter_mut().nth(at / 2) else {
            return;
        };
        let side = at % 2;
        let [from, to] = connection
            .ends
            .get_disjoint_mut([side, 1 - side])
            .expect("both");
        if to.closed {
            from.sent.clear();
            return;
        }
        let node = to.node;
        let entry = &mut self.nodes[node];
        let peer = *to.peer.get_or_insert_with(|| {
            let peer = entry.all.add_caller(LIMITS);
            entry.nodes.insert(peer, from.node);
            entry.links.insert(peer, (number, 1 - side));
            peer
        });
        let Some(packet) = from.sent.pop_front() else {
            if from.closed {
                self.connections.remove(&number);
                self.fail_transfers(number);
                let entry = &mut self.nodes[node];
                entry.links.remove(&peer);
                entry.all.handle_lost(peer, PeerError::Closed);
            }
            return;
        };
        if entry.all.wants_time() {
            // Time passes only when the engine wants it, mostly by more than makes a node offer its receives.
            let late = !self.random.one_in(16);
            self.now += Duration::from_micros(if late { 30 } else { 1 });
            entry.all.begin_poll(self.now);
        }
        entry.all.handle_packet(peer, Packet::private(&packet));
        self.outcome.offers += usize::from(packet[0] == Kind::ReadyToReceive as u8);
        self.outcome.written += usize::from(packet[0] == Kind::SendComplete as u8);
        self.outcome.retracted += usize::from(packet[0] == Kind::Retract as u8);
        self.outcome.parts += usize::from(packet[0] == Kind::Part as u8);
        if from.sent.len() + from.held.len() <= CHANNEL / 2
            && let Some(peer) = from.peer.filter(|_| !from.closed)
        {
            self.nodes[from.node].all.handle_writable(peer);
        }
        self.note(&packet);
    }

    /// Does one transfer, or finds that its memory is closed.
    fn move_bytes(&mut self) {
        let at = self.random.below(self.moving.len());
        if self.moving.is_empty() {
            return;
        }
        let Moving {
            connection,
            node,
            to,
            transfer,
        } = self.moving.swap_remove(at);
        let result = self.nodes[to].copy(&transfer);
        if result.is_ok()
            && let Some(packet) = transfer.notify
        {
            let connection = self.connections.get_mut(&connection).expect("it exists");
            let end = connection.ends.iter_mut().find(|end| end.node == node);
            let end = end.expect("one of both");
            end.flush();
            end.sent.push_back(packet.into_vec());
        }
        let all = &mut self.nodes[node].all;
        all.handle_transfer_done(transfer.token, result);
    }

    /// Carries out the nodes' requests.
    fn settle(&mut self) {
        for node in 0..self.nodes.len() {
            while self.nodes[node].all.has_work() {
                while let Some(event) = self.nodes[node].all.poll_event() {
                    self.handle(node, event);
                }
                if let Some(peer) = self.nodes[node].all.poll_dirty() {
                    self.transmit(node, peer);
                }
            }
            self.complete_held(node);
            let queue = self.nodes[node].queue;
            while let Some(done) = self.nodes[node].all.take_completion(queue) {
                self.completed(node, done);
            }
        }
    }

    /// Makes a connection if there is none.
    fn connect(&mut self, node: usize, other: usize) {
        let entry = &mut self.nodes[node];
        let peer = entry.peers[other];
        if !entry.all.is_closed(peer) {
            return;
        }
        entry.all.open(peer, LIMITS);
        let number = self.next_connection;
        self.next_connection += 1;
        entry.links.insert(peer, (number, 0));
        let end = |node, peer| End {
            node,
            peer,
            sent: VecDeque::new(),
            held: VecDeque::new(),
            closed: false,
        };
        let ends = [end(node, Some(peer)), end(other, None)];
        self.connections.insert(number, Connection { ends });
    }

    /// A node closes the connection of a peer, if it has one.
    fn drop_link(&mut self, node: usize, peer: u32) {
        let Some((number, side)) = self.nodes[node].links.remove(&peer) else {
            return;
        };
        self.fail_transfers(number);
        let connection = self.connections.get_mut(&number).expect("it has an end");
        connection.ends[side].flush();
        connection.ends[side].closed = true;
        if connection.ends[1 - side].closed {
            self.connections.remove(&number);
        }
    }

    fn fail_transfers(&mut self, number: u64) {
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.moving)
            .into_iter()
            .partition(|moving| moving.connection == number);
        self.moving = stay;
        for moving in gone {
            let error = TransferError::Peer(PeerError::Disconnected);
            let all = &mut self.nodes[moving.node].all;
            all.handle_transfer_done(moving.transfer.token, Err(error));
        }
    }

    /// A node that has nothing to send to another one disconnects.
    fn leave(&mut self, node: usize) {
        let other = self.other(node);
        let entry = &mut self.nodes[node];
        let peer = entry.peers[other];
        if entry.all.is_up(peer) && entry.all.operations_of(peer).is_empty() {
            entry.all.leave(peer);
            self.outcome.partings += 1;
        }
    }

    /// Breaks a connection, which both ends notice at once.
    fn break_connection(&mut self) {
        let at = self.random.below(self.connections.len());
        let Some(&number) = self.connections.keys().nth(at) else {
            return;
        };
        self.fail_transfers(number);
        let connection = self.connections.remove(&number).expect("just found");
        for end in connection.ends.iter().filter(|end| !end.closed) {
            if let Some(peer) = end.peer {
                let entry = &mut self.nodes[end.node];
                entry.links.remove(&peer);
                entry.all.handle_lost(peer, PeerError::Disconnected);
            }
        }
    }

    /// The method of a node sends all held packets.
    fn flush(&mut self, node: usize) {
        let ends = self.connections.values_mut();
        let ends = ends.flat_map(|connection| &mut connection.ends);
        ends.filter(|end| end.node == node).for_each(End::flush);
    }

    fn complete_held(&mut self, node: usize) {
        let Node { all, links, .. } = &mut self.nodes[node];
        let holds = |(number, side): &(u64, usize)| {
            let connection = self.connections.get(number);
            connection.is_some_and(|connection| !connection.ends[*side].held.is_empty())
        };
        all.complete_held(|peer| links.get(&peer).is_some_and(holds));
        for (peer, link) in links.iter().filter(|(_, link)| holds(link)) {
            assert!(
                all.holds_send(*peer),
                "node {node} holds packets, and no send waits: {link:?}"
            );
        }
    }

    fn handle(&mut self, node: usize, event: Event) {
        let entry = &mut self.nodes[node];
        match event {
            Event::Export { peer, op } => self.export(node, peer, op),
            Event::Finish { peer, op, result } => {
                entry.end_exports(op);
                entry.all.complete_finished(peer, op, result);
            }
            Event::Rematch { peer, op } => {
                entry.end_exports(op);
                entry.all.rematch(peer, op);
            }
            Event::Lost { peer, cause } => {
                for op in entry.all.operations_of(peer) {
                    entry.end_exports(op);
                }
                let may_return = entry.peers.contains(&peer);
                entry.all.close(peer, cause, may_return);
            }
            Event::Introduced { peer } => self.introduced(node, peer),
            Event::MayLeave { peer } if !entry.all.is_up(peer) => {}
            Event::MayLeave { peer } => match entry.all.operations_of(peer).is_empty() {
                true => entry.all.agree_to_leave(peer),
                false => entry.all.stay(peer),
            },
            Event::MayClose { peer } if !entry.all.is_leaving(peer) => {}
            Event::MayClose { peer } => match entry.all.operations_of(peer).is_empty() {
                true => {
                    self.drop_link(node, peer);
                    self.nodes[node].all.reopen_later(peer);
                }
                false => entry.all.stay(peer),
            },
            Event::Left { peer } => {
                for op in entry.all.operations_of(peer) {
                    entry.end_exports(op);
                }
                let entry = &mut self.nodes[node];
                entry.all.reopen_later(peer);
                if !entry.all.operations_of(peer).is_empty() {
                    let other = entry.nodes[&peer];
                    self.connect(node, other);
                }
            }
            Event::ProtocolError { reason, .. } => {
                panic!("node {node} reports a protocol error: {reason}")
            }
            Event::Transfers => self.start_transfers(node),
            // No message is placed directly here, callers state their addresses, peers are known from the beginning, and
            // greetings may take as long as they take.
            Event::CancelPlacement { .. }
            | Event::Silent { .. }
            | Event::Called { .. }
            | Event::Release { .. }
            | Event::Stays { .. } => {}
        }
    }

    /// A caller has stated its address, which is that of a known peer.
    fn introduced(&mut self, node: usize, caller: u32) {
        let entry = &mut self.nodes[node];
        let Some(claim) = entry.all.claimed_addresses(caller).first() else {
            return;
        };
        let other: usize = claim.parse().expect("a node's number");
        let known = entry.peers[other];
        match entry.all.classify(caller, Some(known)) {
            Some(CallerDecision::Same) => {}
            Some(CallerDecision::Wait) | None => return,
            Some(CallerDecision::Distinct) => {
                // The introduction has waited for this node's connection, which the caller has closed since.
                let (number, side) = entry.links[&caller];
                let end = &self.connections[&number].ends[1 - side];
                assert!(end.closed, "node {node} has two connections with {other}");
                return;
            }
        }
        self.outcome.crossings += usize::from(self.nodes[node].links.contains_key(&known));
        self.drop_link(node, known);
        let entry = &mut self.nodes[node];
        entry.all.merge(known, caller);
        let link = entry.links.remove(&caller).expect("it has called");
        entry.links.insert(known, link);
        let connection = self.connections.get_mut(&link.0).expect("it exists");
        connection.ends[link.1].peer = Some(known);
    }

    fn export(&mut self, node: usize, peer: u32, op: u32) {
        let entry = &mut self.nodes[node];
        let Some((parts, access)) = entry.all.memory_to_export(peer, op) else {
            return;
        };
        let regions = parts.iter().map(|memory| {
            let key = self.next_key;
            self.next_key += 1;
            entry.exports.insert(key, (memory.clone(), access));
            RegionDescriptor {
                key,
                base: 0,
                len: memory.len() as u64,
                object: None,
            }
        });
        let regions = regions.collect();
        entry.all.handle_exported(peer, op, Ok(regions));
    }

    fn start_transfers(&mut self, node: usize) {
        let mut examined = 0;
        let entry = &mut self.nodes[node];
        while let Some(to_start) = entry.all.poll_transfer(&mut examined) {
            let ToStart {
                peer,
                op,
                transfer,
                behind,
            } = to_start;
            assert!(transfer.longest_list() <= LIMITS.max_list);
            let (to, connection) = (entry.nodes[&peer], entry.links[&peer].0);
            entry.all.transfer_started(peer, op, behind);
            self.moving.push(Moving {
                connection,
                node,
                to,
                transfer,
            });
        }
    }

    fn transmit(&mut self, node: usize, peer: u32) {
        let Some(&(number, side)) = self.nodes[node].links.get(&peer) else {
            return;
        };
        while let Some(what) = self.nodes[node].all.poll_transmit(peer) {
            let entry = &mut self.nodes[node];
            let packet = match &what {
                Transmit::Export { op } => {
                    self.export(node, peer, *op);
                    continue;
                }
                Transmit::Part { header, op, len } => {
                    let part = entry.all.part(*op, *len);
                    [&header.encode()[..], &part].concat()
                }
                Transmit::Control { .. } => entry.all.control_packet(peer).to_vec(),
                Transmit::Eager { header, op } => {
                    let mut packet = header.encode().to_vec();
                    let memory = entry.all.memory(*op).iter();
                    memory.for_each(|memory| packet.extend(memory.to_vec()));
                    packet
                }
            };
            assert!(
                packet.len() <= LIMITS.max_packet,
                "a packet that is too long"
            );
            let connection = self.connections.get_mut(&number).expect("it exists");
            let end = &mut connection.ends[side];
            if end.sent.len() + end.held.len() >= CHANNEL {
                entry.all.handle_blocked(peer);
                return;
            }
            // A driver has packets without a message leave soon, but they do not overtake others.
            let is_message = matches!(what, Transmit::Eager { .. });
            let holds = !end.held.is_empty() || is_message && self.random.one_in(10);
            match holds {
                true => end.held.push_back(packet),
                false => end.sent.push_back(packet),
            }
            self.outcome.held += usize::from(holds);
            entry.all.transmitted(peer, &what, holds);
        }
    }

    fn completed(&mut self, node: usize, done: Completion) {
        if done.user > 0 {
            return self.received(node, done.user, done.result);
        }
        match done.result {
            Ok(_) => {}
            Err(OpError::Cancelled | OpError::Withdrawn | OpError::Peer { .. }) if self.faults => {}
            // The receiver has cancelled, and that is known here only later.
            Err(OpError::Transfer(TransferError::Protection)) if self.faults => {}
            Err(error) => panic!("a send of node {node} failed: {error}"),
        }
    }

    fn received(&mut self, node: usize, user: u64, result: Result<u64, OpError>) {
        let entry = &mut self.nodes[node];
        let receive = entry.receives.remove(&user).expect("posted, and once");
        let len = match result {
            Ok(len) => len as usize,
            Err(OpError::Cancelled | OpError::Withdrawn | OpError::Peer { .. }) if self.faults => {
                return;
            }
            Err(error) => panic!("a receive of node {node} failed: {error}"),
        };
        let bytes = receive.memory.slice(0..len).to_vec();
        let stamp = |range: std::ops::Range<usize>| bytes[range].iter().rev();
        let number = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
        let from = stamp(0..4).fold(0, number) as usize;
        let which = stamp(4..STAMP).fold(0, number);
        assert_eq!(
            bytes,
            content(from, which, len),
            "message {which} of {from}"
        );
        assert!(receive.from.is_none_or(|only| only == from), "from {from}");
        let got = entry.got.entry((from, receive.tag)).or_default();
        let twice = got.values().any(|other| *other == which);
        assert!(!twice, "message {which} of {from} came twice");
        got.insert(user, which);
        self.outcome.received += 1;
        self.outcome.from_any += usize::from(receive.from.is_none());
        self.note(&which.to_le_bytes());
    }

    /// Receives got the messages of a node and a tag in the order in which they were posted. (With faults, one that
    /// was withdrawn makes room for a later one.)
    fn check_order(&self) {
        for (from, got) in self.nodes.iter().flat_map(|node| &node.got) {
            assert!(
                got.values().is_sorted(),
                "from node and tag {from:?}: {got:?}"
            );
        }
    }

    /// Each pair has one connection at most, and possibly one that is being closed.
    fn check_connections(&self) {
        let mut pairs = BTreeMap::<[usize; 2], usize>::new();
        for connection in self.connections.values() {
            let [a, b] = connection.ends.each_ref();
            if !a.closed && !b.closed {
                let pair = [a.node.min(b.node), a.node.max(b.node)];
                *pairs.entry(pair).or_default() += 1;
            }
        }
        assert!(pairs.values().all(|count| *count == 1), "{pairs:?}");
    }

    /// Processes all remaining events. Without faults every message is received then.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            let node = self.random.below(self.nodes.len());
            match self.random.below(3) {
                0 => self.move_bytes(),
                1 => self.flush(node),
                _ => self.deliver(),
            }
            self.settle();
        }
        if self.faults {
            return;
        }
        self.check_order();
        self.check_connections();
        // Receives for the remaining messages.
        let sent: usize = self.nodes.iter().map(|node| node.sent as usize).sum();
        let mut rounds = 0;
        while self.outcome.received < sent {
            rounds += 1;
            assert!(rounds < 100_000, "{} of {sent} came", self.outcome.received);
            let node = self.random.below(self.nodes.len());
            let other = self.other(node);
            let tag = self.random.below(TAGS) as u64;
            self.post_receive(node, other, tag, false);
            for _ in 0..8 {
                self.flush(node);
                self.flush(other);
                self.move_bytes();
                self.deliver();
                self.settle();
            }
        }
    }
}

impl<M: Matcher> Node<M> {
    fn end_exports(&mut self, op: u32) {
        for key in self.all.take_exports(op) {
            self.exports.remove(&key);
        }
    }

    /// Does a peer's transfer to or from memory of this node.
    fn copy(&self, transfer: &Transfer) -> Result<(), TransferError> {
        let mut theirs = Vec::new();
        for region in &transfer.remote {
            let Some((memory, access)) = self.exports.get(&region.key) else {
                return Err(TransferError::Protection);
            };
            assert!(access.allows(transfer.direction), "the wrong way");
            let start = region.base as usize;
            theirs.push(memory.slice(start..start + region.len as usize));
        }
        let (from, to) = match transfer.direction {
            Direction::Get => (&theirs[..], &transfer.local[..]),
            Direction::Put => (&transfer.local[..], &theirs[..]),
        };
        let bytes: Vec<u8> = from.iter().flat_map(Memory::to_vec).collect();
        let mut rest = &bytes[..];
        for memory in to {
            let (part, behind) = rest.split_at(memory.len());
            memory.write_at(0, part);
            rest = behind;
        }
        assert!(rest.is_empty(), "lists of different lengths");
        Ok(())
    }
}
