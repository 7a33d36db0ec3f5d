//! Memory that all processes of a communicator on one host have mapped for their collective operations.
//!
//! ```text
//! sleepers, 8 bytes on a line of 64: one bit for each rank | a failure, 7 words, likewise
//! what rank 0 sleeps for, 8 bytes on a line of 64, and how its memory is found: its process's number, the address of a word, the word | those of rank 1 | …
//! slots of rank 0: 8 of them | slots of rank 1 | …
//! slot: the number of the phase that it belongs to, + 1, 8 bytes | the call, 8 bytes | up to 48 bytes of payload, or, from byte 64 on, up to 8192
//! ```
//!
//! Operations are cut into *phases*, which all processes number alike. In a phase, a process fills its slot `phase mod 8` and publishes it by
//! writing the phase's number; then it reads the slots of those whose data it needs. It publishes a phase only when it has read what it needs
//! of the one before, and fills a slot only when all have published the phase behind the one that the slot was used for: by then all have read it.
//!
//! Beside the number of the phase, a process publishes its call ([`super::call`]). A process whose own call differs from that in a slot reads nothing of the slot, and
//! reports it in the area ([`super::failure`]), with the first phase that is concerned: the slots' data would not be what it takes them for, and others may number their next phases
//! differently. Operations whose phases are all before that one are done as ever.
//!
//! A process that has waited for long goes to sleep: it writes down the phase that it waits for, sets its bit, checks the slots once more,
//! and sleeps until it gets a notice. A process that has published a phase reads the bits before it waits itself, and sends a notice to each
//! sleeper whose phase is complete ([`sleepers`]): either the sleeper sees that the phase is complete, or the
//! publisher sees the sleeper's bit. So the process that completes a phase wakes those that sleep for it, and no other process does.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use causeway_engine::Memory;
use causeway_sys::pinned::{Mark, Pinned};
use causeway_sys::{process, sleepers};

use super::call::{Call, SlotsOf};
use super::failure::{self, Failure};

const LINE: usize = 64;
const WORD: usize = 8;
/// Bytes of payload that lie beside the call.
pub(crate) const BESIDE: usize = LINE - 2 * WORD;
/// Slots of a process.
pub(crate) const DEPTH: u64 = 8;
/// Bytes that a slot has room for.
pub(crate) const CAPACITY: usize = 8192;
const SLOT: usize = LINE + CAPACITY;
/// A communicator of more processes does without: each has one bit in a word.
pub(crate) const MOST_RANKS: u32 = 64;

const SLEEPERS: usize = 0;
/// Where a failure is described; behind it, whether a process describes one, which processes have left, the first operation that all do by messages, and the first phase that
/// fails.
const FAILURE: usize = LINE;
const FAILURE_CLAIMED: usize = FAILURE + failure::WORDS * WORD;
const LEFT: usize = FAILURE_CLAIMED + WORD;
const FIRST_BY_MESSAGES: usize = LEFT + WORD;
/// The complement of that phase; 0 as long as nothing has failed, so that the greatest number is that of the first phase.
const FAILED_FROM: usize = FIRST_BY_MESSAGES + WORD;
const _: () = assert!(FAILED_FROM + WORD <= FAILURE + LINE);
/// A bit of that operation's number: all processes have left, and it is final.
const FINAL: u64 = 1 << 63;
const WISHES: usize = 2 * LINE;
/// What a process sleeps for: the phase in the low bits, and above them 0 for all, the rank + 1 for one, or [`MOST_RANKS`] + the rank for those below that rank.
const PHASE_BITS: u32 = 56;

/// How the calls of others are, compared with a process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All are the same.
    Same,
    /// One is not published yet.
    Incomplete,
    /// This rank's is another one.
    Differs(u32),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Area {
    memory: Memory,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The first phase that belongs to no operation yet.
    next: AtomicU64,
    /// This process does no operation here any more.
    has_left: AtomicBool,
    /// All processes have published the phases below this one.
    known: AtomicU64,
    /// This process has checked for sleepers since it last published.
    is_told: AtomicBool,
    /// Processes may read each other's memory ([`super::reading`]); all of them find alike that they cannot.
    reads_memory: AtomicBool,
    /// Scans and operations on blocks of any lengths are done here as well.
    does_uneven: AtomicBool,
    /// The other processes, once one's memory is to be read; none for those whose memory cannot be.
    processes: OnceLock<Vec<Option<Pinned>>>,
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
            has_left: false.into(),
            known: AtomicU64::new(0),
            is_told: true.into(),
            reads_memory: false.into(),
            does_uneven: false.into(),
            processes: OnceLock::new(),
        }
    }

    /// All processes support reading each other's memory: this one publishes how its own is found. To be called before its first phase.
    pub(crate) fn allow_reading(&self) {
        if let Some(mark) = Mark::of_this_process() {
            let words = [process::own_number() as u64, mark.address, mark.value];
            for (at, word) in words.into_iter().enumerate() {
                self.word(self.found(self.rank, at)).store(word, Relaxed);
            }
        }
        self.reads_memory.store(true, Relaxed);
    }

    /// All processes do scans and operations on blocks of any lengths here.
    pub(crate) fn allow_uneven(&self) {
        self.does_uneven.store(true, Relaxed);
    }

    #[inline]
    pub(crate) fn does_uneven(&self) -> bool {
        self.does_uneven.load(Relaxed)
    }

    /// Where the word of this number is by which a rank's memory is found.
    fn found(&self, rank: u32, at: usize) -> usize {
        WISHES + rank as usize * LINE + (1 + at) * WORD
    }

    /// Whether processes read each other's memory in long operations. The same for all in operations that belong together.
    pub(crate) fn reads_memory(&self) -> bool {
        self.reads_memory.load(Relaxed)
    }

    /// They do no longer, as one of them cannot.
    #[cold]
    pub(crate) fn stop_reading(&self) {
        self.reads_memory.store(false, Relaxed);
    }

    /// Reads a rank's memory, from so many bytes behind the address on that it has published in a phase. `None` if that is not possible.
    pub(super) fn read(
        &self,
        (rank, phase, offset): (u32, u64, usize),
        into: &Memory,
        range: Range<usize>,
    ) -> Option<()> {
        let processes = self.processes.get_or_init(|| self.find_processes());
        let process = processes.get(rank as usize)?.as_ref()?;
        if range.is_empty() {
            return Some(());
        }
        let base = self.payload_words(rank, phase)[0].wrapping_add(offset as u64);
        process.read(base, into, range).ok()
    }

    #[cold]
    fn find_processes(&self) -> Vec<Option<Pinned>> {
        let find = |rank: u32| {
            let [number, address, value] =
                [0, 1, 2].map(|at| self.word(self.found(rank, at)).load(Relaxed));
            let is_other = rank != self.rank;
            let found = is_other.then(|| Pinned::of_number(number as i32, Mark { address, value }));
            found?.ok()
        };
        (0..self.ranks).map(find).collect()
    }

    /// A rank whose memory a process could not read, as it has published in a phase.
    pub(super) fn unread(&self, phase: u64) -> Option<u32> {
        let all = (0..self.ranks).map(|rank| self.payload_words(rank, phase)[1]);
        let most = all.max().filter(|found| *found > 0)?;
        Some((most - 1) as u32)
    }

    /// Fills the payload of this process's slot with two words.
    pub(super) fn set_payload_words(&self, phase: u64, words: [u64; 2]) {
        let at = self.payload(self.rank, phase, 2 * WORD);
        self.word(at).store(words[0], Relaxed);
        self.word(at + WORD).store(words[1], Relaxed);
    }

    /// Two words of a rank's payload, which it has published.
    pub(super) fn payload_words(&self, rank: u32, phase: u64) -> [u64; 2] {
        let at = self.payload(rank, phase, 2 * WORD);
        [at, at + WORD].map(|at| self.word(at).load(Relaxed))
    }

    /// Writes a word of this process's payload of a phase, which is at this place of the area.
    #[inline]
    pub(super) fn set_word(&self, at: usize, value: u64) {
        self.word(at).store(value, Relaxed);
    }

    /// A word of the payload that a rank has published, which is at this place of the area.
    #[inline]
    pub(super) fn payload_word(&self, at: usize) -> u64 {
        self.word(at).load(Relaxed)
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

    /// The first phase of this process's next operation.
    #[cold]
    pub(crate) fn next_phase(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Where in [`Area::memory`] the payload of a rank's slot lies, of so many bytes.
    #[inline]
    pub(crate) fn payload(&self, rank: u32, phase: u64, len: usize) -> usize {
        let offset = if len <= BESIDE { 2 * WORD } else { LINE };
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
            SlotsOf::Below(rank) => (0..rank).all(|rank| self.has_published(rank, phase)),
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

    /// Whether all processes have published the same in a phase, and nothing fails: none of them waits for a call that was refused before it.
    #[cold]
    pub(crate) fn have_all_done(&self, phase: u64) -> bool {
        !self.has_failed() && self.next_phase() > phase && self.is_published(SlotsOf::All, phase)
    }

    /// Those of these ranks that have not published a phase.
    #[cold]
    pub(crate) fn awaited(&self, of: SlotsOf, phase: u64) -> Vec<u32> {
        let is_awaited = |rank: &u32| match of {
            SlotsOf::None => false,
            SlotsOf::Rank(one) => one == *rank,
            SlotsOf::Below(one) => *rank < one,
            SlotsOf::All => true,
        };
        let all = (0..self.ranks).filter(is_awaited);
        all.filter(|rank| !self.has_published(*rank, phase))
            .collect()
    }

    /// The phase that all must have published before this process fills its slot of a phase; none if the slot is new.
    #[inline]
    pub(crate) fn before_filling(phase: u64) -> Option<u64> {
        (phase + 1).checked_sub(DEPTH)
    }

    /// Compares the calls of these ranks in a phase with this process's, which is published. Stops at the first rank that has not published its own, or calls another one.
    #[inline]
    pub(crate) fn compare(&self, of: SlotsOf, phase: u64, call: Call) -> Compared {
        let one = |rank: u32| {
            let slot = self.slot(rank, phase);
            if self.word(slot).load(Acquire) <= phase {
                Compared::Incomplete
            } else if self.word(slot + WORD).load(Relaxed) != call.word() {
                Compared::Differs(rank)
            } else {
                Compared::Same
            }
        };
        match of {
            SlotsOf::None => Compared::Same,
            SlotsOf::Rank(rank) => one(rank),
            SlotsOf::Below(rank) => {
                let mut all = (0..rank).map(one);
                let other = all.find(|found| *found != Compared::Same);
                other.unwrap_or(Compared::Same)
            }
            SlotsOf::All => {
                for rank in (0..self.ranks).filter(|rank| *rank != self.rank) {
                    match one(rank) {
                        Compared::Same => {}
                        found => return found,
                    }
                }
                self.known.store(phase + 1, Relaxed);
                Compared::Same
            }
        }
    }

    /// The call of a rank in a phase, if that is the latest that it has published there.
    #[inline]
    pub(crate) fn published(&self, rank: u32, phase: u64) -> Option<Call> {
        let is_there = self.word(self.slot(rank, phase)).load(SeqCst) == phase + 1;
        is_there.then(|| self.call(rank, phase))
    }

    /// Likewise with those of these ranks that are published already. Of two processes whose calls differ, and that both compare, at least one sees that of the other.
    #[inline]
    pub(crate) fn compare_published(&self, of: SlotsOf, phase: u64, call: Call) -> Compared {
        fence(SeqCst);
        let differs = |rank: &u32| self.published(*rank, phase).is_some_and(|its| its != call);
        let found = match of {
            SlotsOf::None => None,
            SlotsOf::Rank(rank) => Some(rank).filter(differs),
            SlotsOf::Below(rank) => (0..rank).find(differs),
            SlotsOf::All => (0..self.ranks).find(differs),
        };
        found.map_or(Compared::Same, Compared::Differs)
    }

    /// A rank that has published another call in a phase in which this process has published its own.
    #[cold]
    pub(crate) fn find_other_call(&self, phase: u64, call: Call) -> Option<u32> {
        match self.compare_published(SlotsOf::All, phase, call) {
            Compared::Differs(rank) => Some(rank),
            Compared::Same | Compared::Incomplete => None,
        }
    }

    /// The call of a rank in a phase that it has published.
    #[inline]
    pub(crate) fn call(&self, rank: u32, phase: u64) -> Call {
        let slot = self.slot(rank, phase);
        Call::of_word(self.word(slot + WORD).load(Relaxed))
    }

    /// Publishes this process's slot, and its call.
    #[inline]
    pub(crate) fn publish(&self, phase: u64, call: Call) {
        let slot = self.slot(self.rank, phase);
        self.word(slot + WORD).store(call.word(), Relaxed);
        self.word(slot).store(phase + 1, Release);
        self.is_told.store(false, Relaxed);
    }

    /// Whether processes may sleep until a phase that this one has published is complete.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        !self.is_told.load(Relaxed) && self.word(SLEEPERS).load(Relaxed) != 0
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
                below if below > u64::from(MOST_RANKS) => {
                    SlotsOf::Below((below as u32 - MOST_RANKS) % (self.ranks + 1))
                }
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
            SlotsOf::Below(rank) => u64::from(MOST_RANKS + rank),
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

    /// Reports why operations fail from a phase on, unless another process has described a failure before.
    #[cold]
    pub(crate) fn report(&self, failure: &Failure, from: u64) {
        // The texts of all processes describe the failure that was found first.
        let claimed = self.word(FAILURE_CLAIMED);
        if claimed.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
            // A reader that sees the first word sees them all.
            for (at, word) in failure.encode().iter().enumerate().rev() {
                self.word(FAILURE + at * WORD).store(*word, SeqCst);
            }
        }
        // Also if the process that has claimed the description has not written it yet: this process begins nothing here any more.
        let first = failure.phase().unwrap_or(0).min(from);
        self.word(FAILED_FROM).fetch_max(!first, SeqCst);
    }

    /// Whether a process has reported a failure.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.word(FAILED_FROM).load(SeqCst) != 0
    }

    /// Whether a phase fails, as a process has reported a failure from this or an earlier phase on.
    #[cold]
    pub(crate) fn fails(&self, phase: u64) -> bool {
        let from = self.word(FAILED_FROM).load(SeqCst);
        from != 0 && !from <= phase
    }

    /// Likewise, where other processes' memory was read before: what these had reported before they changed it is seen.
    #[cold]
    pub(crate) fn fails_after_reads(&self, phase: u64) -> bool {
        fence(SeqCst);
        self.fails(phase)
    }

    /// The failure that a process has described, if one has.
    #[cold]
    pub(crate) fn described(&self) -> Option<Failure> {
        let word = |at: usize| self.word(FAILURE + at * WORD).load(SeqCst);
        Failure::decode(std::array::from_fn(word))
    }

    /// The failure that a process has reported. One that is not described yet is not known any better.
    #[cold]
    pub(crate) fn failure(&self) -> Failure {
        let phase = !self.word(FAILED_FROM).load(SeqCst);
        self.described().unwrap_or(Failure::Undescribed { phase })
    }

    /// Whether this process cannot do its next operation here, since the area has failed.
    #[cold]
    pub(crate) fn is_too_late(&self) -> bool {
        self.has_left.load(Relaxed) || self.fails(self.next.load(Relaxed))
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
        all[0].publish(0, call());
        assert_eq!(all[0].find_other_call(0, call()), None);
        assert_eq!(
            all[0].compare(SlotsOf::All, 0, call()),
            Compared::Incomplete
        );
        all[1].publish(0, other);
        // The rank before is not there yet, but that one will not be right.
        assert_eq!(all[2].find_other_call(0, other), Some(0));
        all[2].publish(0, call());
        let compare = |rank: usize, of, call| all[rank].compare(of, 0, call);
        assert_eq!(compare(0, SlotsOf::All, call()), Compared::Differs(1));
        assert_eq!(compare(1, SlotsOf::All, other), Compared::Differs(0));
        assert_eq!(compare(2, SlotsOf::Rank(0), call()), Compared::Same);
        assert_eq!(compare(2, SlotsOf::None, other), Compared::Same);
        let continued = compare(0, SlotsOf::Rank(2), call().continued());
        assert_eq!(continued, Compared::Differs(2));
        // A slot that is used again shows nothing of the earlier phase.
        all[1].publish(DEPTH, other);
        assert_eq!(all[0].find_other_call(0, call()), None);
    }

    #[test]
    fn the_failure_that_was_found_first_is_that_of_all() {
        let all = views(3);
        assert_eq!((all[1].has_failed(), all[1].described()), (false, None));
        all[1].report(&Failure::Lost(2), u64::MAX);
        all[0].report(&Failure::Lost(1), u64::MAX);
        for area in &all {
            assert!(area.has_failed() && area.fails(0));
            assert_eq!(area.failure(), Failure::Lost(2));
        }
    }

    fn differs(phase: u64) -> Failure {
        let calls = [(0, call()), (1, call())];
        Failure::Differs { calls, phase }
    }

    #[test]
    fn phases_before_a_failure_do_not_fail() {
        let all = views(3);
        all[0].report(&differs(11), 20);
        assert_eq!(
            [10, 11, 12].map(|phase| all[2].fails(phase)),
            [false, true, true]
        );
        // The text stays, and earlier phases fail, too.
        all[1].report(&differs(10), 9);
        assert_eq!(
            [8, 9, 11].map(|phase| all[2].fails(phase)),
            [false, true, true]
        );
        assert_eq!(all[2].failure(), differs(11));
    }

    #[test]
    fn a_process_that_has_reported_begins_nothing_while_another_one_writes_its_description() {
        let all = views(2);
        // Rank 0 has claimed the description, and has no processor.
        all[0].word(FAILURE_CLAIMED).store(1, SeqCst);
        (0..5).for_each(|phase| assert_eq!(all[1].take(1), phase));
        all[1].report(&differs(4), 4);
        assert!(all[1].has_failed() && all[1].is_too_late());
        assert_eq!(all[1].failure(), Failure::Undescribed { phase: 4 });
        assert!(!all[0].fails(3) && all[0].fails(4));
    }

    #[test]
    fn all_leave_before_any_does_an_operation_by_messages() {
        let all = views(3);
        all[0].report(&differs(4), 4);
        // Ranks have begun 3, 5 and 9 operations of one phase each.
        for (area, begun) in all.iter().zip([3, 5, 9]) {
            (0..begun).for_each(|phase| assert_eq!(area.take(1), phase));
        }
        let late = Vec::from_iter(all.iter().map(Area::is_too_late));
        assert_eq!(late, [false, true, true]);
        assert!(all[0].leave(2) && all[0].is_too_late());
        assert!(all[0].leave(3) && all[1].leave(4) && all[0].leave(4));
        assert!(all[2].leave(8));
        // The first operation that none has begun is that of number 9.
        assert!(all[0].leave(5) && all[1].leave(8) && !all[0].leave(9));
        assert!(!all[1].leave(9) && !all[2].leave(10));
    }
}
