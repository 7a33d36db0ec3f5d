//! `causeway bench …`: figures with the machine's limits beside them, from one run.
//!
//! | part | contents |
//! |---|---|
//! | `outcome` | a benchmark in progress, and its rows as table, report and JSON |
//! | `participants`, `sizes` | names of measured libraries; sizes of messages |
//! | `task` | the processes that measure: the program itself, started again |
//! | `layer`, `batches`, `spinners` | shared by those processes: an instance of BMI, times by parts, processors kept busy |
//! | `distance`, `parts` | how far apart the two processors are; which parts of a measurement may be compared |
//! | `goals` | ratios to be reached, and whether they were |
//! | `messages`, `fs` | the benchmarks of messages and of the file system |
//! | `compare` | messages beside those of other libraries |
//! | `mpi` | one MPI program with our library and with another one: messages, and files |
//!
//! A new benchmark is a module beside these, with its `Arguments`, and a variant of `task::Task` if it has processes.
//!
//! `causeway-report` draws the reports. Every measurement has its limit beside it.
#![forbid(unsafe_code)]

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
mod spinners;
mod task;

use causeway_command::failure::Outcome;
use clap::{Args, Subcommand};

pub use task::{WORKER, work};

/// Measure, with the machine's limits measured in the same run
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Compare(compare::Arguments),
    Fs(fs::Arguments),
    Messages(messages::Arguments),
    Mpi(mpi::Arguments),
    MpiIo(mpi::files::Arguments),
}

/// Runs a benchmark.
pub fn run(arguments: Arguments) -> Outcome {
    match arguments.benchmark {
        Benchmark::Compare(arguments) => compare::run(arguments),
        Benchmark::Fs(arguments) => fs::run(arguments),
        Benchmark::Messages(arguments) => messages::run(arguments),
        Benchmark::Mpi(arguments) => mpi::run(arguments),
        Benchmark::MpiIo(arguments) => mpi::files::run(arguments),
    }
}
