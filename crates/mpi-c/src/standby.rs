//! The state by which the program's threads and the thread that [makes progress in their stead](crate::progress)
//! notify each other.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use causeway_mpi::process::Process;
use causeway_sys::futex;
use causeway_sys::standby::{self, StandbyMemory};

/// Whether the thread runs.
pub(crate) static IS_ON: AtomicBool = AtomicBool::new(false);

/// The words that both sides read and write.
pub(crate) static STANDBY: Standby = Standby {
    idle: AtomicU64::new(0),
    calls: AtomicU64::new(0),
    waiting: AtomicU64::new(0),
};

/// See [`STANDBY`].
pub(crate) struct Standby {
    idle: AtomicU64,
    calls: AtomicU64,
    waiting: AtomicU64,
}

impl StandbyMemory for Standby {
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
        standby::leave(&STANDBY, || process.has_pending());
    }
}

/// A thread of the program waits as long as this exists. Whether it has left an operation in progress, which the progress thread has to
/// continue, is checked when it leaves the library after that ([`leave`]).
pub(crate) struct Waits;

impl Waits {
    pub(crate) fn new() -> Self {
        standby::begin_wait(&STANDBY);
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        standby::end_wait(&STANDBY);
    }
}
