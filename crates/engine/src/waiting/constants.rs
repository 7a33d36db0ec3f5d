//! Constants that are not learnt, each with its measurement, and the measurements of a yield.

use std::time::{Duration, Instant};

/// Times and counts that are not learnt.
///
/// Figures say how late a message is found on average, in µs, in the recordings of the ring / many-to-one / beside
/// CPU-bound threads (`traces/table.rs` prints them): 2.4 / 12.9 / 130 with the usual values, and what half and double the
/// constant make of it. Where they are the same, another reason is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    /// Polls between two readings of the clock take about this long; also how long a wait polls
    /// that is expected to be long. Half: 2.4 / 14.0 / 104. Double: 2.4 / 10.6 / 114.
    pub(crate) batch: Duration,
    /// Most calls between two readings of the clock. A caller that polled all the time and then
    /// makes only one call per millisecond is late by at most 64 ms with its ticks.
    pub(crate) most_calls: u32,
    /// Most polls in a batch. A poll takes 8 ns with shm, the cheapest method. With a quarter of this value a wait yields after
    /// 0.5 µs even where no other thread wants the processor: a server of 64 clients that ask for 100 KB then helps them to copy
    /// later, and replies take 1.25 times as long. Half: 2.4 / 12.3 / 114. Double: 2.4 / 14.6 / 130.
    pub(crate) most_polls: u32,
    /// Assumed cost of a yield that runs no other thread, until it was measured.
    /// Half: 2.4 / 11.5 / 130. Double: 2.4 / 14.7 / 99. With 100 µs, where competitors go unnoticed: 41 in the ring.
    pub(crate) lone_yield: Duration,
    /// A yield that takes this long ran a CPU-bound thread, which the kernel lets run for 3 ms or more, or very many
    /// that wait. Half: 2.4 / 151 / 130. Double: the same as usual, but nearer to what the kernel grants.
    pub(crate) long_yield: Duration,
    /// For so long after a yield has run a CPU-bound thread, threads do not yield, and a process that has a processor to itself as a rule waits no longer than
    /// others. Such a yield takes 3 to 4 ms, so that finding out whether the CPU-bound thread is still there takes up to a twenty-fifth of the time.
    pub(crate) memory_of_long: Duration,
    /// Where other waiting threads use the same processor, the limit of a wait is multiplied by
    /// this: with the usual limit of 50 µs it is one long yield. Half: 2.4 / 13.7 / 130. Double:
    /// 2.4 / 15.6 / 130. None: 48 in the ring.
    pub(crate) contended_factor: u32,
    /// This many waits do not yield when a long yield follows another, and twice as many after the
    /// next. Half: 2.4 / 12.9 / 145. Double: 2.4 / 12.9 / 114. None: 1,265 beside CPU-bound
    /// threads.
    pub(crate) backoff_waits: u32,
    /// This many short yields show that a long one was an exception, and that oversubscription is
    /// over. Half: 2.4 / 15.7 / 130. Double: 2.4 / 36.0 / 130.
    pub(crate) memory_yields: u32,
    /// The shortest time slice, some twenty replies of a quick server; a switch takes about 1 µs, and what a client needs
    /// is in the caches only after some replies. The clock is read twice in it, which polls quiet methods. 64 clients that
    /// ask for 100 KB over shm wait 1.26 ms on average with 25 µs, 0.83 with 50 and 0.61 with 100; but neighbours
    /// wait as much longer for their slices. Half: 2.4 / 12.9 / 263. Double: 2.4 / 12.9 / 51.
    pub(crate) shortest_slice: Duration,
    /// Where other waiting threads use the same processor, the first polls of a wait for a step in
    /// shared memory are this many times those between two yields: they take about as long as a
    /// yield. A barrier of 4 ranks on 2 processors takes 1.74 µs; with 2 it takes 2.25 to 3.00,
    /// with 32 it takes 2.33 to 3.03, and one of 8 ranks 7.2 to 9.0 instead of 5.5 to 6.4.
    pub(crate) step_polls: u32,
    /// Most yields of a wait for a step in shared memory before the clock is read. A barrier of 4
    /// ranks on 2 processors takes 1.74 µs, with 50 yields 1.75 to 2.08, and 2.64 if the clock is
    /// read around each; of 8 ranks 5.5 to 6.4 µs with any value.
    pub(crate) first_yields: u32,
    /// Such waits between two that are measured from their beginning. With 7 a barrier takes 2.28
    /// µs.
    pub(crate) waits_per_measured: u32,
    /// After this many of them the clock is read, and waits are measured until they are found to
    /// end sooner than a long yield would. A reading costs 25 ns, less than two in a thousand of
    /// the time of that many waits.
    pub(crate) waits_per_reading: u32,
    /// A process does not park for so long after it has moved bytes of a transfer: longer than the other side takes for its part, 50 µs for half a
    /// megabyte, and than waking it would. 64 clients that ask for 100 KB over shm wait 756 to 774 µs on average, and 754 to 807 with none.
    pub(crate) linger: Duration,
    /// A count of the run queue (2 µs) that explains a long yield is valid for this many of them. With 1, replies to 64
    /// clients over tcp take 1.1 times as long.
    pub(crate) yields_per_count: u32,
    /// A caller that is awake ticks methods at least this often. Nothing is woken for it.
    /// Connection attempts and liveness, which ticks serve, are counted in seconds.
    pub(crate) tick: Duration,
}

/// The weight of past measurements is seven eighths, that of a new one an eighth. The recordings as above: 2.4 / 12.9 / 130. With
/// 2: 2.4 / 16.3 / 130. Half: 2.4 / 15.8 / 130. Double: 2.4 / 13.7 / 99. With 32: 2.4 / 11.7 / 99, but steps in shared memory are found
/// after 0.6 µs instead of 0.5. The third figure moves by as much with other constants, too.
pub(super) const WEIGHT: u64 = 8;

/// A method whose polls have found nothing this many times, while those of another have, is polled
/// only with each reading of the clock. Over sockets, this many polls of 0.3 µs take 0.3 ms, by
/// which a message over the other method may be late; a poll with shm takes 8 ns.
pub(crate) const QUIET_POLLS: u32 = 1000;

/// Polls in one call of a method, between two checks of what the caller waits for.
pub(crate) const POLLS_PER_CALL: u32 = 16;

/// How long a thread that makes progress for a program that computes leaves an operation to the
/// program first. Most programs that start a second operation do so within that time, and many then
/// wait for both, which needs no such thread. The thread is late by as much, 10 % of a computation
/// of 500 µs behind which it hides an exchange of 1 MiB. This is not a wait for an event: nothing
/// is lost if the program waits meanwhile, which makes progress by itself.
pub const PROGRESS_THREAD_DELAY: Duration = Duration::from_micros(50);

impl Constants {
    /// The values that the library uses.
    pub(crate) const USUAL: Self = Self {
        batch: Duration::from_micros(2),
        most_calls: 4 * POLLS_PER_CALL,
        most_polls: 16 * POLLS_PER_CALL,
        lone_yield: Duration::from_nanos(300),
        long_yield: Duration::from_millis(1),
        memory_of_long: Duration::from_millis(100),
        contended_factor: 20,
        backoff_waits: 16,
        memory_yields: 64,
        shortest_slice: Duration::from_micros(50),
        step_polls: 8,
        first_yields: 4,
        waits_per_measured: 96,
        waits_per_reading: 8,
        linger: Duration::from_micros(100),
        yields_per_count: 16,
        tick: Duration::from_millis(40),
    };

    /// The longest time slice, well below a long yield.
    pub(super) fn longest_slice(&self) -> Duration {
        8 * self.shortest_slice
    }

    /// The clock is read, and quiet methods are polled, about this often while the instance is in use.
    pub(super) fn clock_period(&self) -> Duration {
        self.shortest_slice / 2
    }
}

/// The measurements of a yield.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Yielded {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    /// Whether another thread ran, if the policy has requested it.
    pub(crate) switched: Option<bool>,
    /// Threads in the run queue of a processor, including the caller, if the policy has requested
    /// it.
    pub(crate) run_queue: Option<u32>,
}

impl Yielded {
    pub(super) fn took(&self) -> Duration {
        self.until.saturating_duration_since(self.from)
    }
}

pub(super) fn smoothed(before: u64, new: u64) -> u64 {
    ((WEIGHT - 1) * before + new) / WEIGHT
}
