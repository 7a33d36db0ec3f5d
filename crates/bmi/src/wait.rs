//! Pacing and sleeping: how often to look at the clock, how long to spin, when to sleep.
//!
//! Waiting is spin, then block (Nagar's Spin Block). The spin adapts to how soon messages have lately
//! come: if they come within the limit it spins about twice as long as they took, if not it hardly
//! spins at all. After a little the spin yields the processor between polls, so that more processes
//! than cores is a normal state.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::methods::Methods;
use crate::types::Waker;

/// The clock is read, and quiet methods are polled, about this often while the instance is used all
/// the time. Polling a quiet `tcp` is a system call, about 0.3 µs: 2 % of this.
const SAMPLE: Duration = Duration::from_micros(16);
/// Most progress calls between two readings.
const MAX_INTERVAL: u32 = 64;
/// Methods want to be ticked at least this often.
const TICK: Duration = Duration::from_millis(40);
/// Spinning without giving up the processor.
const BUSY_SPIN: Duration = Duration::from_micros(4);
/// The least spin: about what falling asleep and waking up cost.
const MIN_SPIN: Duration = Duration::from_micros(2);

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
}

impl Spin {
    /// Spins at most `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, usual_ns: 0 }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// How long to spin this time.
    pub(crate) fn budget(&self) -> Duration {
        let usual = Duration::from_nanos(self.usual_ns);
        if usual <= self.limit {
            (2 * usual).max(MIN_SPIN).min(self.limit)
        } else {
            MIN_SPIN.min(self.limit)
        }
    }

    /// How long to spin for the next step of something that is under way: a peer that copies or reads
    /// half a megabyte is silent for 50 µs, and sleeping then costs as much again.
    pub(crate) fn budget_between_steps(&self) -> Duration {
        2 * self.limit
    }

    /// How often to poll before the clock is looked at.
    pub(crate) fn free_polls(&self) -> u32 {
        const FREE_POLLS: u32 = 32;
        if self.limit.is_zero() { 0 } else { FREE_POLLS }
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

    /// Lets others run if this spin has lasted a little.
    pub(crate) fn pause(&self, spun: Duration) {
        if spun > BUSY_SPIN {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
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

/// The descriptor that ends sleeps.
pub(crate) struct Sleeper {
    event: Arc<OwnedFd>,
}

impl Sleeper {
    /// Makes the descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    /// For another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker {
            event: Arc::clone(&self.event),
        }
    }

    /// Arms all methods and sleeps until one has news, at most until `until`.
    pub(crate) fn sleep(&self, methods: &mut Methods, until: Option<Instant>) -> Woken {
        let ready = methods.slots.iter_mut().all(|slot| slot.method.arm());
        let mut woken = Woken::Progress;
        if ready {
            let deadlines = methods.slots.iter().filter_map(|s| s.method.deadline());
            let until = deadlines.chain(until).min();
            woken = self.block(methods, until);
        }
        for slot in &mut methods.slots {
            slot.method.disarm();
        }
        woken
    }

    fn block(&self, methods: &Methods, until: Option<Instant>) -> Woken {
        let mut fds = Vec::with_capacity(methods.slots.len() + 1);
        fds.push(PollFd::new(&*self.event, PollFlags::IN));
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
        if fds[0].revents().is_empty() {
            return Woken::Progress;
        }
        let _ = rustix::io::read(self.event.as_fd(), &mut [0u8; 8]);
        Woken::Waker
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
