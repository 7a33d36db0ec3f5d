//! Shared memory between processes of one user on one host.
//!
//! Each pair of processes shares one memory file: a ring of cache lines for each direction (`ring`) and a table of exported regions
//! for each side (`regions`). Each process shares one page, its `doorbell`, with all its peers. A Unix socket between the two, over
//! which both were passed (`handshake`), stays open: its end reports the peer's death, descriptors of mappable memory are sent over it
//! (`objects`), and a record on it wakes a sleeper. A process that sleeps only on its doorbell has a thread that polls the sockets
//! meanwhile (`relay`). Large transfers are copied once, straight between the two address spaces (`transfer`), or through a shared
//! area where that is refused (`bulk`). If both processes wait for such a transfer, each copies a part of it (`split_copy`); the
//! process that has the bytes may send its part through its ring instead (`pieces`).
//!
//! Reading order: `ring`, `doorbell`, `memory`, `relay`, `regions`, `quarantine`, `intervals`, `pair`, `handshake`, `proof`,
//! `progress`, `pausing`, `transfer`, `copying`, `costs`, `claim`, `split_copy`, `split_initiator`, `pieces`, `bulk`, `atomics`, `objects`;
//! `causeway_wire::shm` and `docs/formats/shm.md` define the bytes. `model.rs` explores the interleavings of the queue and the
//! doorbell, `model_claim.rs` those of split copies, `model_regions.rs` those of ending an export during a read, `model_wake.rs` those
//! of a wait's end, `model_parked.rs` those of a sleep while another thread uses the instance.
//!
//! Memory that a peer maps ([`Method::map`]) stays accessible to that peer until it drops the mapping: unlike a transfer, a mapping is
//! not ended by [`Method::revoke`]. The owner reuses such a buffer after the peer's reply or death, not before.

mod atomics;
mod bulk;
mod claim;
mod copying;
mod costs;
mod doorbell;
mod eager;
mod handshake;
mod intervals;
mod memory;
mod node_handshake;
mod nodes;
mod objects;
mod pace;
mod packet_copy;
mod pair;
pub(crate) mod paths;
mod pausing;
mod peers;
mod pieces;
mod progress;
mod proof;
mod quarantine;
mod regions;
mod relay;
mod ring;
mod sender_fences;
mod split_copy;
mod split_initiator;
mod transfer;

#[cfg(all(loom, test))]
mod model;
#[cfg(all(loom, test))]
mod model_claim;
#[cfg(all(loom, test))]
mod model_parked;
#[cfg(all(loom, test))]
mod model_regions;
#[cfg(all(loom, test))]
mod model_wake;
#[cfg(all(not(loom), test))]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_sys::blocks::Target;
use causeway_sys::epoll::{Epoll, Ready};
use causeway_sys::fork::Owner;
use causeway_sys::mapping::Mapping;
use causeway_sys::memory::{Memory, MemoryWatch};
use causeway_sys::secret::Secret;
use causeway_sys::socket::RecordListener;
use causeway_sys::{membarrier, memfd, random};
use causeway_wire::codec::Wire;
use causeway_wire::random::SplitMix64;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::shm::{PairLayout, Record, doorbell as bell_format};

use crate::address::Address;
use crate::clock::Clock;
use crate::error::{Error, PeerError, SendError};
use crate::half_open::LogLimit;
use crate::method::{
    Access, Atomic, Capabilities, Identity, Limits, Method, Peer, PeerReport, Readiness,
    Registration, Sharing, Sink, Transfer,
};
use crate::nodes::{Certificate, Nodes, NodesVersion};
use crate::wake::{Park, Parking, WakeFlag};
use doorbell::SleepOn;
use handshake::{HalfOpen, LISTENER_KEY};
use intervals::{QUARANTINE_INTERVAL, RETRY_INTERVAL};
use memory::{Bell, HeadAndBody, HeadAndFill, Parts};
use pair::{Attach, Own, Pair, Stage};
use paths::{SCHEME, address_of, canonical, path_of};
use peers::{Entry, Link, Peers};
use quarantine::Quarantine;
use relay::Relaying;
use sender_fences::SenderFences;

/// Settings of the method.
#[derive(Debug, Clone)]
pub struct ShmConfig {
    /// The cluster's key. Both sides of a connection hold the same, or neither holds one.
    pub key: Option<Secret>,
    /// With a key: both sides of a connection prove which node they are, or it is not made.
    pub nodes: Option<Nodes>,
    /// How long the handshake between two processes may take.
    pub connect_timeout: Duration,
    /// Whether large transfers may access the other process's memory directly.
    pub attach: AttachPolicy,
    /// Bytes of each ring: a power of two from 16 KiB to 1 MiB. A packet may have a quarter of it. Streams need 256 KiB
    /// for full speed; only the used part takes memory, which is 32 KiB while each packet is replied to.
    pub ring_bytes: usize,
}

/// Whether large transfers may access the other process's memory directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachPolicy {
    /// Where the kernel permits it, which is determined for each peer.
    Auto,
    /// Never: the owner copies through a shared area.
    Off,
}

impl Default for ShmConfig {
    fn default() -> Self {
        Self {
            key: None,
            nodes: None,
            connect_timeout: Duration::from_secs(5),
            attach: AttachPolicy::Auto,
            ring_bytes: 256 << 10,
        }
    }
}

/// Regions that one process may export to one peer at once. Unused entries take no memory.
const REGION_SLOTS: usize = 8192;

/// The shared-memory method.
pub struct Shm {
    config: ShmConfig,
    layout: PairLayout,
    /// See [`eager`].
    eager_bytes: usize,
    own: Own,
    incarnation: u64,
    /// Peers read this to find out whether they can access this process's memory.
    probe: Box<u64>,
    bell_file: OwnedFd,
    bell: Bell,
    epoll: Epoll,
    listener: Option<RecordListener>,
    /// See [`handshake::no_descriptor_record`].
    no_descriptor_record: Vec<u8>,
    shortage_log: LogLimit<Instant>,
    /// Until when the listener is not polled.
    paused_until: Option<Instant>,
    half_open: Vec<HalfOpen>,
    next_half_open: u64,
    peers: Peers,
    by_address: HashMap<Address, Peer>,
    /// Rings that are polled, by peer index.
    polled: Vec<u32>,
    /// Rings that stop being polled, empty between calls: its memory is kept, so that sleeps allocate nothing.
    stopping: Vec<u32>,
    /// How many packets were taken, one in each poll, from the first ring in `polled` since it
    /// became the first.
    taken_in_turn: usize,
    /// Peers whose transfers have something to do.
    busy: VecDeque<Peer>,
    /// Peers that have yet to finish their part of a transfer.
    watched: Vec<Peer>,
    /// Peers to which something is exported, and which this process may help.
    grantees: Vec<Peer>,
    sharing: Sharing,
    /// A part of a transfer was copied since the last call of [`Method::take_moved`].
    copied: bool,
    /// Peers whose connection is being made.
    pending: Vec<Peer>,
    /// Peers whose connection is about to be closed.
    failed: Vec<Peer>,
    polls: u64,
    /// Looks at polled rings, one for each ring and poll.
    looks: u64,
    relay: Relaying,
    /// The sleep that was announced on the doorbell, or 0.
    announced: u64,
    /// How often this process has slept, or tried to, and in which poll last.
    sleeps: u64,
    slept_at: u64,
    sender_fences: SenderFences,
    /// The next poll has to poll the sockets.
    attention: bool,
    /// Source of keys and object numbers, which neither repeat nor are hit by accident.
    numbers: SplitMix64,
    /// Objects that were allocated here, to notify peers when they are freed.
    objects: Vec<(u64, MemoryWatch)>,
    quarantine: Quarantine,
    nodes_version: NodesVersion,
    clock: Clock,
    ready: Vec<Ready>,
    rung: Vec<u32>,
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::System { what, source }
}

impl Shm {
    /// A new instance. Each peer takes three open files, whose number is limited for each process; see [`causeway_sys::limits`].
    pub fn new(config: ShmConfig) -> Result<Self, Error> {
        config.check()?;
        let layout =
            PairLayout::new(config.ring_bytes, REGION_SLOTS).map_err(|error| Error::System {
                what: "the configuration of shared memory".to_owned(),
                source: io::Error::new(io::ErrorKind::InvalidInput, error),
            })?;
        let bell_file = memfd::create_fixed("causeway-doorbell", bell_format::BYTES)
            .map_err(system("creating the doorbell page"))?;
        let bell = Mapping::new(&bell_file, bell_format::BYTES)
            .map_err(system("mapping the doorbell page"))?;
        let seed = random::bytes().map_err(system("asking for randomness"))?;
        let mut numbers = SplitMix64::new(u64::from_ne_bytes(seed));
        Ok(Self {
            own: Own {
                uid: rustix::process::geteuid().as_raw(),
                membarrier: membarrier::register(),
                attach: config.attach == AttachPolicy::Auto,
                process: Owner::this_process().map_err(system("preparing for forks"))?,
            },
            eager_bytes: eager::limit_for(config.attach == AttachPolicy::Auto, layout.max_packet()),
            config,
            layout,
            incarnation: numbers.number(),
            probe: Box::new(numbers.number()),
            bell_file,
            bell: Bell::new(bell),
            epoll: Epoll::new().map_err(system("creating an epoll set"))?,
            listener: None,
            no_descriptor_record: handshake::no_descriptor_record(),
            shortage_log: LogLimit::default(),
            paused_until: None,
            half_open: Vec::new(),
            next_half_open: 0,
            peers: Peers::default(),
            by_address: HashMap::new(),
            polled: Vec::new(),
            stopping: Vec::new(),
            taken_in_turn: 0,
            busy: VecDeque::new(),
            watched: Vec::new(),
            grantees: Vec::new(),
            sharing: Sharing::default(),
            copied: false,
            pending: Vec::new(),
            failed: Vec::new(),
            polls: 0,
            looks: 0,
            relay: Relaying::default(),
            announced: 0,
            sleeps: 0,
            slept_at: 0,
            sender_fences: SenderFences::default(),
            attention: false,
            numbers,
            objects: Vec::new(),
            quarantine: Quarantine::default(),
            nodes_version: NodesVersion::default(),
            clock: Clock::default(),
            ready: Vec::new(),
            rung: Vec::new(),
        })
    }

    #[inline]
    fn send_parts(&mut self, peer: Peer, parts: &impl Parts) -> Result<(), SendError> {
        let pair = match self.peers.get_mut(peer).and_then(Entry::pair) {
            Some(pair) => pair,
            None => self.pair_for_send(peer)?,
        };
        // The result is matched in place. Copying it would use a load that is wider than the store it reads from:
        // such a load waits until all earlier stores have reached the cache, among them those of the packet, which
        // still wait for its lines.
        match pair.send(parts) {
            Ok(()) if pair.failing.is_none() => Ok(()),
            sent => {
                self.mark_failed_if_failing(peer);
                sent
            }
        }
    }

    /// The live connection of a peer. Makes one if the peer has none and may have one.
    fn pair_for_send(&mut self, peer: Peer) -> Result<&mut Pair, SendError> {
        let Some(entry) = self.peers.get(peer) else {
            return Err(SendError::Gone(PeerError::Disconnected));
        };
        match &entry.link {
            Link::Live(_) => {}
            Link::Gone(cause) => return Err(SendError::Gone(cause.clone())),
            Link::Failed(_) => return Err(SendError::WouldBlock),
            Link::Idle => self.open(peer),
        }
        // If the connection could not be made, the next poll reports that the peer is down.
        self.peers
            .get_mut(peer)
            .and_then(|entry| entry.pair())
            .ok_or(SendError::WouldBlock)
    }

    /// The sockets to all peers.
    #[cfg(all(test, not(loom)))]
    fn sockets(&mut self) -> Vec<Arc<causeway_sys::socket::RecordSocket>> {
        let pairs = self.peers.iter_mut().filter_map(Entry::pair);
        pairs.filter_map(|pair| pair.socket.clone()).collect()
    }
}

impl Method for Shm {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet: self.layout.max_packet(),
            max_piece: transfer::MAX_PIECE,
            max_list: usize::MAX,
            eager_bytes: self.eager_bytes,
            mapped_eager_bytes: self.eager_bytes.min(eager::MAPPED_BYTES),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            one_sided: self.own.attach,
            per_peer_protection: true,
            remote_atomics: true,
            needs_local_registration: false,
            reports_peer_exit: true,
            identifies_nodes: self.config.nodes.is_some(),
            maps_memory: true,
            holds_packets: false,
            exact_time: false,
        }
    }

    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        if self.listener.is_some() {
            return Err(Error::Limit {
                what: "shared-memory addresses of one instance",
                limit: 1,
            });
        }
        let path = path_of(address)?;
        let own = address_of(&path)?;
        let what = format!("listening at {own}");
        let listener = RecordListener::bind(&path).map_err(system(what.clone()))?;
        self.epoll
            .add(&listener, LISTENER_KEY)
            .map_err(system(what))?;
        self.listener = Some(listener);
        Ok(own)
    }

    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        self.clock.advance(now);
        let address = canonical(address)?;
        if let Some(peer) = self.by_address.get(&address) {
            return Ok(*peer);
        }
        let peer = self
            .peers
            .add(address.clone(), true, Link::Idle)
            .ok_or(Error::Limit {
                what: "peers of one shared-memory instance",
                limit: bell_format::MAX_PEERS as usize,
            })?;
        self.by_address.insert(address, peer);
        Ok(peer)
    }

    fn set_time(&mut self, now: Instant) {
        self.clock.advance(now);
    }

    fn address(&self, peer: Peer) -> Option<Address> {
        Some(self.peers.get(peer)?.address.clone())
    }

    /// Confirms an address that is a socket of the same user as the peer's, as reported by the kernel.
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let Some(Identity::Local { uid, .. }) = self.identity(peer) else {
            return None;
        };
        // The path as the peer resolves it: a relative one would mean another file here.
        let path = Path::new(claimed.rest());
        if claimed.scheme() != SCHEME || !path.is_absolute() {
            return None;
        }
        let address = canonical(claimed).ok()?;
        if !self.may_listen_at(peer, &address) {
            return None;
        }
        let file = std::fs::symlink_metadata(path).ok()?;
        (file.file_type().is_socket() && file.uid() == uid).then_some(address)
    }

    fn identity(&self, peer: Peer) -> Option<Identity> {
        let Link::Live(pair) = &self.peers.get(peer)?.link else {
            return None;
        };
        let credentials = pair.credentials?;
        Some(Identity::Local {
            pid: credentials.pid,
            uid: credentials.uid,
            gid: credentials.gid,
        })
    }

    fn node(&self, peer: Peer) -> Option<Arc<Certificate>> {
        self.node_of(peer).cloned()
    }

    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.send_parts(peer, &parts)
    }

    fn send_gather(
        &mut self,
        peer: Peer,
        head: &[u8],
        body: &[Memory],
        _: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.send_parts(peer, &HeadAndBody(head, body))
    }

    fn send_filled(
        &mut self,
        peer: Peer,
        head: &[u8],
        (len, fill): (usize, &dyn Fn(Target<'_>)),
        _: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.send_parts(peer, &HeadAndFill(head, len, fill))
    }

    fn pause(&mut self, peer: Peer) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.paused = true;
            if let Some(pair) = entry.pair() {
                pair.paused = true;
            }
        }
    }

    fn resume(&mut self, peer: Peer) {
        self.resume_ring(peer);
    }

    fn readiness(&mut self, peer: Peer) -> Readiness {
        let Some(entry) = self.peers.get_mut(peer) else {
            return Readiness::default();
        };
        match &mut entry.link {
            Link::Live(pair) => pair.readiness(),
            Link::Idle => Readiness {
                readable: false,
                writable: true,
            },
            Link::Failed(_) | Link::Gone(_) => Readiness::default(),
        }
    }

    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        _: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        access.check(memory)?;
        self.pair_for_send(peer).map_err(|_| Error::NoPeer)?;
        let entry = self.peers.get_mut(peer).ok_or(Error::NoPeer)?;
        let pair = entry.pair().ok_or(Error::NoPeer)?;
        let key = pair
            .exports
            .add(memory, access, &mut self.numbers)
            .ok_or(Error::Limit {
                what: "regions exported to one peer",
                limit: REGION_SLOTS,
            })?;
        let region = RegionDescriptor {
            key,
            base: memory.as_ptr() as u64,
            len: memory.len() as u64,
            object: pair.offer_object(memory),
        };
        if !std::mem::replace(&mut pair.is_grantee, true) {
            self.grantees.push(peer);
        }
        Ok(region)
    }

    fn revoke(&mut self, peer: Peer, key: u64) {
        if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
            pair.unexport(key);
            self.quarantine.add(&mut pair.deferred);
        }
    }

    fn try_revoke(&mut self, peer: Peer, key: u64) -> bool {
        if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
            pair.try_unexport(key);
            self.quarantine.add(&mut pair.deferred);
        }
        if self.quarantine.is_empty() {
            return true;
        }
        self.quarantine.reclaim();
        !self.quarantine.holds(key)
    }

    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        let limit = self.layout.max_packet();
        if let Some(notify) = &transfer.notify
            && notify.len() > limit
        {
            return Err(SendError::TooLarge {
                len: notify.len(),
                limit,
            });
        }
        let shares = self.sharing.offers;
        let pair = self.pair_for_send(peer)?;
        pair.shares = shares && pair.may_help();
        if let Some(region) = transfer.remote.first() {
            pair.imports.prefetch(region.key);
        }
        if !pair.transfers.start(transfer) {
            return Err(SendError::WouldBlock);
        }
        if pair.stage == Stage::Up {
            self.list_busy(peer);
        }
        Ok(())
    }

    fn write_now(
        &mut self,
        peer: Peer,
        local: &Memory,
        remote: &RegionDescriptor,
        notify: &[u8],
    ) -> bool {
        let Some(pair) = self.peers.get_mut(peer).and_then(Entry::pair) else {
            return false;
        };
        let is_written = transfer::write_now(pair, local, remote, notify);
        if pair.failing.is_some() {
            self.mark_failed(peer);
        }
        is_written
    }

    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        let pair = self.pair_for_send(peer)?;
        pair.transfers.has_atomics = true;
        if !pair.atomics.start(atomic) {
            return Err(SendError::WouldBlock);
        }
        if pair.stage == Stage::Up {
            self.list_busy(peer);
        }
        Ok(())
    }

    fn announces_from(&mut self, peer: Peer) -> Option<usize> {
        let pair = self.peers.get_mut(peer)?.pair()?;
        pair.announces_large().then_some(costs::LARGE_BYTES)
    }

    fn share_copies(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    fn shares_copies(&self) -> bool {
        // Through a shared area, only the owner copies.
        self.own.attach && self.sharing.offers
    }

    fn map(&mut self, peer: Peer, region: &RegionDescriptor) -> Option<Memory> {
        let pair = self.peers.get_mut(peer)?.pair()?;
        // The object was sent before the descriptor, but on the socket.
        if let Err(cause) = pair.read_records() {
            self.fail(peer, cause);
            return None;
        }
        let mapped = pair.map(region);
        pair.objects.note(&mapped);
        mapped.ok()
    }

    fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        let object = self.numbers.number();
        let memory =
            objects::allocate(len, object).map_err(system("allocating shareable memory"))?;
        self.objects.push((object, memory.watch()));
        Ok(memory)
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        self.poll_all(now, sink)
    }

    fn finds_nothing(&mut self, now: Instant) -> bool {
        Shm::finds_nothing(self, now)
    }

    fn spin(&mut self, now: Instant, sink: &mut dyn Sink, most: u32) -> bool {
        self.spin_polled(now, most);
        self.poll_all(now, sink)
    }

    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        let now = self.clock.advance(now);
        self.resume_listener(now);
        self.retire_objects();
        self.quarantine.reclaim();
        self.check_connections(now, sink);
    }

    fn take_moved(&mut self) -> bool {
        self.take_moved()
    }

    fn arm(&mut self, now: Instant) -> bool {
        self.clock.advance(now);
        self.prepare_sleep(SleepOn::Descriptors, None).is_some()
    }

    fn stays_armed(&self) -> bool {
        self.sleep_goes_on()
    }

    fn disarm(&mut self) {
        self.announced = 0;
        doorbell::disarm(&self.bell);
        self.want_rings(false);
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn prepare_park(&mut self, now: Instant, flag: &WakeFlag) -> Parking {
        self.clock.advance(now);
        // Connections that are being made have deadlines and sockets of their own: rarely, and never for long.
        let meets = !self.pending.is_empty() || !self.half_open.is_empty();
        if meets || !self.relay.listen(self.sleeps, &self.epoll, &self.bell) {
            return Parking::Unsupported;
        }
        match self.announce_park(flag) {
            Some(sleep) => Parking::Prepared(sleep),
            None => Parking::Refused,
        }
    }

    fn parker(&self) -> Option<Arc<dyn Park>> {
        Some(Arc::new(self.bell.clone()))
    }

    fn is_unused(&self) -> bool {
        self.listener.is_none() && self.peers.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        let now = self.clock.known();
        let waiting = self.pending.iter().filter_map(|&peer| {
            let Link::Live(pair) = &self.peers.get(peer)?.link else {
                return None;
            };
            let retry = now.map(|now| now + RETRY_INTERVAL);
            Some(match pair.stage {
                Stage::Waiting => retry.map_or(pair.deadline, |at| at.min(pair.deadline)),
                Stage::Greeting | Stage::Up => pair.deadline,
            })
        });
        let half_open = self.half_open.iter().map(|half| half.deadline);
        // No event reports when a stopped peer releases memory.
        let quarantine = now.filter(|_| !self.quarantine.is_empty());
        let quarantine = quarantine.map(|now| now + QUARANTINE_INTERVAL);
        waiting
            .chain(half_open)
            .chain(quarantine)
            .chain(self.paused_until)
            .min()
    }

    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        self.clock.advance(now);
        let Some(entry) = self.peers.remove(peer) else {
            return;
        };
        if entry.initiated {
            self.by_address.remove(&entry.address);
        }
        self.unlist(peer);
        if let Link::Live(mut pair) = entry.link {
            pair.revoke();
            self.quarantine.add(&mut pair.deferred);
            let cause = PeerError::Disconnected;
            pair.transfers.fail_all(peer, &cause, sink);
            pair.atomics.fail_all(peer, &cause, sink);
            if let Some(socket) = &pair.socket {
                self.epoll.remove(socket);
                // If it cannot be sent, the peer sees only the closed socket.
                let _ = socket.send(&Record::Goodbye.to_bytes(), &[]);
            }
        }
    }

    fn activity(&self, peer: Peer) -> u64 {
        let Some(Link::Live(pair)) = self.peers.get(peer).map(|entry| &entry.link) else {
            return 0;
        };
        let front = pair.transfers.queue.front();
        let front = front.map_or(0, |active| {
            let helped = active.offer.as_ref().map_or(0, |o| pair.offers.done(o));
            (active.id.rotate_left(48) ^ active.left).wrapping_add(helped)
        });
        front.wrapping_add(pair.shared_bytes)
    }

    fn report(&self, peer: Peer) -> Option<PeerReport> {
        let entry = self.peers.get(peer)?;
        let Link::Live(pair) = &entry.link else {
            return Some(PeerReport::default());
        };
        let mut facts = vec![
            (
                "packets",
                format!(
                    "rings of {} KiB in shared memory",
                    pair.layout.ring_bytes >> 10
                ),
            ),
            (
                "whole in a packet",
                format!("messages of up to {} bytes", self.eager_bytes),
            ),
            (
                "large transfers",
                match &pair.attach {
                    Attach::Usable(_) => "cross-memory attach".to_owned(),
                    Attach::Refused(reason) => {
                        format!("through a shared area, copied twice: {reason}")
                    }
                },
            ),
            ("fences", self.sender_fences.report(pair.is_asymmetric())),
        ];
        if let Some(reason) = pair.objects.refusal() {
            facts.push(("mapping its memory", reason.to_owned()));
        }
        facts.extend(pair.node_fact());
        Some(PeerReport { facts })
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        if !self.own.process.is_this_process() {
            return self.quarantine.forget();
        }
        let mut timed_out = false;
        for pair in self.peers.iter_mut().filter_map(|entry| entry.pair()) {
            // The wait for one peer timed out: the others have had the same time.
            pair.copy_wait_timed_out |= timed_out;
            pair.revoke();
            pair.transfers.queue.clear();
            timed_out |= pair.copy_wait_timed_out;
            if let Some(socket) = &pair.socket {
                // If it cannot be sent, the peer sees only the closed socket.
                let _ = socket.send(&Record::Goodbye.to_bytes(), &[]);
            }
        }
    }
}
