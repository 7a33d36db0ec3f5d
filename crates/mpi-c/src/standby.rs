//! What the program's threads and the one that [makes progress in their stead](crate::progress) tell each other.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use causeway_mpi::process::Process;
use causeway_sys::futex;
use causeway_sys::standby::{self, StandbyMemory};

/// The thread is there.
pub(crate) static IS_ON: AtomicBool = AtomicBool::new(false);

/// The words that both look at.
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

/// Whether the thread is there.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// A thread of the program leaves the library: wakes the thread if it has left something going on.
#[inline]
pub(crate) fn leave(process: &Process) {
    if is_on() {
        standby::leave(&STANDBY, || process.has_pending());
    }
}

/// A thread of the program waits as long as this exists. Whether it has left something going on, which the thread that makes progress has to
/// continue, is found out when it leaves the library after that ([`leave`]).
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
