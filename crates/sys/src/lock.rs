//! A lock that costs a holder who is alone one compare-and-swap and one store, and that its holder hands to a thread that has
//! waited for long.
//!
//! A thread that leaves stores [`FREE`] and then looks for threads that wait; one that waits counts itself and then
//! looks at the state: either sees the other, and the full fence between the two is paid by the one that waits.
//!
//! A thread that leaves wakes one that waits, but may enter again itself before that one runs, and wakes no thread then: otherwise threads on one
//! processor would switch with each call. A thread that was woken several times and never found the lock free asks for it: the next
//! thread that leaves stores `HANDED` with its own number, and does not enter again before another thread has.
//!
//! Most threads are inside for less time than it takes to fall asleep: one that wants in looks for about as long as it has
//! lately taken those that got in while they looked. Where looking is in vain, as on the processor of the thread inside, it soon ends.
//!
//! Threads sleep on a count of their own ([`LockMemory::wakes`]). It is odd while a thread that was woken has not fallen
//! asleep again: then none sleeps. One that is about to sleep makes it even, and looks at the state once more; one that leaves, having
//! changed the state, makes it odd and wakes all if it is even. So either sees what the other has done.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// No thread is inside.
pub const FREE: u64 = 0;
/// A thread is.
pub const INSIDE: u64 = 1;
/// A panic has left the instance in an unknown state: no thread uses it any more.
pub const BROKEN: u64 = 2;
/// It belongs to the process that this one was forked from.
pub const PARENTS: u64 = 3;
/// A thread has left for another that waits to enter: its number is in the bits above.
const HANDED: u64 = 4;
/// The bits of a state that are no thread's number.
const STATE_BITS: u32 = 3;
/// Bits of a thread's number: state and number are the 32 bits that the kernel compares.
pub const NUMBER_BITS: u32 = 32 - STATE_BITS;

/// Where the lock's words lie, and what its threads can do.
pub trait LockMemory {
    /// The words' type.
    type Word: Word;
    /// One of the states above.
    fn state(&self) -> &Self::Word;
    /// How many threads wait to enter.
    fn waiting(&self) -> &Self::Word;
    /// What threads sleep on.
    fn wakes(&self) -> &Self::Word;
    /// Not 0 if a thread that waits asks for the lock.
    fn asked(&self) -> &Self::Word;
    /// The number of this thread, of [`NUMBER_BITS`]; no other thread has it.
    fn thread_number(&self) -> u64;
    /// The full fence of a thread that waits: it orders other threads, too.
    fn heavy_fence(&self);
    /// The fence of a thread that leaves.
    fn light_fence(&self);
    /// How often a thread that wants in looks again before it sleeps.
    fn looks(&self) -> u32;
    /// A thread got in, or gave up and sleeps, after so many looks.
    fn looked(&self, looks: u32, is_inside: bool);
    /// Sleeps while [`LockMemory::wakes`] is this; may return early.
    fn sleep(&self, wakes: u64);
    /// Wakes all that sleep.
    fn wake(&self);
}

/// A thread that was woken so often in vain asks for the lock.
const IN_VAIN: u32 = 4;

fn is_handed(state: u64) -> bool {
    state & ((1 << STATE_BITS) - 1) == HANDED
}

fn handed_by(lock: &impl LockMemory) -> u64 {
    HANDED | lock.thread_number() << STATE_BITS
}

/// Enters if no thread is inside and none has been handed the lock.
#[inline(always)]
pub fn try_enter(lock: &impl LockMemory) -> bool {
    lock.state().replace(FREE, INSIDE, Acquire)
}

/// Enters when the thread inside has left, or returns the state that keeps all out; [`FREE`] if what the lock guards
/// is not `is_live` any more. `interrupt` asks the thread inside to leave.
#[cold]
pub fn enter(
    lock: &impl LockMemory,
    is_live: impl Fn() -> bool,
    interrupt: impl Fn(),
) -> Result<(), u64> {
    lock.waiting().fetch_add(1, SeqCst);
    lock.heavy_fence();
    let by_this_thread = handed_by(lock);
    let (mut about_to_sleep, mut in_vain) = (None, 0);
    let (most_looks, mut looks) = (lock.looks(), 0);
    let entered = loop {
        let state = lock.state().load(Relaxed);
        if !is_live() {
            break Err(FREE);
        }
        if state == FREE || is_handed(state) && state != by_this_thread {
            if lock.state().replace(state, INSIDE, Acquire) {
                if in_vain == 0 {
                    lock.looked(looks, true);
                }
                break Ok(());
            }
        } else if state != INSIDE && state != by_this_thread {
            break Err(state);
        } else if looks < most_looks {
            looks += 1;
            std::hint::spin_loop();
        } else if let Some(wakes) = about_to_sleep.take() {
            if in_vain == 0 {
                lock.looked(looks, false);
            }
            interrupt();
            lock.sleep(wakes);
            in_vain += 1;
            if in_vain >= IN_VAIN {
                ask_to_hand_over(lock);
            }
        } else {
            about_to_sleep = Some(begin_sleep(lock));
        }
    };
    lock.waiting().fetch_sub(1, SeqCst);
    if entered.is_err() {
        fence(SeqCst);
        take_back(lock);
    }
    entered
}

/// Who leaves next hands the lock to a thread that waits, if there is one.
pub fn ask_to_hand_over(lock: &impl LockMemory) {
    lock.asked().store(1, Relaxed);
}

/// Threads that leave from now on wake this one. Returns what it sleeps on, unless the state has changed.
fn begin_sleep(lock: &impl LockMemory) -> u64 {
    let mut wakes = lock.wakes().load(Relaxed);
    while !wakes.is_multiple_of(2) && !lock.wakes().replace(wakes, wakes.wrapping_add(1), SeqCst) {
        wakes = lock.wakes().load(Relaxed);
    }
    fence(SeqCst);
    wakes.next_multiple_of(2)
}

/// Wakes threads that sleep or are about to, having changed the state.
#[cold]
fn wake(lock: &impl LockMemory) {
    fence(SeqCst);
    let wakes = lock.wakes().load(Relaxed);
    if wakes.is_multiple_of(2) && lock.wakes().replace(wakes, wakes + 1, SeqCst) {
        lock.wake();
    }
}

/// Lets the next thread in.
#[inline(always)]
pub fn leave(lock: &impl LockMemory) {
    if lock.waiting().load(Relaxed) == 0 {
        lock.state().store(FREE, Release);
        lock.light_fence();
        if lock.waiting().load(Relaxed) != 0 {
            wake(lock);
        }
    } else {
        leave_to_others(lock);
    }
}

#[cold]
fn leave_to_others(lock: &impl LockMemory) {
    if lock.asked().load(Relaxed) == 0 {
        lock.state().store(FREE, Release);
        return wake(lock);
    }
    lock.asked().store(0, Relaxed);
    lock.state().store(handed_by(lock), Release);
    fence(SeqCst);
    if lock.waiting().load(Relaxed) == 0 {
        // The thread that waited has given up meanwhile.
        take_back(lock);
    }
    wake(lock);
}

/// Frees a lock that was handed to a thread that has given up. Another one that waits takes it as well when it is free.
fn take_back(lock: &impl LockMemory) {
    let state = lock.state().load(Relaxed);
    if is_handed(state) {
        lock.state().replace(state, FREE, Release);
    }
    wake(lock);
}

/// Leaves for good: others find the lock in this state.
pub fn close(lock: &impl LockMemory, state: u64) {
    lock.state().store(state, SeqCst);
    wake(lock);
}
