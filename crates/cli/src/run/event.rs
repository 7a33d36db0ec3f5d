//! Events that the threads of the launcher send to the one that watches over the job.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use super::job_rank::JobRank;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job_rank: JobRank,
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
    Ended(JobRank, ExitStatus),
    /// The process that has started this command, to start others, has parted from it.
    Detached(JobRank),
    /// A process wants the whole program to end with this code (`MPI_Abort`).
    Aborted(JobRank, i32),
    /// A process does not speak PMI-1 as it should.
    Nonsense(JobRank, String),
    /// This process was sent a signal.
    Signal(i32),
}
