//! `causeway fs touch`.

use causeway_command::failure::Outcome;
use causeway_command::remote::is_missing;
use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions};
use causeway_wire::fs::{SetAttributes, Timestamp};
use clap::Args;

use crate::fs::engine::{conclude_counted, each_operand};
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::source::with_current;

/// Make empty files, or set the times of those that exist
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs touch /runs/42/done
  causeway fs touch -c /runs/42/log.txt
  causeway fs touch --time 1700000000 /data/a.bin")]
pub(crate) struct Arguments {
    /// Files and directories
    #[arg(required = true, value_name = "PATH", value_parser = remote_name())]
    paths: Vec<RemotePath>,
    /// Do not make files that do not exist
    #[arg(long, short = 'c')]
    no_create: bool,
    /// Seconds since 1970 instead of now
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    time: Option<i64>,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let time = match arguments.time {
        Some(seconds) => Timestamp {
            seconds,
            nanoseconds: 0,
        },
        None => causeway_fs::clock::now(),
    };
    let failures = each_operand(&arguments.paths, |RemotePath(path)| {
        with_current(path, || touch(&mut client, path, arguments.no_create, time))
    });
    let touched = arguments.paths.len() as u64 - failures;
    conclude_counted(&session, "touched", touched, failures)
}

fn touch(client: &mut Client, path: &[u8], no_create: bool, time: Timestamp) -> Result<(), Error> {
    let object = match client.stat(path, true) {
        Ok(node) => node.object,
        Err(error) if is_missing(&error) && no_create => return Ok(()),
        Err(error) if is_missing(&error) => {
            let options = CreateOptions {
                mode: 0o644,
                ..CreateOptions::default()
            };
            client.create(path, &options)?.node.object
        }
        Err(error) => return Err(error),
    };
    let set = SetAttributes {
        accessed: Some(time),
        modified: Some(time),
        ..SetAttributes::default()
    };
    client.set_attributes(object, set).map(drop)
}
