//! What workers do: every task that a command gives to processes of its own.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};
use crate::workers::Desk;
use crate::{bench, demo};

/// A worker's task: the first line on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Stores, reads or checks files for the demonstration.
    Demo(demo::worker::Assignment),
    /// Measures something of the file system.
    BenchFs(bench::fs::worker::Assignment),
    /// Is one end of a pair that exchanges messages.
    BenchMessages(bench::messages::worker::Assignment),
    /// Is one of many processes that exchange messages.
    BenchCrowd(bench::compare::crowd::Assignment),
}

/// Runs `causeway worker`.
pub(crate) fn run() -> Outcome {
    let mut desk = Desk::new();
    let result = match desk.hear::<Task>()? {
        Some(Task::Demo(assignment)) => demo::worker::run(&assignment, &mut desk),
        Some(Task::BenchFs(assignment)) => bench::fs::worker::run(&assignment, &mut desk),
        Some(Task::BenchMessages(assignment)) => {
            bench::messages::worker::run(&assignment, &mut desk)
        }
        Some(Task::BenchCrowd(assignment)) => bench::compare::crowd::run(&assignment, &mut desk),
        None => Ok(()),
    };
    result.map_err(|failure| {
        Desk::fail(&failure);
        Failure {
            silent: true,
            ..failure
        }
    })
}
