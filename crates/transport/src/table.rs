//! State of each peer, by its handle, which is the entry's key. A handle is valid until its entry
//! is removed: the next one with that index has another generation.

use crate::method::Peer;
use crate::slab::Slab;

pub(crate) struct Table<T> {
    slots: Slab<Option<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Slab::default(),
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds the value that `make` returns for its handle. Every index is below the largest number
    /// of peers at any one time.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Peer) -> T) -> Peer {
        let (key, slot) = self.slots.reuse();
        *slot = Some(make(Peer(key)));
        Peer(key)
    }

    #[inline]
    pub(crate) fn get(&self, peer: Peer) -> Option<&T> {
        let index = self.slots.find(peer.0)?;
        self.slots[index].as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, peer: Peer) -> Option<&mut T> {
        self.slots.find_entry(peer.0)?.as_mut()
    }

    /// The peer at an index.
    #[inline]
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// Removes a peer. Its handle is never reused.
    pub(crate) fn remove(&mut self, peer: Peer) -> Option<T> {
        self.slots.remove(self.slots.find(peer.0)?)?
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(Option::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(Option::as_mut)
    }
}
