//! `causeway fs rm`: removing.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::progress::Progress;
use causeway_command::remote::{is_gone, is_missing};
use causeway_fs::client::{Client, MANY};
use causeway_wire::fs::{Errno, Kind, Node, ObjectId, Place};
use clap::Args;

use crate::fs::at_end::count;
use crate::fs::engine::{
    Queue, Worker, conclude_counted, default_threads, each_operand, jobs, parallel_over,
};
use crate::fs::partial;
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::source::{MAX_LOOKUPS, kept_changing};
use crate::fs::tree::{RemoteName, is_directory, walk};

/// Remove files, links and directories
///
/// Everything named is checked before anything is removed; if one of the names cannot be removed, none is. Directories
/// are identified by number, not by path: one that is renamed meanwhile does not lead to another one's removal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs rm /runs/42/core
  causeway fs rm -r /runs/41 /runs/42
  causeway fs rm -rf /scratch
  causeway fs rm --partial /")]
pub(crate) struct Arguments {
    /// What to remove
    #[arg(required = true, value_name = "PATH", value_parser = remote_name())]
    paths: Vec<RemotePath>,
    /// Remove directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Ignore names that do not exist
    #[arg(long, short)]
    force: bool,
    /// Remove, anywhere below the named directories, only the unfinished files that killed writers
    /// have left: files called `.causeway-….partial`
    #[arg(long, conflicts_with = "recursive")]
    partial: bool,
    /// With --partial: how long nothing has been written to them, in hours
    #[arg(long, value_name = "HOURS", default_value_t = 24, requires = "partial")]
    idle: u64,
    /// Threads that remove at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads(), value_parser = jobs())]
    jobs: usize,
    #[command(flatten)]
    target: Target,
}

/// Something to remove: a name, and the object that it must still name then.
struct Victim {
    name: RemoteName,
    object: ObjectId,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let (operands, refused) = check_operands(&mut client, &arguments);
    if refused > 0 {
        return conclude_counted(&session, "removed", 0, refused);
    }
    let progress = Progress::new(&session.output, "rm", 0);
    // Directories are removed when all workers are done, the deepest first.
    let mut directories = Vec::new();
    let mut batch = Vec::new();
    let mut failures = parallel_over(
        &session,
        arguments.jobs,
        &progress,
        operands.into_iter().map(Some).chain([None]),
        |queue, operand| {
            let mut found = RemovalQueue {
                queue,
                batch: &mut batch,
            };
            match operand {
                // After the last operand, the last batch may still be incomplete.
                None => {
                    found.push_batch();
                    Ok(())
                }
                Some((name, node)) if arguments.partial => {
                    find_partial(&mut client, &mut found, &name, &node, arguments.idle)
                }
                Some((name, node)) => find(&mut client, &mut found, name, &node, &mut directories),
            }
        },
        |worker: &mut Worker, victims: Vec<Victim>| {
            let removed = worker.client.unlink_objects(names_of(&victims));
            for (victim, removed) in victims.iter().zip(removed) {
                // An object with which another client has replaced an unfinished one stays.
                let removed = match removed {
                    Err(error) if is_gone(&error) && !arguments.partial => {
                        remove_name(&mut worker.client, victim)
                    }
                    removed => Ok(removed),
                };
                let counted = removed
                    .and_then(|removed| count_removed(removed, victim, arguments.force, &progress));
                worker.failed.extend(counted.err());
            }
            Ok(())
        },
    )?;
    // The path of a directory has one slash more than that of its parent.
    let depth = |victim: &Victim| {
        victim
            .name
            .path
            .iter()
            .filter(|&&byte| byte == b'/')
            .count()
    };
    directories.sort_by_key(|victim| Reverse(depth(victim)));
    for victims in directories.chunk_by(|one, other| depth(one) == depth(other)) {
        let removed = client.remove_directory_objects(names_of(victims));
        for (victim, removed) in victims.iter().zip(removed) {
            // A directory that could not be removed because of an entry was reported with that entry.
            if failures > 0 && matches!(&removed, Err(error) if error.errno == Errno::ENOTEMPTY) {
                continue;
            }
            let removed = count_removed(removed, victim, arguments.force, &progress);
            failures += count(&progress, removed);
        }
    }
    progress.finish();
    let (_, removed) = progress.done();
    conclude_counted(&session, "removed", removed, failures)
}

/// The names of the victims, with the objects that they must still name.
fn names_of(victims: &[Victim]) -> Vec<(Place, ObjectId)> {
    let names = victims.iter();
    names
        .map(|victim| (victim.name.place(), victim.object))
        .collect()
}

/// Passes the names that are to be removed to the workers, in batches of as many as a client keeps
/// in flight.
struct RemovalQueue<'a, 'b> {
    queue: &'a Queue<'b, Vec<Victim>>,
    batch: &'a mut Vec<Victim>,
}

impl RemovalQueue<'_, '_> {
    fn push(&mut self, victim: Victim) {
        self.batch.push(victim);
        if self.batch.len() == MANY {
            self.push_batch();
        }
    }

    fn push_batch(&mut self) {
        if !self.batch.is_empty() {
            // If no worker takes it any more, the reason has been reported.
            self.queue.push(std::mem::take(self.batch));
        }
    }
}

/// Removes the name of a file or link, even while other clients keep renaming other files to it.
fn remove_name(client: &mut Client, victim: &Victim) -> Outcome<Result<(), causeway_fs::Error>> {
    let mut object = victim.object;
    for _ in 0..MAX_LOOKUPS {
        let removed = client.unlink_object(victim.name.place(), object);
        match &removed {
            Err(error) if is_gone(error) => {}
            _ => return Ok(removed),
        }
        match victim.name.lookup(client)? {
            Some(node) => object = node.object,
            None => return Ok(client.unlink(victim.name.place())),
        }
    }
    Err(kept_changing(&victim.name.path))
}

fn count_removed(
    removed: Result<(), causeway_fs::Error>,
    victim: &Victim,
    force: bool,
    progress: &Progress,
) -> Outcome {
    match removed {
        Ok(()) => {}
        // A directory that has been removed has no entries.
        Err(error) if (is_missing(&error) || is_gone(&error)) && force => return Ok(()),
        Err(error) => return Err(victim.name.failure(error)),
    }
    progress.advance(0, 1);
    Ok(())
}

/// Checks all named objects, and reports those that cannot be removed. Returns what can be, and
/// the number of failures.
fn check_operands(client: &mut Client, arguments: &Arguments) -> (Vec<(RemoteName, Node)>, u64) {
    let mut operands = Vec::new();
    let refused = each_operand(&arguments.paths, |path| {
        let checked = check_operand(client, path, arguments);
        operands.extend(checked.map_err(|failure| failure.of(printable(&path.0)))?);
        Ok(())
    });
    (operands, refused)
}

fn check_operand(
    client: &mut Client,
    path: &RemotePath,
    arguments: &Arguments,
) -> Outcome<Option<(RemoteName, Node)>> {
    let what = || format!("removing {}; nothing has been removed", printable(&path.0));
    let trimmed = path.trimmed();
    if trimmed == b"/" && !arguments.partial {
        return Err(Failure::new(what(), "the root directory cannot be removed")
            .hint("name the entries to remove"));
    }
    let name = match RemoteName::find(client, &trimmed) {
        Ok(name) => name,
        Err(_) if arguments.force && is_missing_path(client, &trimmed) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let Some(node) = name.lookup(client)? else {
        return match arguments.force {
            true => Ok(None),
            false => Err(Failure::new(what(), "there is no such name")
                .hint("list the directory with `causeway fs ls`, or use -f")),
        };
    };
    if is_directory(&node) {
        if !arguments.recursive && !arguments.partial {
            return Err(Failure::new(what(), "it is a directory")
                .hint("use -r to remove it with everything in it"));
        }
    } else if path.names_directory() || arguments.partial {
        return Err(Failure::new(what(), "the name is not that of a directory")
            .hint("leave out the slash at the end to remove the file or link itself"));
    }
    Ok(Some((name, node)))
}

fn is_missing_path(client: &mut Client, path: &[u8]) -> bool {
    client
        .stat(path, false)
        .is_err_and(|error| is_missing(&error))
}

/// Queues everything below a directory, and lists the directories.
fn find(
    client: &mut Client,
    found: &mut RemovalQueue<'_, '_>,
    name: RemoteName,
    node: &Node,
    directories: &mut Vec<Victim>,
) -> Outcome {
    if !is_directory(node) {
        found.push(Victim {
            name,
            object: node.object,
        });
        return Ok(());
    }
    walk(client, &name.path, node, &mut |_, visited| {
        let is_directory = visited.attributes.kind == Kind::Directory;
        if is_directory && !visited.leaving {
            return Ok(());
        }
        let victim = Victim {
            name: RemoteName {
                directory: visited.directory.unwrap_or(name.directory),
                name: visited.name().to_vec(),
                path: visited.path.to_vec(),
            },
            object: visited.object,
        };
        match is_directory {
            true => directories.push(victim),
            false => found.push(victim),
        }
        Ok(())
    })
}

/// Queues unfinished files that writers have left, and that have not been written to for the given
/// time.
fn find_partial(
    client: &mut Client,
    found: &mut RemovalQueue<'_, '_>,
    name: &RemoteName,
    node: &Node,
    idle_hours: u64,
) -> Outcome {
    let idle = Duration::from_secs(idle_hours.saturating_mul(3600));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let latest = now.saturating_sub(idle).as_secs();
    walk(client, &name.path, node, &mut |_, visited| {
        let Some(directory) = visited.directory else {
            return Ok(());
        };
        // A user can set the time of content, but not that of the last change.
        let changed = u64::try_from(visited.attributes.changed.seconds).unwrap_or(0);
        let is_file = visited.attributes.kind != Kind::Directory;
        if is_file && changed <= latest && partial::is_partial(visited.name()) {
            found.push(Victim {
                name: RemoteName {
                    directory,
                    name: visited.name().to_vec(),
                    path: visited.path.to_vec(),
                },
                object: visited.object,
            });
        }
        Ok(())
    })
}
