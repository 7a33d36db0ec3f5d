//! `causeway fs cp`: copying inside the file system.

use causeway_fs::client::Client;
use causeway_wire::fs::{Attributes, Kind, ObjectId, Region, SetAttributes};
use clap::Args;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::fs::engine::{PIECE_BYTES, Queue, Worker, conclude, default_threads, parallel};
use crate::fs::put::create_or_replace;
use crate::fs::session::{
    RemotePath, Session, Target, base_name, exists_already, join, remote_path,
};
use crate::fs::tree::{Destination, is_directory, link_target, walk};
use crate::output::printable;
use crate::progress::Progress;
use crate::units::{bytes_text, count_text};

/// Copy files inside the file system
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs cp /runs/42/a.bin /runs/43/
  causeway fs cp -r /runs/42 /archive/run-42
  causeway fs cp -rp /data /data-copy")]
pub(crate) struct Arguments {
    /// Files and, with -r, directories
    #[arg(required = true, value_name = "FROM", value_parser = remote_path())]
    sources: Vec<RemotePath>,
    /// An existing directory, or the new name of the one source
    #[arg(value_name = "TO", value_parser = remote_path())]
    destination: RemotePath,
    /// Copy directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Keep modification times
    #[arg(long, short)]
    preserve: bool,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads())]
    jobs: usize,
    #[command(flatten)]
    target: Target,
}

struct Job {
    from: Vec<u8>,
    to: Vec<u8>,
    attributes: Attributes,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let destination =
        Destination::decide(&mut client, &arguments.destination, arguments.sources.len())?;
    let progress = Progress::new(&session.output, "cp", 0);
    let mut directories = Vec::new();
    let failures = parallel(
        &session,
        arguments.jobs,
        &progress,
        |queue| {
            for source in &arguments.sources {
                let from = source.trimmed();
                let to = destination.path_of(base_name(&from));
                let found = find(
                    &mut client,
                    queue,
                    &from,
                    &to,
                    &arguments,
                    &progress,
                    &mut directories,
                );
                if let Err(failure) = found {
                    queue.fail(&failure, &progress);
                }
            }
            Ok(())
        },
        |worker, job| {
            copy_file(worker, &job, arguments.preserve, &progress)
                .map_err(|failure| failure.about(printable(&job.from)))
        },
    )?;
    for (object, attributes) in directories.into_iter().rev() {
        client.set_attributes(object, kept(&attributes, arguments.preserve))?;
    }
    progress.finish();
    let (bytes, items) = progress.done();
    session.output.line(&format!(
        "{} items, {}",
        count_text(items),
        bytes_text(bytes)
    ));
    session
        .output
        .object(&json!({ "items": items, "bytes": bytes, "failures": failures }));
    conclude(failures)
}

fn kept(attributes: &Attributes, times: bool) -> SetAttributes {
    SetAttributes {
        mode: Some(attributes.mode),
        accessed: times.then_some(attributes.accessed),
        modified: times.then_some(attributes.modified),
        ..SetAttributes::default()
    }
}

fn find(
    client: &mut Client,
    queue: &Queue<'_, Job>,
    from: &[u8],
    to: &[u8],
    arguments: &Arguments,
    progress: &Progress,
    directories: &mut Vec<(ObjectId, Attributes)>,
) -> Outcome {
    let what = || format!("copying {}", printable(from));
    let node = client.stat(from, true)?;
    if from == to {
        return Err(Failure::new(what(), "source and destination are the same"));
    }
    if !is_directory(&node) {
        progress.add_total(node.attributes.size);
        queue.push(Job {
            from: from.to_owned(),
            to: to.to_owned(),
            attributes: node.attributes,
        });
        return Ok(());
    }
    if !arguments.recursive {
        return Err(Failure::new(what(), "it is a directory").hint("use -r to copy it"));
    }
    if to.starts_with(&join(from, b"")) {
        return Err(Failure::new(
            what(),
            "a directory cannot be copied into itself",
        ));
    }
    walk(client, from, &node, &mut |client, met| {
        let mut to = to.to_owned();
        to.extend_from_slice(met.path.get(from.len()..).unwrap_or_default());
        match met.attributes.kind {
            Kind::Directory if met.leaving => {}
            Kind::Directory => {
                let object = make_directory(client, &to, met.attributes.mode | 0o700)?;
                directories.push((object, met.attributes));
                progress.advance(0, 1);
            }
            Kind::SymbolicLink => {
                let node = client.stat(met.path, false)?;
                let target = link_target(&node).unwrap_or_default();
                client.symbolic_link(target, &to)?;
                progress.advance(0, 1);
            }
            Kind::File => {
                progress.add_total(met.attributes.size);
                queue.push(Job {
                    from: met.path.to_owned(),
                    to,
                    attributes: met.attributes,
                });
            }
        }
        Ok(())
    })
}

fn make_directory(client: &mut Client, path: &[u8], mode: u16) -> Outcome<ObjectId> {
    match client.make_directory(path, mode, None) {
        Ok(node) => Ok(node.object),
        Err(error) if exists_already(&error) => {
            let node = client.stat(path, true)?;
            if is_directory(&node) {
                Ok(node.object)
            } else {
                Err(error.into())
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn copy_file(worker: &mut Worker, job: &Job, times: bool, progress: &Progress) -> Outcome {
    let mut source = worker.client.open(&job.from)?;
    let mut target = create_or_replace(
        &mut worker.client,
        &job.to,
        job.attributes.mode,
        None,
        Vec::new(),
    )?;
    let buffer = worker.buffer();
    let mut offset = 0;
    loop {
        let region = Region {
            offset,
            len: PIECE_BYTES as u64,
        };
        let client = &mut worker.client;
        let got = client.read_list(&mut source, &[region], std::slice::from_ref(&buffer))?;
        let len = usize::try_from(got).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        if len > 0 {
            let region = Region { offset, len: got };
            client.write_list(&mut target, &[region], &[buffer.slice(0..len)])?;
            progress.advance(got, 0);
        }
        offset += got;
        if len < PIECE_BYTES {
            break;
        }
    }
    if times || target.node.attributes.mode != job.attributes.mode {
        worker
            .client
            .set_attributes(target.node.object, kept(&job.attributes, times))?;
    }
    progress.advance(0, 1);
    Ok(())
}
