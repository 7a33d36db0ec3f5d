//! What those who watch over a parallel program are told.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use super::who::Who;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) who: Who,
    /// Which page of the memory file for hang reports is its, and which file of events.
    pub(crate) page: u32,
    /// Stays the process's when its number is used again.
    pub(crate) handle: OwnedFd,
}

/// What happens to the program.
pub(crate) enum Event {
    /// A process has started.
    Started(Running),
    /// A process has ended.
    Ended(Who, ExitStatus),
    /// The process that has started this command, to start others, has parted from it.
    Detached(Who),
    /// A process wants the whole program to end with this code (`MPI_Abort`).
    Aborted(Who, i32),
    /// A process does not speak PMI-1 as it should.
    Nonsense(Who, String),
    /// This process was sent a signal.
    Signal(i32),
}
