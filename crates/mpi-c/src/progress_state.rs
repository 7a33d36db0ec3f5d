//! The state by which the program's threads and the thread that [makes progress in their stead](crate::progress)
//! notify each other.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use causeway_mpi::process::Process;
use causeway_sys::futex;
use causeway_sys::progress_thread::{self, ProgressThreadMemory};

/// Whether the thread runs.
pub(crate) static IS_ON: AtomicBool = AtomicBool::new(false);

/// The words that both sides read and write.
pub(crate) static PROGRESS_THREAD: ProgressThread = ProgressThread {
    idle: AtomicU64::new(0),
    calls: AtomicU64::new(0),
    waiting: AtomicU64::new(0),
};

/// See [`PROGRESS_THREAD`].
pub(crate) struct ProgressThread {
    idle: AtomicU64,
    calls: AtomicU64,
    waiting: AtomicU64,
}

impl ProgressThreadMemory for ProgressThread {
    type Word = AtomicU64;
    #[inline]
    fn idle(&self) -> &AtomicU64 {
        &self.idle
    }
    #[inline]
    fn calls(&self) -> &AtomicU64 {
        &self.calls
    }
    #[inline]
    fn waiting(&self) -> &AtomicU64 {
        &self.waiting
    }
    fn sleep(&self, calls: u64) {
        futex::wait_here(&self.calls, calls, None);
    }
    fn wake(&self) {
        futex::wake_here(&self.calls);
    }
}

/// Whether the thread runs.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Called when a thread of the program leaves the library: wakes the progress thread if an
/// operation is left in progress.
#[inline]
pub(crate) fn leave(process: &Process) {
    if is_on() {
        progress_thread::leave(&PROGRESS_THREAD, || process.has_pending());
    }
}

/// A thread of the program waits as long as this exists. Whether it has left an operation in progress, which the progress thread has to
/// continue, is checked when it leaves the library after that ([`leave`]).
pub(crate) struct Waits;

impl Waits {
    pub(crate) fn new() -> Self {
        progress_thread::begin_wait(&PROGRESS_THREAD);
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        progress_thread::end_wait(&PROGRESS_THREAD);
    }
}
