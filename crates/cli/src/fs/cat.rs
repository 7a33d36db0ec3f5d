//! `causeway fs cat`: file contents to standard output.

use causeway_command::failure::Outcome;
use causeway_command::output::write_stdout;
use clap::Args;

use crate::fs::engine::{Worker, conclude, each_operand};
use crate::fs::get::write_out;
use crate::fs::session::{RemotePath, Session, Target, remote_path};

/// Write the contents of files to standard output
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs cat /runs/42/log.txt
  causeway fs cat /backup/a.gz /backup/b.gz | zcat | sort")]
pub(crate) struct Arguments {
    /// Files
    #[arg(required = true, value_name = "PATH", value_parser = remote_path())]
    paths: Vec<RemotePath>,
    /// The file system's configuration [default: $CAUSEWAY_CONFIG, ./causeway.toml,
    /// ./causeway-dev/causeway.toml]
    #[arg(long, short = 'C', value_name = "FILE", help_heading = "File system")]
    config: Option<std::path::PathBuf>,
    /// Use only addresses of this scheme, such as `tcp`
    #[arg(long, value_name = "SCHEME", help_heading = "File system")]
    via: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&Target {
        config: arguments.config,
        via: arguments.via,
        json: false,
    })?;
    let mut worker = Worker::new(&session)?;
    conclude(each_operand(&arguments.paths, |path| {
        write_out(&mut worker, &path.0, |bytes| {
            write_stdout(bytes, b"");
            Ok(())
        })
    }))
}
