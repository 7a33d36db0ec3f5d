//! What is kept for each peer, by the index in its handle. A handle is good until what it names is removed: the next
//! one with that index has another generation.

use crate::method::Peer;

/// No peer has this generation: it is free for other uses of [`Peer`], such as naming listeners in epoll's answers.
pub(crate) const RESERVED_GENERATION: u32 = u32::MAX;

struct Slot<T> {
    generation: u32,
    entry: Option<Box<T>>,
}

pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds what `make` makes for its handle.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Peer) -> Box<T>) -> Peer {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let handle = Peer::new(index, slot.generation);
        slot.entry = Some(make(handle));
        handle
    }

    pub(crate) fn get(&self, peer: Peer) -> Option<&T> {
        self.slots
            .get(peer.index())
            .filter(|slot| slot.generation == peer.generation())?
            .entry
            .as_deref()
    }

    pub(crate) fn get_mut(&mut self, peer: Peer) -> Option<&mut T> {
        self.slots
            .get_mut(peer.index())
            .filter(|slot| slot.generation == peer.generation())?
            .entry
            .as_deref_mut()
    }

    pub(crate) fn remove(&mut self, peer: Peer) -> Option<Box<T>> {
        let slot = self
            .slots
            .get_mut(peer.index())
            .filter(|slot| slot.generation == peer.generation())?;
        let entry = slot.entry.take()?;
        slot.generation = (slot.generation + 1) % RESERVED_GENERATION;
        self.free.push(peer.index() as u32);
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.entry.as_deref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.entry.as_deref_mut())
    }
}
