//! How threads share an instance of something: one at a time is inside.
//!
//! A thread enters by one compare-and-swap and leaves by one store. An instance that one thread uses pays nothing for others that
//! might enter: a thread that has to wait pays for the ordering, with a system call that puts a fence into all threads of the process
//! ([`membarrier`]). Once threads have met in an instance several times, each thread that leaves it has a fence of its own instead.
//!
//! A thread that has to wait interrupts the wait of the thread inside, if that one waits for messages, and sleeps until it leaves.
//! A thread that calls again and again keeps none out: the lock hands the instance to one that has waited for long ([`crate::lock`]).
//!
//! Of several threads that wait in one instance, one waits for all: it polls inside, then sleeps outside until peers send
//! something, and ends its wait when anything has completed or arrived. The others sleep until a thread that leaves has seen
//! such a change, then test for themselves. While the first one sleeps, the instance is free: a thread that posts pays
//! nothing for it, and wakes it only if it has left something to be polled, completed or timed, which is for the instance
//! to say. While it polls, it is interrupted.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use std::time::Duration;

use crate::lock::{self, LockMemory, NUMBER_BITS};
pub use crate::lock::{BROKEN, FREE, PARENTS};
use crate::{futex, membarrier};

/// Whether the fence of threads that leave may be left out.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Has the system fence for threads that leave; before the first instance.
pub fn prepare() {
    ASYMMETRIC.store(membarrier::register(), Relaxed);
}

/// After so many fences in all threads, each that leaves has one of its own.
const MANY_FENCES: u64 = 16;
/// Every thread has seen that: threads that wait to enter have only their own, too.
const OWN_FENCES: u64 = u64::MAX;

/// Which thread is inside an instance, and which wait.
pub struct Entry {
    state: AtomicU64,
    /// Threads that wait to enter, what they sleep on, and whether one asks for the instance.
    wanted: AtomicU64,
    wakes: AtomicU64,
    asked: AtomicU64,
    /// Fences in all threads so far, or [`OWN_FENCES`].
    heavy_fences: AtomicU64,
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
    /// Threads that sleep until there are changes, or are about to.
    followers: AtomicU64,
    completions: AtomicU64,
    arrived: AtomicUsize,
}

/// What a thread that waits does next.
#[derive(Debug)]
pub enum Next<P> {
    /// Nothing: its wait is over.
    Return,
    /// It tests again.
    Again,
    /// It waits for all: it sleeps outside, and finishes this wait when it comes in again.
    Park(P),
    /// It sleeps until there are changes beyond these ([`Entry::wait_for_changes`]).
    Follow(u64),
}

impl Default for Entry {
    fn default() -> Self {
        Self::new()
    }
}

impl Entry {
    /// No thread is inside.
    pub const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            wanted: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            heavy_fences: AtomicU64::new(0),
            in_wait: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            wake_requested: AtomicBool::new(false),
            has_waiter: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            followers: AtomicU64::new(0),
            completions: AtomicU64::new(0),
            arrived: AtomicUsize::new(0),
        }
    }

    /// Forgets what threads did here with another instance.
    pub fn reset(&self) {
        self.shared.store(false, Relaxed);
        self.wake_requested.store(false, Relaxed);
        self.has_waiter.store(false, Relaxed);
        self.in_wait.store(false, Relaxed);
    }

    /// Of [`crate::lock`].
    pub fn state(&self) -> u64 {
        self.state.load(Relaxed)
    }

    /// Whether no thread is inside, or waits to be.
    pub fn is_free(&self) -> bool {
        self.state.load(Acquire) == FREE && self.wanted.load(SeqCst) == 0
    }

    /// Whether several threads use it.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// From now on each thread that leaves checks whether to wake one that sleeps outside.
    pub fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    /// Enters if no thread is inside and none has been handed the lock.
    #[inline(always)]
    pub fn try_enter(&self) -> bool {
        lock::try_enter(self)
    }

    /// As [`lock::enter`]; `interrupt_wait` ends the wait of the thread inside.
    #[cold]
    pub fn enter_contended(
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

    /// Lets the next thread in.
    #[inline(always)]
    pub fn leave(&self) {
        lock::leave(self);
    }

    /// Leaves for good: others find the instance in this state.
    pub fn close(&self, state: u64) {
        lock::close(self, state);
        self.wake_waiters();
    }

    /// Forgets the threads of the parent. Called in a child, whose only thread this is.
    pub fn disown(&self) {
        self.wanted.store(0, Relaxed);
        self.followers.store(0, Relaxed);
        self.state.store(PARENTS, Relaxed);
    }

    /// This thread, which is inside, is about to wait. `false` if another wants in: then it does not wait.
    #[inline]
    pub fn begin_wait(&self) -> bool {
        self.in_wait.store(true, Relaxed);
        self.light_fence();
        self.wanted.load(Relaxed) == 0
    }

    /// After [`Entry::begin_wait`].
    #[inline]
    pub fn end_wait(&self) {
        self.in_wait.store(false, Relaxed);
    }

    /// A wait shall end, or the next one.
    pub fn request_wake(&self) {
        self.wake_requested.store(true, SeqCst);
    }

    /// Whether a wait was to end; clears the request.
    pub fn take_wake_request(&self) -> bool {
        self.wake_requested.load(SeqCst) && self.wake_requested.swap(false, SeqCst)
    }

    /// Whether this thread, which is inside, is the one that waits for all.
    fn begin_waiting_for_all(&self) -> bool {
        !self.has_waiter.swap(true, Relaxed)
    }

    fn end_waiting_for_all(&self) {
        self.has_waiter.store(false, Relaxed);
    }

    /// What a thread does next that is inside and waits; `waits_for_all` is its own, false at first. `is_over` says that it has
    /// what it waits for, or gives up. `prepare` polls until there are changes, and returns `None`, or what to sleep in outside.
    pub fn next<P>(
        &self,
        waits_for_all: &mut bool,
        is_over: bool,
        prepare: impl FnOnce() -> Option<P>,
    ) -> Next<P> {
        if is_over {
            if std::mem::take(waits_for_all) {
                self.end_waiting_for_all();
            }
            // Another takes over waiting for all.
            self.wake_waiters();
            return Next::Return;
        }
        *waits_for_all = *waits_for_all || self.begin_waiting_for_all();
        if !*waits_for_all {
            return Next::Follow(self.changes_seen());
        }
        let mut next = Next::Again;
        if self.begin_wait() {
            // Threads that come in have to know: this one may wait here although no other has met it.
            self.share();
            next = prepare().map_or(Next::Again, Next::Park);
        } else {
            // It has nothing to do before they have been in.
            lock::ask_to_hand_over(self);
        }
        self.end_wait();
        next
    }

    /// For [`Entry::wait_for_changes`].
    fn changes_seen(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Wakes waiting threads if these counts differ from those of the last call. Only inside.
    #[cold]
    pub fn note_changes(&self, (completions, arrived): (u64, usize)) {
        let known = (self.completions.load(Relaxed), self.arrived.load(Relaxed));
        if known != (completions, arrived) {
            // Written inside only.
            self.completions.store(completions, Relaxed);
            self.arrived.store(arrived, Relaxed);
            self.wake_waiters();
        }
    }

    /// Wakes all waiting threads, so that each tests for itself.
    pub fn wake_waiters(&self) {
        self.changes.fetch_add(1, SeqCst);
        // One that is not counted yet finds the change before it sleeps.
        if self.followers.load(SeqCst) > 0 {
            futex::wake(&self.changes);
        }
    }

    /// Sleeps, outside, until there is a change since `seen`.
    pub fn wait_for_changes(&self, seen: u64, limit: Option<Duration>) {
        self.followers.fetch_add(1, SeqCst);
        futex::wait(&self.changes, seen, limit);
        self.followers.fetch_sub(1, SeqCst);
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
        let before = self.heavy_fences.load(SeqCst);
        if before == OWN_FENCES {
            return fence(SeqCst);
        }
        let is_enough = before + 1 == MANY_FENCES;
        let counted = self
            .heavy_fences
            .compare_exchange(before, before + 1, SeqCst, SeqCst);
        membarrier::heavy();
        if counted.is_ok() && is_enough {
            // From this fence on all threads that leave see that they need their own.
            self.heavy_fences.store(OWN_FENCES, SeqCst);
        }
    }

    #[inline(always)]
    fn light_fence(&self) {
        let is_asymmetric = self.heavy_fences.load(Relaxed) < MANY_FENCES;
        membarrier::light(is_asymmetric && ASYMMETRIC.load(Relaxed));
    }

    fn wakes(&self) -> &AtomicU64 {
        &self.wakes
    }

    fn asked(&self) -> &AtomicU64 {
        &self.asked
    }

    fn sleep(&self, wakes: u64) {
        futex::wait(&self.wakes, wakes, None);
    }

    fn wake(&self) {
        futex::wake(&self.wakes);
    }
}
