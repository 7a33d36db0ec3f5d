//! A lock that costs a thread that uses it alone one compare-and-swap and one store, and that its holder hands to a thread
//! that has waited for long.
//!
//! A thread that leaves stores [`FREE`] and then checks for threads that wait; a thread that waits counts itself
//! and then checks the state. So at least one of them sees the other. The waiting thread pays for the full fence
//! that this needs.
//!
//! A thread that leaves wakes one that waits, but may enter again itself before that one runs, and wakes no thread then: otherwise threads on one
//! processor would switch with each call. A thread that was woken several times and never found the lock free asks for it: the next
//! thread that leaves stores `HANDED` with its own number, and does not enter again before another thread has.
//!
//! Most threads are inside for less time than it takes to fall asleep. A thread that wants to enter therefore first checks the lock
//! repeatedly, for about as long as threads that entered in this way have lately needed. Where this is in vain, as on the processor of
//! the thread inside, it soon ends.
//!
//! Threads sleep on a count of its own ([`LockMemory::wakes`]). It is odd from a wake-up until one of the woken threads is about to
//! sleep again: while it is odd, no thread sleeps. A thread that is about to sleep makes it even, and checks the state once more; a
//! thread that leaves has changed the state, and if the count is even makes it odd and wakes all. So one of the two sees what the
//! other has done.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// No thread is inside.
pub const FREE: u64 = 0;
/// A thread is inside.
pub const INSIDE: u64 = 1;
/// A panic has left the instance in an unknown state: no thread uses it any more.
pub const BROKEN: u64 = 2;
/// It belongs to the process that this one was forked from.
pub const PARENTS: u64 = 3;
/// A thread has left and handed the lock to another one that waits to enter. The number of the
/// thread that left is in the bits above.
const HANDED: u64 = 4;
/// The low bits of a state, below the number of a thread.
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
    /// The count that threads sleep on.
    fn wakes(&self) -> &Self::Word;
    /// Not 0 if a waiting thread requests that the lock be handed over.
    fn handover_requested(&self) -> &Self::Word;
    /// The number of this thread, of [`NUMBER_BITS`]; no other thread has it.
    fn thread_number(&self) -> u64;
    /// The full fence of a thread that waits, which all other threads pass, too.
    fn heavy_fence(&self);
    /// The fence of a thread that leaves.
    fn light_fence(&self);
    /// How often a thread that wants to enter checks the lock again before it sleeps.
    fn spin_limit(&self) -> u32;
    /// Notes that a thread has entered, or has given up and is going to sleep, after so many
    /// checks.
    fn note_spins(&self, spins: u32, is_inside: bool);
    /// Whether threads that leave may have passed no fence, so that a wake-up can be missed.
    fn may_miss_wakes(&self) -> bool;
    /// Sleeps while [`LockMemory::wakes`] is this; may return early. Not for long if a wake-up can be missed.
    fn sleep(&self, wakes: u64, may_miss: bool);
    /// Wakes all threads that sleep.
    fn wake(&self);
}

/// A thread that was woken this often in vain requests that the lock be handed over. (An EPYC of the fourth generation. With 1, four threads on one
/// processor make 2.0 instead of 4.7 million calls a second, since each call then switches threads, and the slowest thread makes a seventh of the
/// calls of the fastest instead of four fifths. With 16 they are as many; of two threads, far, the slower one makes 0.69 to 0.86 of the calls of the
/// other one instead of 0.97 to 1.00.)
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

/// Enters when the thread inside has left. Returns as an error the state in which no thread may enter, or [`FREE`]
/// if `is_live` returns that the guarded object no longer exists. `interrupt` requests that the thread inside leave.
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
    let (spin_limit, mut spins) = (lock.spin_limit(), 0);
    let entered = loop {
        let state = lock.state().load(Relaxed);
        if !is_live() {
            break Err(FREE);
        }
        if state == FREE || is_handed(state) && state != by_this_thread {
            if lock.state().replace(state, INSIDE, Acquire) {
                if in_vain == 0 {
                    lock.note_spins(spins, true);
                }
                break Ok(());
            }
        } else if state != INSIDE && state != by_this_thread {
            break Err(state);
        } else if spins < spin_limit {
            spins += 1;
            std::hint::spin_loop();
        } else if let Some((wakes, may_miss)) = about_to_sleep.take() {
            if in_vain == 0 {
                lock.note_spins(spins, false);
            }
            interrupt();
            lock.sleep(wakes, may_miss);
            in_vain += 1;
            if in_vain >= IN_VAIN {
                request_handover(lock);
            }
        } else {
            // Before the last check of the state: if threads that leave have fences of their own by then, the check sees what the last
            // one without has stored.
            let may_miss = lock.may_miss_wakes();
            about_to_sleep = Some((begin_sleep(lock), may_miss));
        }
    };
    lock.waiting().fetch_sub(1, SeqCst);
    if entered.is_err() {
        fence(SeqCst);
        take_back(lock);
    }
    entered
}

/// Makes the thread that leaves next hand the lock to a waiting thread, if there is one.
pub fn request_handover(lock: &impl LockMemory) {
    lock.handover_requested().store(1, Relaxed);
}

/// Announces that this thread is about to sleep, so that threads that leave wake it. Returns the count to
/// sleep on; the caller checks the state once more first.
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

/// Leaves, so that the next thread can enter.
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
    if lock.handover_requested().load(Relaxed) == 0 {
        lock.state().store(FREE, Release);
        return wake(lock);
    }
    lock.handover_requested().store(0, Relaxed);
    lock.state().store(handed_by(lock), Release);
    fence(SeqCst);
    if lock.waiting().load(Relaxed) == 0 {
        // The thread that waited has given up meanwhile.
        take_back(lock);
    }
    wake(lock);
}

/// Frees a lock that was handed over, although the thread that waited for it has given up. Another waiting thread can
/// take the free lock as well.
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
