//! How to wait: one policy decides when to poll, to yield the processor, to park, to read the clock
//! and to tick.
//!
//! [`Policy`] uses no clock, no descriptor and no `/proc`: times and counts are passed in,
//! decisions are returned. The caller, `endpoint/progress.rs`, carries them out.
//!
//! A wait polls first, then parks, as long as messages usually come before the parking (Nagar's
//! Spin Block); where they do not, it parks almost at once. What the policy learns from
//! measurements:
//!
//! - How long the awaited event usually takes. Messages, processes that meet in shared memory, and
//!   locks there are measured separately ([`Awaited`]).
//! - How many polls take a microsecond, likewise: some nanoseconds each in shared memory, a system
//!   call over sockets.
//! - Which threads compete for the processor ([`contention`]), from how long a yield takes. With others that wait
//!   for messages, it is worth yielding to each other for long: a yield costs less than a wake-up, and while all of
//!   them are awake none has to wake another. A CPU-bound thread keeps the processor for milliseconds; beside it,
//!   parking is better, since a thread that wakes up preempts it, and one that yields queues behind it.
//!
//! A client whose server is quick finds each reply before it would yield, and so would keep the processor until
//! the kernel takes it away, some milliseconds and a thousand replies later: fair over minutes, with waits of a
//! hundred milliseconds. Therefore a thread that has been awake for a time slice yields at the beginning of its
//! next wait, when its request is on its way. Slices are short while yields run other threads, and grow
//! while they do not. A CPU-bound competitor that has had more than its share is not run by a yield, which lets slices
//! grow beside it as well. If it is run, no thread yields for some time: the kernel gives it its share without that.
//!
//! [`constants`] lists what each constant was measured on. [`recorder`] records the inputs of the
//! policy; the tests in `traces` replay recordings against it, and against halves and doubles of
//! each constant.

mod constants;
mod contention;
mod recorder;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traces;

use std::time::{Duration, Instant};

pub use self::constants::PROGRESS_THREAD_DELAY;
use self::constants::{Constants, WEIGHT, smoothed};
pub(crate) use self::constants::{POLLS_PER_CALL, QUIET_POLLS, Yielded};
use self::contention::{Competitors, Contention};
use self::recorder::Recorder;

/// What a waiting thread should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Poll this many times, then read the clock.
    Poll(u32),
    /// Yield the processor.
    Yield,
    /// Park until there is something to poll for.
    Park,
}

/// What a thread waits for. The kinds differ in the cost of a poll, and in how long a wait usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// A message or other event from a method.
    Messages,
    /// A step in shared memory that other processes are about to take. A thread that waits for
    /// longer announces that there, and parks until a message wakes it.
    Step,
    /// A lock in shared memory that another process may hold for long. Waiting threads park as for a step.
    Lock,
    /// A lock in shared memory that is only held briefly. Its holder wakes no other thread, so a
    /// thread that waits for it never parks.
    ShortLock,
}

const KINDS: usize = 4;

/// A wait for something in shared memory (`Endpoint::begin_shared_memory_wait`).
#[derive(Debug)]
pub struct SharedMemoryWait {
    pub(crate) awaited: Awaited,
    /// Yields before the clock is read.
    pub(crate) first_yields: u32,
    /// Set once the clock has been read.
    pub(crate) measured: Option<MeasuredWait>,
}

/// A wait that the policy measures.
#[derive(Debug)]
pub(crate) struct MeasuredWait {
    pub(crate) decision: Decision,
    /// Looks that the caller makes next.
    pub(crate) looks: u32,
    /// When it last made progress with messages.
    pub(crate) progressed: Instant,
}

/// What a caller that waits for something in shared memory should do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedMemoryStep {
    /// Look this many times, unless the awaited step has come.
    Look(u32),
    /// Make progress with messages, which may be needed elsewhere.
    Progress,
    /// Wait for the message that reports the awaited step.
    Park,
}

/// The waiting policy of one instance. In this order:
///
/// - [`Policy::count_call`] in every progress call; if it returns that the clock is to be read,
///   [`Policy::clock_read`].
/// - For each wait [`Policy::enter`] and [`Policy::first_polls`]. If the awaited event comes during
///   these polls, [`Policy::arrived_at_once`] and that is all. Otherwise [`Policy::begin`], and
///   then, according to the decisions: [`Policy::polled`] after polls, [`Policy::yielded`] and
///   [`Policy::resume`] after a yield, [`Policy::parked`] and [`Policy::resume`] after parking,
///   [`Policy::progressed`] when something has happened; [`Policy::arrived`] ends the wait. A wait
///   that is given up is continued by the next, also by the wait for the message that reports a
///   step or lock.
/// - [`Policy::expect_nothing_soon`] before a wait that the caller knows to be long.
/// - [`Policy::before_parking`] before parking, where methods may have moved bytes of transfers.
pub(crate) struct Policy {
    constants: Constants,
    limit: Duration,
    has_processor: bool,
    /// When the last long yield ended.
    long_yield: Option<Instant>,
    /// When one ended that has run a CPU-bound thread, as the run queue shows, or as is to be expected of a process that has a processor.
    cpu_bound_seen: Option<Instant>,
    clock: Clock,
    slice: Slice,
    contention: Contention,
    /// By [`Awaited`].
    learnt: [Learnt; KINDS],
    wait: Option<Wait>,
    /// The caller expects nothing soon in the present wait, or in the next one.
    nothing_soon: bool,
    /// When a method was last found to have moved bytes of a transfer.
    moved: Option<Instant>,
    /// Waits until the next one that is measured although it might begin with
    /// [`Policy::first_yields`], and when that was last decided.
    unmeasured: u32,
    checked: Instant,
    recorder: Option<Box<Recorder>>,
}

/// When to read the clock and to tick.
struct Clock {
    countdown: u32,
    interval: u32,
    last: Instant,
    next_tick: Instant,
}

/// How long this thread has run without giving up the processor.
struct Slice {
    began: Instant,
    length: Duration,
    is_over: bool,
}

/// What was learnt about waits of one kind.
#[derive(Debug, Clone, Copy)]
struct Learnt {
    /// Smoothed time until the awaited event, in nanoseconds.
    usual_ns: u64,
    /// How many polls take about [`Constants::batch`].
    batch: u32,
}

/// One wait. A large message arrives in many steps, each soon after the last: the time of the first
/// step determines how long to poll the next time.
struct Wait {
    awaited: Awaited,
    /// What is polled now: messages, where one reports the awaited step.
    polled: Awaited,
    start: Instant,
    first_after: Option<Duration>,
    /// When something last happened, or the wait began.
    last: Instant,
    /// When the present polls began.
    polled_since: Instant,
}

impl Policy {
    /// A policy that polls for at most `limit` where no other thread wants the processor; for longer if the process
    /// `has_processor`, as [`Config::has_processor`](crate::Config::has_processor) describes.
    pub(crate) fn new(limit: Duration, has_processor: bool, now: Instant) -> Self {
        let recorder = Recorder::from_environment(now);
        Self {
            recorder,
            has_processor,
            ..Self::with(Constants::USUAL, limit, now)
        }
    }

    fn with(constants: Constants, limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            has_processor: false,
            long_yield: None,
            cpu_bound_seen: None,
            clock: Clock {
                countdown: 1,
                interval: 1,
                last: now,
                next_tick: now,
            },
            slice: Slice {
                began: now,
                length: constants.shortest_slice,
                is_over: false,
            },
            contention: Contention::new(&constants),
            learnt: [Learnt {
                usual_ns: 0,
                batch: POLLS_PER_CALL,
            }; KINDS],
            wait: None,
            nothing_soon: false,
            moved: None,
            unmeasured: 0,
            checked: now,
            recorder: None,
            constants,
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Has the next wait stay awake no longer than one that usually takes long: it takes no processor from those that the caller knows to be
    /// busy before they send anything.
    pub(crate) fn expect_nothing_soon(&mut self) {
        self.nothing_soon = true;
    }

    /// Counts a progress call. Returns whether to read the clock.
    #[inline]
    pub(crate) fn count_call(&mut self) -> bool {
        self.clock.countdown -= 1;
        self.clock.countdown == 0
    }

    /// Whether the clock is to be read at the next progress call.
    #[inline]
    pub(crate) fn is_call_due(&self) -> bool {
        self.clock.countdown == 1
    }

    /// Notes a reading of the clock, and decides when to read it next. Returns whether to tick.
    pub(crate) fn clock_read(&mut self, now: Instant) -> bool {
        let clock = &mut self.clock;
        let since = now.saturating_duration_since(clock.last);
        let period = self.constants.clock_period().as_nanos();
        let fitting = u128::from(clock.interval) * period / since.as_nanos().max(1);
        let most = (clock.interval * 2).min(self.constants.most_calls);
        clock.interval = fitting.clamp(1, most.into()) as u32;
        clock.countdown = clock.interval;
        clock.last = now;
        self.slice.is_over = now.saturating_duration_since(self.slice.began) >= self.slice.length;
        self.is_tick_due(now)
    }

    /// Whether to tick.
    pub(crate) fn is_tick_due(&self, now: Instant) -> bool {
        now >= self.clock.next_tick
    }

    /// Notes that all methods were ticked; the earliest next tick is due at `deadline`.
    pub(crate) fn ticked(&mut self, now: Instant, deadline: Option<Instant>) {
        let latest = now + self.constants.tick;
        self.clock.next_tick = deadline.map_or(latest, |deadline| deadline.min(latest));
    }

    /// Begins a wait. Returns whether to yield first: the time slice is over. Not to a CPU-bound thread, which takes its share without that, and
    /// returns the processor milliseconds later, whatever has come meanwhile.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        self.slice.is_over && !self.is_beside_cpu_bound()
    }

    /// How many times to poll before the clock is read for the first time: while messages come
    /// quickly, reading it would cost more than the polls do.
    #[inline]
    pub(crate) fn first_polls(&self, awaited: Awaited) -> u32 {
        if self.limit.is_zero() || self.recorder.is_some() {
            return 0;
        }
        match (self.contention.competitors(), awaited) {
            (Competitors::Waiting, Awaited::Step) => self.brief_polls(awaited),
            (Competitors::Waiting, _) => self.polls_per_yield(awaited),
            (Competitors::None | Competitors::CpuBound, _) => 2 * self.learnt(awaited).batch,
        }
    }

    /// How many times to yield, with [`Policy::polls_per_yield`] polls after each, before the clock
    /// is read: processes that share processors and meet in shared memory mostly find each other
    /// within a yield or two, and reading the clock around these would cost a tenth as much. Some
    /// waits are measured from their beginning: one of many, and all rare ones, as beside a
    /// CPU-bound thread.
    pub(crate) fn first_yields(&mut self, awaited: Awaited, now: impl FnOnce() -> Instant) -> u32 {
        let is_brief = awaited == Awaited::Step && !self.limit.is_zero();
        if !is_brief || self.recorder.is_some() {
            return 0;
        }
        match self.contention.competitors() {
            Competitors::None | Competitors::CpuBound => return 0,
            Competitors::Waiting => {}
        }
        if self.unmeasured == 0 {
            self.unmeasured = self.constants.waits_per_measured;
            return 0;
        }
        if self
            .unmeasured
            .is_multiple_of(self.constants.waits_per_reading)
        {
            let now = now();
            let since = now.saturating_duration_since(self.checked);
            self.checked = now;
            if since >= self.constants.long_yield {
                return 0;
            }
        }
        self.unmeasured -= 1;
        self.constants.first_yields
    }

    /// The awaited event came during the first polls, or after the first yields.
    #[inline]
    pub(crate) fn arrived_at_once(&mut self, awaited: Awaited) {
        let usual_ns = &mut self.learnt[awaited as usize].usual_ns;
        *usual_ns -= *usual_ns / WEIGHT;
        self.nothing_soon = false;
        self.contention.wait_ended();
        self.wait = None;
    }

    /// Which threads compete for the processor. After a yield has run a CPU-bound one, it is taken to be there for some time, however many waits end
    /// meanwhile.
    #[inline]
    fn competitors(&self) -> Competitors {
        match self.contention.competitors() {
            Competitors::None if self.is_beside_cpu_bound() => Competitors::CpuBound,
            found => found,
        }
    }

    #[inline]
    fn learnt(&self, awaited: Awaited) -> &Learnt {
        &self.learnt[awaited as usize]
    }

    /// What the present wait polls.
    fn polled_kind(&self) -> Awaited {
        let wait = self.wait.as_ref();
        wait.map_or(Awaited::Messages, |wait| wait.polled)
    }

    /// The first polls have found nothing. A wait after one that ended without a message continues
    /// it: a caller that waits briefly again and again, and gets nothing, is treated as waiting all
    /// the time.
    pub(crate) fn begin(&mut self, awaited: Awaited, now: Instant) -> Decision {
        let wait = self.wait.take_if(|wait| wait.is_continued_by(awaited));
        let wait = self.wait.insert(wait.unwrap_or(Wait {
            awaited,
            polled: awaited,
            start: now,
            first_after: None,
            last: now,
            polled_since: now,
        }));
        wait.polled = awaited;
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(wait.start);
        }
        self.resume(now)
    }

    /// Returns what to do after a yield or a parking.
    pub(crate) fn resume(&mut self, now: Instant) -> Decision {
        if let Some(wait) = &mut self.wait {
            wait.polled_since = now;
        }
        Decision::Poll(self.polls_per_reading())
    }

    /// Notes polls that were made. `any`: something has happened, but not the awaited event.
    pub(crate) fn polled(&mut self, polls: u32, any: bool, now: Instant) -> Decision {
        let Some(wait) = &mut self.wait else {
            return self.begin(Awaited::Messages, now);
        };
        let took = now.saturating_duration_since(wait.polled_since);
        wait.polled_since = now;
        if any {
            self.progressed(now);
        } else {
            self.learn_cost(polls, took);
        }
        self.next(now)
    }

    /// Something has happened, but not the awaited event.
    pub(crate) fn progressed(&mut self, now: Instant) {
        if let Some(wait) = &mut self.wait {
            wait.step(now);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.progressed();
        }
    }

    /// Whether to count context switches around the next yield: the cost of a yield that runs no
    /// other thread is not known yet.
    pub(crate) fn wants_switches(&self) -> bool {
        self.contention.wants_switches()
    }

    /// Whether to count the run queue, where parking is costly: a yield that took this long ran a
    /// CPU-bound thread or very many waiting ones.
    pub(crate) fn wants_run_queue(&self, took: Duration) -> bool {
        took >= self.constants.long_yield && self.contention.wants_run_queue(took, &self.constants)
    }

    /// Notes a yield. Returns whether it has run other threads.
    pub(crate) fn yielded(&mut self, of: Yielded) -> bool {
        let ran_others = self.contention.yielded(&self.constants, &of);
        if of.took() >= self.constants.long_yield {
            self.long_yield = Some(of.until);
            let is_cpu_bound = self.contention.competitors() == Competitors::CpuBound;
            // Otherwise many threads that wait may have run, as the clients of a server do.
            if is_cpu_bound && (self.has_processor || self.contention.knows_run_queue()) {
                self.cpu_bound_seen = Some(of.until);
            }
        }
        self.begin_slice(of.until);
        let length = match ran_others {
            true => self.slice.length / 2,
            false => 4 * self.slice.length,
        };
        let (least, most) = (
            self.constants.shortest_slice,
            self.constants.longest_slice(),
        );
        self.slice.length = length.clamp(least, most);
        if let Some(recorder) = &mut self.recorder {
            recorder.yielded(&of);
        }
        ran_others
    }

    /// Notes a parking.
    pub(crate) fn parked(&mut self, from: Instant, until: Instant) {
        self.begin_slice(until);
        if let Some(recorder) = &mut self.recorder {
            recorder.parked(until.saturating_duration_since(from));
        }
    }

    /// Called before parking. `has_moved`: methods have moved bytes of transfers since the last
    /// call. Returns what to do instead of parking: if they have lately, the end of the transfer,
    /// or the next one, is worth staying awake for.
    pub(crate) fn before_parking(&mut self, has_moved: bool, now: Instant) -> Decision {
        if has_moved {
            self.moved = Some(now);
        }
        let lately = |at: &Instant| now.saturating_duration_since(*at) < self.constants.linger;
        self.moved = self.moved.filter(lately);
        match (self.moved, self.competitors()) {
            (None, _) => Decision::Park,
            (Some(_), Competitors::CpuBound) => Decision::Poll(self.polls_per_reading()),
            (Some(_), Competitors::None | Competitors::Waiting) => Decision::Yield,
        }
    }

    /// Whether a wait is in progress.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// How long a thread stays awake while another thread waits on behalf of all.
    #[inline]
    pub(crate) fn awake_limit_of_followers(&self) -> Duration {
        match self.contention.competitors() {
            Competitors::None => self.lone_limit(),
            Competitors::Waiting => self.contended_limit(),
            Competitors::CpuBound => Duration::ZERO,
        }
    }

    /// Whether a wait for something in shared memory is in progress.
    pub(crate) fn waits_for_memory(&self) -> bool {
        let wait = self.wait.as_ref();
        wait.is_some_and(|wait| wait.awaited != Awaited::Messages)
    }

    /// Whether a wait that polls memory should make progress with messages, which it last did at
    /// `last`.
    pub(crate) fn wants_progress(&self, last: Instant, now: Instant) -> bool {
        now.saturating_duration_since(last) >= self.constants.clock_period()
    }

    /// The awaited event has come.
    pub(crate) fn arrived(&mut self, now: Instant) {
        if let Some(mut wait) = self.wait.take() {
            // One long wait must not outweigh many short ones.
            let bound = 2 * self.contended_limit().max(self.constants.batch);
            let ns = wait.step(now).min(bound).as_nanos() as u64;
            // What was expected to be long says nothing about others.
            if !std::mem::take(&mut self.nothing_soon) {
                let usual_ns = &mut self.learnt[wait.awaited as usize].usual_ns;
                *usual_ns = smoothed(*usual_ns, ns);
            }
        }
        self.contention.wait_ended();
        if let Some(recorder) = &mut self.recorder {
            recorder.arrived(now);
        }
    }

    fn begin_slice(&mut self, now: Instant) {
        self.slice.began = now;
        self.slice.is_over = false;
    }

    fn next(&self, now: Instant) -> Decision {
        let Some(wait) = &self.wait else {
            return Decision::Poll(1);
        };
        let spun = now.saturating_duration_since(wait.last);
        if spun >= self.budget(wait) {
            return match wait.awaited {
                Awaited::ShortLock => Decision::Yield,
                Awaited::Messages | Awaited::Step | Awaited::Lock => Decision::Park,
            };
        }
        match self.competitors() {
            Competitors::Waiting => Decision::Yield,
            Competitors::None if spun > 2 * self.constants.batch => Decision::Yield,
            Competitors::None | Competitors::CpuBound => {
                Decision::Poll(self.learnt(wait.polled).batch)
            }
        }
    }

    /// How long to go on without parking, since the wait began or something happened in it. Between
    /// the steps of a large message it is longer: a peer that copies or reads half a megabyte sends
    /// nothing for 50 µs, and parking then costs as much again.
    fn budget(&self, wait: &Wait) -> Duration {
        let limit = self.contended_limit();
        let is_late = Duration::from_nanos(self.learnt(wait.awaited).usual_ns) > limit;
        match self.competitors() {
            _ if self.nothing_soon => self.constants.batch.min(self.limit),
            Competitors::None if wait.first_after.is_some() => {
                self.lone_limit().max(2 * self.limit)
            }
            // It gets its share of the processor whether this thread sleeps or not; what a process that has a processor of its own does not use of
            // the rest is lost to it.
            Competitors::CpuBound if self.has_processor => self.limit,
            Competitors::CpuBound => self.constants.batch.min(self.limit),
            _ if is_late => self.constants.batch.min(self.limit),
            Competitors::Waiting => limit,
            // Also where messages take longer: if the reason is that all threads are parked, they
            // find each other now.
            Competitors::None => self.lone_limit(),
        }
    }

    /// The limit where no other thread wants the processor: to wake a thread there takes as long as the usual limit, on a
    /// virtual machine.
    fn lone_limit(&self) -> Duration {
        match self.has_processor && self.is_undisturbed() {
            true => self.contended_limit(),
            false => self.limit,
        }
    }

    /// Whether no CPU-bound thread has run on this processor lately, as far as yields show. Beside one, a thread that keeps awake uses up
    /// its share of the processor, and then waits for milliseconds; one that sleeps preempts it.
    pub(crate) fn is_undisturbed(&self) -> bool {
        !self.is_recent(self.long_yield)
    }

    /// Whether a yield to a CPU-bound thread has ended lately.
    fn is_beside_cpu_bound(&self) -> bool {
        self.is_recent(self.cpu_bound_seen)
    }

    fn is_recent(&self, at: Option<Instant>) -> bool {
        let since = |at| self.clock.last.saturating_duration_since(at);
        at.is_some_and(|at| since(at) < self.constants.memory_of_long)
    }

    /// The limit beside other waiting threads: where they are very many, some rounds of all of
    /// them.
    fn contended_limit(&self) -> Duration {
        match self.limit.is_zero() {
            true => Duration::ZERO,
            false => self.limit * self.constants.contended_factor + self.contention.rounds(),
        }
    }

    fn polls_per_reading(&self) -> u32 {
        if self.limit.is_zero() {
            return 1;
        }
        let awaited = self.polled_kind();
        match self.competitors() {
            Competitors::Waiting => self.polls_per_yield(awaited),
            Competitors::None | Competitors::CpuBound => self.learnt(awaited).batch,
        }
    }

    /// Polls that take about as long as a yield. That many are made before the first yield where
    /// other threads are expected about now, and by a thread that keeps others of its process out
    /// while it polls.
    #[inline]
    pub(crate) fn brief_polls(&self, awaited: Awaited) -> u32 {
        self.constants.step_polls * self.polls_per_yield(awaited)
    }

    /// Polls between two yields to other waiting threads: polls that find nothing cost an eighth of
    /// the yield.
    pub(crate) fn polls_per_yield(&self, awaited: Awaited) -> u32 {
        let polls = u64::from(self.learnt(awaited).batch) * self.contention.lone_yield_ns();
        (polls / (8 * self.constants.batch.as_nanos() as u64)).max(1) as u32
    }

    /// Notes how long this many polls that found nothing took.
    fn learn_cost(&mut self, polls: u32, took: Duration) {
        let awaited = self.polled_kind();
        let batch = &mut self.learnt[awaited as usize].batch;
        let batch_took = took * *batch / polls.max(1);
        if batch_took > 2 * self.constants.batch {
            // The polls may also have been interrupted; then the batch soon grows again.
            *batch = (*batch / 2).max(1);
        } else if batch_took < self.constants.batch / 2 {
            *batch = (*batch * 2).min(self.constants.most_polls);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.polled(polls, took);
        }
    }
}

impl Wait {
    /// Whether a wait for `awaited` continues this one: it was given up and begun again, or waits
    /// for the message that reports the awaited step.
    fn is_continued_by(&self, awaited: Awaited) -> bool {
        let is_told = matches!(self.awaited, Awaited::Step | Awaited::Lock);
        self.awaited == awaited || is_told && awaited == Awaited::Messages
    }

    /// Something has happened. Returns how long the wait was, if it is the first time in it.
    fn step(&mut self, now: Instant) -> Duration {
        self.last = now;
        *self
            .first_after
            .get_or_insert_with(|| now.saturating_duration_since(self.start))
    }
}
