//! How threads share an instance: one at a time is inside.
//!
//! A thread enters by one compare-and-swap and leaves by one store, so that an instance that one thread uses pays
//! nothing for others that might enter: the cost falls on a thread that waits to enter, which pays with a
//! fence in all threads ([`membarrier`]). It interrupts the wait of the thread inside, if there is one, and sleeps
//! until that thread leaves. A thread that leaves while others wait to enter hands the instance to one of them, so that a
//! thread that calls again and again keeps none out.
//!
//! Of several threads that wait in one instance, one waits for all: it polls inside, then sleeps outside until peers send
//! something, and ends its wait when anything has completed or arrived. The others sleep until a thread that leaves has seen
//! such a change, then test for themselves. While the first one sleeps, the instance is free: a thread that posts pays
//! nothing for it, and wakes it only if it has left something to be polled, completed or timed
//! ([`causeway_bmi::Bmi`], `check_parked`). While it polls, it is interrupted.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use causeway_sys::{futex, membarrier};

use crate::lock::{self, LockMemory, NUMBER_BITS};
pub(crate) use crate::lock::{BROKEN, FREE, PARENTS};

/// Whether the fence of threads that leave may be left out.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Has the system fence for threads that leave; before the first instance.
pub(crate) fn prepare() {
    ASYMMETRIC.store(membarrier::register(), Relaxed);
}

/// Which thread is inside an instance, and which wait.
pub(crate) struct Entry {
    state: AtomicU64,
    /// Threads that wait to enter.
    wanted: AtomicU64,
    /// The thread inside waits, or is about to.
    in_wait: AtomicBool,
    /// Several threads use the instance.
    shared: AtomicBool,
    /// A wait shall end.
    wake_requested: AtomicBool,
    /// A thread waits for all.
    has_waiter: AtomicBool,
    /// Raised with each change, and the instance's counts at the last one. Written by the thread inside.
    changes: AtomicU64,
    completions: AtomicU64,
    arrived: AtomicUsize,
}

impl Entry {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            wanted: AtomicU64::new(0),
            in_wait: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            wake_requested: AtomicBool::new(false),
            has_waiter: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            completions: AtomicU64::new(0),
            arrived: AtomicUsize::new(0),
        }
    }

    /// Forgets what threads did here with another instance.
    pub(crate) fn reset(&self) {
        self.shared.store(false, Relaxed);
        self.wake_requested.store(false, Relaxed);
        self.has_waiter.store(false, Relaxed);
        self.in_wait.store(false, Relaxed);
    }

    pub(crate) fn state(&self) -> u64 {
        self.state.load(Relaxed)
    }

    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Acquire) == FREE && self.wanted.load(SeqCst) == 0
    }

    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// From now on each thread that leaves checks whether to wake one that sleeps outside.
    pub(crate) fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn try_enter(&self) -> bool {
        lock::try_enter(self)
    }

    /// As [`lock::enter`]; `interrupt_wait` ends the wait of the thread inside.
    #[cold]
    pub(crate) fn enter_contended(
        &self,
        is_live: impl Fn() -> bool,
        interrupt_wait: impl Fn(),
    ) -> Result<(), u64> {
        self.share();
        lock::enter(self, is_live, || {
            if self.in_wait.load(SeqCst) {
                interrupt_wait();
            }
        })
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        lock::leave(self);
    }

    /// Leaves for good: others find the instance in this state.
    pub(crate) fn close(&self, state: u64) {
        lock::close(self, state);
        self.wake_waiters();
    }

    /// Forgets the threads of the parent. Called in a child, whose only thread this is.
    pub(crate) fn disown(&self) {
        self.wanted.store(0, Relaxed);
        self.state.store(PARENTS, Relaxed);
    }

    /// This thread, which is inside, is about to wait. `false` if another wants in: then it does not wait.
    #[inline]
    pub(crate) fn begin_wait(&self) -> bool {
        self.in_wait.store(true, Relaxed);
        membarrier::light(ASYMMETRIC.load(Relaxed));
        self.wanted.load(Relaxed) == 0
    }

    #[inline]
    pub(crate) fn end_wait(&self) {
        self.in_wait.store(false, Relaxed);
    }

    /// A wait shall end, or the next one.
    pub(crate) fn request_wake(&self) {
        self.wake_requested.store(true, SeqCst);
    }

    /// Whether a wait was to end; clears the request.
    pub(crate) fn take_wake_request(&self) -> bool {
        self.wake_requested.load(SeqCst) && self.wake_requested.swap(false, SeqCst)
    }

    /// Whether this thread, which is inside, is the one that waits for all.
    pub(crate) fn begin_waiting_for_all(&self) -> bool {
        !self.has_waiter.swap(true, Relaxed)
    }

    pub(crate) fn end_waiting_for_all(&self) {
        self.has_waiter.store(false, Relaxed);
    }

    /// For [`Entry::wait_for_changes`].
    pub(crate) fn changes_seen(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Wakes waiting threads if these counts differ from those of the last call. Only inside.
    #[cold]
    pub(crate) fn note_changes(&self, (completions, arrived): (u64, usize)) {
        let completed = self.completions.swap(completions, Relaxed) != completions;
        if self.arrived.swap(arrived, Relaxed) != arrived || completed {
            self.wake_waiters();
        }
    }

    /// Wakes all waiting threads, so that each tests for itself.
    pub(crate) fn wake_waiters(&self) {
        self.changes.fetch_add(1, SeqCst);
        futex::wake(&self.changes);
    }

    /// Sleeps, outside, until there is a change since `seen`.
    pub(crate) fn wait_for_changes(&self, seen: u64, limit: Option<Duration>) {
        futex::wait(&self.changes, seen, limit);
    }
}

impl LockMemory for Entry {
    type Word = AtomicU64;

    #[inline(always)]
    fn state(&self) -> &AtomicU64 {
        &self.state
    }

    #[inline(always)]
    fn waiting(&self) -> &AtomicU64 {
        &self.wanted
    }

    fn thread_number(&self) -> u64 {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: u64 = THREADS.fetch_add(1, Relaxed) % (1 << NUMBER_BITS);
        }
        NUMBER.with(|number| *number)
    }

    fn heavy_fence(&self) {
        membarrier::heavy();
    }

    #[inline(always)]
    fn light_fence(&self) {
        membarrier::light(ASYMMETRIC.load(Relaxed));
    }

    fn sleep(&self, state: u64) {
        futex::wait(&self.state, state, None);
    }

    fn wake(&self) {
        futex::wake(&self.state);
    }
}
