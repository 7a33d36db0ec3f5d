//! `causeway fs mkdir`: new directories.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::remote::{about, exists_already, is_missing};
use causeway_fs::client::Client;
use causeway_report::units::parse_bytes;
use causeway_wire::fs::{DistributionHint, ObjectId, Place};
use clap::Args;

use crate::fs::change::parse_octal;
use crate::fs::engine::{conclude_counted, each_operand};
use crate::fs::put::hint;
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::tree::is_directory;

/// Make directories, with a distribution for the files in them if wanted
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs mkdir /data
  causeway fs mkdir -p /runs/2026/11
  causeway fs mkdir --strip-size 1MiB --servers 2 /big-files")]
pub(crate) struct Arguments {
    /// New directories
    #[arg(required = true, value_name = "PATH", value_parser = remote_name())]
    paths: Vec<RemotePath>,
    /// Make missing parents too; a directory that exists is no error
    #[arg(long, short)]
    parents: bool,
    /// Permission bits, octal
    #[arg(long, short, value_name = "MODE", default_value = "755", value_parser = parse_octal)]
    mode: u16,
    /// Bytes of a strip of files made here, such as 64KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    strip_size: Option<u64>,
    /// Number of servers that files made here are striped over
    #[arg(long, value_name = "N")]
    servers: Option<u16>,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let distribution = hint(&session, arguments.strip_size, arguments.servers)?;
    let mut client = session.client()?;
    let failures = each_operand(&arguments.paths, |path| {
        let path = path.trimmed();
        if arguments.parents {
            return make_with_parents(&mut client, &path, arguments.mode, distribution);
        }
        match client.make_directory(&path, arguments.mode, distribution) {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => {
                Err(Failure::from(error).hint("make the parents too with -p"))
            }
            Err(error) => Err(error.into()),
        }
    });
    let made = arguments.paths.len() as u64 - failures;
    conclude_counted(&session, "made", made, failures)
}

/// Makes a directory and the missing ones above it. Each is created in the one above, which is
/// identified by its number, so that the time only grows with the number of levels.
pub(crate) fn make_with_parents(
    client: &mut Client,
    path: &[u8],
    mode: u16,
    distribution: Option<DistributionHint>,
) -> Outcome {
    let mut directory = ObjectId::ROOT;
    let mut end = 0;
    for name in path.split(|byte| *byte == b'/') {
        end += name.len() + 1;
        if name.is_empty() {
            continue;
        }
        let (prefix, is_last) = (path.get(..end - 1).unwrap_or(path), end > path.len());
        let (mode, distribution) = match is_last {
            true => (mode, distribution),
            false => (0o755, None),
        };
        let place = || Place::from((directory, name));
        // A directory that exists is only looked up: a change that fails would have to be committed as well.
        let found = match client.stat(place(), true) {
            Err(error) if is_missing(&error) => client.make_directory(place(), mode, distribution),
            found => found,
        };
        let node = match found {
            Err(error) if exists_already(&error) => client.stat(place(), true),
            made => made,
        };
        let node = node.map_err(|error| about(prefix, error))?;
        if !is_directory(&node) {
            let what = format!("making the directory {}", printable(prefix));
            return Err(Failure::new(what, "there is a file of that name")
                .hint("remove it, or choose another name"));
        }
        directory = node.object;
    }
    Ok(())
}
