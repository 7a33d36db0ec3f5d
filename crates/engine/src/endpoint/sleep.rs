//! Parking: how a thread sleeps until there is news. When it does is for the [policy](crate::waiting) to say.
//!
//! Where one method alone is in use and has a quick way to sleep, it parks; otherwise the sleep is on the
//! descriptors of all methods that are in use. Either is ended by news and deadlines alone.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use causeway_sys::fork::Owner;
use causeway_transport::{Parking, Unpark, WakeFlag};

use super::methods::Methods;

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
    /// handlers. In a forked child it does nothing: the wait is the parent's.
    pub fn wake(&self) {
        self.state.wake();
    }
}

/// What other threads need to end a wait.
#[derive(Debug)]
struct WakeState {
    process: Owner,
    flag: WakeFlag,
    /// Ends a sleep on descriptors.
    event: OwnedFd,
    /// End a sleep in a method.
    unparkers: Vec<Arc<dyn Unpark>>,
}

impl WakeState {
    /// Ends the wait, or the next one.
    fn wake(&self) {
        if !self.process.is_this_process() {
            return;
        }
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
    /// Makes the descriptor, for an endpoint of this process.
    pub(crate) fn new(methods: &Methods, process: Owner) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let unparkers = methods.slots.iter().filter_map(|s| s.method.unparker());
        Ok(Self {
            state: Arc::new(WakeState {
                process,
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
        let now = methods.read_clock();
        let mut fds = Vec::with_capacity(methods.slots.len() + 1);
        fds.push(PollFd::new(&self.state.event, PollFlags::IN));
        let pollables = methods.pollables();
        fds.extend(pollables.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // A limit that the kernel cannot express is none.
        let timeout = until.and_then(|until| {
            let left = until.saturating_duration_since(now);
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
