//! Who may touch which memory: the region table of each side of a pair, and the hazard words that a
//! copying peer sets so that an export can be ended under its eyes.
//!
//! The initiator names the keys in its hazard words, fences, checks them in the owner's table, copies,
//! and clears the words. The owner clears the table's entry, fences, and waits while a hazard word
//! holds the key. Either the initiator sees the entry gone or the owner sees the hazard.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::{Duration, Instant};

use causeway_sys::mapping::Mapping;
use causeway_sys::memory::Memory;
use causeway_wire::shm::PairLayout;

use crate::method::{Access, Direction};

/// How long an ended export waits for a peer that is in the middle of a copy and neither finishes nor
/// dies (it was stopped). Then the memory is given up for good.
const STUCK_COPY: Duration = Duration::from_secs(2);

/// Makes keys that neither repeat nor are guessed by mistake.
pub(super) struct KeyMaker {
    state: u64,
}

impl KeyMaker {
    /// Starts from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 bits of a sequence that does not repeat (SplitMix64).
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A key for entry `slot` of a table of `slots`; never 0.
    fn key(&mut self, slot: usize, slots: usize) -> u64 {
        let low = slots as u64 - 1;
        loop {
            let key = self.next() & !low;
            if key != 0 {
                return key | slot as u64;
            }
        }
    }
}

/// One export.
struct Export {
    key: u64,
    memory: Memory,
    access: Access,
}

/// What this side exports to the peer.
pub(super) struct Exports {
    mapping: Arc<Mapping>,
    layout: PairLayout,
    side: usize,
    entries: Vec<Option<Export>>,
    /// Entries that were used and are free; the lowest numbers are taken first from fresh ones so that
    /// few pages of the table are touched.
    free: Vec<usize>,
    /// How many there are.
    live: usize,
    /// The peer did not end a copy in time and has not been seen to end it since.
    stuck: bool,
}

impl Exports {
    /// Nothing exported yet by `side`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, side: usize) -> Self {
        Self {
            mapping: Arc::clone(mapping),
            layout,
            side,
            entries: Vec::new(),
            free: Vec::new(),
            live: 0,
            stuck: false,
        }
    }

    /// Adds an export; `None` if the table is full.
    pub(super) fn add(
        &mut self,
        memory: &Memory,
        access: Access,
        keys: &mut KeyMaker,
    ) -> Option<u64> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.entries.len() < self.layout.region_slots => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => return None,
        };
        let key = keys.key(slot, self.layout.region_slots);
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
        Some(key)
    }

    /// Whether anything is exported.
    pub(super) fn is_any(&self) -> bool {
        self.live > 0
    }

    /// Ends an export. Returns once the peer no longer touches the memory, which `peer_is_gone` helps
    /// to find out.
    pub(super) fn remove(&mut self, key: u64, peer_is_gone: impl Fn() -> bool) {
        let slot = key as usize & (self.layout.region_slots - 1);
        let Some(entry) = self.entries.get_mut(slot) else {
            return;
        };
        let Some(export) = entry.take_if(|export| export.key == key) else {
            return;
        };
        self.clear_entry(slot);
        fence(SeqCst);
        self.free.push(slot);
        self.live -= 1;
        let many = self.copies_under_many();
        let mut stuck = self.stuck;
        if !wait_while(&mut stuck, || self.is_held(key, many), peer_is_gone) {
            give_up(export.memory);
        }
        self.stuck = stuck;
    }

    /// Ends all exports, as [`Exports::remove`] does, with one wait for all of them.
    pub(super) fn revoke_all(&mut self, peer_is_gone: impl Fn() -> bool) {
        if self.entries.iter().all(Option::is_none) {
            return;
        }
        for (slot, entry) in self.entries.iter().enumerate() {
            if entry.is_some() {
                self.clear_entry(slot);
            }
        }
        fence(SeqCst);
        let many = self.copies_under_many();
        let mut stuck = self.stuck;
        let ended = wait_while(&mut stuck, || self.is_any_held(many), peer_is_gone);
        self.stuck = stuck;
        self.free.clear();
        self.live = 0;
        for export in std::mem::take(&mut self.entries).into_iter().flatten() {
            if !ended && self.is_held(export.key, many) {
                give_up(export.memory);
            }
        }
    }

    /// Takes an entry out of the table that the peer sees.
    fn clear_entry(&self, slot: usize) {
        let at = self.layout.region(self.side, slot);
        self.mapping.word(at).store(0, SeqCst);
    }

    /// One of the peer's hazard words.
    fn hazard(&self, offset: usize) -> u64 {
        let control = self.layout.control(1 - self.side);
        self.mapping.word(control + offset).load(Acquire)
    }

    /// The peer's count of copies under many keys.
    fn copies_under_many(&self) -> u64 {
        self.hazard(PairLayout::HAZARD_MANY)
    }

    /// The keys that the peer copies under, apart from copies under many.
    fn hazards(&self) -> impl Iterator<Item = u64> {
        (0..PairLayout::HAZARDS).map(|at| self.hazard(PairLayout::HAZARD + at * 8))
    }

    /// Whether the peer is in the copy under many keys that it was in when its count was `many`. One
    /// that begins after the entry was cleared finds it gone.
    fn is_held_among_many(&self, many: u64) -> bool {
        many % 2 == 1 && self.copies_under_many() == many
    }

    fn is_held(&self, key: u64, many: u64) -> bool {
        self.hazards().any(|hazard| hazard == key) || self.is_held_among_many(many)
    }

    /// Whether the peer copies under any key that is in the list of exports.
    fn is_any_held(&self, many: u64) -> bool {
        let listed = |key: u64| {
            let slot = key as usize & (self.layout.region_slots - 1);
            let entry = self.entries.get(slot).and_then(Option::as_ref);
            entry.is_some_and(|export| export.key == key)
        };
        self.hazards().any(listed) || self.is_held_among_many(many)
    }

    /// The peer is not to be waited for unless it goes on.
    pub(super) fn presume_stuck(&mut self) {
        self.stuck = true;
    }

    /// Whether the peer was last waited for in vain.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// The memory behind a span that the peer names, if it is exported for that.
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
        let start = base.checked_sub(export.memory.as_ptr() as u64)?;
        let end = start.checked_add(len)?;
        (end <= export.memory.len() as u64)
            .then(|| export.memory.slice(start as usize..end as usize))
    }
}

/// Waits while `held`; `false` if that does not end. A peer that has once been waited for in vain (`stuck`) is
/// not waited for again before it goes on.
pub(super) fn wait_while(
    stuck: &mut bool,
    held: impl Fn() -> bool,
    peer_is_gone: impl Fn() -> bool,
) -> bool {
    let mut since = None;
    let mut turn = 0u64;
    while held() {
        turn += 1;
        if turn < 1000 {
            std::hint::spin_loop();
            continue;
        }
        std::thread::yield_now();
        if turn.is_multiple_of(64) {
            if peer_is_gone() {
                return true;
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if *stuck || waited > STUCK_COPY {
                *stuck = true;
                return false;
            }
        }
    }
    *stuck = false;
    true
}

/// Keeps memory for good that the peer may still touch.
#[cold]
pub(super) fn give_up(memory: Memory) {
    tracing::warn!(
        bytes = memory.len(),
        "a peer neither finishes nor leaves a copy of memory that is no longer exported; \
         the memory is given up"
    );
    std::mem::forget(memory);
}

fn access_bits(access: Access) -> u64 {
    match access {
        Access::Read => 1,
        Access::Write => 2,
        Access::ReadWrite => 3,
    }
}

/// What the peer exports to this side, and this side's hazard words.
pub(super) struct Imports {
    mapping: Arc<Mapping>,
    layout: PairLayout,
    /// The peer's side.
    owner: usize,
}

impl Imports {
    /// What `owner` exports.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, owner: usize) -> Self {
        Self {
            mapping: Arc::clone(mapping),
            layout,
            owner,
        }
    }

    /// What the two processes share.
    #[cfg(all(test, not(loom)))]
    pub(super) fn view(&self) -> Arc<Mapping> {
        Arc::clone(&self.mapping)
    }

    /// What the peer lets us do with the span, if its key is valid now.
    pub(super) fn check(&self, key: u64, base: u64, len: u64) -> Option<Permission> {
        let slot = key as usize & (self.layout.region_slots - 1);
        let at = self.layout.region(self.owner, slot);
        let word = |offset| self.mapping.word(at + offset);
        if key == 0 || word(0).load(Acquire) != key {
            return None;
        }
        let (region_base, region_len) = (word(8).load(Relaxed), word(16).load(Relaxed));
        let start = base.checked_sub(region_base)?;
        let end = start.checked_add(len)?;
        (end <= region_len).then(|| Permission(word(24).load(Relaxed)))
    }

    /// Announces a copy under `keys` until [`Imports::release`].
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

/// What a peer allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permission(u64);

impl Permission {
    /// Whether `direction` is covered.
    pub(super) fn allows(self, direction: Direction) -> bool {
        let bit = match direction {
            Direction::Get => 1,
            Direction::Put => 2,
        };
        self.0 & bit != 0
    }
}
