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

/// A span that a [`Keeper`] keeps until it is given back. If it is not, the bytes are kept as long as the
/// keeper exists.
#[derive(Debug)]
#[must_use = "the bytes are kept until it is given back"]
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
    /// Keeps a span.
    #[inline]
    pub fn keep(&mut self, memory: &Memory) -> Kept {
        let slot = match self.slots.get_mut(self.last) {
            Some(slot) if slot.shares(memory) => {
                slot.users += 1;
                self.last
            }
            _ => self.add(memory),
        };
        Kept {
            base: memory.base,
            len: memory.len,
            keeper: self.number,
            slot: slot as u32,
            writable: memory.writable,
        }
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
                assert!(self.slots.len() < u32::MAX as usize, "too much is kept");
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.last
    }

    /// The span.
    ///
    /// # Panics
    /// If another keeper keeps it.
    #[inline]
    pub fn look<'a>(&'a self, kept: &'a Kept) -> Lent<'a> {
        assert_eq!(kept.keeper, self.number, "another keeper's");
        let backing = self.slots[kept.slot as usize].backing.as_ref();
        let backing = backing.expect("what has users is kept");
        // SAFETY: `kept` describes a span of the memory that was in this slot of this keeper when it was made.
        // It is one of the slot's users, which are given back once each, so that this memory is there still.
        unsafe { Lent::new(backing, kept.base, kept.len, kept.writable) }
    }

    /// Ends the keeping.
    ///
    /// # Panics
    /// If another keeper keeps it.
    #[inline]
    pub fn give_back(&mut self, kept: Kept) {
        assert_eq!(kept.keeper, self.number, "another keeper's");
        let slot = &mut self.slots[kept.slot as usize];
        slot.users -= 1;
        if slot.users == 0 {
            slot.backing = None;
            self.free.push(kept.slot);
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
        let one = keeper.keep(&bytes);
        let part = keeper.keep(&bytes.slice(3..5).read_only());
        assert_eq!(bytes.sharers(), 2);
        let other = Memory::zeroed(4);
        let elsewhere = keeper.keep(&other);
        let again = keeper.keep(&bytes);
        assert_eq!((bytes.sharers(), other.sharers()), (3, 2));
        assert_eq!(keeper.look(&part).to_vec(), b"34");
        assert!(!keeper.look(&part).is_writable() && keeper.look(&one).is_writable());
        keeper.look(&elsewhere).write_at(0, b"abcd");
        let clone = keeper.look(&elsewhere).clone();
        keeper.give_back(elsewhere);
        assert_eq!((other.sharers(), clone.to_vec()), (2, b"abcd".to_vec()));
        keeper.give_back(one);
        assert_eq!(bytes.sharers(), 3);
        keeper.give_back(part);
        assert_eq!(bytes.sharers(), 2);
        assert_eq!(keeper.look(&again).to_vec(), b"0123456789");
        keeper.give_back(again);
        assert_eq!(bytes.sharers(), 1);
        // The places are used again.
        let kept = [keeper.keep(&bytes), keeper.keep(&other)];
        assert_eq!(keeper.slots.len(), 3);
        drop(keeper);
        assert_eq!((bytes.sharers(), kept.len()), (1, 2));
    }

    #[test]
    #[should_panic(expected = "another keeper's")]
    fn a_keeper_refuses_what_another_keeps() {
        let (mut one, other) = (Keeper::default(), Keeper::default());
        let kept = one.keep(&Memory::zeroed(1));
        other.look(&kept);
    }
}
