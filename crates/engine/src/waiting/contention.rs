//! Which threads compete for the processor, as far as yields show.
//!
//! A yield returns at once if no other thread wants the processor. The cost of that on this machine
//! is measured: the kernel counts the context switches of a thread, so a yield without one can be
//! recognized. A yield that takes twice as long ran other threads, and its duration shows what they
//! did with the processor.

use std::time::Duration;

use super::constants::{Constants, WEIGHT, Yielded, smoothed};

/// Lone yields that are measured. The shortest one counts, since any of them may have been
/// interrupted.
const LONE_SAMPLES: u32 = 4;
/// Most yields between two whose switches are counted: the counts then cost less than a hundredth
/// of the yields.
const MAX_COUNT_GAP: u32 = 256;

/// Which threads compete for the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Competitors {
    None,
    /// Other threads lately ran when this thread yielded, and not for long.
    Waiting,
    /// A thread computes: yields took long.
    CpuBound,
}

/// What is learnt from yields.
pub(super) struct Contention {
    /// The cost of a yield that runs no other thread, in nanoseconds.
    lone_ns: u64,
    /// How many such yields were measured.
    lone_samples: u32,
    /// Yields until switches are counted again, and how many there were between the last two
    /// counts.
    count_in: u32,
    count_gap: u32,
    /// Smoothed duration of yields that were not long, in nanoseconds.
    usual_ns: u64,
    /// Waits that still do not yield.
    backoff: u32,
    /// How many such waits there will be the next time.
    next_backoff: u32,
    /// Yields since the last long one.
    since_long: u32,
    /// Yields until oversubscription is forgotten, and how long a round of all waiting threads
    /// took.
    oversubscribed: u32,
    round: Duration,
    /// The run queue's length, and for how many long yields it is valid.
    run_queue: Option<u32>,
    run_queue_holds: u32,
}

impl Contention {
    pub(super) fn new(constants: &Constants) -> Self {
        Self {
            lone_ns: constants.lone_yield.as_nanos() as u64,
            lone_samples: 0,
            count_in: 0,
            count_gap: 0,
            usual_ns: 0,
            backoff: 0,
            next_backoff: constants.backoff_waits,
            since_long: constants.memory_yields,
            oversubscribed: 0,
            round: Duration::ZERO,
            run_queue: None,
            run_queue_holds: 0,
        }
    }

    #[inline]
    pub(super) fn competitors(&self) -> Competitors {
        if self.backoff > 0 {
            Competitors::CpuBound
        } else if self.usual_ns > 2 * self.lone_ns {
            Competitors::Waiting
        } else {
            Competitors::None
        }
    }

    pub(super) fn lone_yield_ns(&self) -> u64 {
        self.lone_ns
    }

    /// Whether the run queue was counted lately.
    pub(super) fn knows_run_queue(&self) -> bool {
        self.run_queue.is_some()
    }

    pub(super) fn wants_switches(&self) -> bool {
        self.lone_samples < LONE_SAMPLES && self.count_in == 0
    }

    /// Whether to count the run queue after a long yield that took this long: the last count is too old, or does not
    /// explain it. Threads that have come since then, as when a program starts, must not pass for a CPU-bound one: the
    /// caller would park where all others yield, and a thread that wakes up runs before these.
    pub(super) fn wants_run_queue(&self, took: Duration, constants: &Constants) -> bool {
        self.run_queue_holds == 0 || !is_shared(took, self.run_queue, constants)
    }

    /// Some rounds of all threads that wait on this processor, where they are very many.
    pub(super) fn rounds(&self) -> Duration {
        match self.oversubscribed {
            0 => Duration::ZERO,
            _ => self.round * WEIGHT as u32,
        }
    }

    /// A wait has ended.
    #[inline]
    pub(super) fn wait_ended(&mut self) {
        self.backoff = self.backoff.saturating_sub(1);
    }

    /// Learns from a yield. Returns whether others ran.
    pub(super) fn yielded(&mut self, constants: &Constants, of: &Yielded) -> bool {
        let took = of.took();
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        match of.switched {
            Some(false) => {
                self.lone_ns = match self.lone_samples {
                    0 => took_ns.max(1),
                    _ => self.lone_ns.min(took_ns.max(1)),
                };
                self.lone_samples += 1;
                self.count_gap = 0;
            }
            // Where each yield runs other threads, there is no lone yield to measure, and counting
            // takes a system call or two.
            Some(true) => self.count_gap = (2 * self.count_gap).clamp(1, MAX_COUNT_GAP),
            None => {}
        }
        self.count_in = match of.switched {
            Some(_) => self.count_gap,
            None => self.count_in.saturating_sub(1),
        };
        if took < constants.long_yield {
            self.short(constants, took);
        } else if is_shared(took, self.run_queue(constants, of.run_queue), constants) {
            self.oversubscribed = constants.memory_yields;
            self.round = took;
            self.backoff = 0;
            self.next_backoff = constants.backoff_waits;
            self.short(constants, took);
        } else {
            self.long(constants);
        }
        took_ns > 2 * self.lone_ns
    }

    /// The length of the run queue after a long yield, counted now or lately.
    fn run_queue(&mut self, constants: &Constants, counted: Option<u32>) -> Option<u32> {
        if counted.is_some() {
            self.run_queue = counted;
            self.run_queue_holds = constants.yields_per_count;
        } else if self.run_queue_holds == 0 {
            self.run_queue = None;
        }
        self.run_queue_holds = self.run_queue_holds.saturating_sub(1);
        self.run_queue
    }

    fn short(&mut self, constants: &Constants, took: Duration) {
        self.since_long = self.since_long.saturating_add(1);
        self.oversubscribed = self.oversubscribed.saturating_sub(1);
        // One longer yield must not raise the average for hundreds of short ones.
        let took = took.min(constants.shortest_slice);
        self.usual_ns = smoothed(self.usual_ns, took.as_nanos() as u64);
    }

    /// One long yield among many short ones is an exception; the next is not.
    fn long(&mut self, constants: &Constants) {
        if self.since_long >= constants.memory_yields {
            self.next_backoff = constants.backoff_waits;
        } else {
            self.backoff = self.next_backoff;
            let most = constants.backoff_waits * constants.memory_yields;
            self.next_backoff = (self.next_backoff * 2).min(most);
        }
        self.since_long = 0;
    }
}

/// Whether a long yield ran so many threads that none of them ran for long. A CPU-bound thread
/// keeps the processor until the kernel preempts it, after 3 ms or more; a waiting one gives it up
/// after at most a slice.
fn is_shared(took: Duration, run_queue: Option<u32>, constants: &Constants) -> bool {
    let others = run_queue.map_or(1, |threads| threads.saturating_sub(1).max(1));
    took / others < constants.long_yield
}
