//! `causeway fs truncate`.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::remote::is_missing;
use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions};
use causeway_fs::distribution::MAX_FILE_BYTES;
use causeway_report::units::parse_bytes;
use clap::Args;

use crate::fs::engine::{conclude_counted, each_operand};
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::source::with_current;

/// Cut files, or grow them with zeros that take no space
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs truncate --size 0 /runs/42/log.txt
  causeway fs truncate -s 1GiB /data/new.bin")]
pub(crate) struct Arguments {
    /// New size, such as 0, 4096 or 1GiB
    #[arg(long, short, value_name = "SIZE", value_parser = parse_bytes)]
    size: u64,
    /// Files
    #[arg(required = true, value_name = "PATH", value_parser = remote_name())]
    paths: Vec<RemotePath>,
    /// Do not make files that do not exist
    #[arg(long, short = 'c')]
    no_create: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    if arguments.size > MAX_FILE_BYTES {
        return Err(Failure::usage(
            format!("reading --size {}", arguments.size),
            format!("a file has at most {MAX_FILE_BYTES} bytes"),
        ));
    }
    let mut client = session.client()?;
    let failures = each_operand(&arguments.paths, |RemotePath(path)| {
        with_current(path, || truncate(&mut client, path, &arguments))
    });
    let truncated = arguments.paths.len() as u64 - failures;
    conclude_counted(&session, "truncated", truncated, failures)
}

fn truncate(client: &mut Client, path: &[u8], arguments: &Arguments) -> Result<(), Error> {
    let mut file = match client.open(path) {
        Ok(file) => file,
        Err(error) if is_missing(&error) && !arguments.no_create => {
            let options = CreateOptions {
                mode: 0o644,
                ..CreateOptions::default()
            };
            client.create(path, &options)?
        }
        Err(error) => return Err(error),
    };
    client.truncate(&mut file, arguments.size)
}
