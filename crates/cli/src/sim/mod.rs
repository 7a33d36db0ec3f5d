//! `causeway sim …`: the firmware in virtual time, and the thesis's figures and tables beside what comes of it.
//!
//! | part | what it does |
//! |---|---|
//! | [`list`] | says what there is |
//! | [`scenario`] | runs an experiment of the user's own |
//! | [`paper`] | runs figures, tables, or all of them |
//! | [`pool`] | independent runs in parallel threads |
//! | [`store`] | finished runs on disk, so that an interrupted command goes on |
//! | [`found`] | what was found: verdicts, rows for JSON, files for spreadsheets |
//! | [`page`] | the report of figures and tables |
//! | [`experiment`] | what the runs of a scenario have found |
//! | [`run_page`] | the report of an experiment of the user's own |
//!
//! What is printed and written depends on the program and its input only, not on the machine, the time, or how many threads
//! there are.

mod experiment;
mod found;
mod list;
mod page;
mod paper;
mod pool;
mod run_page;
mod scenario;
mod store;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Simulate network interfaces, and hold the result against the thesis
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    after_help = "Examples:
  causeway sim list                       what there is
  causeway sim run scenario.toml          an experiment of your own
  causeway sim figure 4.12                a figure of the thesis beside what its text says
  causeway sim table 5.1                  a table of the thesis beside what is printed
  causeway sim paper --html paper.html    everything, in one report"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::Arguments),
    Run(scenario::Arguments),
    Figure(paper::FigureArguments),
    Table(paper::TableArguments),
    Paper(paper::PaperArguments),
}

/// Where results go, and how they are computed.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Independent runs at a time; what is found does not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write the values as CSV files into this directory
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Options {
    fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => usize::from(jobs),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Runs a verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.what {
        What::List(arguments) => {
            list::run(&arguments);
            Ok(())
        }
        What::Run(arguments) => scenario::run(&arguments),
        What::Figure(arguments) => paper::figure(&arguments),
        What::Table(arguments) => paper::table(&arguments),
        What::Paper(arguments) => paper::everything(&arguments),
    }
}
