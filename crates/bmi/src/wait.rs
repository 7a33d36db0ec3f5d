//! Pacing and sleeping: how often to look at the clock, how to sleep. What comes before a sleep is `spin`'s.
//!
//! A sleep begins as a doze where one method alone is in use and has a quick way to sleep; if nothing comes,
//! a sleep on the descriptors of all methods that are in use follows, which nothing but news ends.

use std::io;
use std::os::fd::OwnedFd;
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
        let one = methods.only_used()?;
        if !methods.slots[one].method.doze(limit) {
            return None;
        }
        Some(if self.bed.was_called() {
            Woken::Waker
        } else {
            Woken::Progress
        })
    }

    /// Arms the methods and sleeps until one has news, at most until `until`. The next progress call polls
    /// whatever has ended it.
    pub(crate) fn sleep(&self, methods: &mut Methods, until: Option<Instant>) -> Woken {
        let mut woken = Woken::Progress;
        if methods.arm() {
            let until = methods.deadline().into_iter().chain(until).min();
            woken = self.block(methods, until);
        } else if self.is_called() {
            woken = self.block(methods, Some(Instant::now()));
        }
        methods.disarm();
        woken
    }

    fn block(&self, methods: &mut Methods, until: Option<Instant>) -> Woken {
        let mut fds = Vec::with_capacity(methods.slots.len() + 1);
        fds.push(PollFd::new(&self.bed.event, PollFlags::IN));
        let pollables = methods.pollables();
        fds.extend(pollables.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 3600,
                tv_nsec: 0,
            })
        });
        // Interrupted or refused: the caller looks again, as after any wake-up.
        let _ = poll(&mut fds, timeout.as_ref());
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut readable = readable.into_iter();
        if readable.next() == Some(true) {
            let _ = rustix::io::read(&self.bed.event, &mut [0u8; 8]);
        }
        methods.woken(readable);
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
