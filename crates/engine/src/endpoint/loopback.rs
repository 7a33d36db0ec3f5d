//! The method by which a process sends to itself: its one peer is the process.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::method::{perform, result_of};
use causeway_transport::{
    Access, Address, Atomic, Capabilities, Direction, Error, Identity, Limits, Method,
    NotifyPacket, Outlet, Packet, Peer, PeerError, PeerReport, Progress, Readiness, Registration,
    SendError, Sink, Transfer, TransferError, exported_part,
};
use causeway_wire::region::RegionDescriptor;
use rustix::event::{EventfdFlags, eventfd};

/// Packets that may wait.
const QUEUE_PACKETS: usize = 64;
/// Packets and transfers that are delivered per poll.
const WORK_PER_POLL: usize = 64;
const MAX_PACKET: usize = 16 << 10;
/// Most bytes copied per poll, so that a poll takes bounded time.
const MAX_PIECE: usize = 1 << 20;

/// See the module's page.
pub(crate) struct Loopback {
    /// The peer's generation; there is one peer, or none.
    generation: u32,
    connected: bool,
    blocked: bool,
    paused: bool,
    packets: VecDeque<Vec<u8>>,
    transfers: VecDeque<Progress>,
    atomics: VecDeque<Atomic>,
    exports: HashMap<u64, (Memory, Access)>,
    next_key: u64,
    /// Never readable: no other process sends here.
    event: OwnedFd,
}

impl Loopback {
    /// The method, without a peer yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            generation: 1,
            connected: false,
            blocked: false,
            paused: false,
            packets: VecDeque::new(),
            transfers: VecDeque::new(),
            atomics: VecDeque::new(),
            exports: HashMap::new(),
            next_key: 1,
            event: eventfd(0, EventfdFlags::CLOEXEC)?,
        })
    }

    fn peer(&self) -> Peer {
        Peer::new(0, self.generation)
    }

    fn check(&self, peer: Peer) -> Result<(), SendError> {
        if self.connected && peer == self.peer() {
            Ok(())
        } else {
            Err(SendError::Gone(PeerError::Disconnected))
        }
    }

    /// Copies the next piece of a transfer, and subtracts its bytes from the budget; returns the
    /// result when the transfer is done.
    fn step(&self, running: &mut Progress, budget: &mut u64) -> Option<Result<(), TransferError>> {
        let direction = running.transfer.direction;
        while *budget > 0 {
            let Some((ours, theirs)) = running.next_piece(*budget) else {
                return Some(Ok(()));
            };
            if !self.copy(&ours, &theirs, direction) {
                return Some(Err(TransferError::Protection));
            }
            *budget -= theirs.len;
        }
        None
    }

    fn is_idle(&self) -> bool {
        // Packets that are held back wait for a call to resume, and each call ends the sleep.
        let quiet = self.paused || self.packets.is_empty() && !self.blocked;
        quiet && self.transfers.is_empty() && self.atomics.is_empty()
    }

    fn perform(&self, atomic: &Atomic) -> Result<u64, TransferError> {
        if let Some(error) = atomic.mistake() {
            return Err(error);
        }
        let reach = |direction| self.find(&atomic.word, direction);
        match reach(Direction::Get).and(reach(Direction::Put)) {
            Some(memory) => result_of(perform(atomic.operation, &memory)),
            None => Err(TransferError::Protection),
        }
    }

    /// The part of an export that a region names, if this access to it is allowed.
    fn find(&self, region: &RegionDescriptor, direction: Direction) -> Option<Memory> {
        let (_, access) = self.exports.get(&region.key)?;
        access.allows(direction).then(|| self.part(region))?
    }

    /// The part of an export that a region names.
    fn part(&self, region: &RegionDescriptor) -> Option<Memory> {
        let (memory, _) = self.exports.get(&region.key)?;
        exported_part(memory, memory.as_ptr() as u64, region.base, region.len)
    }

    fn copy(&self, ours: &Memory, region: &RegionDescriptor, direction: Direction) -> bool {
        let Some(theirs) = self.find(region, direction) else {
            return false;
        };
        match direction {
            Direction::Get => ours.copy_from(&theirs),
            Direction::Put => theirs.copy_from(ours),
        }
        true
    }
}

/// Sends to the one peer.
struct Reply<'a>(&'a mut Loopback);

impl Outlet for Reply<'_> {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        let Self(loopback) = self;
        let len = parts.iter().map(|part| part.len()).sum();
        if len > MAX_PACKET {
            let limit = MAX_PACKET;
            return Err(SendError::TooLarge { len, limit });
        }
        if loopback.packets.len() >= QUEUE_PACKETS {
            loopback.blocked = true;
            return Err(SendError::WouldBlock);
        }
        loopback.packets.push_back(parts.concat());
        Ok(())
    }
}

impl Method for Loopback {
    fn scheme(&self) -> &'static str {
        "self"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet: MAX_PACKET,
            max_piece: MAX_PIECE,
            max_list: usize::MAX,
            eager_bytes: 8 << 10,
            mapped_eager_bytes: 8 << 10,
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            one_sided: true,
            per_peer_protection: true,
            remote_atomics: true,
            needs_local_registration: false,
            reports_peer_exit: true,
            identifies_nodes: false,
            maps_memory: true,
            holds_packets: false,
            exact_time: false,
        }
    }

    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        Ok(address.clone())
    }

    fn connect(&mut self, _: Instant, _: &Address) -> Result<Peer, Error> {
        self.connected = true;
        Ok(self.peer())
    }

    fn set_time(&mut self, _: Instant) {}

    fn address(&self, peer: Peer) -> Option<Address> {
        self.check(peer).ok()?;
        "self://here".parse().ok()
    }

    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.check(peer).ok()?;
        Some(Identity::this_process())
    }

    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.check(peer)?;
        Reply(self).send(parts)
    }

    fn pause(&mut self, peer: Peer) {
        self.paused |= self.check(peer).is_ok();
    }

    fn resume(&mut self, peer: Peer) {
        self.paused &= self.check(peer).is_err();
    }

    fn readiness(&mut self, peer: Peer) -> Readiness {
        if self.check(peer).is_err() {
            return Readiness::default();
        }
        let writable = self.packets.len() < QUEUE_PACKETS;
        self.blocked |= !writable;
        Readiness {
            readable: !self.packets.is_empty(),
            writable,
        }
    }

    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        _: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        self.check(peer).map_err(|_| Error::NoPeer)?;
        let key = self.next_key;
        self.next_key += 1;
        self.exports.insert(key, (memory.clone(), access));
        Ok(RegionDescriptor {
            key,
            base: memory.as_ptr() as u64,
            len: memory.len() as u64,
            object: None,
        })
    }

    fn revoke(&mut self, _: Peer, key: u64) {
        self.exports.remove(&key);
    }

    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        self.check(peer)?;
        self.transfers.push_back(Progress::new(transfer));
        Ok(())
    }

    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        self.check(peer)?;
        if self.atomics.len() >= QUEUE_PACKETS {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        self.atomics.push_back(atomic);
        Ok(())
    }

    fn map(&mut self, _: Peer, region: &RegionDescriptor) -> Option<Memory> {
        self.part(region)
    }

    fn poll(&mut self, _: Instant, sink: &mut dyn Sink) -> bool {
        let peer = self.peer();
        let mut any = false;
        let mut budget = MAX_PIECE as u64;
        // Packets that a delivery queues are delivered in the same poll, so that a message to this
        // process needs one poll.
        for _ in 0..WORK_PER_POLL {
            let packet = match self.paused {
                true => None,
                false => self.packets.pop_front(),
            };
            if let Some(packet) = packet {
                sink.handle(peer, Packet::private(&packet), &mut Reply(self));
            } else if let Some(atomic) = self.atomics.pop_front() {
                sink.atomic_done(peer, atomic.token, self.perform(&atomic));
            } else if let Some(mut running) = self.transfers.pop_front() {
                let Some(result) = self.step(&mut running, &mut budget) else {
                    any = true;
                    self.transfers.push_front(running);
                    break;
                };
                let Transfer { notify, token, .. } = running.transfer;
                if result.is_ok() {
                    self.packets.extend(notify.map(NotifyPacket::into_vec));
                }
                sink.transfer_done(peer, token, result);
            } else {
                break;
            }
            any = true;
        }
        if self.blocked && self.packets.len() < QUEUE_PACKETS / 2 {
            self.blocked = false;
            sink.writable(peer);
        }
        any
    }

    fn tick(&mut self, _: Instant, _: &mut dyn Sink) {}

    fn arm(&mut self, _: Instant) -> bool {
        self.is_idle()
    }

    fn disarm(&mut self) {}

    fn pollable(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn is_unused(&self) -> bool {
        // No other peer sends here, and this process does not while it sleeps.
        self.is_idle()
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn disconnect(&mut self, _: Instant, peer: Peer, sink: &mut dyn Sink) {
        if self.check(peer).is_err() {
            return;
        }
        self.connected = false;
        self.generation += 1;
        self.blocked = false;
        self.paused = false;
        self.packets.clear();
        self.exports.clear();
        for atomic in std::mem::take(&mut self.atomics) {
            let gone = TransferError::Peer(PeerError::Disconnected);
            sink.atomic_done(peer, atomic.token, Err(gone));
        }
        for running in std::mem::take(&mut self.transfers) {
            let gone = TransferError::Peer(PeerError::Disconnected);
            sink.transfer_done(peer, running.transfer.token, Err(gone));
        }
    }

    fn report(&self, peer: Peer) -> Option<PeerReport> {
        self.check(peer).ok()?;
        Some(PeerReport {
            facts: vec![("transfers", "copied inside the process".to_owned())],
        })
    }
}
