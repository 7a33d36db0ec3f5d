//! Nodes that send packets and move memory at random over a simulated network, against the model.

use std::net::SocketAddr;
use std::time::Duration;

use causeway_sys::memory::Memory;
use causeway_transport::udp::{Time, Udp, UdpConfig};
use causeway_transport::{
    Access, Address, Direction, Method, Peer, Registration, SendError, Transfer,
};
use causeway_wire::region::RegionDescriptor;

use super::Outcome;
use super::datagram_io::SimulatedDatagramIo;
use super::model::{Model, NodeSink, pattern};
use super::network::{Faults, Shared, host};
use super::sabotage::Sabotage;
use crate::random::Random;

/// After the last fault all operations must complete within this time.
const REST: Duration = Duration::from_secs(120);

/// The most memory that a node may hold for all its peers.
const MOST_OWNED_BYTES: usize = 8 << 20;

/// Where every node listens.
const PORT: u16 = 7;

struct Node {
    udp: Udp<SimulatedDatagramIo>,
    life: u32,
    host: SocketAddr,
    acts_at: Time,
    sleeps_until: Time,
}

/// One run.
struct Run {
    network: Shared,
    random: Random,
    model: Model,
    nodes: Vec<Node>,
    config: UdpConfig,
    datagram_bytes: usize,
    harsh: bool,
}

/// Runs the nodes of one seed to their end.
///
/// # Panics
/// If a check fails.
pub fn run(seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let mut random = Random::new(seed);
    let harsh = random.below(3) > 0;
    let keyed = sabotage.is_none() && random.one_in(8);
    let network = Shared::new(random.next_u64());
    {
        let mut network = network.lock();
        network.faults = Faults::random(&mut random, harsh);
        network.sabotage = sabotage;
    }
    let seconds = Duration::from_secs;
    let config = UdpConfig {
        key: keyed.then(|| [9; 32].into()),
        // No peer may be given up without a fault, so the time must suffice for unlucky losses.
        connect_timeout: seconds(if harsh { 3 } else { 60 }),
        liveness_timeout: seconds(if harsh { 8 } else { 60 }),
        probe_interval: seconds(1),
        queue_bytes: 4096 << random.below(6),
        window_bytes: 65_536 << random.below(3),
        max_transfers: 1 + random.below(20),
        ..UdpConfig::default()
    };
    let mut run = Run {
        network,
        model: Model::new(!harsh),
        nodes: Vec::new(),
        config,
        datagram_bytes: 1200 + random.spread(13),
        harsh,
        random,
    };
    let count = 2 + run.random.below(2);
    for node in 0..count {
        let host = host(node, keyed);
        let fresh = run.start(host, 0);
        run.nodes.push(fresh);
    }
    run.live();
    run.rest();
    let network = run.network.clone();
    let progress = run.model.progress;
    run.model.check_memory();
    drop(run);
    let network = network.lock();
    Outcome {
        log: network.log().to_vec(),
        datagrams: network.datagrams(),
        packets: progress.0,
        transfers: progress.1,
    }
}

fn address_of(host: SocketAddr) -> Address {
    format!("udp://{}:{PORT}", host.ip())
        .parse()
        .expect("well-formed")
}

impl Run {
    fn start(&mut self, host: SocketAddr, life: u32) -> Node {
        let seed = self.random.next_u64();
        let io = SimulatedDatagramIo::new(&self.network, host, seed, self.datagram_bytes);
        let mut udp = Udp::over(io, self.config.clone());
        udp.listen(&address_of(host)).expect("the address is free");
        let now = self.network.lock().now;
        Node {
            udp,
            life,
            host,
            acts_at: now,
            sleeps_until: now,
        }
    }

    /// Nodes act, and accidents happen.
    fn live(&mut self) {
        let steps = 60 + self.random.below(140);
        let until = self.network.lock().now + Duration::from_secs(20);
        let mut acts = 0;
        while acts < steps && self.network.lock().now < until {
            acts += self.step(true);
            if self.harsh && self.random.one_in(60) {
                self.accident();
            }
        }
    }

    /// No faults any more: all operations complete in bounded time.
    fn rest(&mut self) {
        let until = {
            let mut network = self.network.lock();
            network.heal();
            network.faults = Faults::none();
            network.now + REST
        };
        for node in &mut self.nodes {
            node.sleeps_until = Time::ZERO;
        }
        while let Some(missing) = self.model.unfinished() {
            self.step(false);
            let now = self.network.lock().now;
            assert!(
                now < until,
                "after {REST:?} of rest there still are: {missing}"
            );
        }
    }

    /// Goes to the moment of the next event; returns how many nodes acted.
    fn step(&mut self, acting: bool) -> usize {
        let now = self.next_moment(acting);
        self.network.lock().advance(now);
        let mut acts = 0;
        for index in 0..self.nodes.len() {
            if self.nodes[index].sleeps_until > now {
                continue;
            }
            if acting && self.nodes[index].acts_at <= now {
                self.act(index);
                acts += 1;
                let pause = Duration::from_micros(self.random.spread(17) as u64);
                self.nodes[index].acts_at = now + pause;
            }
            self.poll(index);
        }
        acts
    }

    fn next_moment(&mut self, acting: bool) -> Time {
        let (now, epoch, arrival) = {
            let network = self.network.lock();
            (network.now, network.epoch(), network.next_arrival())
        };
        // Even if nothing is due, time goes on.
        let mut next = now + Duration::from_millis(500);
        next = arrival.map_or(next, |at| at.min(next));
        for node in &self.nodes {
            let timer = node.udp.deadline().map(|at| at.duration_since(epoch));
            let acts = acting.then_some(node.acts_at);
            for at in [timer, acts].into_iter().flatten() {
                next = next.min(at.max(node.sleeps_until));
            }
        }
        // Some time passes in any case, or a mistake would stop it.
        next.max(now + Duration::from_micros(1))
    }

    fn poll(&mut self, index: usize) {
        let now = self.network.instant();
        let node = &mut self.nodes[index];
        let (model, life) = (&mut self.model, node.life);
        let mut sink = NodeSink {
            model,
            node: index,
            life,
        };
        for _ in 0..64 {
            if !node.udp.poll(now, &mut sink) {
                break;
            }
        }
        let owned = node.udp.owned_bytes();
        assert!(owned < MOST_OWNED_BYTES, "node {index} holds {owned} bytes");
    }

    fn act(&mut self, index: usize) {
        match self.random.below(20) {
            0..11 => self.send_some(index),
            11..14 => self.offer(index),
            14..17 => self.transfer(index),
            17 => self.unexport(index),
            18 => {
                let nap = Duration::from_millis(self.random.spread(10) as u64);
                let now = self.network.lock().now;
                self.nodes[index].sleeps_until = now + nap;
            }
            _ if self.harsh && self.random.one_in(3) => self.disconnect(index),
            _ => {}
        }
    }

    /// A handle of a node, new or in use.
    fn some_peer(&mut self, index: usize) -> Peer {
        let life = self.nodes[index].life;
        let known = self.model.usable(index, life);
        if !known.is_empty() && !self.random.one_in(8) {
            return known[self.random.below(known.len())];
        }
        let target = (index + 1 + self.random.below(self.nodes.len() - 1)) % self.nodes.len();
        let address = address_of(self.nodes[target].host);
        let now = self.network.instant();
        let peer = self.nodes[index].udp.connect(now, &address);
        let peer = peer.expect("there are places");
        self.model.connected(index, life, peer, target);
        peer
    }

    fn send(&mut self, index: usize, peer: Peer, len: usize, offer: Option<u64>) -> bool {
        let now = self.network.instant();
        let node = &mut self.nodes[index];
        node.udp.set_time(now);
        let end = self.model.end(index, node.life, peer);
        let packet = self.model.packet(end, len, offer);
        let cut = self.random.below(packet.len() + 1);
        let (front, back) = packet.split_at(cut);
        match node.udp.send(peer, &[front, back]) {
            Ok(()) => {
                self.model.sent(end);
                true
            }
            Err(SendError::WouldBlock) => false,
            Err(error) => panic!("{end:?}: sending: {error}"),
        }
    }

    fn send_some(&mut self, index: usize) {
        let peer = self.some_peer(index);
        for _ in 0..1 + self.random.spread(4) {
            let len = self.random.spread(17);
            if !self.send(index, peer, len, None) {
                return;
            }
        }
    }

    fn offer(&mut self, index: usize) {
        let peer = self.some_peer(index);
        let number = self.model.number();
        let len = self.random.spread(15);
        let (whole, span) = Model::memory(number, len);
        let node = &mut self.nodes[index];
        let descriptor = node
            .udp
            .grant(peer, &span, Registration::NONE, Access::ReadWrite);
        let descriptor = descriptor.expect("the peer is known");
        let end = self.model.end(index, node.life, peer);
        self.model.exported(number, end, whole, descriptor);
        self.send(index, peer, 10, Some(number));
    }

    fn transfer(&mut self, index: usize) {
        let life = self.nodes[index].life;
        let Some(offer) = self.model.take_offer(index, life) else {
            return;
        };
        let peer = offer.from.peer;
        let end = self.model.end(index, life, peer);
        // Exports to an earlier incarnation are refused, as the model expects.
        if end != offer.from || !self.model.usable(index, life).contains(&peer) {
            return;
        }
        let len = offer.descriptor.len as usize;
        let (direction, local) = match self.random.below(2) {
            0 => (Direction::Get, Memory::zeroed(len)),
            _ => {
                let bytes = pattern(!offer.region, len);
                (Direction::Put, Memory::from_vec(bytes))
            }
        };
        let notify = match direction {
            Direction::Put => Some(self.model.notify(end, offer.region)),
            Direction::Get => None,
        };
        let token = self.model.number();
        let transfer = Transfer {
            direction,
            local: self.cut_memory(&local).into(),
            remote: self.cut_region(&offer.descriptor).into(),
            notify: notify.map(Into::into),
            registrations: Vec::new(),
            token,
        };
        let now = self.network.instant();
        let udp = &mut self.nodes[index].udp;
        udp.set_time(now);
        match udp.transfer(peer, transfer) {
            Ok(()) => self
                .model
                .began(end, token, direction, offer.region, &local),
            Err(SendError::WouldBlock) => {}
            Err(error) => panic!("{end:?}: a transfer: {error}"),
        }
    }

    fn cut_memory(&mut self, memory: &Memory) -> Vec<Memory> {
        let mut at = 0;
        let parts = self.random.cut(memory.len(), 5);
        let cut = parts.into_iter().map(|len| {
            at += len;
            memory.slice(at - len..at)
        });
        cut.collect()
    }

    fn cut_region(&mut self, region: &RegionDescriptor) -> Vec<RegionDescriptor> {
        let mut at = 0;
        let parts = self.random.cut(region.len as usize, 5);
        let cut = parts.into_iter().map(|len| {
            at += len as u64;
            region.part(at - len as u64, len as u64)
        });
        cut.collect()
    }

    fn unexport(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if let Some((peer, key)) = self.model.some_region(index, node.life) {
            node.udp.revoke(peer, key);
        }
    }

    fn disconnect(&mut self, index: usize) {
        let life = self.nodes[index].life;
        let known = self.model.usable(index, life);
        if known.is_empty() {
            return;
        }
        let peer = known[self.random.below(known.len())];
        let now = self.network.instant();
        let mut sink = NodeSink {
            model: &mut self.model,
            node: index,
            life,
        };
        self.nodes[index].udp.disconnect(now, peer, &mut sink);
        self.model.disconnected(index, life, peer);
    }

    /// A fault of the network, or of a node.
    fn accident(&mut self) {
        let index = self.random.below(self.nodes.len());
        match self.random.below(4) {
            0 => {
                let other = (index + 1) % self.nodes.len();
                let (one, other) = (self.nodes[index].host, self.nodes[other].host);
                self.network.lock().cut(one, other);
            }
            1 => self.network.lock().heal(),
            2 => {
                let faults = Faults::random(&mut self.random, true);
                self.network.lock().faults = faults;
            }
            _ => self.crash(index),
        }
    }

    fn crash(&mut self, index: usize) {
        let (host, life) = (self.nodes[index].host, self.nodes[index].life);
        self.network.lock().crash(host);
        self.model.crashed(index, life);
        // Its last packets reach no peer: its sockets are closed.
        drop(self.nodes.remove(index));
        let fresh = self.start(host, life + 1);
        self.nodes.insert(index, fresh);
    }
}
