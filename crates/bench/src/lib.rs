//! `causeway bench …`: figures with the machine's limits beside them, from one run.
//!
//! Reading order: `outcome` (a benchmark in progress, and its rows as table, report and JSON), `task` (the processes
//! that measure: the program itself, started again), `layer`, `batches` and `awake` (what those processes share),
//! `participants` (their names), `sizes` (of messages), `distance` (of the two processors) and `parts` (of a measurement,
//! and which of them may be compared), `goals` (what is to be reached, and whether it was); then the benchmarks: `messages`,
//! `fs`, `compare`, which measures messages beside those of other libraries, and `mpi`, which runs one MPI program with
//! our library and with another one. A benchmark to come is a module beside these, with its `Arguments`, and a variant
//! of `task::Task` if it has processes.
//!
//! It draws nothing itself (`causeway-report` does), and measures nothing of which it does not also measure the limit.
#![forbid(unsafe_code)]

mod awake;
mod batches;
mod compare;
mod distance;
mod fs;
mod goals;
mod layer;
mod messages;
mod mpi;
mod outcome;
mod participants;
mod parts;
mod sizes;
mod task;

use causeway_command::failure::Outcome;
use clap::{Args, Subcommand};

pub use task::{WORKER, work};

/// Measure, with the machine's limits measured in the same run
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Compare(compare::Arguments),
    Fs(fs::Arguments),
    Messages(messages::Arguments),
    Mpi(mpi::Arguments),
}

/// Runs a benchmark.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Compare(arguments) => compare::run(arguments),
        What::Fs(arguments) => fs::run(arguments),
        What::Messages(arguments) => messages::run(arguments),
        What::Mpi(arguments) => mpi::run(arguments),
    }
}
