//! Memory that all processes of a communicator on one host have mapped for their collective operations.
//!
//! ```text
//! sleepers, 8 bytes on a line of 64: one bit for each rank | the lost rank + 1, likewise
//! what rank 0 sleeps for, 8 bytes on a line of 64 | that of rank 1 | …
//! slots of rank 0: 8 of them | slots of rank 1 | …
//! slot: the number of the phase that it belongs to, + 1, 8 bytes | up to 56 bytes of payload, or, from byte 64 on, up to 8192
//! ```
//!
//! Operations are cut into *phases*, which all processes number alike. In a phase, a process fills its slot `phase mod 8` and publishes it by
//! writing the phase's number; then it reads the slots of those whose data it needs. It publishes a phase only when it has read what it needs
//! of the one before, and fills a slot only when all have published the phase behind the one that the slot was used for: by then all have read it.
//!
//! A process that has waited for long goes to sleep: it writes down the phase that it waits for, sets its bit, checks the slots once more,
//! and sleeps until it gets a notice. A process that has published a phase reads the bits before it waits itself, and sends a notice to each
//! sleeper whose phase is complete ([`sleepers`]): either the sleeper sees that the phase is complete, or the
//! publisher sees the sleeper's bit. So the process that completes a phase wakes those that sleep for it, and no other process does.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use causeway_engine::Memory;
use causeway_sys::sleepers;

const LINE: usize = 64;
const WORD: usize = 8;
/// Slots of a process.
pub(crate) const DEPTH: u64 = 8;
/// Bytes that a slot has room for.
pub(crate) const CAPACITY: usize = 8192;
const SLOT: usize = LINE + CAPACITY;
/// A communicator of more processes does without: each has one bit in a word.
pub(crate) const MOST_RANKS: u32 = 64;

const SLEEPERS: usize = 0;
const LOST: usize = LINE;
const WISHES: usize = 2 * LINE;
/// What a process sleeps for: the phase in the low bits, and above them the rank + 1, or 0 for all.
const PHASE_BITS: u32 = 56;

/// Whose slots a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotsOf {
    None,
    Rank(u32),
    All,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Area {
    memory: Memory,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The first phase that belongs to no operation yet.
    next: AtomicU64,
    /// All processes have published the phases below this one.
    known: AtomicU64,
    /// This process has checked for sleepers since it last published.
    is_told: AtomicBool,
}

/// Bytes of the area of so many processes.
pub(crate) fn len(ranks: u32) -> usize {
    slots(ranks) + ranks as usize * DEPTH as usize * SLOT
}

/// Where the slots begin.
fn slots(ranks: u32) -> usize {
    WISHES + ranks as usize * LINE
}

impl Area {
    /// The area in memory of the length that [`len`] returns, which is zero at first.
    pub(crate) fn new(memory: Memory, rank: u32, ranks: u32) -> Self {
        Self {
            memory,
            rank,
            ranks,
            next: AtomicU64::new(0),
            known: AtomicU64::new(0),
            is_told: true.into(),
        }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory
            .word(at)
            .expect("words lie at multiples of 8 inside the area, which is for reading and writing")
    }

    #[inline]
    fn slot(&self, rank: u32, phase: u64) -> usize {
        let slot = rank as usize * DEPTH as usize + (phase % DEPTH) as usize;
        slots(self.ranks) + slot * SLOT
    }

    /// Takes the numbers of so many phases for an operation. Returns the first.
    #[inline]
    pub(crate) fn take(&self, phases: u64) -> u64 {
        let first = self.next.load(Relaxed);
        self.next.store(first + phases, Relaxed);
        first
    }

    /// Where in [`Area::memory`] the payload of a rank's slot lies, of so many bytes.
    #[inline]
    pub(crate) fn payload(&self, rank: u32, phase: u64, len: usize) -> usize {
        let offset = if len <= LINE - WORD { WORD } else { LINE };
        self.slot(rank, phase) + offset
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline]
    fn has_published(&self, rank: u32, phase: u64) -> bool {
        self.word(self.slot(rank, phase)).load(Acquire) > phase
    }

    /// Whether these ranks have published a phase.
    #[inline]
    pub(crate) fn is_published(&self, of: SlotsOf, phase: u64) -> bool {
        match of {
            SlotsOf::None => true,
            SlotsOf::Rank(rank) => self.has_published(rank, phase),
            SlotsOf::All => {
                if self.known.load(Relaxed) > phase {
                    return true;
                }
                let all = (0..self.ranks).all(|rank| self.has_published(rank, phase));
                if all {
                    self.known.store(phase + 1, Relaxed);
                }
                all
            }
        }
    }

    /// The phase that all must have published before this process fills its slot of a phase; none if the slot is new.
    #[inline]
    pub(crate) fn before_filling(phase: u64) -> Option<u64> {
        (phase + 1).checked_sub(DEPTH)
    }

    /// Publishes this process's slot.
    #[inline]
    pub(crate) fn publish(&self, phase: u64) {
        let slot = self.slot(self.rank, phase);
        self.word(slot).store(phase + 1, Release);
        self.is_told.store(false, Relaxed);
    }

    /// Returns the processes that sleep until a phase is complete which is complete now; the caller sends each of them a notice. To be
    /// called before this process waits or does other work, if it has published anything.
    #[inline]
    pub(crate) fn sleepers(&self) -> u64 {
        if self.is_told.load(Relaxed) {
            return 0;
        }
        self.is_told.store(true, Relaxed);
        match sleepers::sleepers(self.word(SLEEPERS)) {
            0 => 0,
            bits => self.wake(bits),
        }
    }

    /// Takes the bits of the sleepers whose phase is complete.
    #[cold]
    fn wake(&self, bits: u64) -> u64 {
        let mut ready = 0;
        for rank in (0..self.ranks).filter(|rank| bits >> rank & 1 == 1) {
            let wish = self.word(WISHES + rank as usize * LINE).load(SeqCst);
            let phase = wish & ((1 << PHASE_BITS) - 1);
            let of = match wish >> PHASE_BITS {
                0 => SlotsOf::All,
                rank => SlotsOf::Rank((rank as u32 - 1) % self.ranks),
            };
            if self.is_published(of, phase) {
                ready |= 1 << rank;
            }
        }
        sleepers::take(self.word(SLEEPERS), ready)
    }

    /// Announces the phase that this process is going to sleep for. It checks once more before it does.
    #[cold]
    pub(crate) fn announce(&self, of: SlotsOf, phase: u64) {
        let rank = match of {
            SlotsOf::Rank(rank) => u64::from(rank) + 1,
            SlotsOf::All | SlotsOf::None => 0,
        };
        let wish = self.word(WISHES + self.rank as usize * LINE);
        let wish = (wish, rank << PHASE_BITS | phase);
        sleepers::announce_wish(self.word(SLEEPERS), self.rank, wish);
    }

    /// Withdraws the announcement: this process no longer sleeps.
    #[cold]
    pub(crate) fn withdraw(&self) {
        sleepers::withdraw(self.word(SLEEPERS), self.rank);
    }

    /// Marks a rank lost, so that no operation in the area can go on. Returns the ranks that sleep.
    #[cold]
    pub(crate) fn give_up(&self, lost: u32) -> u64 {
        // All processes report the rank whose loss was found first.
        let _ = (self.word(LOST)).compare_exchange(0, u64::from(lost) + 1, SeqCst, SeqCst);
        sleepers::take(self.word(SLEEPERS), u64::MAX) & !(1 << self.rank)
    }

    /// The rank that is lost, if one has found that.
    #[cold]
    pub(crate) fn lost(&self) -> Option<u32> {
        let lost = self.word(LOST).load(SeqCst);
        lost.checked_sub(1).map(|rank| rank as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same memory as several processes see it.
    fn views(ranks: u32) -> Vec<Area> {
        let memory = Memory::zeroed(len(ranks));
        let view = |rank| Area::new(memory.clone(), rank, ranks);
        (0..ranks).map(view).collect()
    }

    #[test]
    fn slots_do_not_overlap() {
        let area = &views(3)[0];
        let mut ends = 0;
        for rank in 0..3 {
            for phase in 0..DEPTH {
                let start = area.slot(rank, phase);
                assert!(start >= ends && start.is_multiple_of(LINE));
                assert_eq!(area.payload(rank, phase, 56), start + 8);
                assert_eq!(area.payload(rank, phase, 57), start + 64);
                ends = start + 64 + CAPACITY;
            }
        }
        assert_eq!(ends, len(3));
    }

    #[test]
    fn a_phase_is_complete_when_all_have_published_it() {
        let all = views(3);
        assert!(!all[0].is_published(SlotsOf::All, 0));
        all[0].publish(0);
        all[2].publish(0);
        assert!(!all[1].is_published(SlotsOf::All, 0));
        assert!(all[1].is_published(SlotsOf::Rank(2), 0));
        assert!(!all[1].is_published(SlotsOf::Rank(2), 1));
        all[1].publish(0);
        assert!((0..3).all(|rank| all[rank].is_published(SlotsOf::All, 0)));
        assert!(!all[0].is_published(SlotsOf::All, DEPTH));
    }

    #[test]
    fn only_the_last_wakes_those_that_sleep() {
        let all = views(3);
        all[0].publish(0);
        all[0].announce(SlotsOf::All, 0);
        assert_eq!(all[0].sleepers(), 0);
        all[1].publish(0);
        assert_eq!(all[1].sleepers(), 0);
        all[2].publish(0);
        assert_eq!(all[2].sleepers(), 1);
        assert_eq!(all[2].sleepers(), 0);
        all[0].announce(SlotsOf::Rank(1), 1);
        all[2].publish(1);
        assert_eq!(all[2].sleepers(), 0);
        all[1].publish(1);
        assert_eq!(all[1].sleepers(), 1);
        all[0].announce(SlotsOf::All, 1);
        all[0].withdraw();
        all[0].publish(1);
        assert_eq!(all[0].sleepers(), 0);
    }

    #[test]
    fn a_loss_wakes_all() {
        let all = views(3);
        all[0].announce(SlotsOf::All, 0);
        assert_eq!(all[1].lost(), None);
        assert_eq!(all[1].give_up(2), 1);
        assert_eq!((all[0].lost(), all[0].give_up(1)), (Some(2), 0));
        assert_eq!(all[0].lost(), Some(2));
    }
}
