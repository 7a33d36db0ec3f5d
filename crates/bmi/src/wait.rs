//! Pacing and sleeping: how often to look at the clock, how long to spin, when to sleep.
//!
//! Waiting is spin, then block (Nagar's Spin Block). The spin adapts to how soon messages have lately
//! come: if they come within the limit it spins about twice as long as they took, if not it hardly
//! spins at all. After a little the spin yields the processor between polls. How long that takes shows
//! whether others want it: then every turn of the spin is theirs first, and what does not come
//! within few turns is slept for, so that more processes than cores is a normal state.
//!
//! A sleep begins as a doze where one method alone is in use and has a quick way to sleep; if nothing comes,
//! a sleep on the descriptors of all methods follows, which nothing but news ends.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use causeway_transport::Rouse;

use crate::methods::Methods;
use crate::types::Waker;

/// The clock is read, and quiet methods are polled, about this often while the instance is used all
/// the time. Polling a quiet `tcp` is a system call, about 0.3 µs: 2 % of this.
const SAMPLE: Duration = Duration::from_micros(16);
/// Most progress calls between two readings.
const MAX_INTERVAL: u32 = 64;
/// Methods want to be ticked at least this often.
const TICK: Duration = Duration::from_millis(40);
/// The first sleep of a wait lasts at most this long: news other than messages may have to wait for its end.
pub(crate) const DOZE: Duration = Duration::from_millis(2);
/// Spinning without giving up the processor.
const BUSY_SPIN: Duration = Duration::from_micros(4);
/// The least spin: about what falling asleep and waking up cost.
const MIN_SPIN: Duration = Duration::from_micros(2);
/// Giving up the processor takes a system call's time if nobody else wants it, and two switches or more
/// (about 0.8 µs each) if somebody does.
const LONELY_YIELD_NS: u64 = 600;
/// Where others want the processor, what usually takes longer than this is slept for: a sleep and a
/// wake-up cost less than the turns that all who spin take before it is ours again.
const CROWDED_SPIN: Duration = Duration::from_micros(8);
/// How often to poll there before others are let run.
const CROWDED_POLLS: u32 = 4;

/// When to read the clock and when to tick, for a caller that tests without waiting.
pub(crate) struct Pace {
    countdown: u32,
    interval: u32,
    last: Instant,
    next_tick: Instant,
}

impl Pace {
    /// Starts now.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            countdown: 1,
            interval: 1,
            last: now,
            next_tick: now,
        }
    }

    /// Counts one progress call; answers whether the clock should be read.
    #[inline]
    pub(crate) fn count(&mut self) -> bool {
        self.countdown -= 1;
        self.countdown == 0
    }

    /// The clock was read: decides when to read it next, and answers whether to tick.
    pub(crate) fn sample(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.last);
        let fitting = u128::from(self.interval) * SAMPLE.as_nanos() / since.as_nanos().max(1);
        let most = (self.interval * 2).min(MAX_INTERVAL);
        self.interval = fitting.clamp(1, most.into()) as u32;
        self.countdown = self.interval;
        self.last = now;
        now >= self.next_tick
    }

    /// Everything was ticked.
    pub(crate) fn ticked(&mut self, now: Instant, deadline: Option<Instant>) {
        let latest = now + TICK;
        self.next_tick = deadline.map_or(latest, |deadline| deadline.min(latest));
    }
}

/// How long to spin.
pub(crate) struct Spin {
    limit: Duration,
    /// Smoothed time until something came.
    usual_ns: u64,
    /// Smoothed time that giving up the processor took.
    yield_ns: u64,
}

impl Spin {
    /// Spins at most `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            usual_ns: 0,
            yield_ns: 0,
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Whether others lately ran when we let them.
    pub(crate) fn is_crowded(&self) -> bool {
        self.yield_ns > LONELY_YIELD_NS
    }

    /// How long to spin this time.
    pub(crate) fn budget(&self) -> Duration {
        let usual = Duration::from_nanos(self.usual_ns);
        let most = if self.is_crowded() {
            CROWDED_SPIN.min(self.limit)
        } else {
            self.limit
        };
        if usual <= most {
            (2 * usual).max(MIN_SPIN).min(self.limit)
        } else {
            MIN_SPIN.min(self.limit)
        }
    }

    /// How long to spin for the next step of something that is under way: a peer that copies or reads
    /// half a megabyte is silent for 50 µs, and sleeping then costs as much again. Where others want the
    /// processor, they may be that peer.
    pub(crate) fn budget_between_steps(&self) -> Duration {
        if self.is_crowded() {
            self.budget()
        } else {
            2 * self.limit
        }
    }

    /// How often to poll before the clock is looked at.
    pub(crate) fn free_polls(&self) -> u32 {
        const FREE_POLLS: u32 = 32;
        if self.limit.is_zero() {
            0
        } else if self.is_crowded() {
            CROWDED_POLLS
        } else {
            FREE_POLLS
        }
    }

    /// How often to poll between two looks at the clock.
    pub(crate) fn polls_per_reading(&self) -> u32 {
        const POLLS_PER_READING: u32 = 16;
        if self.is_crowded() {
            CROWDED_POLLS
        } else {
            POLLS_PER_READING
        }
    }

    /// Something has come before the clock was looked at.
    #[inline]
    pub(crate) fn came_at_once(&mut self) {
        self.usual_ns -= self.usual_ns / 8;
    }

    /// Something has come after `waited`.
    pub(crate) fn came_after(&mut self, waited: Duration) {
        // One long wait must not outweigh many short ones.
        let bound = 4 * self.limit.max(MIN_SPIN);
        let ns = waited.min(bound).as_nanos() as u64;
        self.usual_ns = (7 * self.usual_ns + ns) / 8;
    }

    /// Lets others run if this spin has lasted a little, or they lately wanted to; `now` is when it was
    /// called, and `spun` how long the spin has lasted.
    pub(crate) fn pause(&mut self, spun: Duration, now: Instant) {
        if spun > BUSY_SPIN || self.is_crowded() {
            std::thread::yield_now();
            self.yielded(now.elapsed());
        } else {
            std::hint::spin_loop();
        }
    }

    /// Giving up the processor took this long.
    pub(crate) fn yielded(&mut self, took: Duration) {
        // One turn of somebody who computes must not be remembered for hundreds of ours.
        const LONGEST: Duration = Duration::from_micros(20);
        let took_ns = took.min(LONGEST).as_nanos() as u64;
        self.yield_ns = (7 * self.yield_ns + took_ns) / 8;
    }
}

/// What a sleep ended by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A method has news, or a deadline has come, or the time is up.
    Progress,
    /// [`Waker::wake`].
    Waker,
}

/// What other threads need to end a sleep.
#[derive(Debug)]
pub(crate) struct Bed {
    /// Ends a sleep on descriptors.
    event: OwnedFd,
    /// Somebody wants the sleep to end.
    called: AtomicBool,
    /// End a doze in a method.
    rousers: Vec<Arc<dyn Rouse>>,
}

impl Bed {
    /// Ends the sleep, or the next one.
    pub(crate) fn wake(&self) {
        self.called.store(true, SeqCst);
        // Can only fail when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        for rouser in &self.rousers {
            rouser.rouse();
        }
    }

    /// Whether somebody has called since this was last asked.
    fn was_called(&self) -> bool {
        self.called.load(SeqCst) && self.called.swap(false, SeqCst)
    }
}

/// Sleeps, in one of two ways: in a method that has a quick one, or on descriptors.
pub(crate) struct Sleeper {
    bed: Arc<Bed>,
}

impl Sleeper {
    /// Makes the descriptor.
    pub(crate) fn new(methods: &Methods) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let rousers = methods.slots.iter().filter_map(|s| s.method.rouser());
        Ok(Self {
            bed: Arc::new(Bed {
                event,
                called: AtomicBool::new(false),
                rousers: rousers.collect(),
            }),
        })
    }

    /// For another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker {
            bed: Arc::clone(&self.bed),
        }
    }

    /// Whether the next sleep will end at once.
    pub(crate) fn is_called(&self) -> bool {
        self.bed.called.load(SeqCst)
    }

    /// Dozes in the one method that is in use, at most `limit`; `None` if there is no such method, or it
    /// cannot now.
    pub(crate) fn doze(&self, methods: &mut Methods, limit: Duration) -> Option<Woken> {
        let mut used = methods.slots.iter_mut();
        let one = used.find(|slot| !slot.method.is_unused())?;
        if !used.all(|slot| slot.method.is_unused()) || !one.method.doze(limit) {
            return None;
        }
        Some(if self.bed.was_called() {
            Woken::Waker
        } else {
            Woken::Progress
        })
    }

    /// Arms all methods and sleeps until one has news, at most until `until`.
    pub(crate) fn sleep(&self, methods: &mut Methods, until: Option<Instant>) -> Woken {
        let ready = methods.slots.iter_mut().all(|slot| slot.method.arm());
        let mut woken = Woken::Progress;
        if ready {
            let deadlines = methods.slots.iter().filter_map(|s| s.method.deadline());
            let until = deadlines.chain(until).min();
            woken = self.block(methods, until);
        } else if self.is_called() {
            woken = self.block(methods, Some(Instant::now()));
        }
        for slot in &mut methods.slots {
            slot.method.disarm();
        }
        woken
    }

    fn block(&self, methods: &Methods, until: Option<Instant>) -> Woken {
        let mut fds = Vec::with_capacity(methods.slots.len() + 1);
        fds.push(PollFd::new(&self.bed.event, PollFlags::IN));
        for slot in &methods.slots {
            let fd: BorrowedFd<'_> = slot.method.pollable();
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 3600,
                tv_nsec: 0,
            })
        });
        // Interrupted or refused: the caller looks again, as after any wake-up.
        let _ = poll(&mut fds, timeout.as_ref());
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.bed.event, &mut [0u8; 8]);
        }
        // If a doze has heard the call already, its descriptor only ends one sleep more.
        if self.bed.was_called() {
            Woken::Waker
        } else {
            Woken::Progress
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spin_follows_the_messages() {
        let mut spin = Spin::new(Duration::from_micros(50));
        for _ in 0..50 {
            spin.came_after(Duration::from_micros(10));
        }
        assert!(spin.budget() > Duration::from_micros(15));
        for _ in 0..50 {
            spin.came_after(Duration::from_secs(1));
        }
        assert_eq!(spin.budget(), MIN_SPIN);
        for _ in 0..50 {
            spin.came_after(Duration::from_micros(1));
        }
        assert!(spin.budget() <= Duration::from_micros(4));
        spin.set_limit(Duration::ZERO);
        assert_eq!(spin.budget(), Duration::ZERO);
    }

    #[test]
    fn where_others_run_only_what_comes_soon_is_spun_for() {
        let mut spin = Spin::new(Duration::from_micros(50));
        for _ in 0..50 {
            spin.came_after(Duration::from_micros(20));
        }
        let alone = (spin.budget(), spin.free_polls());
        spin.yielded(Duration::from_millis(3));
        assert!(spin.is_crowded());
        assert_eq!(spin.budget(), MIN_SPIN);
        assert!(spin.free_polls() < alone.1);
        for _ in 0..50 {
            spin.came_after(Duration::from_micros(5));
        }
        assert!(spin.budget() > MIN_SPIN && spin.budget() <= 2 * CROWDED_SPIN);
        for _ in 0..50 {
            spin.yielded(Duration::from_nanos(300));
        }
        assert!(!spin.is_crowded());
    }

    #[test]
    fn the_clock_is_read_seldom_by_busy_callers_and_always_by_slow_ones() {
        let mut pace = Pace::new();
        let mut now = Instant::now();
        let mut reads = 0;
        for _ in 0..10_000 {
            now += Duration::from_nanos(50);
            if pace.count() {
                reads += 1;
                pace.sample(now);
            }
        }
        assert!(reads < 300, "{reads}");
        reads = 0;
        for _ in 0..600 {
            now += Duration::from_millis(1);
            if pace.count() {
                reads += 1;
                pace.sample(now);
            }
        }
        assert!(reads > 500, "{reads}");
    }

    #[test]
    fn ticks_come_at_the_deadline_or_soon() {
        let mut pace = Pace::new();
        let now = Instant::now();
        assert!(pace.sample(now));
        pace.ticked(now, Some(now + Duration::from_millis(3)));
        assert!(!pace.sample(now + Duration::from_millis(2)));
        assert!(pace.sample(now + Duration::from_millis(3)));
        pace.ticked(now, None);
        assert!(pace.sample(now + TICK));
    }
}
