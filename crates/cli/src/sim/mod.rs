//! `causeway sim …`: the firmware in virtual time, and the thesis's figures and tables beside the results.
//!
//! | part | what it does |
//! |---|---|
//! | [`list`] | lists figures, tables and scenarios |
//! | [`options`] | where results go, and how they are computed |
//! | [`scenario`] | runs an experiment of the user's own |
//! | [`paper`] | runs figures, tables, or all of them |
//! | [`pool`] | independent runs in parallel threads |
//! | [`store`] | finished runs on disk, from which an interrupted command continues |
//! | [`found`] | results: verdicts, rows for JSON, files for spreadsheets |
//! | [`page`] | the report of figures and tables |
//! | [`experiment`] | results of a scenario's runs |
//! | [`run_page`] | the report of an experiment of the user's own |
//!
//! The output depends on the program and its input only, not on the machine, the time, or the
//! number of threads.

mod experiment;
mod found;
mod list;
mod options;
mod page;
mod paper;
mod pool;
mod run_page;
mod scenario;
mod store;

use causeway_command::failure::Outcome;
use clap::{Args, Subcommand};

/// Simulate network interfaces, and compare the result with the thesis
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
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    List(list::Arguments),
    Run(scenario::Arguments),
    /// Run figures, and compare them with the thesis's statements
    ///
    /// Each claim is printed with whether it holds, and the values that decided.
    #[command(after_help = "Examples:
  causeway sim figure 4.12
  causeway sim figure 5.4 5.7 --html quality.html
  causeway sim figure 2.3 --csv results
  causeway sim figure 4.12 --quick --trace timeline.json
  causeway sim figure 4.13 --quick --json | jq '.verdicts[] | {claim, holds}'")]
    Figure(paper::Named),
    /// Run tables, and compare them with the printed values
    #[command(after_help = "Examples:
  causeway sim table 5.1
  causeway sim table 5.1 5.2 --html tables.html
  causeway sim table 5.1 --json | jq -c '.rows[] | {case, who, size_bytes, median}'")]
    Table(paper::Named),
    /// Run all figures and tables, and compare them with the thesis
    ///
    /// Finished runs are kept in causeway-paper.unfinished, or in the directory of --results, until everything is
    /// done: to continue after an interruption, run the same command again. Runs of another build or with other
    /// parameters are not used.
    #[command(after_help = "Examples:
  causeway sim paper --html paper.html
  causeway sim paper --quick --check
  causeway sim paper --chapter 4 --chapter 5
  causeway sim paper --jobs 1 --csv results --results finished --json > paper.json")]
    Paper(paper::Chapters),
}

/// Runs a verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        SimCommand::List(arguments) => {
            list::run(&arguments);
            Ok(())
        }
        SimCommand::Run(arguments) => scenario::run(&arguments),
        SimCommand::Figure(figures) => paper::figure(&figures),
        SimCommand::Table(tables) => paper::table(&tables),
        SimCommand::Paper(chapters) => paper::chapters(&chapters),
    }
}
