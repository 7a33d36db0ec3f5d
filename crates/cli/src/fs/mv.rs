//! `causeway fs mv`: renaming.

use causeway_command::failure::Outcome;
use causeway_command::output::report_item;
use causeway_command::remote::base_name;
use clap::Args;
use serde_json::json;

use crate::fs::engine::conclude;
use crate::fs::session::{RemotePath, Session, Target, base_names, remote_name};
use crate::fs::tree::Destination;

/// Rename files and directories, each atomically
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs mv /runs/tmp /runs/42
  causeway fs mv /a.csv /b.csv /archive/
  causeway fs mv -n /new.bin /current.bin")]
pub(crate) struct Arguments {
    /// Old names
    #[arg(required = true, value_name = "FROM", value_parser = remote_name())]
    sources: Vec<RemotePath>,
    /// New name, or an existing directory
    #[arg(value_name = "TO", value_parser = remote_name())]
    destination: RemotePath,
    /// Fail if the new name exists instead of replacing it
    #[arg(long, short)]
    no_replace: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let names = base_names(&arguments.sources);
    let destination = Destination::decide(&mut client, &arguments.destination, &names)?;
    // Before the first is renamed, all are known to be there.
    for source in &arguments.sources {
        client.stat(&source.0, false)?;
    }
    let mut failures = 0;
    let mut renamed = 0;
    for source in &arguments.sources {
        let mut to = destination.name_of(base_name(&source.0)).place();
        if arguments.destination.names_directory() && matches!(destination, Destination::As(_)) {
            to.path.push(b'/');
        }
        match client.rename(&source.0, to, arguments.no_replace) {
            Ok(()) => renamed += 1,
            Err(error) => {
                report_item(&error.into());
                failures += 1;
            }
        }
    }
    session
        .output
        .object(&json!({ "renamed": renamed, "failures": failures }));
    conclude(failures)
}
