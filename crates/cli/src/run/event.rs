//! Events that the threads of the launcher send to the one that watches over the job.

use std::io;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;

use super::child::Signals;
use super::job_rank::JobRank;
use super::programs::Request;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job_rank: JobRank,
    /// The number of its page in the memory file for hang reports, and of its file of events.
    pub(crate) page: u32,
    pub(crate) signals: Signals,
}

/// Something that happened to the program.
pub(super) enum Event {
    /// A process demands that programs be started, and waits to be told whether they were.
    Start(Request, Sender<Result<(), String>>),
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
    /// The output of a process could not be printed.
    Unprinted(JobRank, io::Error),
    /// This process was sent a signal.
    Signal(i32),
}
