//! Many spans of the same bytes held by one reference.
//!
//! Raising and lowering a count that threads share takes as long as the rest of what posting a small receive
//! needs. The buffers of receives that wait at the same time mostly lie in the same few allocations, and those of
//! C programs are counted in one place anyhow ([`super::ForeignMemory`]). So successive receives share one
//! reference.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::foreign::Foreign;
use super::{Backing, BorrowedSpan, Kind, Memory};

/// Holds spans of memory for one thread at a time.
#[derive(Debug)]
pub struct HeldSpans {
    /// Unique in this process, so that a span is never released to another owner.
    number: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slot of the span that was held last.
    last: usize,
}

/// A shared reference; present while `users` is not 0, and in the last slot longer if it keeps no bytes alive:
/// raising and lowering a count for a single message would take a tenth of the time of receiving it.
#[derive(Debug)]
struct Slot {
    backing: Option<Arc<Backing>>,
    users: u32,
}

/// Stands for no slot.
const NOTHING: u32 = u32::MAX;

/// A span held by a [`HeldSpans`] until it is released, or none. The bytes of a span that is never released stay
/// valid as long as its [`HeldSpans`] exists.
#[derive(Debug)]
pub struct HeldSpan {
    base: NonNull<u8>,
    len: usize,
    owner: u64,
    slot: u32,
    writable: bool,
}

// SAFETY: a description; the bytes are reached through the `HeldSpans` only.
unsafe impl Send for HeldSpan {}
// SAFETY: as above.
unsafe impl Sync for HeldSpan {}

/// Holds nothing.
impl Default for HeldSpan {
    fn default() -> Self {
        Self {
            base: NonNull::dangling(),
            len: 0,
            owner: 0,
            slot: NOTHING,
            writable: false,
        }
    }
}

impl HeldSpan {
    /// Whether it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot == NOTHING
    }
}

impl Default for HeldSpans {
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

impl HeldSpans {
    /// Holds a span and describes it in `held`. (Written in place: a description that is stored word by word, and
    /// loaded in pairs of words right afterwards, costs more than everything else here.)
    ///
    /// # Panics
    /// If `held` holds a span already.
    #[inline(always)]
    pub fn hold(&mut self, memory: &Memory, held: &mut HeldSpan) {
        assert_eq!(held.slot, NOTHING, "a span is held there");
        let slot = match self.slots.get_mut(self.last) {
            Some(slot) if slot.shares(memory) => {
                slot.users += 1;
                self.last
            }
            _ => self.add(memory),
        };
        held.base = memory.base;
        held.len = memory.len;
        held.owner = self.number;
        held.slot = slot as u32;
        held.writable = memory.writable;
    }

    #[inline(never)]
    fn add(&mut self, memory: &Memory) -> usize {
        let slot = Slot {
            backing: Some(Arc::clone(&memory.backing)),
            users: 1,
        };
        let unused = |slot: &Slot| slot.users == 0 && slot.backing.is_some();
        let kept = self.slots.get(self.last).is_some_and(unused);
        let free = match kept {
            true => Some(self.last),
            false => self.free.pop().map(|index| index as usize),
        };
        self.last = match free {
            Some(index) => {
                debug_assert!(
                    kept || self.slots[index].backing.is_none(),
                    "only the last slot keeps a reference without users, and it is not free"
                );
                self.slots[index] = slot;
                index
            }
            None => {
                assert!(
                    self.slots.len() < NOTHING as usize,
                    "too many spans are held"
                );
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.last
    }

    /// The span.
    ///
    /// # Panics
    /// If another owner holds the span, or `held` holds none.
    #[inline(always)]
    pub fn get<'a>(&'a self, held: &'a HeldSpan) -> BorrowedSpan<'a> {
        assert_eq!(held.owner, self.number, "held by another owner");
        let backing = self.slots[held.slot as usize].backing.as_ref();
        let backing = backing.expect("a slot with users has a backing");
        // SAFETY: `held` describes a span of the memory that was in this slot when it was made. It is one of the
        // slot's users, each of which is released once, so that the slot still has this memory.
        unsafe { BorrowedSpan::new(backing, held.base, held.len, held.writable) }
    }

    /// Releases the span; `held` holds none afterwards.
    ///
    /// # Panics
    /// If another owner holds the span, or `held` holds none.
    #[inline(always)]
    pub fn release(&mut self, held: &mut HeldSpan) {
        assert_eq!(held.owner, self.number, "held by another owner");
        held.owner = 0;
        let index = std::mem::replace(&mut held.slot, NOTHING);
        let slot = &mut self.slots[index as usize];
        slot.users -= 1;
        if slot.users == 0 && !(index as usize == self.last && slot.is_counter()) {
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

    /// Whether the reference keeps no bytes alive, because the described bytes belong to a foreign
    /// owner.
    #[inline]
    fn is_counter(&self) -> bool {
        let backing = self.backing.as_ref();
        backing.is_some_and(|backing| matches!(backing.kind, Kind::Foreign(Foreign::Counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ForeignMemory;
    use super::*;

    #[test]
    fn spans_of_one_allocation_count_once() {
        let mut spans = HeldSpans::default();
        let bytes = Memory::from_vec(b"0123456789".to_vec());
        let [mut one, mut part, mut elsewhere, mut again] = [(); 4].map(|()| HeldSpan::default());
        spans.hold(&bytes, &mut one);
        spans.hold(&bytes.slice(3..5).read_only(), &mut part);
        assert_eq!(bytes.sharers(), 2);
        let other = Memory::zeroed(4);
        spans.hold(&other, &mut elsewhere);
        spans.hold(&bytes, &mut again);
        assert_eq!((bytes.sharers(), other.sharers()), (3, 2));
        assert_eq!(spans.get(&part).to_vec(), b"34");
        assert!(!spans.get(&part).is_writable() && spans.get(&one).is_writable());
        spans.get(&elsewhere).write_at(0, b"abcd");
        let clone = spans.get(&elsewhere).clone();
        spans.release(&mut elsewhere);
        assert_eq!((other.sharers(), clone.to_vec()), (2, b"abcd".to_vec()));
        spans.release(&mut one);
        assert_eq!(bytes.sharers(), 3);
        spans.release(&mut part);
        assert_eq!(bytes.sharers(), 2);
        assert_eq!(spans.get(&again).to_vec(), b"0123456789");
        spans.release(&mut again);
        assert_eq!(bytes.sharers(), 1);
        // The slots are used again.
        spans.hold(&bytes, &mut one);
        spans.hold(&other, &mut again);
        assert_eq!((spans.slots.len(), bytes.sharers()), (3, 2));
        drop(spans);
        assert_eq!(bytes.sharers(), 1);
    }

    #[test]
    fn the_count_of_foreign_spans_stays_until_other_memory_is_held() {
        let mut spans = HeldSpans::default();
        let foreign = ForeignMemory::default();
        let mut bytes = *b"0123456789";
        let base = NonNull::from(&mut bytes).cast::<u8>();
        // SAFETY: the array outlives every clone, and is not referred to meanwhile.
        let span = unsafe { foreign.span(base, 10, true) };
        let own = Memory::zeroed(4);
        let [mut one, mut other] = [(); 2].map(|()| HeldSpan::default());
        for _ in 0..3 {
            for _ in 0..3 {
                spans.hold(&span, &mut one);
                assert_eq!(spans.get(&one).to_vec(), b"0123456789");
                spans.release(&mut one);
                assert_eq!(span.sharers(), 2);
            }
            // Its slot is used for other memory, whose bytes are not kept.
            spans.hold(&own, &mut other);
            assert_eq!((span.sharers(), own.sharers()), (1, 2));
            spans.hold(&span, &mut one);
            spans.release(&mut other);
            assert_eq!((span.sharers(), own.sharers()), (2, 1));
            spans.release(&mut one);
        }
        assert!(spans.slots.len() <= 2, "{}", spans.slots.len());
        // The slot that was used last stays another's while the count is released.
        spans.hold(&span, &mut one);
        spans.hold(&own, &mut other);
        spans.release(&mut one);
        assert_eq!((span.sharers(), own.sharers()), (1, 2));
        spans.release(&mut other);
        assert_eq!(own.sharers(), 1);
    }

    #[test]
    #[should_panic(expected = "held by another owner")]
    fn a_released_span_is_refused() {
        let mut spans = HeldSpans::default();
        let mut held = HeldSpan::default();
        spans.hold(&Memory::zeroed(1), &mut held);
        spans.release(&mut held);
        spans.get(&held);
    }

    #[test]
    #[should_panic(expected = "held by another owner")]
    fn a_span_of_another_owner_is_refused() {
        let (mut one, other) = (HeldSpans::default(), HeldSpans::default());
        let mut held = HeldSpan::default();
        one.hold(&Memory::zeroed(1), &mut held);
        other.get(&held);
    }
}
