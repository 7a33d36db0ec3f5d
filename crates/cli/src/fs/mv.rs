//! `causeway fs mv`: renaming.

use causeway_command::failure::Outcome;
use causeway_command::remote::base_name;
use clap::Args;

use crate::fs::engine::{conclude_counted, each_operand};
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
    // All sources are looked up before the first is renamed.
    for source in &arguments.sources {
        client.stat(&source.0, false)?;
    }
    let failures = each_operand(&arguments.sources, |source| {
        let mut to = destination.name_of(base_name(&source.0)).place();
        if arguments.destination.names_directory() && matches!(destination, Destination::As(_)) {
            to.path.push(b'/');
        }
        Ok(client.rename(&source.0, to, arguments.no_replace)?)
    });
    let renamed = arguments.sources.len() as u64 - failures;
    conclude_counted(&session, "renamed", renamed, failures)
}
