//! Keeping many spans of the same bytes with one reference.
//!
//! Raising and lowering a count that threads share takes as long as the rest of what posting a small
//! receive needs. Receives that wait at the same time mostly lie in the same few allocations, or, coming
//! from C, count in one place anyhow ([`super::Lender`]): those that follow each other share one reference.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Backing, Lent, Memory};

/// Keeps spans of memory for one thread at a time.
#[derive(Debug)]
pub struct Keeper {
    /// No other keeper of this process has it, or ever had it.
    number: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Where the span was put that was kept last.
    last: usize,
}

/// One reference. There is one as long as there are users.
#[derive(Debug)]
struct Slot {
    backing: Option<Arc<Backing>>,
    users: u32,
}

/// The number of no slot.
const NOTHING: u32 = u32::MAX;

/// Names a span that a [`Keeper`] keeps until it is given back, if there is one. If it is never given back, the
/// bytes are kept as long as the keeper exists.
#[derive(Debug)]
pub struct Kept {
    base: NonNull<u8>,
    len: usize,
    keeper: u64,
    slot: u32,
    writable: bool,
}

// SAFETY: a description; the bytes are reached through the keeper only.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

/// Nothing is kept.
impl Default for Kept {
    fn default() -> Self {
        Self {
            base: NonNull::dangling(),
            len: 0,
            keeper: 0,
            slot: NOTHING,
            writable: false,
        }
    }
}

impl Kept {
    /// Whether nothing is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot == NOTHING
    }
}

impl Default for Keeper {
    fn default() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            slots: Vec::new(),
            free: Vec::new(),
            last: 0,
        }
    }
}

impl Keeper {
    /// Keeps a span, which is noted in `kept`. (Written straight to its place: what is moved about in words, and
    /// read in pairs of words right afterwards, costs more than all else here.)
    ///
    /// # Panics
    /// If something is kept there already.
    #[inline]
    pub fn keep(&mut self, memory: &Memory, kept: &mut Kept) {
        assert_eq!(kept.slot, NOTHING, "something is kept there");
        let slot = match self.slots.get_mut(self.last) {
            Some(slot) if slot.shares(memory) => {
                slot.users += 1;
                self.last
            }
            _ => self.add(memory),
        };
        kept.base = memory.base;
        kept.len = memory.len;
        kept.keeper = self.number;
        kept.slot = slot as u32;
        kept.writable = memory.writable;
    }

    #[inline(never)]
    fn add(&mut self, memory: &Memory) -> usize {
        let slot = Slot {
            backing: Some(Arc::clone(&memory.backing)),
            users: 1,
        };
        self.last = match self.free.pop().map(|index| index as usize) {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                assert!(self.slots.len() < NOTHING as usize, "too much is kept");
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.last
    }

    /// The span.
    ///
    /// # Panics
    /// If another keeper keeps it, or nothing is kept.
    #[inline]
    pub fn look<'a>(&'a self, kept: &'a Kept) -> Lent<'a> {
        assert_eq!(kept.keeper, self.number, "another keeper's");
        let backing = self.slots[kept.slot as usize].backing.as_ref();
        let backing = backing.expect("what has users is kept");
        // SAFETY: `kept` describes a span of the memory that was in this slot of this keeper when it was made.
        // It is one of the slot's users, which are given back once each, so that this memory is there still.
        unsafe { Lent::new(backing, kept.base, kept.len, kept.writable) }
    }

    /// Ends the keeping. Nothing is kept any more then, and nobody may ask for it.
    ///
    /// # Panics
    /// If another keeper keeps it, or nothing is kept.
    #[inline]
    pub fn give_back(&mut self, kept: &mut Kept) {
        assert_eq!(kept.keeper, self.number, "another keeper's");
        kept.keeper = 0;
        let index = std::mem::replace(&mut kept.slot, NOTHING);
        let slot = &mut self.slots[index as usize];
        slot.users -= 1;
        if slot.users == 0 {
            slot.backing = None;
            self.free.push(index);
        }
    }
}

impl Slot {
    #[inline]
    fn shares(&self, memory: &Memory) -> bool {
        let backing = self.backing.as_ref();
        backing.is_some_and(|backing| Arc::ptr_eq(backing, &memory.backing))
            && self.users < u32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_one_allocation_count_once() {
        let mut keeper = Keeper::default();
        let bytes = Memory::from_vec(b"0123456789".to_vec());
        let [mut one, mut part, mut elsewhere, mut again] = [(); 4].map(|()| Kept::default());
        keeper.keep(&bytes, &mut one);
        keeper.keep(&bytes.slice(3..5).read_only(), &mut part);
        assert_eq!(bytes.sharers(), 2);
        let other = Memory::zeroed(4);
        keeper.keep(&other, &mut elsewhere);
        keeper.keep(&bytes, &mut again);
        assert_eq!((bytes.sharers(), other.sharers()), (3, 2));
        assert_eq!(keeper.look(&part).to_vec(), b"34");
        assert!(!keeper.look(&part).is_writable() && keeper.look(&one).is_writable());
        keeper.look(&elsewhere).write_at(0, b"abcd");
        let clone = keeper.look(&elsewhere).clone();
        keeper.give_back(&mut elsewhere);
        assert_eq!((other.sharers(), clone.to_vec()), (2, b"abcd".to_vec()));
        keeper.give_back(&mut one);
        assert_eq!(bytes.sharers(), 3);
        keeper.give_back(&mut part);
        assert_eq!(bytes.sharers(), 2);
        assert_eq!(keeper.look(&again).to_vec(), b"0123456789");
        keeper.give_back(&mut again);
        assert_eq!(bytes.sharers(), 1);
        // The places are used again.
        keeper.keep(&bytes, &mut one);
        keeper.keep(&other, &mut again);
        assert_eq!((keeper.slots.len(), bytes.sharers()), (3, 2));
        drop(keeper);
        assert_eq!(bytes.sharers(), 1);
    }

    #[test]
    #[should_panic(expected = "another keeper's")]
    fn nothing_is_seen_of_what_was_given_back() {
        let mut keeper = Keeper::default();
        let mut kept = Kept::default();
        keeper.keep(&Memory::zeroed(1), &mut kept);
        keeper.give_back(&mut kept);
        keeper.look(&kept);
    }

    #[test]
    #[should_panic(expected = "another keeper's")]
    fn a_keeper_refuses_what_another_keeps() {
        let (mut one, other) = (Keeper::default(), Keeper::default());
        let mut kept = Kept::default();
        one.keep(&Memory::zeroed(1), &mut kept);
        other.look(&kept);
    }
}
