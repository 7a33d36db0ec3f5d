//! Options that all runs share.

use std::path::PathBuf;

use clap::Args;

/// Where results go, and how they are computed.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Independent runs at a time; results do not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Write the values as CSV files into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// How many runs are made at a time.
    pub(crate) fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => usize::from(jobs),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
