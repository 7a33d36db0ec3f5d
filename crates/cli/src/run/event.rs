//! Events that the threads of the launcher send to the one that watches over the job.

use std::process::ExitStatus;

use super::child::Signals;
use super::job_rank::JobRank;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job_rank: JobRank,
    /// The number of its page in the memory file for hang reports, and of its file of events.
    pub(crate) page: u32,
    pub(crate) signals: Signals,
}

/// Something that happened to the program.
pub(crate) enum Event {
    /// A process has started.
    Started(Running),
    /// A process has ended.
    Ended(JobRank, ExitStatus),
    /// A process has ended without having begun to take part, and another one waits for it.
    Absent(JobRank, JobRank),
    /// The process that has started this command to start other processes has closed the
    /// connection.
    Detached(JobRank),
    /// A process demands that the whole program end with this code (`MPI_Abort`).
    Aborted(JobRank, i32),
    /// A process has broken the protocol PMI-1.
    ProtocolViolation(JobRank, String),
    /// This process was sent a signal.
    Signal(i32),
}
