//! What the program's threads and the one that [makes progress in their stead](crate::progress) tell each other.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use causeway_mpi::process::Process;
use causeway_sys::futex;

/// The thread is there.
pub(crate) static IS_ON: AtomicBool = AtomicBool::new(false);
/// It sleeps until `CALLS` changes, or is about to.
pub(crate) static IS_IDLE: AtomicBool = AtomicBool::new(false);
/// How often it was called from its sleep.
pub(crate) static CALLS: AtomicU64 = AtomicU64::new(0);
/// Threads of the program that wait.
pub(crate) static WAITING: AtomicU64 = AtomicU64::new(0);

/// Whether the thread is there.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// A thread of the program leaves the library: wakes the thread if it has left something going on.
#[inline]
pub(crate) fn leave(process: &Process) {
    if is_on() && IS_IDLE.load(SeqCst) && has_work(process) {
        call();
    }
}

/// Whether the thread makes progress.
pub(crate) fn has_work(process: &Process) -> bool {
    WAITING.load(SeqCst) == 0 && process.has_pending()
}

/// Wakes the thread.
#[cold]
pub(crate) fn call() {
    CALLS.fetch_add(1, SeqCst);
    futex::wake(&CALLS);
}

/// A thread of the program waits as long as this exists. Whether it has left something going on, which the thread that makes progress has to
/// continue, is found out when it leaves the library after that ([`leave`]).
pub(crate) struct Waits;

impl Waits {
    pub(crate) fn new() -> Self {
        WAITING.fetch_add(1, SeqCst);
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, SeqCst);
    }
}
