//! Which memory a peer may access: the region table of each side of a pair, and the hazard words
//! that a peer sets while it writes, so that an export can be ended at any moment.
//!
//! To write, the initiator stores the keys in its hazard words, fences, checks them in the owner's
//! table, copies, and clears the words. The owner clears the table's entry, fences, and waits while
//! a hazard word holds the key. Either the initiator sees the entry gone or the owner sees the
//! hazard. An owner does not wait for an initiator that has been stopped: the memory goes to
//! `quarantine`.
//!
//! To read, the initiator checks the entry, copies, and checks it again ([`is_open`]): the bytes
//! count only if the export had not ended by then. So the owner of memory that can only be read
//! does not wait for the reader.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use causeway_sys::mapping::Mapping;
use causeway_sys::memory::Memory;
use causeway_sys::word::{Word, fence};
use causeway_wire::random::SplitMix64;
use causeway_wire::shm::PairLayout;

use super::quarantine::DeferredFree;
use crate::fragments::exported_part;
use crate::method::{Access, Direction};

/// A key for entry `slot` of a table of `slots`; never 0.
fn new_key(numbers: &mut SplitMix64, slot: usize, slots: usize) -> u64 {
    let low = slots as u64 - 1;
    loop {
        let key = numbers.number() & !low;
        if key != 0 {
            return key | slot as u64;
        }
    }
}

/// One export.
struct Export {
    key: u64,
    memory: Memory,
    access: Access,
}

/// This side's exports to the peer.
pub(super) struct Exports {
    mapping: Arc<Mapping>,
    layout: PairLayout,
    side: usize,
    entries: Vec<Option<Export>>,
    /// Entries that were used and are free; of fresh ones the lowest numbers are taken first, so
    /// that few pages of the table are touched.
    free: Vec<usize>,
    /// How many exports there are.
    live: usize,
    /// How many of them the peer may only read: messages that it is to read.
    read_only: usize,
}

impl Exports {
    /// A table without exports of `side`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, side: usize) -> Self {
        Self {
            mapping: Arc::clone(mapping),
            layout,
            side,
            entries: Vec::new(),
            free: Vec::new(),
            live: 0,
            read_only: 0,
        }
    }

    /// Adds an export; `None` if the table is full.
    pub(super) fn add(
        &mut self,
        memory: &Memory,
        access: Access,
        numbers: &mut SplitMix64,
    ) -> Option<u64> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.entries.len() < self.layout.region_slots => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => return None,
        };
        let key = new_key(numbers, slot, self.layout.region_slots);
        let at = self.layout.region(self.side, slot);
        let word = |offset| self.mapping.word(at + offset);
        word(8).store(memory.as_ptr() as u64, Relaxed);
        word(16).store(memory.len() as u64, Relaxed);
        word(24).store(access_bits(access), Relaxed);
        word(0).store(key, Release);
        self.entries[slot] = Some(Export {
            key,
            memory: memory.clone(),
            access,
        });
        self.live += 1;
        self.read_only += usize::from(access == Access::Read);
        Some(key)
    }

    /// Whether anything is exported.
    pub(super) fn is_any(&self) -> bool {
        self.live > 0
    }

    /// Whether the peer has something to read of this side, as far as this side knows.
    pub(super) fn is_any_read_only(&self) -> bool {
        self.read_only > 0
    }

    /// Ends an export. Returns the memory if the peer may be writing there at this moment.
    pub(super) fn remove(&mut self, key: u64) -> Option<DeferredFree> {
        let slot = key as usize & (self.layout.region_slots - 1);
        let export = self
            .entries
            .get_mut(slot)?
            .take_if(|export| export.key == key)?;
        self.free.push(slot);
        self.live -= 1;
        self.read_only -= usize::from(export.access == Access::Read);
        if !export.access.allows(Direction::Put) {
            close_to_readers(self.entry(slot));
            return None;
        }
        close(self.entry(slot));
        let hazards = self.hazards();
        let many = hazards.many();
        hazards.hold(export, many)
    }

    /// Ends all exports, as [`Exports::remove`] does.
    pub(super) fn revoke_all(&mut self) -> Vec<DeferredFree> {
        if self.entries.iter().all(Option::is_none) {
            return Vec::new();
        }
        for (slot, entry) in self.entries.iter().enumerate() {
            if entry.is_some() {
                self.entry(slot).store(0, SeqCst);
            }
        }
        fence(SeqCst);
        self.free.clear();
        (self.live, self.read_only) = (0, 0);
        let hazards = self.hazards();
        let many = hazards.many();
        std::mem::take(&mut self.entries)
            .into_iter()
            .flatten()
            .filter_map(|export| hazards.hold(export, many))
            .collect()
    }

    /// The first word of an entry, which the peer reads.
    fn entry(&self, slot: usize) -> &AtomicU64 {
        self.mapping.word(self.layout.region(self.side, slot))
    }

    fn hazards(&self) -> Hazards {
        Hazards {
            mapping: Arc::clone(&self.mapping),
            at: self.layout.control(1 - self.side),
        }
    }

    /// The memory of a span that the peer names, if it is exported with that access.
    pub(super) fn find(
        &self,
        key: u64,
        base: u64,
        len: u64,
        direction: Direction,
    ) -> Option<Memory> {
        let slot = key as usize & (self.layout.region_slots - 1);
        let export = self.entries.get(slot)?.as_ref()?;
        if export.key != key || !export.access.allows(direction) {
            return None;
        }
        exported_part(&export.memory, export.memory.as_ptr() as u64, base, len)
    }
}

/// Ends an export: clears the first word of its entry. From here on, the hazard words show the
/// owner whether the peer is writing there.
pub(super) fn close<W: Word>(entry: &W) {
    entry.store(0, SeqCst);
    fence(SeqCst);
}

/// Ends an export that can only be read. A reader never takes what the owner writes into the memory
/// afterwards for what was exported.
pub(super) fn close_to_readers<W: Word>(entry: &W) {
    entry.store(0, Relaxed);
    fence(Release);
}

/// Whether an entry still holds the key under which the caller has read. `false` if any of the
/// bytes read may have been written after the export's end.
pub(super) fn is_open<W: Word>(entry: &W, key: u64) -> bool {
    fence(Acquire);
    entry.load(Relaxed) == key
}

/// The peer's hazard words.
#[derive(Clone)]
struct Hazards {
    mapping: Arc<Mapping>,
    /// The offset of the peer's control words.
    at: usize,
}

impl Hazards {
    fn word(&self, offset: usize) -> u64 {
        self.mapping.word(self.at + offset).load(Acquire)
    }

    /// The peer's count of copies under many keys.
    fn many(&self) -> u64 {
        self.word(PairLayout::HAZARD_MANY)
    }

    /// Whether the peer copies under `key`, or is still in the copy under many keys that it was in
    /// when its count was `many`. A copy that begins after the entry was cleared finds it gone.
    fn name(&self, key: u64, many: u64) -> bool {
        let mut keys = (0..PairLayout::HAZARDS).map(|at| self.word(PairLayout::HAZARD + at * 8));
        keys.any(|hazard| hazard == key) || many % 2 == 1 && self.many() == many
    }

    /// Defers the freeing of an ended export's memory, if the peer may be writing there.
    fn hold(&self, export: Export, many: u64) -> Option<DeferredFree> {
        let Export {
            key,
            memory,
            access,
        } = export;
        if !access.allows(Direction::Put) || !self.name(key, many) {
            return None;
        }
        let hazards = self.clone();
        let touched = move || hazards.name(key, many);
        Some(DeferredFree::new(Some(key), vec![memory], touched))
    }
}

fn access_bits(access: Access) -> u64 {
    match access {
        Access::Read => 1,
        Access::Write => 2,
        Access::ReadWrite => 3,
    }
}

/// The exports of the peer to this side, and this side's hazard words.
pub(super) struct Imports {
    mapping: Arc<Mapping>,
    layout: PairLayout,
    /// The index of the peer's side.
    owner: usize,
}

impl Imports {
    /// The view of the exports of `owner`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, owner: usize) -> Self {
        Self {
            mapping: Arc::clone(mapping),
            layout,
            owner,
        }
    }

    /// The mapping that the two processes share.
    #[cfg(all(test, not(loom)))]
    pub(super) fn view(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }

    /// A hint that a key is about to be checked: the owner has just written its entry.
    pub(super) fn prefetch(&self, key: u64) {
        let slot = key as usize & (self.layout.region_slots - 1);
        self.mapping.prefetch(self.layout.region(self.owner, slot));
    }

    /// The access that the peer grants to the span, if its key is valid now.
    pub(super) fn check(&self, key: u64, base: u64, len: u64) -> Option<Permission> {
        let slot = key as usize & (self.layout.region_slots - 1);
        let at = self.layout.region(self.owner, slot);
        let word = |offset| self.mapping.word(at + offset);
        if key == 0 || word(0).load(Acquire) != key {
            return None;
        }
        let (region_base, region_len) = (word(8).load(Relaxed), word(16).load(Relaxed));
        let permission = Permission(word(24).load(Relaxed));
        let start = base.checked_sub(region_base)?;
        let end = start.checked_add(len)?;
        // The owner may have reused the entry meanwhile.
        (end <= region_len && is_open(word(0), key)).then_some(permission)
    }

    /// Whether the key is still valid after a copy: if not, the bytes that were read are discarded.
    pub(super) fn is_open(&self, key: u64) -> bool {
        let slot = key as usize & (self.layout.region_slots - 1);
        is_open(self.mapping.word(self.layout.region(self.owner, slot)), key)
    }

    /// Announces that memory will be written under `keys` until [`Imports::release`].
    pub(super) fn announce(&self, keys: &[u64]) {
        if keys.len() > PairLayout::HAZARDS {
            self.count_many();
        } else {
            for (at, key) in keys.iter().enumerate() {
                self.hazard(at).store(*key, Relaxed);
            }
        }
        fence(SeqCst);
    }

    /// Ends what [`Imports::announce`] began.
    pub(super) fn release(&self, keys: &[u64]) {
        if keys.len() > PairLayout::HAZARDS {
            self.count_many();
        } else {
            for at in 0..keys.len() {
                self.hazard(at).store(0, Release);
            }
        }
    }

    fn count_many(&self) {
        let control = self.layout.control(1 - self.owner);
        let many = self.mapping.word(control + PairLayout::HAZARD_MANY);
        many.store(many.load(Relaxed).wrapping_add(1), Release);
    }

    fn hazard(&self, at: usize) -> &AtomicU64 {
        let hazards = self.layout.control(1 - self.owner) + PairLayout::HAZARD;
        self.mapping.word(hazards + at * 8)
    }
}

/// The access that a peer grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permission(u64);

impl Permission {
    /// Whether `direction` is included.
    pub(super) fn allows(self, direction: Direction) -> bool {
        let bit = match direction {
            Direction::Get => 1,
            Direction::Put => 2,
        };
        self.0 & bit != 0
    }
}
