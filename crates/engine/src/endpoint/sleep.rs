//! Parking: how a thread sleeps until there is something to poll for. The [policy](crate::waiting)
//! decides when.
//!
//! If only one method is in use and it can park by itself, the thread parks there; otherwise it
//! sleeps on the descriptors of all methods that are in use. Either is ended by events and
//! deadlines alone.
//!
//! A thread that has its endpoint to itself sleeps inside it. Where several threads share one, the
//! sleep is a value detached from it ([`Parked`](super::Parked)), and other threads use the
//! endpoint meanwhile.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use smallvec::SmallVec;

use causeway_sys::fork::Owner;
use causeway_sys::pin::{self, Stay};
use causeway_transport::{Park, Parking, WakeFlag};

use super::methods::Methods;
use super::yielding::Yielding;
use crate::clock::Clock;

/// An instance rarely has more methods than this; lists of their descriptors are on the stack then.
const FEW: usize = 7;

/// Which descriptors are readable, in the order of [`Methods::pollables`].
type Readable = SmallVec<[bool; FEW]>;

/// What has ended a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A method has something to poll for, a deadline is reached, or the time is up.
    Progress,
    /// [`Waker::wake`].
    Waker,
}

/// Ends another thread's wait in its [`Endpoint`](super::Endpoint).
///
/// A wake while that thread does not wait ends its next wait at once. No wake is lost, whenever it
/// comes.
#[derive(Debug, Clone)]
pub struct Waker {
    state: Arc<WakeState>,
}

impl Waker {
    /// Ends the wait of the endpoint's thread, or its next one. May be called from any thread, and
    /// in signal handlers. In a forked child it does nothing: the wait is the parent's.
    pub fn wake(&self) {
        self.state.is_called.store(true, SeqCst);
        self.state.wake();
    }
}

/// What other threads need to end a wait.
#[derive(Debug)]
struct WakeState {
    process: Owner,
    /// The flag is set by a [`Waker`].
    is_called: AtomicBool,
    flag: WakeFlag,
    /// Ends a sleep on descriptors.
    event: OwnedFd,
    /// The process's first thread stays on its processor while it sleeps, see `home`.
    stays: AtomicBool,
    /// Where methods park, by index.
    parkers: Vec<Option<Arc<dyn Park>>>,
}

impl WakeState {
    /// Sleeps in the method of this index, as prepared. `false` if `until` was reached first.
    fn park(&self, method: usize, sleep: u64, now: Instant, until: Option<Instant>) -> bool {
        let _stay = self.stay();
        let limit = until.map(|until| until.saturating_duration_since(now));
        let parker = self.parkers.get(method).and_then(Option::as_ref);
        parker.is_none_or(|parker| parker.park(sleep, limit))
    }

    /// Sleeps on `descriptors` and the event. Returns which descriptors are readable; `None` if
    /// `until` was reached first.
    fn block<'a>(
        &self,
        descriptors: impl Iterator<Item = BorrowedFd<'a>>,
        now: Instant,
        until: Option<Instant>,
    ) -> Option<Readable> {
        let mut fds = SmallVec::<[PollFd<'_>; FEW + 1]>::new();
        fds.push(PollFd::new(&self.event, PollFlags::IN));
        fds.extend(descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // A limit that the kernel cannot express counts as none.
        let timeout = until.and_then(|until| {
            let left = until.saturating_duration_since(now);
            Timespec::try_from(left).ok()
        });
        // Interrupted or failed: the caller checks again, as after any wake-up.
        let stay = self.stay();
        let is_time_up = poll(&mut fds, timeout.as_ref()) == Ok(0);
        drop(stay);
        let mut readable = fds.iter().map(|fd| !fd.revents().is_empty());
        if readable.next() == Some(true) {
            let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        }
        (!is_time_up).then(|| readable.collect())
    }

    fn stay(&self) -> Option<Stay> {
        let stays = self.stays.load(Relaxed) && pin::is_first_thread();
        stays.then(Stay::here).flatten()
    }

    /// Ends the wait, or the next one.
    fn wake(&self) {
        if !self.process.is_this_process() {
            return;
        }
        if self.flag.set() {
            // Fails only when the counter is full; the descriptor is readable then anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
        for parker in self.parkers.iter().flatten() {
            parker.unpark();
        }
    }
}

/// What a sleep waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SleepOn {
    /// The method of this index, the only one in use, and the number of the sleep there.
    Method(usize, u64),
    /// The descriptors of all methods in use.
    Descriptors,
}

/// Sleeping, in one of two ways: in a method that can park, or on descriptors.
///
/// Call [`Sleeper::prepare`], then [`Sleeper::wait`], again if it returns too early, then
/// [`Sleeper::end`].
pub(crate) struct Sleeper {
    state: Arc<WakeState>,
    /// Descriptors of the methods, by index, for sleeps detached from the endpoint: they stay open when it is dropped.
    copies: Vec<Option<Arc<OwnedFd>>>,
}

impl Sleeper {
    /// Makes the descriptor, for an endpoint of this process.
    pub(crate) fn new(methods: &Methods, process: Owner) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let parkers = methods.slots.iter().map(|slot| slot.method.parker());
        Ok(Self {
            state: Arc::new(WakeState {
                process,
                is_called: AtomicBool::new(false),
                flag: WakeFlag::default(),
                event,
                stays: AtomicBool::new(false),
                parkers: parkers.collect(),
            }),
            copies: vec![None; methods.slots.len()],
        })
    }

    /// Sets whether the process's first thread stays on its processor while it sleeps.
    pub(crate) fn set_stays(&self, stays: bool) {
        self.state.stays.store(stays, Relaxed);
    }

    /// A waker for another thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker {
            state: Arc::clone(&self.state),
        }
    }

    /// Whether another thread has asked to end the wait.
    pub(crate) fn is_called(&self) -> bool {
        self.state.flag.is_set()
    }

    /// Announces a sleep, then checks whether there is something to poll for, or another thread has
    /// called: then it returns `None`, and the next progress call polls for it.
    pub(crate) fn prepare(&self, methods: &mut Methods) -> Option<SleepOn> {
        if let Some(one) = methods.only_used() {
            let now = methods.read_clock();
            let slot = &mut methods.slots[one];
            match slot.prepare_park(now, &self.state.flag) {
                Parking::Prepared(sleep) => return Some(SleepOn::Method(one, sleep)),
                Parking::Refused => {
                    slot.disarm();
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

    /// Sleeps until there is something to poll for or another thread calls. `false` if `until` was
    /// reached first: then it may be called again, and nothing has been missed.
    pub(crate) fn wait(&self, methods: &mut Methods, on: SleepOn, until: Option<Instant>) -> bool {
        let now = methods.read_clock();
        match on {
            SleepOn::Method(index, sleep) => self.state.park(index, sleep, now, until),
            SleepOn::Descriptors => match self.state.block(methods.pollables(), now, until) {
                Some(readable) => {
                    methods.woken(readable.into_iter());
                    true
                }
                None => false,
            },
        }
    }

    /// Detaches the prepared sleep, which lasts until `until`. `None` if the system has no
    /// descriptors left for it.
    pub(crate) fn detach(
        &mut self,
        methods: &Methods,
        on: SleepOn,
        until: Option<Instant>,
    ) -> Option<Sleep> {
        let on = match on {
            SleepOn::Method(index, sleep) => Waitable::Method(index, sleep),
            SleepOn::Descriptors => {
                let mut descriptors = SmallVec::new();
                for (slot, copy) in methods.slots.iter().zip(&mut self.copies) {
                    if !slot.is_polled() {
                        continue;
                    }
                    if copy.is_none() {
                        let made = slot.method.pollable().try_clone_to_owned().ok()?;
                        *copy = Some(Arc::new(made));
                    }
                    descriptors.extend(copy.clone());
                }
                Waitable::Descriptors(descriptors)
            }
        };
        Some(Sleep {
            state: Arc::clone(&self.state),
            clock: methods.clock.clone(),
            on,
            until,
            readable: Readable::new(),
        })
    }

    /// Wakes the thread that sleeps detached, which then polls.
    pub(crate) fn wake(&self) {
        self.state.wake();
    }

    /// Ends what [`Sleeper::prepare`] began.
    pub(crate) fn end(&self, methods: &mut Methods, on: SleepOn) {
        match on {
            SleepOn::Method(index, _) => methods.slots[index].disarm(),
            SleepOn::Descriptors => {
                self.state.flag.end_sleep();
                methods.disarm();
            }
        }
    }

    /// Whether a [`Waker`] has called since the last call of this function. Other wake-ups are
    /// cleared.
    pub(crate) fn take_call(&self) -> Woken {
        match self.state.flag.take() && self.state.is_called.swap(false, SeqCst) {
            true => Woken::Waker,
            false => Woken::Progress,
        }
    }
}

impl Drop for Sleeper {
    /// Wakes a thread that sleeps detached, which then finds the endpoint dropped.
    fn drop(&mut self) {
        self.state.wake();
    }
}

/// A prepared sleep, detached from the endpoint.
#[derive(Debug)]
pub(crate) struct Sleep {
    state: Arc<WakeState>,
    clock: Clock,
    on: Waitable,
    until: Option<Instant>,
    /// Which of the descriptors have ended it.
    readable: Readable,
}

/// What the sleep waits on: [`SleepOn`], with copies of the descriptors.
#[derive(Debug)]
enum Waitable {
    Method(usize, u64),
    Descriptors(SmallVec<[Arc<OwnedFd>; FEW]>),
}

impl Sleep {
    /// Sleeps until there is something to poll for, until the endpoint's [`Waker`] or another
    /// thread wakes this one, or until the time is up. Returns at once in a forked child: nothing
    /// would end the sleep there.
    pub(crate) fn sleep(&mut self) {
        if !self.state.process.is_this_process() {
            return;
        }
        let now = self.clock.read();
        match &self.on {
            Waitable::Method(index, sleep) => {
                self.state.park(*index, *sleep, now, self.until);
            }
            Waitable::Descriptors(descriptors) => {
                let descriptors = descriptors.iter().map(|fd| fd.as_fd());
                let readable = self.state.block(descriptors, now, self.until);
                self.readable = readable.unwrap_or_default();
            }
        }
    }

    /// Notes in the methods which descriptors have ended it.
    pub(crate) fn ended(&self, methods: &mut Methods) {
        methods.woken(self.readable.iter().copied());
    }
}

/// How to pass the time of a prepared wait, without the endpoint. Returned by
/// [`Endpoint::prepare_wait`](super::Endpoint::prepare_wait), and passed back to
/// [`Endpoint::finish_wait`](super::Endpoint::finish_wait).
#[derive(Debug)]
#[must_use = "the endpoint is armed until the wait is finished"]
pub struct Parked(pub(super) Idle);

#[derive(Debug)]
pub(super) enum Idle {
    Yield(Yielding),
    /// A sleep, and its number.
    Sleep(Sleep, u64),
}

impl Parked {
    /// Whether it is a sleep: otherwise a yield of the processor.
    pub fn is_sleep(&self) -> bool {
        matches!(self.0, Idle::Sleep(..))
    }

    /// Yields the processor once, or sleeps until there is something to make progress with, until a
    /// thread that uses the endpoint or a [`Waker`] ends the sleep, until the endpoint is dropped,
    /// or until the time is up. A sleep also ends spuriously, and at once in a forked child.
    pub fn wait(&mut self) {
        match &mut self.0 {
            Idle::Yield(yielding) => yielding.pass(),
            Idle::Sleep(sleep, _) => sleep.sleep(),
        }
    }
}

/// The state of the parked thread, for the threads that use the endpoint meanwhile.
pub(super) struct Announced {
    pub(super) on: SleepOn,
    pub(super) number: u64,
    /// When it was prepared.
    pub(super) before: Instant,
    /// When it wakes at the latest.
    pub(super) until: Option<Instant>,
    /// When its caller's time is up.
    pub(super) limit: Option<Instant>,
    /// [`Endpoint::change_counts`](super::Endpoint::change_counts) at that time.
    pub(super) changes: (u64, usize),
    /// It has been woken since.
    pub(super) is_woken: bool,
}
