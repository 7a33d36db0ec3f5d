//! Pacing and sleeping: how often to look at the clock, how to sleep. What comes before a sleep is `spin`'s.
//!
//! Where one method alone is in use and has a quick way to sleep, it parks; otherwise the sleep is on the
//! descriptors of all methods that are in use. Either is ended by news and deadlines alone.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use causeway_transport::{Parking, Unpark, WakeFlag};

use super::methods::Methods;

/// The clock is read, and quiet methods are polled, about this often while the instance is used all
/// the time. Polling a quiet `tcp` is a system call, about 0.3 µs: 2 % of this.
const SAMPLE: Duration = Duration::from_micros(16);
/// Most progress calls between two readings.
const MAX_INTERVAL: u32 = 64;
/// Methods want to be ticked at least this often by a caller that is awake. No sleep ends for it.
const TICK: Duration = Duration::from_millis(40);

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
        self.is_due(now)
    }

    /// Whether to tick `now`.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
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

/// Ends another thread's wait in its [`Endpoint`](super::Endpoint).
///
/// A wake that comes while that thread does not wait ends its next wait at once. None is lost, at whatever moment
/// it comes.
#[derive(Debug, Clone)]
pub struct Waker {
    state: Arc<WakeState>,
}

impl Waker {
    /// Ends the wait that the endpoint's thread is in, or the next one. Usable from any thread, and in signal
    /// handlers.
    pub fn wake(&self) {
        self.state.wake();
    }
}

/// What other threads need to end a wait.
#[derive(Debug)]
struct WakeState {
    flag: WakeFlag,
    /// Ends a sleep on descriptors.
    event: OwnedFd,
    /// End a sleep in a method.
    unparkers: Vec<Arc<dyn Unpark>>,
}

impl WakeState {
    /// Ends the wait, or the next one.
    fn wake(&self) {
        if self.flag.set() {
            // Can only fail when the counter is full, and then it is readable already.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
        for unparker in &self.unparkers {
            unparker.unpark();
        }
    }
}

/// What a sleep is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SleepOn {
    /// The method of this index, which alone is in use.
    Method(usize),
    /// The descriptors of all methods in use.
    Descriptors,
}

/// Sleeps, in one of two ways: in a method that has a quick one, or on descriptors.
///
/// [`Sleeper::prepare`], [`Sleeper::wait`] as often as its time is up too early, [`Sleeper::end`].
pub(crate) struct Sleeper {
    state: Arc<WakeState>,
}

impl Sleeper {
    /// Makes the descriptor.
    pub(crate) fn new(methods: &Methods) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let unparkers = methods.slots.iter().filter_map(|s| s.method.unparker());
        Ok(Self {
            state: Arc::new(WakeState {
                flag: WakeFlag::default(),
                event,
                unparkers: unparkers.collect(),
            }),
        })
    }

    /// For another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker {
            state: Arc::clone(&self.state),
        }
    }

    /// Whether another thread wants the wait to end.
    pub(crate) fn is_called(&self) -> bool {
        self.state.flag.is_set()
    }

    /// Announces a sleep, then looks whether there is something to poll for, or another thread has called: then
    /// the answer is `None`, and the next progress call polls it.
    pub(crate) fn prepare(&self, methods: &mut Methods) -> Option<SleepOn> {
        if let Some(one) = methods.only_used() {
            let now = methods.read_clock();
            let method = &mut methods.slots[one].method;
            match method.prepare_park(now, &self.state.flag) {
                Parking::Prepared => return Some(SleepOn::Method(one)),
                Parking::Refused => {
                    method.disarm();
                    return None;
                }
                Parking::Unsupported => {}
            }
        }
        if methods.arm() && self.state.flag.begin_sleep() {
            return Some(SleepOn::Descriptors);
        }
        self.end(methods, SleepOn::Descriptors);
        None
    }

    /// Sleeps until there is something to poll for or another thread calls. `false` if `until` has come before:
    /// then it may be called again, and nothing has been missed.
    pub(crate) fn wait(&self, methods: &mut Methods, on: SleepOn, until: Option<Instant>) -> bool {
        match on {
            SleepOn::Method(index) => {
                let now = methods.read_clock();
                methods.slots[index].method.park(now, until)
            }
            SleepOn::Descriptors => self.block(methods, until),
        }
    }

    /// Ends what [`Sleeper::prepare`] began.
    pub(crate) fn end(&self, methods: &mut Methods, on: SleepOn) {
        match on {
            SleepOn::Method(index) => methods.slots[index].method.disarm(),
            SleepOn::Descriptors => {
                self.state.flag.end_sleep();
                methods.disarm();
            }
        }
    }

    /// Whether another thread has called since this was last asked.
    pub(crate) fn take_call(&self) -> Woken {
        match self.state.flag.take() {
            true => Woken::Waker,
            false => Woken::Progress,
        }
    }

    fn block(&self, methods: &mut Methods, until: Option<Instant>) -> bool {
        let mut fds = Vec::with_capacity(methods.slots.len() + 1);
        fds.push(PollFd::new(&self.state.event, PollFlags::IN));
        let pollables = methods.pollables();
        fds.extend(pollables.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // A limit that the kernel cannot express is none.
        let timeout = until.and_then(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec::try_from(left).ok()
        });
        // Interrupted or refused: the caller looks again, as after any wake-up.
        let is_time_up = poll(&mut fds, timeout.as_ref()) == Ok(0);
        let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut readable = readable.into_iter();
        if readable.next() == Some(true) {
            let _ = rustix::io::read(&self.state.event, &mut [0u8; 8]);
        }
        methods.woken(readable);
        !is_time_up
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
