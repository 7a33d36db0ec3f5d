//! Memory that all processes of a communicator on one host have mapped for their collective operations.
//!
//! ```text
//! sleepers, 8 bytes on a line of 64: one bit for each rank | a failure, 7 words, likewise
//! what rank 0 sleeps for, 8 bytes on a line of 64 | that of rank 1 | …
//! slots of rank 0: 8 of them | slots of rank 1 | …
//! slot: the number of the phase that it belongs to, + 1, 8 bytes | the call, 8 bytes | up to 48 bytes of payload, or, from byte 64 on, up to 8192
//! ```
//!
//! Operations are cut into *phases*, which all processes number alike. In a phase, a process fills its slot `phase mod 8` and publishes it by
//! writing the phase's number; then it reads the slots of those whose data it needs. It publishes a phase only when it has read what it needs
//! of the one before, and fills a slot only when all have published the phase behind the one that the slot was used for: by then all have read it.
//!
//! Beside the number of the phase, a process publishes its call ([`super::call`]). A process whose own call differs from that in a slot reads nothing of the slot, and
//! reports it in the area ([`super::failure`]): the slots' data would not be what it takes them for, and others may number their next phases differently.
//!
//! A process that has waited for long goes to sleep: it writes down the phase that it waits for, sets its bit, checks the slots once more,
//! and sleeps until it gets a notice. A process that has published a phase reads the bits before it waits itself, and sends a notice to each
//! sleeper whose phase is complete ([`sleepers`]): either the sleeper sees that the phase is complete, or the
//! publisher sees the sleeper's bit. So the process that completes a phase wakes those that sleep for it, and no other process does.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use causeway_engine::Memory;
use causeway_sys::sleepers;

use super::call::Call;
use super::failure::{self, Failure};

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
/// Where a failure is described; behind it, whether a process describes one, which processes have left, and the first operation that all do by messages.
const FAILURE: usize = LINE;
const FAILURE_CLAIMED: usize = FAILURE + failure::WORDS * WORD;
const LEFT: usize = FAILURE_CLAIMED + WORD;
const FIRST_BY_MESSAGES: usize = LEFT + WORD;
const _: () = assert!(FIRST_BY_MESSAGES + WORD <= FAILURE + LINE);
/// A bit of that operation's number: all processes have left, and it is final.
const FINAL: u64 = 1 << 63;
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
    /// The first phase that belongs to no operation yet, and the number of operations before it.
    next: AtomicU64,
    operations: AtomicU64,
    /// This process does no operation here any more.
    has_left: AtomicBool,
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
            operations: AtomicU64::new(0),
            has_left: false.into(),
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

    /// Takes the numbers of so many phases for an operation. Returns the first, and the operation's number.
    #[inline]
    pub(crate) fn take(&self, phases: u64) -> (u64, u64) {
        let first = self.next.load(Relaxed);
        self.next.store(first + phases, Relaxed);
        (first, self.take_number())
    }

    /// Takes the number of an operation that is not begun.
    #[inline]
    pub(crate) fn take_number(&self) -> u64 {
        let number = self.operations.load(Relaxed);
        self.operations.store(number + 1, Relaxed);
        number
    }

    /// Where in [`Area::memory`] the payload of a rank's slot lies, of so many bytes.
    #[inline]
    pub(crate) fn payload(&self, rank: u32, phase: u64, len: usize) -> usize {
        let beside = 2 * WORD;
        let offset = if len <= LINE - beside { beside } else { LINE };
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

    /// A rank among these, which have published a phase, whose call in it is another one.
    #[inline]
    pub(crate) fn find_other_call(&self, of: SlotsOf, phase: u64, call: Call) -> Option<u32> {
        let differs = |rank: u32| self.call(rank, phase) != call;
        match of {
            SlotsOf::None => None,
            SlotsOf::Rank(rank) => Some(rank).filter(|rank| differs(*rank)),
            SlotsOf::All => (0..self.ranks).find(|rank| differs(*rank)),
        }
    }

    /// The call of a rank in a phase that it has published.
    #[inline]
    pub(crate) fn call(&self, rank: u32, phase: u64) -> Call {
        let slot = self.slot(rank, phase);
        Call::of_word(self.word(slot + WORD).load(Relaxed))
    }

    /// The ranks that may be doing the operation of this number by messages: those that have published it last.
    #[cold]
    pub(crate) fn by_messages(&self, number: u64) -> u64 {
        let latest = |rank: u32| {
            let phases = (0..DEPTH).map(|slot| self.word(self.slot(rank, slot)).load(SeqCst));
            phases.max().unwrap_or(0).checked_sub(1)
        };
        let is_it = |rank: &u32| {
            let call = latest(*rank).map(|phase| self.call(*rank, phase));
            call.is_some_and(|call| call.is_by_messages(number))
        };
        let others = (0..self.ranks).filter(|rank| *rank != self.rank);
        others.filter(is_it).fold(0, |bits, rank| bits | 1 << rank)
    }

    /// Publishes this process's slot, and its call.
    #[inline]
    pub(crate) fn publish(&self, phase: u64, call: Call) {
        let slot = self.slot(self.rank, phase);
        self.word(slot + WORD).store(call.word(), Relaxed);
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

    /// Reports why no operation in the area can go on, unless another process has. Returns the ranks that sleep.
    #[cold]
    pub(crate) fn report(&self, failure: &Failure) -> u64 {
        // All processes return the failure that was found first.
        let claimed = self.word(FAILURE_CLAIMED);
        if claimed.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
            // A reader that sees the first word sees them all.
            for (at, word) in failure.encode().iter().enumerate().rev() {
                self.word(FAILURE + at * WORD).store(*word, SeqCst);
            }
        }
        let sleepers = sleepers::take(self.word(SLEEPERS), u64::MAX) & !(1 << self.rank);
        fence(SeqCst);
        sleepers
    }

    /// Whether a process has reported a failure.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.word(FAILURE).load(SeqCst) != 0
    }

    /// The same after this process has published a phase: if not, a process that reports a failure from here on sees that phase.
    #[cold]
    pub(crate) fn has_failed_by_now(&self) -> bool {
        fence(SeqCst);
        self.has_failed()
    }

    /// The failure that a process has reported, if one has.
    #[cold]
    pub(crate) fn failure(&self) -> Option<Failure> {
        let word = |at: usize| self.word(FAILURE + at * WORD).load(SeqCst);
        Failure::decode(std::array::from_fn(word))
    }

    /// Whether this process cannot do its next operation here, since the area has failed.
    #[cold]
    pub(crate) fn is_too_late(&self, failure: &Failure) -> bool {
        let next = self.next.load(Relaxed);
        self.has_left.load(Relaxed) || failure.phase().is_none_or(|failed| failed <= next)
    }

    /// This process does nothing here from the operation of this number on, which has failed. Returns false if the operation has not failed: all processes have left
    /// before, and do it by messages, as they do those behind it.
    #[cold]
    pub(crate) fn leave(&self, number: u64) -> bool {
        let first = self.word(FIRST_BY_MESSAGES);
        let mut found = first.load(SeqCst);
        loop {
            if found & FINAL != 0 {
                return number < found & !FINAL;
            }
            let later = found.max(number + 1);
            match first.compare_exchange(found, later, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => found = now,
            }
        }
        self.has_left.store(true, Relaxed);
        let left = self.word(LEFT).fetch_or(1 << self.rank, SeqCst) | 1 << self.rank;
        if left == u64::MAX >> (MOST_RANKS - self.ranks) {
            first.fetch_or(FINAL, SeqCst);
        }
        true
    }

    /// The number of this process's present operation: the last one that it has begun.
    #[cold]
    pub(crate) fn present(&self) -> u64 {
        self.operations.load(Relaxed).saturating_sub(1)
    }

    /// The number of this process's next operation.
    #[cold]
    pub(crate) fn next_number(&self) -> u64 {
        self.operations.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Function;
    use super::*;

    /// The same memory as several processes see it.
    fn views(ranks: u32) -> Vec<Area> {
        let memory = Memory::zeroed(len(ranks));
        let view = |rank| Area::new(memory.clone(), rank, ranks);
        (0..ranks).map(view).collect()
    }

    fn call() -> Call {
        Call::new(Function::Barrier, 0)
    }

    #[test]
    fn slots_do_not_overlap() {
        let area = &views(3)[0];
        let mut ends = 0;
        for rank in 0..3 {
            for phase in 0..DEPTH {
                let start = area.slot(rank, phase);
                assert!(start >= ends && start.is_multiple_of(LINE));
                assert_eq!(area.payload(rank, phase, 48), start + 16);
                assert_eq!(area.payload(rank, phase, 49), start + 64);
                ends = start + 64 + CAPACITY;
            }
        }
        assert_eq!(ends, len(3));
    }

    #[test]
    fn a_phase_is_complete_when_all_have_published_it() {
        let all = views(3);
        assert!(!all[0].is_published(SlotsOf::All, 0));
        all[0].publish(0, call());
        all[2].publish(0, call());
        assert!(!all[1].is_published(SlotsOf::All, 0));
        assert!(all[1].is_published(SlotsOf::Rank(2), 0));
        assert!(!all[1].is_published(SlotsOf::Rank(2), 1));
        all[1].publish(0, call());
        assert!((0..3).all(|rank| all[rank].is_published(SlotsOf::All, 0)));
        assert!(!all[0].is_published(SlotsOf::All, DEPTH));
    }

    #[test]
    fn only_the_last_wakes_those_that_sleep() {
        let all = views(3);
        all[0].publish(0, call());
        all[0].announce(SlotsOf::All, 0);
        assert_eq!(all[0].sleepers(), 0);
        all[1].publish(0, call());
        assert_eq!(all[1].sleepers(), 0);
        all[2].publish(0, call());
        assert_eq!(all[2].sleepers(), 1);
        assert_eq!(all[2].sleepers(), 0);
        all[0].announce(SlotsOf::Rank(1), 1);
        all[2].publish(1, call());
        assert_eq!(all[2].sleepers(), 0);
        all[1].publish(1, call());
        assert_eq!(all[1].sleepers(), 1);
        all[0].announce(SlotsOf::All, 1);
        all[0].withdraw();
        all[0].publish(1, call());
        assert_eq!(all[0].sleepers(), 0);
    }

    #[test]
    fn another_call_is_found() {
        let all = views(3);
        let other = Call::new(Function::Bcast, 8);
        for area in &all {
            area.publish(0, if area.rank == 1 { other } else { call() });
        }
        assert_eq!(all[0].find_other_call(SlotsOf::All, 0, call()), Some(1));
        assert_eq!(all[1].find_other_call(SlotsOf::All, 0, other), Some(0));
        assert_eq!(all[2].find_other_call(SlotsOf::Rank(0), 0, call()), None);
        assert_eq!(all[2].find_other_call(SlotsOf::None, 0, other), None);
        let continued = all[0].find_other_call(SlotsOf::Rank(0), 0, call().continued());
        assert_eq!(continued, Some(0));
    }

    #[test]
    fn the_first_failure_is_that_of_all_and_wakes_all() {
        let all = views(3);
        all[0].announce(SlotsOf::All, 0);
        assert_eq!((all[1].has_failed(), all[1].failure()), (false, None));
        assert_eq!(all[1].report(&Failure::Lost(2)), 1);
        assert_eq!(all[0].failure(), Some(Failure::Lost(2)));
        assert_eq!(all[0].report(&Failure::Lost(1)), 0);
        assert_eq!(all[0].failure(), Some(Failure::Lost(2)));
        assert!(all[2].has_failed());
    }
    #[test]
    fn all_leave_before_any_does_an_operation_by_messages() {
        let all = views(3);
        let failed = Failure::Differs {
            calls: [(0, call()), (1, call())],
            phase: 4,
        };
        all[0].report(&failed);
        // Ranks have begun 3, 5 and 9 operations of one phase each.
        for (area, begun) in all.iter().zip([3, 5, 9]) {
            (0..begun).for_each(|number| assert_eq!(area.take(1), (number, number)));
        }
        let late = Vec::from_iter(all.iter().map(|area| area.is_too_late(&failed)));
        assert_eq!(late, [false, true, true]);
        assert!(all[0].leave(2) && all[0].is_too_late(&failed));
        assert!(all[0].leave(3) && all[1].leave(4) && all[0].leave(4));
        assert_eq!((all[2].present(), all[2].next_number()), (8, 9));
        assert!(all[2].leave(8));
        // The first operation that none has begun is that of number 9.
        assert!(all[0].leave(5) && all[1].leave(8) && !all[0].leave(9));
        assert!(!all[1].leave(9) && !all[2].leave(10));
    }
}
