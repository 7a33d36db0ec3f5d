//! Memory that all processes of a window have mapped: the memory of each, and the words that order accesses.
//!
//! ```text
//! control of rank 0 | control of rank 1 | … | segment of rank 0 | segment of rank 1 | …
//! control: lock, 8 bytes on a line of 64 | 16 stripes, likewise | the waiters for the lock: one bit for each rank
//! lock:    0, or how many share it, or (the rank that has it alone, + 1) << 32
//! stripe:  0, or the rank that holds it, + 1
//! ```
//!
//! A process that finds a lock taken sets its bit, looks once more, and sleeps until it gets a notice. The process that releases the lock
//! clears all bits and sends a notice to each that had one set ([`sleepers`]): either the waiting process
//! sees the lock free or the releasing one sees the bit. A stripe is only held while a process computes: one that finds it taken yields.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_engine::Memory;
use causeway_sys::sleepers;

use crate::error::{Error, Result};

const LINE: usize = 64;
const STRIPES: usize = 16;
/// A stripe is for blocks of so many bytes (2^12).
const BLOCK_BITS: u32 = 12;
/// Segments begin at multiples of this, unless they have to lie one behind the other.
pub(super) const ALIGNED: u64 = 4096;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Area {
    memory: Memory,
    /// Where each segment begins.
    starts: Vec<usize>,
    ranks: usize,
    /// Bytes of the control of one rank.
    control: usize,
}

/// Bytes of the control of one rank.
fn control_bytes(ranks: usize) -> usize {
    LINE * (1 + STRIPES) + (ranks.div_ceil(64) * 8).next_multiple_of(LINE)
}

/// Where segments of these sizes begin, and where the last one ends; `None` if that is no size of memory.
pub(super) fn layout(sizes: &[u64], is_contiguous: bool) -> Option<(Vec<usize>, usize)> {
    let control = control_bytes(sizes.len()).checked_mul(sizes.len())? as u64;
    let mut end = control.checked_next_multiple_of(ALIGNED)?;
    let mut starts = Vec::with_capacity(sizes.len());
    for size in sizes {
        if !is_contiguous {
            end = end.checked_next_multiple_of(match *size < ALIGNED {
                true => LINE as u64,
                false => ALIGNED,
            })?;
        }
        starts.push(usize::try_from(end).ok()?);
        end = end.checked_add(*size)?;
    }
    let end = usize::try_from(end)
        .ok()
        .filter(|end| isize::try_from(*end).is_ok())?;
    Some((starts, end))
}

impl Area {
    /// The area in `memory`, which is zero at first, with the layout that `layout` has returned.
    pub(super) fn new(memory: Memory, starts: Vec<usize>) -> Self {
        let ranks = starts.len();
        Self {
            memory,
            starts,
            ranks,
            control: control_bytes(ranks),
        }
    }

    /// All of it.
    #[inline]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Where the segment of a rank begins in it.
    #[inline]
    pub(super) fn start(&self, rank: u32) -> usize {
        self.starts[rank as usize]
    }

    /// The segment of a rank.
    pub(super) fn segment(&self, rank: usize, size: u64) -> Memory {
        let start = self.starts[rank];
        self.memory.slice(start..start + size as usize)
    }

    #[inline(always)]
    fn word(&self, rank: u32, offset: usize) -> &AtomicU64 {
        let at = rank as usize * self.control + offset;
        self.memory.word(at).expect(
            "control words lie at multiples of 8 inside the area, which is for reading and writing",
        )
    }

    /// The stripe of the block that a byte of the area lies in, and where the block ends.
    #[inline(always)]
    pub(super) fn stripe(&self, rank: u32, at: usize) -> (Stripe<'_>, usize) {
        let block = at >> BLOCK_BITS;
        let word = self.word(rank, LINE * (1 + block % STRIPES));
        (Stripe(word), (block + 1) << BLOCK_BITS)
    }

    /// Tries to take the lock of a rank's memory. If that fails, returns the exclusive owner, if there is one.
    pub(super) fn try_lock(&self, of: u32, own: u32, exclusive: bool) -> Result<(), Option<u32>> {
        sleepers::try_lock(self.word(of, 0), own, exclusive)
    }

    /// Releases the lock of a rank's memory. Returns the ranks that wait for it.
    pub(super) fn unlock(&self, of: u32, exclusive: bool) -> Vec<u32> {
        sleepers::unlock(self.word(of, 0), exclusive);
        let mut waiting = Vec::new();
        for group in 0..self.ranks.div_ceil(64) {
            let word = self.waiting(of, group);
            let bits = match sleepers::sleepers(word) {
                0 => continue,
                bits => sleepers::take(word, bits),
            };
            let ranks = (0..64).filter(|bit| bits >> bit & 1 == 1);
            waiting.extend(ranks.map(|bit| (group * 64) as u32 + bit));
        }
        waiting
    }

    fn waiting(&self, of: u32, group: usize) -> &AtomicU64 {
        self.word(of, LINE * (1 + STRIPES) + group * 8)
    }

    /// Announces that this rank waits for the lock of a rank's memory. The caller tries to take the
    /// lock once more before it sleeps.
    pub(super) fn wait(&self, of: u32, own: u32) {
        sleepers::announce(self.waiting(of, own as usize / 64), own % 64);
    }
}

/// A word that one process at a time holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stripe<'a>(&'a AtomicU64);

impl Stripe<'_> {
    /// Tries to take it. Returns whether that has succeeded.
    #[inline]
    pub(super) fn try_hold(&self, own: u32) -> bool {
        let taken = self
            .0
            .compare_exchange(0, u64::from(own + 1), Acquire, Relaxed);
        taken.is_ok()
    }

    /// The owner, if there is one.
    #[inline]
    pub(super) fn holder(&self) -> Option<u32> {
        let holder = self.0.load(Relaxed).checked_sub(1);
        holder.map(|rank| rank as u32)
    }

    /// Releases the word.
    #[inline]
    pub(super) fn release(&self) {
        self.0.store(0, Release);
    }
}

/// The error of sizes that no memory has.
pub(super) fn too_large() -> Error {
    Error::new(
        crate::abi::ERR_SIZE,
        "the sizes of all processes together are too large",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(ranks: usize) -> Area {
        let (starts, end) = layout(&vec![100; ranks], true).expect("it is small");
        Area::new(Memory::zeroed(end), starts)
    }

    #[test]
    fn segments_lie_behind_the_control() {
        let (starts, end) = layout(&[5, 0, 7], true).expect("it is small");
        assert_eq!((starts[1] - starts[0], starts[2] - starts[1]), (5, 0));
        assert_eq!(end - starts[2], 7);
        assert!(starts[0] >= 3 * control_bytes(3));
        let (starts, _) = layout(&[5000, 5, 5000], false).expect("it is small");
        assert!(starts[0].is_multiple_of(4096) && starts[1].is_multiple_of(64));
        assert!(starts[2].is_multiple_of(4096));
        assert!(layout(&[u64::MAX, 1], true).is_none());
    }

    #[test]
    fn locks_exclude_and_name_waiting_ranks() {
        let area = area(70);
        assert_eq!(area.try_lock(1, 5, true), Ok(()));
        assert_eq!(area.try_lock(1, 69, false), Err(Some(5)));
        area.wait(1, 69);
        area.wait(1, 3);
        assert_eq!(area.unlock(1, true), [3, 69]);
        assert_eq!(area.try_lock(1, 69, false), Ok(()));
        assert_eq!(area.try_lock(1, 3, false), Ok(()));
        assert_eq!(area.try_lock(1, 5, true), Err(None));
        assert!(area.unlock(1, false).is_empty());
        assert_eq!(area.try_lock(1, 5, true), Err(None));
        assert!(area.unlock(1, false).is_empty());
        assert_eq!(area.try_lock(1, 5, true), Ok(()));
        assert_eq!(area.try_lock(2, 5, true), Ok(()));
    }

    #[test]
    fn a_stripe_is_held_once() {
        let area = area(2);
        let (stripe, end) = area.stripe(1, 4096);
        assert_eq!(end, 8192);
        assert!(stripe.try_hold(1));
        let (same, _) = area.stripe(1, 8191);
        assert_eq!((same.try_hold(0), same.holder()), (false, Some(1)));
        assert!(area.stripe(1, 8192).0.try_hold(0));
        assert!(area.stripe(0, 4096).0.try_hold(0));
        stripe.release();
        assert_eq!(same.holder(), None);
        assert!(same.try_hold(0));
    }
}
