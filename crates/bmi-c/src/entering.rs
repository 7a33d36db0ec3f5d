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

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use causeway_sys::{futex, membarrier};

/// No thread is inside.
pub(crate) const FREE: u64 = 0;
/// A thread is.
const INSIDE: u64 = 1;
/// A panic has left the instance in an unknown state: no thread uses it any more.
pub(crate) const BROKEN: u64 = 2;
/// It belongs to the process that this one was forked from.
pub(crate) const PARENTS: u64 = 3;
/// A thread has left for another that waits to enter.
const HANDED: u64 = 4;

/// Whether the fence of threads that leave may be left out.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Has the system fence for threads that leave; before the first instance.
pub(crate) fn prepare() {
    ASYMMETRIC.store(membarrier::register(), Relaxed);
}

/// Identifies this thread.
fn own_id() -> usize {
    thread_local! {
        static ID: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
    }
    ID.with(|id| std::ptr::from_ref(id).addr())
}

/// Which thread is inside an instance, and which wait.
pub(crate) struct Entry {
    state: AtomicU64,
    /// Threads that wait to enter.
    wanted: AtomicU32,
    /// The thread that has set [`HANDED`].
    handed_by: AtomicUsize,
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
            wanted: AtomicU32::new(0),
            handed_by: AtomicUsize::new(0),
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
        let entered = self.state.compare_exchange(FREE, INSIDE, Acquire, Relaxed);
        entered.is_ok()
    }

    /// Enters when the thread inside has left, or returns the state that keeps all out; [`FREE`] if the instance is
    /// not `is_live` any more. `interrupt_wait` ends the wait of the thread inside.
    #[cold]
    pub(crate) fn enter_contended(
        &self,
        is_live: impl Fn() -> bool,
        interrupt_wait: impl Fn(),
    ) -> Result<(), u64> {
        self.share();
        self.wanted.fetch_add(1, SeqCst);
        membarrier::heavy();
        let entered = loop {
            let state = self.state.load(Relaxed);
            if !is_live() {
                break Err(FREE);
            }
            let is_mine = state == HANDED && self.handed_by.load(Relaxed) == own_id();
            match state {
                FREE | HANDED if !is_mine => {
                    let taken = self.state.compare_exchange(state, INSIDE, Acquire, Relaxed);
                    if taken.is_ok() {
                        break Ok(());
                    }
                }
                INSIDE | HANDED => {
                    if self.in_wait.load(SeqCst) {
                        interrupt_wait();
                    }
                    futex::wait(&self.state, state, None);
                }
                closed => break Err(closed),
            }
        };
        self.wanted.fetch_sub(1, SeqCst);
        if entered.is_err() {
            // It may have been handed to this thread.
            let _ = self.state.compare_exchange(HANDED, FREE, SeqCst, Relaxed);
            futex::wake(&self.state);
        }
        entered
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        if self.wanted.load(Relaxed) == 0 {
            self.state.store(FREE, Release);
            membarrier::light(ASYMMETRIC.load(Relaxed));
            if self.wanted.load(Relaxed) != 0 {
                futex::wake(&self.state);
            }
        } else {
            self.hand_over();
        }
    }

    #[cold]
    fn hand_over(&self) {
        self.handed_by.store(own_id(), Relaxed);
        self.state.store(HANDED, Release);
        futex::wake(&self.state);
    }

    /// Leaves for good: others find the instance in this state.
    pub(crate) fn close(&self, state: u64) {
        self.state.store(state, SeqCst);
        futex::wake(&self.state);
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
