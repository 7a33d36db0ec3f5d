//! Synchronization between the threads of a program and one that makes progress in their stead while they compute.
//!
//! The thread makes progress on operations that calls have left, as long as no thread of the program waits, which makes progress itself.
//! Otherwise it is idle: it sleeps on a count of calls. A thread of the program wakes it if it leaves the library while an operation is in
//! progress. The thread announces that it is idle before it checks for operations, and the program's threads check whether it is idle after
//! they have begun operations, and after a wait: either the thread sees these operations, or they see that it is idle.

use std::sync::atomic::Ordering::SeqCst;

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// Where the words lie, and how the thread sleeps.
pub trait ProgressThreadMemory {
    /// The words' type.
    type Word: Word;
    /// Not 0: the thread sleeps until [`ProgressThreadMemory::calls`] changes, or is about to.
    fn idle(&self) -> &Self::Word;
    /// How often it was called from its sleep.
    fn calls(&self) -> &Self::Word;
    /// Threads of the program that wait.
    fn waiting(&self) -> &Self::Word;
    /// Sleeps while [`ProgressThreadMemory::calls`] is this; may return early.
    fn sleep(&self, calls: u64);
    /// Wakes the thread.
    fn wake(&self);
}

/// Begins a round of the thread. Returns the count of calls to sleep on if it finds no operations, and whether it is to check for
/// operations inside the library.
pub fn begin_round(memory: &impl ProgressThreadMemory) -> (u64, bool) {
    let calls = memory.calls().load(SeqCst);
    memory.idle().store(1, SeqCst);
    fence(SeqCst);
    (calls, memory.waiting().load(SeqCst) == 0)
}

/// Notes that the thread is inside the library, and checks for operations.
pub fn look(memory: &impl ProgressThreadMemory) {
    memory.idle().store(0, SeqCst);
}

/// Called when the thread leaves the library; `pending` if operations are in progress. Returns whether the thread is to
/// continue with them.
pub fn end_round(memory: &impl ProgressThreadMemory, pending: bool) -> bool {
    let has_work = pending && memory.waiting().load(SeqCst) == 0;
    // Threads of the program that leave operations in progress from now on see that it is idle.
    memory.idle().store(u64::from(!has_work), SeqCst);
    has_work
}

/// Puts the thread, which has found nothing to do, to sleep.
pub fn sleep(memory: &impl ProgressThreadMemory, calls: u64) {
    memory.sleep(calls);
    memory.idle().store(0, SeqCst);
}

/// Called when a thread of the program leaves the library: wakes the progress thread if operations are `pending` with which it has to
/// continue.
#[inline]
pub fn leave(memory: &impl ProgressThreadMemory, pending: impl FnOnce() -> bool) {
    if memory.idle().load(SeqCst) != 0 && memory.waiting().load(SeqCst) == 0 && pending() {
        call(memory);
    }
}

/// Wakes the thread.
#[cold]
pub fn call(memory: &impl ProgressThreadMemory) {
    memory.calls().fetch_add(1, SeqCst);
    memory.wake();
}

/// Notes that a thread of the program begins to wait.
pub fn begin_wait(memory: &impl ProgressThreadMemory) {
    memory.waiting().fetch_add(1, SeqCst);
}

/// Notes that its wait is over. The caller enters and leaves the library once more, so that the progress thread
/// learns of operations that are still in progress.
pub fn end_wait(memory: &impl ProgressThreadMemory) {
    memory.waiting().fetch_sub(1, SeqCst);
    fence(SeqCst);
}
