//! A method inside one process: `mem://name`. It is for tests of this crate's contract, and of
//! everything above it that does not need real processes.
//!
//! It keeps the whole contract: bounded queues with [`SendError::WouldBlock`], transfers that are
//! done piece by piece inside [`Method::poll`], protection of exports, lazy connections, new
//! incarnations. [`Fault`] simulates what does not happen inside one process: a peer that dies, a
//! link that breaks.
//!
//! `link` holds what the two ends of a connection share; this file is the method itself.

mod link;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;

use crate::address::Address;
use crate::error::{Error, PeerError, SendError, TransferError};
use crate::fragments::Progress;
use crate::method::{
    Access, Atomic, Capabilities, Direction, Identity, Limits, Method, Outlet, Packet, Peer,
    PeerReport, Readiness, Registration, Sink, Transfer,
};
use crate::table::Table;
use link::{Endpoint, Link, hub};

const SCHEME: &str = "mem";

/// Packets delivered from one peer per poll, so that a busy one does not starve the others.
const PACKETS_PER_POLL: usize = 32;

/// Most atomics that may wait for the next poll, for each peer.
const MAX_ATOMICS: usize = 1024;

/// The sizes and limits of a [`Mem`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Packets that may wait in one direction of a connection.
    pub queue_packets: usize,
    /// See [`Limits::max_packet`].
    pub max_packet: usize,
    /// See [`Limits::max_piece`]; one piece per transfer and poll is copied.
    pub max_piece: usize,
    /// See [`Limits::max_list`].
    pub max_list: usize,
    /// While it is set, peers are treated as stopped in the middle of a copy: see
    /// [`Method::try_revoke`].
    pub stopped: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_packets: 256,
            max_packet: 16 << 10,
            max_piece: 64 << 10,
            max_list: usize::MAX,
            stopped: None,
        }
    }
}

impl Options {
    fn check_packet(&self, parts: &[&[u8]]) -> Result<(), SendError> {
        let len = parts.iter().map(|part| part.len()).sum();
        let limit = self.max_packet;
        match len > limit {
            true => Err(SendError::TooLarge { len, limit }),
            false => Ok(()),
        }
    }
}

/// The method; see the module's page.
pub struct Mem {
    options: Options,
    endpoint: Arc<Endpoint>,
    slots: Table<Slot>,
}

/// One peer.
struct Slot {
    peer: Peer,
    /// The name to connect to; `None` for a peer that connected to this instance.
    name: Option<String>,
    link: Option<Link>,
    /// A connection attempt that failed and was not reported yet.
    refused: bool,
    transfers: VecDeque<Progress>,
    atomics: VecDeque<Atomic>,
    /// An atomic was refused for lack of room.
    atomics_blocked: bool,
    /// Packets are held back in the queue.
    paused: bool,
}

/// Simulates faults of one endpoint. May be used from any thread.
#[derive(Clone)]
pub struct Fault {
    endpoint: Arc<Endpoint>,
}

impl Fault {
    /// The process dies: its peers see their connections break, and it can no longer be connected
    /// to.
    pub fn kill(&self) {
        self.endpoint.unlist();
        self.break_links();
    }

    /// Every connection of this endpoint breaks; the endpoint itself goes on.
    pub fn break_links(&self) {
        self.endpoint.break_links();
    }
}

impl Mem {
    /// A new endpoint.
    pub fn new(options: Options) -> Result<Self, Error> {
        let endpoint = Endpoint::new().map_err(|source| Error::System {
            what: "making an eventfd".into(),
            source,
        })?;
        Ok(Self {
            options,
            endpoint,
            slots: Table::default(),
        })
    }

    /// A handle by which a test can inject faults after the endpoint has been moved elsewhere.
    pub fn fault(&self) -> Fault {
        Fault {
            endpoint: Arc::clone(&self.endpoint),
        }
    }

    fn add_slot(&mut self, name: Option<String>, link: Option<Link>) -> Peer {
        self.slots.insert(|peer| Slot {
            peer,
            name,
            link,
            refused: false,
            transfers: VecDeque::new(),
            atomics: VecDeque::new(),
            atomics_blocked: false,
            paused: false,
        })
    }

    /// The peer's slot with a connection. Makes one if this side is to connect. `Ok(None)` if the
    /// attempt failed, which the next poll will report.
    fn connected(&mut self, peer: Peer) -> Result<Option<&mut Slot>, SendError> {
        let endpoint = Arc::clone(&self.endpoint);
        let Some(slot) = self.slots.get_mut(peer) else {
            return Err(SendError::Gone(PeerError::Disconnected));
        };
        if slot.refused {
            return Ok(None);
        }
        if slot.link.is_none() {
            let Some(name) = &slot.name else {
                return Err(SendError::Gone(PeerError::Closed));
            };
            let Some(link) = hub::connect(name, &endpoint) else {
                slot.refused = true;
                return Ok(None);
            };
            slot.link = Some(link);
        }
        Ok(Some(slot))
    }

    fn accept(&mut self, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        while let Some(link) = self.endpoint.next_incoming() {
            let peer = self.add_slot(None, Some(link));
            sink.peer_up(peer);
            any = true;
        }
        any
    }
}

impl Slot {
    /// Whether the peer connected to this instance and its connection has broken.
    fn is_over(&self) -> bool {
        self.name.is_none() && self.link.is_none()
    }

    fn poll(&mut self, options: &Options, sink: &mut dyn Sink) -> bool {
        let peer = self.peer;
        if self.refused {
            self.refused = false;
            self.paused = false;
            let name = self.name.clone().unwrap_or_default();
            self.fail_transfers(&PeerError::Refused(name.clone()), sink);
            sink.peer_down(peer, PeerError::Refused(name));
            return true;
        }
        let Some(link) = &self.link else {
            return false;
        };
        let mut any = false;
        for _ in 0..PACKETS_PER_POLL {
            if self.paused && !link.is_closed() {
                break;
            }
            let Some(packet) = link.receive() else { break };
            any = true;
            let reply = &mut Reply { link, options };
            sink.handle(peer, Packet::private(&packet), reply);
        }
        if link.take_writable() {
            any = true;
            sink.writable(peer);
        }
        if let Some(cause) = link.broken() {
            self.link = None;
            self.paused = false;
            self.fail_transfers(&cause, sink);
            sink.peer_down(peer, cause);
            return true;
        }
        for atomic in self.atomics.drain(..) {
            any = true;
            let result = match atomic.mistake() {
                Some(error) => Err(error),
                None => link.perform(&atomic),
            };
            sink.atomic_done(peer, atomic.token, result);
        }
        if std::mem::take(&mut self.atomics_blocked) {
            sink.writable(peer);
        }
        let Some(running) = self.transfers.front_mut() else {
            return any;
        };
        if let Some(result) = step(running, link, options.max_piece) {
            let token = running.transfer.token;
            if let (Ok(()), Some(notify)) = (&result, running.transfer.notify.take()) {
                link.push(notify.into_boxed_slice());
            }
            self.transfers.pop_front();
            sink.transfer_done(peer, token, result);
        }
        true
    }

    fn fail_transfers(&mut self, cause: &PeerError, sink: &mut dyn Sink) {
        let peer = self.peer;
        for atomic in std::mem::take(&mut self.atomics) {
            let error = TransferError::Peer(cause.clone());
            sink.atomic_done(peer, atomic.token, Err(error));
        }
        for running in std::mem::take(&mut self.transfers) {
            sink.transfer_done(
                peer,
                running.transfer.token,
                Err(TransferError::Peer(cause.clone())),
            );
        }
    }
}

/// Copies one piece; returns the result when the list is done.
fn step(
    running: &mut Progress,
    link: &Link,
    max_piece: usize,
) -> Option<Result<(), TransferError>> {
    if let Some(error) = running.transfer.mistake() {
        return Some(Err(error));
    }
    let Some((ours, theirs)) = running.next_piece(max_piece as u64) else {
        return Some(Ok(()));
    };
    let direction = running.transfer.direction;
    let copied = link.with_export(&theirs, direction, |theirs| match direction {
        Direction::Get => ours.copy_from(theirs),
        Direction::Put => theirs.copy_from(&ours),
    });
    if !copied {
        return Some(Err(TransferError::Protection));
    }
    running.is_at_end().then_some(Ok(()))
}

/// Sends to the other end of a connection.
struct Reply<'a> {
    link: &'a Link,
    options: &'a Options,
}

impl Outlet for Reply<'_> {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        self.options.check_packet(parts)?;
        self.link.send(parts, self.options.queue_packets)
    }
}

/// Refuses another method's address.
fn ours(address: &Address) -> Result<(), Error> {
    match address.scheme() {
        SCHEME => Ok(()),
        _ => Err(Error::BadAddress {
            address: address.to_string(),
            reason: "its scheme is not `mem`",
        }),
    }
}

/// Keys are unique in the whole process, so that the key of another connection is refused.
static NEXT_KEY: AtomicU64 = AtomicU64::new(0x6d65_6d00_0000_0001);

impl Method for Mem {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet: self.options.max_packet,
            max_piece: self.options.max_piece,
            max_list: self.options.max_list,
            eager_bytes: self.options.max_packet.min(8 << 10),
            mapped_eager_bytes: self.options.max_packet.min(8 << 10),
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
        ours(address)?;
        if hub::list(address.rest(), &self.endpoint) {
            return Ok(address.clone());
        }
        Err(Error::System {
            what: format!("listening at {address}"),
            source: std::io::ErrorKind::AddrInUse.into(),
        })
    }

    fn connect(&mut self, _now: Instant, address: &Address) -> Result<Peer, Error> {
        ours(address)?;
        let name = address.rest();
        let known = self
            .slots
            .iter()
            .find(|slot| slot.name.as_deref() == Some(name));
        Ok(match known {
            Some(slot) => slot.peer,
            None => self.add_slot(Some(name.to_owned()), None),
        })
    }

    fn set_time(&mut self, _now: Instant) {}

    fn address(&self, peer: Peer) -> Option<Address> {
        let text = match &self.slots.get(peer)?.name {
            Some(name) => format!("mem://{name}"),
            None => format!("mem://caller-{}", peer.0),
        };
        text.parse().ok()
    }

    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let link = self.slots.get(peer)?.link.as_ref()?;
        let ours = claimed.scheme() == SCHEME && link.listens_at(claimed.rest());
        ours.then(|| claimed.clone())
    }

    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.slots.get(peer)?.link.as_ref()?;
        Some(Identity::this_process())
    }

    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        self.options.check_packet(parts)?;
        let capacity = self.options.queue_packets;
        match self.connected(peer)? {
            None => Ok(()),
            Some(slot) => match &slot.link {
                Some(link) => link.send(parts, capacity),
                None => Ok(()),
            },
        }
    }

    fn pause(&mut self, peer: Peer) {
        if let Some(slot) = self.slots.get_mut(peer) {
            slot.paused = true;
        }
    }

    fn resume(&mut self, peer: Peer) {
        if let Some(slot) = self.slots.get_mut(peer) {
            slot.paused = false;
        }
    }

    fn readiness(&mut self, peer: Peer) -> Readiness {
        let capacity = self.options.queue_packets;
        let Some(slot) = self.slots.get_mut(peer) else {
            return Readiness::default();
        };
        match &slot.link {
            Some(link) => Readiness {
                readable: link.has_packet(),
                writable: link.has_room(capacity),
            },
            None => Readiness {
                readable: false,
                writable: slot.name.is_some(),
            },
        }
    }

    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        _: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        if self.connected(peer).is_err() {
            return Err(Error::NoPeer);
        }
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        let region = RegionDescriptor {
            key,
            base: memory.as_ptr() as u64,
            len: memory.len() as u64,
            object: None,
        };
        if let Some(link) = self.slots.get(peer).and_then(|slot| slot.link.as_ref()) {
            link.export(key, memory.clone(), access);
        }
        Ok(region)
    }

    fn revoke(&mut self, peer: Peer, key: u64) {
        if let Some(link) = self.slots.get(peer).and_then(|slot| slot.link.as_ref()) {
            link.unexport(key);
        }
    }

    fn try_revoke(&mut self, peer: Peer, key: u64) -> bool {
        self.revoke(peer, key);
        let stopped = self.options.stopped;
        !stopped.is_some_and(|stopped| stopped.load(Ordering::Relaxed))
    }

    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        if let Some(notify) = &transfer.notify
            && notify.len() > self.options.max_packet
        {
            return Err(SendError::TooLarge {
                len: notify.len(),
                limit: self.options.max_packet,
            });
        }
        let (len, limit) = (transfer.longest_list(), self.options.max_list);
        if len > limit {
            return Err(SendError::ListTooLong { len, limit });
        }
        self.connected(peer)?;
        let Some(slot) = self.slots.get_mut(peer) else {
            return Err(SendError::Gone(PeerError::Disconnected));
        };
        slot.transfers.push_back(Progress::new(transfer));
        Ok(())
    }

    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        self.connected(peer)?;
        let Some(slot) = self.slots.get_mut(peer) else {
            return Err(SendError::Gone(PeerError::Disconnected));
        };
        if slot.atomics.len() >= MAX_ATOMICS {
            slot.atomics_blocked = true;
            return Err(SendError::WouldBlock);
        }
        slot.atomics.push_back(atomic);
        Ok(())
    }

    fn map(&mut self, peer: Peer, region: &RegionDescriptor) -> Option<Memory> {
        let link = self.slots.get(peer)?.link.as_ref()?;
        let mut mapped = None;
        link.with_export(region, Direction::Get, |memory| {
            mapped = Some(memory.clone())
        });
        mapped
    }

    fn poll(&mut self, _now: Instant, sink: &mut dyn Sink) -> bool {
        let mut any = self.accept(sink);
        let mut over = Vec::new();
        for slot in self.slots.iter_mut() {
            any |= slot.poll(&self.options, sink);
            if slot.is_over() {
                over.push(slot.peer);
            }
        }
        for peer in over {
            self.slots.remove(peer);
        }
        any
    }

    fn tick(&mut self, _now: Instant, _sink: &mut dyn Sink) {}

    fn arm(&mut self, _now: Instant) -> bool {
        self.endpoint.arm();
        let busy = self.endpoint.has_incoming()
            || self.slots.iter().any(|slot| {
                slot.refused
                    || !slot.transfers.is_empty()
                    || !slot.atomics.is_empty()
                    || (slot.link.as_ref()).is_some_and(|link| link.has_news(slot.paused))
            });
        if busy {
            self.endpoint.disarm();
        }
        !busy
    }

    fn disarm(&mut self) {
        self.endpoint.disarm();
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn disconnect(&mut self, _now: Instant, peer: Peer, sink: &mut dyn Sink) {
        // Dropping our end of the link closes it.
        if let Some(mut slot) = self.slots.remove(peer) {
            slot.fail_transfers(&PeerError::Disconnected, sink);
        }
    }

    fn report(&self, peer: Peer) -> Option<PeerReport> {
        self.slots.get(peer)?;
        Some(PeerReport {
            facts: vec![("transfers", "copied inside the process".to_owned())],
        })
    }
}

impl Drop for Mem {
    fn drop(&mut self) {
        self.endpoint.unlist();
        // Callers that were never accepted see their connections end.
        while self.endpoint.next_incoming().is_some() {}
    }
}
