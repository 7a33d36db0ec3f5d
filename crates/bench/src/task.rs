//! The tasks of benchmarks' processes.

use causeway_command::failure::Outcome;
use causeway_command::workers;
use serde::{Deserialize, Serialize};

use crate::compare::multi_process;
use crate::fs::{mounts, system_calls, worker as file_system};
use crate::messages::worker as messages;

/// The argument behind `worker` that starts a process of a benchmark.
pub const WORKER: &str = "bench";

/// A worker's task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Measures something of the file system.
    Fs(file_system::Assignment),
    /// Uses directories by system calls.
    Program(system_calls::Assignment),
    /// Serves a mount.
    Mount(mounts::Assignment),
    /// Is one end of a pair that exchanges messages.
    Messages(messages::Assignment),
    /// Is one of many processes that exchange messages.
    MultiProcess(multi_process::Assignment),
}

impl workers::Task for Task {
    const ROLE: &'static str = WORKER;
}

/// Runs a process of a benchmark, with a task from its standard input.
pub fn work() -> Outcome {
    workers::serve(|task, channel| match task {
        Task::Fs(assignment) => file_system::run(&assignment, channel),
        Task::Program(assignment) => system_calls::run(&assignment, channel),
        Task::Mount(assignment) => mounts::run(&assignment, channel),
        Task::Messages(assignment) => messages::run(&assignment, channel),
        Task::MultiProcess(assignment) => multi_process::run(&assignment, channel),
    })
}
