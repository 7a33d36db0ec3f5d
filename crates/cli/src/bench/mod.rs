//! `causeway bench …`: figures with the machine's limits beside them, from one run.
//!
//! [`fs`] measures the file system, [`messages`] the message layer, [`compare`] that beside other
//! libraries; [`layer`] and [`batches`] are what their processes share, [`awake`] steadies the machine, [`outcome`] turns rows into a
//! table, a report and JSON.

pub(crate) mod awake;
pub(crate) mod batches;
pub(crate) mod compare;
pub(crate) mod fs;
pub(crate) mod layer;
pub(crate) mod messages;
pub(crate) mod outcome;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Measure, with the machine's limits measured in the same run
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Compare(compare::Arguments),
    Fs(fs::Arguments),
    Messages(messages::Arguments),
}

/// Runs a benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::Compare(arguments) => compare::run(arguments),
        What::Fs(arguments) => fs::run(arguments),
        What::Messages(arguments) => messages::run(arguments),
    }
}
