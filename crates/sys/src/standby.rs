//! Synchronization between the threads of a program and one that makes progress in their stead while they compute.
//!
//! The thread makes progress on operations that calls have left, as long as no thread of the program waits, which makes progress itself.
//! Otherwise it is idle: it sleeps on a count of calls. A thread of the program that leaves the library behind something that goes on wakes
//! it. The thread announces that it is idle before it checks for operations, and the program's threads check whether it is idle after
//! they have begun operations, and after a wait: either the thread sees these operations, or they see that it is idle.

use std::sync::atomic::Ordering::SeqCst;

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// Where the words lie, and how the thread sleeps.
pub trait StandbyMemory {
    /// The words' type.
    type Word: Word;
    /// Not 0: the thread sleeps until [`StandbyMemory::calls`] changes, or is about to.
    fn idle(&self) -> &Self::Word;
    /// How often it was called from its sleep.
    fn calls(&self) -> &Self::Word;
    /// Threads of the program that wait.
    fn waiting(&self) -> &Self::Word;
    /// Sleeps while [`StandbyMemory::calls`] is this; may return early.
    fn sleep(&self, calls: u64);
    /// Wakes the thread.
    fn wake(&self);
}

/// The thread begins a round: it is to sleep on this count of calls unless it finds operations. `true` if it is to check for these, inside
/// of the library.
pub fn begin_round(memory: &impl StandbyMemory) -> (u64, bool) {
    let calls = memory.calls().load(SeqCst);
    memory.idle().store(1, SeqCst);
    fence(SeqCst);
    (calls, memory.waiting().load(SeqCst) == 0)
}

/// The thread is inside of the library, and checks for operations.
pub fn look(memory: &impl StandbyMemory) {
    memory.idle().store(0, SeqCst);
}

/// The thread leaves the library, where operations are `pending` or not. Returns whether they are for it to go on with.
pub fn end_round(memory: &impl StandbyMemory, pending: bool) -> bool {
    let has_work = pending && memory.waiting().load(SeqCst) == 0;
    // Those that leave something going on from now on find it idle.
    memory.idle().store(u64::from(!has_work), SeqCst);
    has_work
}

/// The thread, which has found nothing to do, sleeps.
pub fn sleep(memory: &impl StandbyMemory, calls: u64) {
    memory.sleep(calls);
    memory.idle().store(0, SeqCst);
}

/// A thread of the program leaves the library, where operations are `pending` or not: wakes the thread if that is for it to go on with.
#[inline]
pub fn leave(memory: &impl StandbyMemory, pending: impl FnOnce() -> bool) {
    if memory.idle().load(SeqCst) != 0 && memory.waiting().load(SeqCst) == 0 && pending() {
        call(memory);
    }
}

/// Wakes the thread.
#[cold]
pub fn call(memory: &impl StandbyMemory) {
    memory.calls().fetch_add(1, SeqCst);
    memory.wake();
}

/// A thread of the program begins to wait.
pub fn begin_wait(memory: &impl StandbyMemory) {
    memory.waiting().fetch_add(1, SeqCst);
}

/// Its wait is over. It enters and leaves the library once more, so that the thread learns of what still goes on.
pub fn end_wait(memory: &impl StandbyMemory) {
    memory.waiting().fetch_sub(1, SeqCst);
    fence(SeqCst);
}
