//! `causeway fs rm`: removing.

use causeway_fs::client::Client;
use causeway_wire::fs::Kind;
use clap::Args;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::fs::engine::{Queue, Worker, conclude, default_threads, parallel};
use crate::fs::session::{RemotePath, Session, Target, is_missing, remote_path};
use crate::fs::tree::{is_directory, walk};
use crate::output::printable;
use crate::progress::Progress;

/// Remove files, links and directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs rm /runs/42/core
  causeway fs rm -r /runs/41 /runs/42
  causeway fs rm -rf /scratch")]
pub(crate) struct Arguments {
    /// What to remove
    #[arg(required = true, value_name = "PATH", value_parser = remote_path())]
    paths: Vec<RemotePath>,
    /// Remove directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// A name that does not exist is no error
    #[arg(long, short)]
    force: bool,
    /// Threads that remove at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads())]
    jobs: usize,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let progress = Progress::new(&session.output, "rm", 0);
    let mut client = session.client()?;
    // Directories are removed when all workers are done, the deepest first.
    let mut directories = Vec::new();
    let failures = parallel(
        &session,
        arguments.jobs,
        &progress,
        |queue| {
            for path in &arguments.paths {
                let path = path.trimmed();
                if let Err(failure) = find(&mut client, queue, &path, &arguments, &mut directories)
                {
                    queue.fail(&failure, &progress);
                }
            }
            Ok(())
        },
        |worker: &mut Worker, path: Vec<u8>| {
            match worker.client.unlink(&path) {
                Ok(()) => {}
                Err(error) if is_missing(&error) && arguments.force => {}
                Err(error) => return Err(error.into()),
            }
            progress.advance(0, 1);
            Ok(())
        },
    )?;
    if failures == 0 {
        for path in directories {
            client.remove_directory(&path)?;
            progress.advance(0, 1);
        }
    }
    progress.finish();
    let (_, removed) = progress.done();
    session
        .output
        .object(&json!({ "removed": removed, "failures": failures }));
    conclude(failures)
}

fn find(
    client: &mut Client,
    queue: &Queue<'_, Vec<u8>>,
    path: &[u8],
    arguments: &Arguments,
    directories: &mut Vec<Vec<u8>>,
) -> Outcome {
    let what = || format!("removing {}", printable(path));
    if path == b"/" {
        return Err(Failure::new(what(), "the root directory cannot be removed")
            .hint("name the entries to remove"));
    }
    let node = match client.stat(path, false) {
        Ok(node) => node,
        Err(error) if is_missing(&error) && arguments.force => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !is_directory(&node) {
        queue.push(path.to_owned());
        return Ok(());
    }
    if !arguments.recursive {
        return Err(Failure::new(what(), "it is a directory")
            .hint("use -r to remove it with everything in it"));
    }
    walk(client, path, &node, &mut |_, met| {
        match (met.attributes.kind, met.leaving) {
            (Kind::Directory, true) => directories.push(met.path.to_owned()),
            (Kind::Directory, false) => {}
            _ => {
                queue.push(met.path.to_owned());
            }
        }
        Ok(())
    })
}
