//! What the two ends of an in-process connection share, and the table of listeners.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use causeway_sys::memory::Memory;
use causeway_wire::region::RegionDescriptor;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::{PeerError, SendError, TransferError};
use crate::fragments::exported_part;
use crate::method::{Access, Atomic, Direction, Outcome, perform, result_of};

/// A panic in one test's thread must not fail the others: the state is consistent between calls.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of a [`super::Mem`] that other instances use.
pub(super) struct Endpoint {
    incoming: Mutex<VecDeque<Link>>,
    links: Mutex<Vec<Weak<Shared>>>,
    armed: AtomicBool,
    event: OwnedFd,
}

impl Endpoint {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            incoming: Mutex::default(),
            links: Mutex::default(),
            armed: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        }))
    }

    pub(super) fn next_incoming(&self) -> Option<Link> {
        lock(&self.incoming).pop_front()
    }

    pub(super) fn has_incoming(&self) -> bool {
        !lock(&self.incoming).is_empty()
    }

    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
        // It fails only if there is nothing to read.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    fn ring(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            // It fails only if the counter is full, and then the descriptor is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn unlist(self: &Arc<Self>) {
        lock(&HUB).retain(|_, listed| !Weak::ptr_eq(listed, &Arc::downgrade(self)));
    }

    pub(super) fn break_links(self: &Arc<Self>) {
        let links = std::mem::take(&mut *lock(&self.links));
        for shared in links.iter().filter_map(Weak::upgrade) {
            let mut state = lock(&shared.state);
            let cause = PeerError::Broken("simulated".into());
            state.closed.get_or_insert(cause);
            state.queues.iter_mut().for_each(VecDeque::clear);
            state.exports.iter_mut().for_each(BTreeMap::clear);
            drop(state);
            shared.ends.iter().for_each(|end| end.ring());
        }
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

static HUB: Mutex<BTreeMap<String, Weak<Endpoint>>> = Mutex::new(BTreeMap::new());

/// The listeners of this process.
pub(super) mod hub {
    use super::*;

    /// Adds a listener. `false` if the name is in use.
    pub(in super::super) fn list(name: &str, endpoint: &Arc<Endpoint>) -> bool {
        let mut hub = lock(&HUB);
        if hub
            .get(name)
            .is_some_and(|listed| listed.strong_count() > 0)
        {
            return false;
        }
        hub.insert(name.to_owned(), Arc::downgrade(endpoint));
        true
    }

    /// Connects to the listener at `name`.
    pub(in super::super) fn connect(name: &str, from: &Arc<Endpoint>) -> Option<Link> {
        let to = lock(&HUB).get(name)?.upgrade()?;
        let shared = Arc::new(Shared {
            ends: [Arc::clone(from), Arc::clone(&to)],
            state: Mutex::default(),
        });
        lock(&from.links).push(Arc::downgrade(&shared));
        let mut links = lock(&to.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&shared));
        drop(links);
        let theirs = Link {
            shared: Arc::clone(&shared),
            side: 1,
        };
        lock(&to.incoming).push_back(theirs);
        to.ring();
        Some(Link { shared, side: 0 })
    }
}

struct Shared {
    /// The connecting end, and the accepting end.
    ends: [Arc<Endpoint>; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Packets on their way to each end.
    queues: [VecDeque<Box<[u8]>>; 2],
    /// What each end exports.
    exports: [BTreeMap<u64, (Memory, Access)>; 2],
    /// Whether a send from this end was refused for lack of room.
    blocked: [bool; 2],
    closed: Option<PeerError>,
}

/// One end of a connection. Dropping it closes the connection.
pub(super) struct Link {
    shared: Arc<Shared>,
    side: usize,
}

impl Link {
    fn other(&self) -> usize {
        1 - self.side
    }

    /// Whether the other end listens at `name`.
    pub(super) fn listens_at(&self, name: &str) -> bool {
        let other = Arc::downgrade(&self.shared.ends[self.other()]);
        let hub = lock(&HUB);
        hub.get(name)
            .is_some_and(|listed| Weak::ptr_eq(listed, &other))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    fn ring_other(&self) {
        self.shared.ends[self.other()].ring();
    }

    pub(super) fn send(&self, parts: &[&[u8]], capacity: usize) -> Result<(), SendError> {
        let mut state = self.state();
        if state.closed.is_some() {
            // The next poll reports it.
            return Ok(());
        }
        if state.queues[self.other()].len() >= capacity {
            state.blocked[self.side] = true;
            return Err(SendError::WouldBlock);
        }
        state.queues[self.other()].push_back(parts.concat().into_boxed_slice());
        drop(state);
        self.ring_other();
        Ok(())
    }

    /// Queues a notify packet, whose room was reserved when the transfer was accepted.
    pub(super) fn push(&self, packet: Box<[u8]>) {
        self.state().queues[self.other()].push_back(packet);
        self.ring_other();
    }

    pub(super) fn receive(&self) -> Option<Box<[u8]>> {
        let mut state = self.state();
        let packet = state.queues[self.side].pop_front()?;
        let wake = state.blocked[self.other()];
        drop(state);
        if wake {
            self.ring_other();
        }
        Some(packet)
    }

    /// Whether this end was blocked and there is room again.
    pub(super) fn take_writable(&self) -> bool {
        let mut state = self.state();
        let room = state.blocked[self.side] && state.queues[self.other()].is_empty();
        if room {
            state.blocked[self.side] = false;
        }
        room
    }

    /// Why the connection is closed, once all packets that arrived have been received.
    pub(super) fn broken(&self) -> Option<PeerError> {
        let state = self.state();
        match &state.closed {
            Some(cause) if state.queues[self.side].is_empty() => Some(cause.clone()),
            _ => None,
        }
    }

    /// Whether the connection is closed, even if packets have yet to be received.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed.is_some()
    }

    /// Whether a packet waits to be received.
    pub(super) fn has_packet(&self) -> bool {
        !self.state().queues[self.side].is_empty()
    }

    /// Whether a packet would be accepted. If not, this end is notified when one is.
    pub(super) fn has_room(&self, capacity: usize) -> bool {
        let mut state = self.state();
        let room = state.closed.is_some() || state.queues[self.other()].len() < capacity;
        state.blocked[self.side] |= !room;
        room
    }

    /// Whether a poll would find something, apart from packets that are held back.
    pub(super) fn has_news(&self, paused: bool) -> bool {
        let state = self.state();
        !paused && !state.queues[self.side].is_empty()
            || state.closed.is_some()
            || (state.blocked[self.side] && state.queues[self.other()].is_empty())
    }

    pub(super) fn export(&self, key: u64, memory: Memory, access: Access) {
        let mut state = self.state();
        if state.closed.is_none() {
            state.exports[self.side].insert(key, (memory, access));
        }
    }

    pub(super) fn unexport(&self, key: u64) {
        self.state().exports[self.side].remove(&key);
    }

    /// Runs `copy` on the other end's memory if it is exported for that; returns whether it was.
    /// Holds the lock meanwhile, so that [`Link::unexport`] waits for the piece.
    pub(super) fn with_export(
        &self,
        region: &RegionDescriptor,
        direction: Direction,
        copy: impl FnOnce(&Memory),
    ) -> bool {
        let state = self.state();
        let Some((memory, access)) = state.exports[self.other()].get(&region.key) else {
            return false;
        };
        let origin = memory.as_ptr() as u64;
        let part = exported_part(memory, origin, region.base, region.len);
        let part = part.filter(|_| access.allows(direction));
        if let Some(part) = &part {
            copy(part);
        }
        part.is_some()
    }
}

impl Link {
    /// Performs an atomic operation on the other end's memory, if it is exported for reading and
    /// writing.
    pub(super) fn perform(&self, atomic: &Atomic) -> Result<u64, TransferError> {
        let mut outcome = Outcome::Protection;
        let mut readable = false;
        self.with_export(&atomic.word, Direction::Get, |_| readable = true);
        self.with_export(&atomic.word, Direction::Put, |word| {
            if readable {
                outcome = perform(atomic.operation, word);
            }
        });
        result_of(outcome)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut state = self.state();
        state.closed.get_or_insert(PeerError::Closed);
        state.exports[self.side].clear();
        state.queues[self.side].clear();
        drop(state);
        self.ring_other();
    }
}
