//! The table of peers: handles, addresses, and what there is of a connection.

use super::pair::Pair;
use crate::address::Address;
use crate::error::PeerError;
use crate::method::Peer;

/// A peer's connection.
pub(super) enum Link {
    /// None; the next send makes one (we know its address).
    Idle,
    /// None, and making one failed for this reason, which is yet to be reported.
    Failed(PeerError),
    /// There is one.
    Live(Box<Pair>),
    /// There was one, made by the peer.
    Gone(PeerError),
}

/// One peer.
pub(super) struct Entry {
    pub(super) peer: Peer,
    pub(super) address: Address,
    /// Whether we connect to it, rather than it to us.
    pub(super) initiated: bool,
    /// Its packets are not delivered now; see also [`Pair::paused`].
    pub(super) paused: bool,
    pub(super) link: Link,
}

impl Entry {
    /// The connection, if there is one.
    #[inline]
    pub(super) fn pair(&mut self) -> Option<&mut Pair> {
        match &mut self.link {
            Link::Live(pair) => Some(pair),
            Link::Idle | Link::Failed(_) | Link::Gone(_) => None,
        }
    }
}

struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

/// All peers. An index is also the peer's bit in our doorbell page.
pub(super) struct Peers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    limit: u32,
}

/// Generations stay below this, so that a handle never looks like another descriptor's number in the
/// epoll set.
const GENERATIONS: u32 = 1 << 30;

impl Peers {
    /// A table for at most `limit` peers.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
        }
    }

    /// Adds a peer; `None` if the table is full.
    pub(super) fn add(&mut self, address: Address, initiated: bool, link: Link) -> Option<Peer> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.slots.len() as u32) < self.limit => {
                self.slots.push(Slot {
                    generation: 1,
                    entry: None,
                });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = self.slots.get_mut(index as usize)?;
        let peer = Peer::new(index, slot.generation);
        slot.entry = Some(Entry {
            peer,
            address,
            initiated,
            paused: false,
            link,
        });
        Some(peer)
    }

    /// Takes a peer out. Its handle is never given again.
    pub(super) fn remove(&mut self, peer: Peer) -> Option<Entry> {
        let slot = self.slots.get_mut(peer.index())?;
        let entry = slot.entry.take_if(|entry| entry.peer == peer)?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(peer.index() as u32);
        Some(entry)
    }

    /// The peer of a handle.
    #[inline]
    pub(super) fn get(&self, peer: Peer) -> Option<&Entry> {
        let entry = self.slots.get(peer.index())?.entry.as_ref()?;
        (entry.peer == peer).then_some(entry)
    }

    /// As [`Peers::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, peer: Peer) -> Option<&mut Entry> {
        let entry = self.slots.get_mut(peer.index())?.entry.as_mut()?;
        (entry.peer == peer).then_some(entry)
    }

    /// The peer at an index.
    #[inline]
    pub(super) fn at(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index as usize)?.entry.as_mut()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// All peers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut())
    }
}
