//! A network of datagrams in virtual time, with losses and other faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use causeway_transport::udp::Time;

use super::sabotage::Sabotage;
use crate::random::Random;

/// Faults and speed of the links. Chances are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams that vanish.
    pub loss: usize,
    /// Datagrams that arrive twice.
    pub duplication: usize,
    /// Datagrams that are altered: bits flipped, or cut off.
    pub corruption: usize,
    /// Datagrams that are overtaken by many others.
    pub reordering: usize,
    /// Datagrams that arrive after their sender has given them up.
    pub straying: usize,
    /// The way takes at least this.
    pub delay: Duration,
    /// And up to this much more.
    pub jitter: Duration,
    /// Bytes per millisecond.
    pub bandwidth: u64,
    /// Bytes that wait before a link; more are lost.
    pub queue_bytes: u64,
}

impl Faults {
    /// A network without any.
    pub fn none() -> Self {
        Self {
            loss: 0,
            duplication: 0,
            corruption: 0,
            reordering: 0,
            straying: 0,
            delay: Duration::from_micros(50),
            jitter: Duration::ZERO,
            bandwidth: 1_000_000,
            queue_bytes: u64::MAX,
        }
    }

    /// Some, mild or harsh.
    pub fn random(random: &mut Random, harsh: bool) -> Self {
        let most = if harsh { 300 } else { 60 };
        let mut chance = |most: usize| match random.below(3) {
            0 => 0,
            _ => random.below(most + 1),
        };
        Self {
            loss: chance(most),
            duplication: chance(most),
            corruption: chance(most / 2),
            reordering: chance(most),
            straying: chance(10),
            delay: Duration::from_micros(10 + random.spread(15) as u64),
            jitter: Duration::from_micros(random.spread(15) as u64),
            bandwidth: 1 << (7 + random.below(14)),
            queue_bytes: 20_000 << random.below(6),
        }
    }
}

/// An arrival at a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A datagram and where it comes from.
    Datagram(SocketAddr, Vec<u8>),
    /// The report that no socket is bound there, with the datagram.
    Unreachable(SocketAddr, Vec<u8>),
}

/// Fate of a datagram, in the log.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Fate {
    Sent = 1,
    Lost = 2,
    CutOff = 3,
    Overflowed = 4,
    Altered = 5,
    Doubled = 6,
    Delivered = 7,
    Unclaimed = 8,
}

/// A datagram or report on its way, ordered by when it arrives, then by when it was sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InTransit {
    at: Time,
    order: u64,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
    /// Whether it is the report that this datagram found no socket at `from`.
    returns: bool,
}

/// The state of a network.
pub struct Network {
    /// Virtual time.
    pub now: Time,
    /// What the links do now.
    pub faults: Faults,
    /// A weakness that is built in on purpose.
    pub sabotage: Option<Sabotage>,
    random: Random,
    in_transit: BinaryHeap<Reverse<InTransit>>,
    order: u64,
    /// Sockets and arrivals there.
    inboxes: BTreeMap<SocketAddr, VecDeque<Delivery>>,
    /// Which host an address is on: all ports of an IP address.
    cut: Vec<(SocketAddr, SocketAddr)>,
    busy_until: BTreeMap<(SocketAddr, SocketAddr), Time>,
    next_port: u16,
    log: Vec<u8>,
    datagrams: u64,
    epoch: Instant,
    never: Arc<OwnedFd>,
}

/// A network that several simulated processes share.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Network>>);

impl Shared {
    /// A network without faults at first; later faults follow from `seed`.
    ///
    /// # Panics
    /// If the system gives no eventfd.
    pub fn new(seed: u64) -> Self {
        let never = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        Self(Arc::new(Mutex::new(Network {
            now: Time::from_secs(1),
            faults: Faults::none(),
            sabotage: None,
            random: Random::new(seed),
            in_transit: BinaryHeap::new(),
            order: 0,
            inboxes: BTreeMap::new(),
            cut: Vec::new(),
            busy_until: BTreeMap::new(),
            next_port: 40_000,
            log: Vec::new(),
            datagrams: 0,
            epoch: Instant::now(),
            never: Arc::new(never.expect("an eventfd")),
        })))
    }

    /// The virtual time, as methods get it.
    pub fn instant(&self) -> Instant {
        let network = self.lock();
        network.epoch + network.now
    }

    /// The network itself, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Network> {
        match self.0.lock() {
            Ok(network) => network,
            // A failed check unwinds while nodes still exist.
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// The host of a node. Without a key, the method talks to loopback addresses only.
pub fn host(node: usize, keyed: bool) -> SocketAddr {
    let network = if keyed { 10 } else { 127 };
    SocketAddr::from(([network, 0, 0, node as u8 + 1], 0))
}

fn host_of(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), 0)
}

/// A fingerprint of a datagram, for the log.
fn fingerprint(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = bytes.len() as u64;
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    };
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    rest.iter().for_each(|&byte| mix(byte.into()));
    hash
}

impl Network {
    /// The instant that corresponds to virtual time 0.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// A descriptor on which nothing ever happens.
    pub fn never(&self) -> Arc<OwnedFd> {
        self.never.clone()
    }

    /// The log, byte for byte the same for the same seed.
    pub fn log(&self) -> &[u8] {
        &self.log
    }

    /// How many datagrams were sent.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    fn note(&mut self, fate: Fate, from: SocketAddr, to: SocketAddr, mark: u64) {
        self.log.push(fate as u8);
        self.log.extend((self.now.as_nanos() as u64).to_le_bytes());
        for address in [from, to] {
            if let SocketAddr::V4(v4) = address {
                self.log.push(v4.ip().octets()[3]);
            }
            self.log.extend(address.port().to_le_bytes());
        }
        self.log.extend(mark.to_le_bytes());
    }

    /// Binds a socket; port 0 gets a fresh one. `None` if it is taken.
    pub fn bind(&mut self, mut address: SocketAddr) -> Option<SocketAddr> {
        if address.port() == 0 {
            self.next_port += 1;
            address.set_port(self.next_port);
        }
        if self.inboxes.contains_key(&address) {
            return None;
        }
        self.inboxes.insert(address, VecDeque::new());
        Some(address)
    }

    /// Closes every socket of a host.
    pub fn crash(&mut self, host: SocketAddr) {
        self.inboxes.retain(|socket, _| host_of(*socket) != host);
    }

    /// Closes a socket and drops its arrivals.
    pub fn close(&mut self, address: SocketAddr) {
        self.inboxes.remove(&address);
    }

    /// Cuts the ways between two hosts, both of them.
    pub fn cut(&mut self, one: SocketAddr, other: SocketAddr) {
        self.cut.push((one, other));
        self.cut.push((other, one));
    }

    /// Mends all ways.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Takes the next arrival at a socket.
    pub fn take(&mut self, socket: SocketAddr) -> Option<Delivery> {
        self.inboxes.get_mut(&socket)?.pop_front()
    }

    /// The time of the next arrival.
    pub fn next_arrival(&self) -> Option<Time> {
        self.in_transit.peek().map(|Reverse(datagram)| datagram.at)
    }

    /// Sends a datagram from a socket, if that is still open.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if !self.inboxes.contains_key(&from) {
            return;
        }
        self.datagrams += 1;
        let mark = fingerprint(bytes);
        self.note(Fate::Sent, from, to, mark);
        let way = (host_of(from), host_of(to));
        if self.cut.contains(&way) {
            return self.note(Fate::CutOff, from, to, mark);
        }
        if self.chance(self.faults.loss) {
            return self.note(Fate::Lost, from, to, mark);
        }
        let Some(leaves_at) = self.pass_queue(way, bytes.len() as u64) else {
            return self.note(Fate::Overflowed, from, to, mark);
        };
        let mut bytes = bytes.to_vec();
        if let Some(sabotage) = self.sabotage {
            for extra in sabotage.tamper(&mut bytes) {
                self.launch(leaves_at, from, to, extra);
            }
        }
        if self.chance(self.faults.duplication) {
            self.note(Fate::Doubled, from, to, mark);
            self.launch(leaves_at, from, to, bytes.clone());
        }
        if self.chance(self.faults.corruption) {
            self.alter(&mut bytes);
            self.note(Fate::Altered, from, to, mark);
        }
        self.launch(leaves_at, from, to, bytes);
    }

    fn chance(&mut self, thousandths: usize) -> bool {
        thousandths > 0 && self.random.below(1000) < thousandths
    }

    /// When the last bit leaves the queue before the link; `None` if there is no room.
    fn pass_queue(&mut self, way: (SocketAddr, SocketAddr), bytes: u64) -> Option<Time> {
        let bandwidth = self.faults.bandwidth;
        let busy = self.busy_until.entry(way).or_default();
        let begins = self.now.max(*busy);
        let waiting_ns = (begins - self.now).as_nanos() as u64;
        let waiting_bytes = waiting_ns.saturating_mul(bandwidth) / 1_000_000;
        if waiting_bytes > self.faults.queue_bytes {
            return None;
        }
        *busy = begins + Duration::from_nanos(bytes * 1_000_000 / bandwidth);
        Some(*busy)
    }

    fn launch(&mut self, leaves_at: Time, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let jitter_ns = self.faults.jitter.as_nanos() as usize;
        let mut at = leaves_at + self.faults.delay;
        at += Duration::from_nanos(self.random.below(jitter_ns + 1) as u64);
        if self.chance(self.faults.reordering) {
            at += (self.faults.delay + self.faults.jitter) * (1 + self.random.below(4) as u32);
        }
        if self.chance(self.faults.straying) {
            at += Duration::from_millis(self.random.below(20_000) as u64);
        }
        self.fly(at, from, to, bytes, false);
    }

    fn fly(&mut self, at: Time, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>, returns: bool) {
        self.order += 1;
        self.in_transit.push(Reverse(InTransit {
            at,
            order: self.order,
            from,
            to,
            bytes,
            returns,
        }));
    }

    fn alter(&mut self, bytes: &mut Vec<u8>) {
        if self.random.one_in(4) {
            let len = self.random.below(bytes.len());
            return bytes.truncate(len);
        }
        for _ in 0..=self.random.below(3) {
            let at = self.random.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << self.random.below(8);
            }
        }
    }

    /// Moves time on to `at`, and delivers all arrivals until then.
    pub fn advance(&mut self, at: Time) {
        while self.next_arrival().is_some_and(|next| next <= at) {
            let Some(Reverse(datagram)) = self.in_transit.pop() else {
                break;
            };
            self.now = self.now.max(datagram.at);
            let InTransit {
                from,
                to,
                bytes,
                returns,
                ..
            } = datagram;
            let mark = fingerprint(&bytes);
            if let Some(inbox) = self.inboxes.get_mut(&to) {
                inbox.push_back(match returns {
                    false => Delivery::Datagram(from, bytes),
                    true => Delivery::Unreachable(from, bytes),
                });
                self.note(Fate::Delivered, from, to, mark);
            } else if !returns {
                // Its host reports that, on a way that loses as well.
                self.note(Fate::Unclaimed, from, to, mark);
                let cut = self.cut.contains(&(host_of(to), host_of(from)));
                if !cut && !self.chance(self.faults.loss) {
                    let at = self.now + self.faults.delay;
                    self.fly(at, to, from, bytes, true);
                }
            }
        }
        self.now = self.now.max(at);
    }
}
