//! `causeway fs cp`: copying inside the file system.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::progress::Progress;
use causeway_command::remote::{about, base_name};
use causeway_fs::client::{Client, File};
use causeway_wire::fs::{
    Body, DistributionHint, Kind, MAX_STUFFED_BYTES, Node, ObjectId, Place, Region, SetAttributes,
};
use clap::Args;

use crate::fs::at_end::{Stored, StoredAtEnd, conclude_stored};
use crate::fs::engine::{
    Lost, Part, Queue, Worker, conclude_copy, default_threads, jobs, parallel_over,
};
use crate::fs::lists::default_list;
use crate::fs::session::{RemotePath, Session, Target, base_names, remote_name};
use crate::fs::source::Source;
use crate::fs::store::{Original, Storing, Writing, store_link};
use crate::fs::tree::{Destination, RemoteName, Visited, is_directory, link_target};
use crate::fs::{partial, sparse};

/// Copy files inside the file system
///
/// A file is written under a temporary name beside its own, and replaces what has the name once it is
/// whole and on the servers' disks. Holes stay holes, and names of one file are names of one copy. A copy
/// has the mode and the access control lists of its original.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs cp /runs/42/a.bin /runs/43/
  causeway fs cp -r /runs/42 /archive/run-42
  causeway fs cp -rp /data /data-copy")]
pub(crate) struct Arguments {
    /// Files and, with -r, directories
    #[arg(required = true, value_name = "FROM", value_parser = remote_name())]
    sources: Vec<RemotePath>,
    /// An existing directory, or the new name of the one source
    #[arg(value_name = "TO", value_parser = remote_name())]
    destination: RemotePath,
    /// Copy directories with everything in them
    #[arg(long, short)]
    recursive: bool,
    /// Keep modification times, and as root owners
    #[arg(long, short)]
    preserve: bool,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads(), value_parser = jobs())]
    jobs: usize,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    target: Target,
}

/// Bytes after which progress is shown.
const CHUNK_BYTES: u64 = 64 << 20;

struct Job {
    from: Source,
    to: RemoteName,
    first: Option<Arc<Stored>>,
}

/// The steps that the thread that finds files defers to the end.
type Later = StoredAtEnd<ObjectId, Node>;

struct Copy<'a> {
    progress: &'a Progress,
    recursive: bool,
    preserve: bool,
    keep_owner: bool,
    writing: Writing,
    lost: Lost,
    /// The directory of the last file that was copied.
    directory: Mutex<Option<Node>>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let names = base_names(&arguments.sources);
    let destination = Destination::decide(&mut client, &arguments.destination, &names)?;
    partial::clean_up_at_end(&session)?;
    let progress = Progress::new(&session.output, "cp", 0);
    let copy = Copy {
        progress: &progress,
        recursive: arguments.recursive,
        preserve: arguments.preserve,
        keep_owner: arguments.preserve && rustix::process::geteuid().is_root(),
        writing: arguments.writing,
        lost: Lost::default(),
        directory: Mutex::default(),
    };
    let started = Instant::now();
    let mut later = Later::default();
    let mut failures = parallel_over(
        &session,
        arguments.jobs,
        &progress,
        &arguments.sources,
        |queue, source| {
            let to = destination.name_of(base_name(&source.0));
            copy.operand(&mut client, queue, source, to, &mut later)
        },
        |worker, job| {
            copy.file(worker, &job)
                .map_err(|failure| failure.about(printable(job.from.shown())))
        },
    )?;
    failures += conclude_stored(
        &mut client,
        later,
        (&progress, &copy.lost),
        |node| copy.original(node),
        |client, node| default_list(client, node.object),
        !copy.writing.no_sync,
    );
    conclude_copy(&session, &progress, started, failures, &copy.lost)
}

impl Copy<'_> {
    fn original(&self, node: &Node) -> Original<'_> {
        let attributes = &node.attributes;
        Original {
            mode: attributes.mode,
            acl: node.acl.clone(),
            inherits: false,
            owner: (attributes.uid, attributes.gid),
            keep_owner: self.keep_owner,
            times: SetAttributes {
                accessed: self.preserve.then_some(attributes.accessed),
                modified: self.preserve.then_some(attributes.modified),
                ..SetAttributes::default()
            },
            lost: &self.lost,
        }
    }

    fn operand(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        source: &RemotePath,
        to: RemoteName,
        later: &mut Later,
    ) -> Outcome {
        let path = source.trimmed();
        let what = || format!("copying {}", printable(&path));
        let node = client.stat(&source.0, true)?;
        if !is_directory(&node) {
            self.progress.add_total(node.attributes.size);
            queue.push(Job {
                from: Source::named(&path, &node),
                to,
                first: None,
            });
            return Ok(());
        }
        if !self.recursive {
            return Err(Failure::new(what(), "it is a directory").hint("use -r to copy it"));
        }
        refuse_inside(client, &node, &to, &what())?;
        // The directories in the destination for those that the walk is inside of.
        let mut targets: Vec<(ObjectId, Vec<u8>)> = Vec::new();
        queue.walk(client, (&path, &node), self.progress, |client, visited| {
            let to = match targets.last() {
                Some((directory, path)) => RemoteName::below(*directory, path, visited.name()),
                None => to.clone(),
            };
            if visited.leaving {
                targets.pop();
                return Ok(());
            }
            self.visit(client, queue, &visited, to, &mut targets, later)
        })
    }

    fn visit(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        visited: &Visited<'_>,
        to: RemoteName,
        targets: &mut Vec<(ObjectId, Vec<u8>)>,
        later: &mut Later,
    ) -> Outcome {
        match visited.attributes.kind {
            Kind::Directory => {
                // Listings do not say which list a directory has.
                let from = client
                    .stat_object(visited.object)
                    .map_err(|error| about(visited.path, error))?;
                // The directory is writable for its owner until its entries are copied.
                let mode = self.original(&from).mode_without_list() & 0o777 | 0o700;
                let node = to.make_directory(client, mode, None)?;
                targets.push((node.object, to.path.clone()));
                later.directory((node, from, to.path));
                self.progress.advance(0, 1);
            }
            _ if partial::is_partial(visited.name()) => Lost::add(&self.lost.unfinished),
            Kind::SymbolicLink => {
                let node = Source::visited(visited).link(client)?;
                let target = link_target(&node).unwrap_or_default();
                store_link(client, &to, target, &self.original(&node))?;
                self.progress.advance(0, 1);
            }
            Kind::File => {
                let (to, first) = match visited.attributes.links > 1 {
                    false => (to, None),
                    true => match later.name(visited.object, to, |_| Stored::new()) {
                        Some((to, first)) => (to, Some(first)),
                        None => return Ok(()),
                    },
                };
                self.progress.add_total(visited.attributes.size);
                queue.push(Job {
                    from: Source::visited(visited),
                    to,
                    first,
                });
            }
            _ => self.lost.skip(self.progress, printable(visited.path)),
        }
        Ok(())
    }

    fn file(&self, worker: &mut Worker, job: &Job) -> Outcome {
        job.from
            .read(worker, |worker, source| self.copy(worker, job, source))
    }

    fn copy(&self, worker: &mut Worker, job: &Job, mut source: File) -> Outcome {
        self.refuse_same(&mut worker.client, job, source.node.object)?;
        let original = self.original(&source.node);
        let (mut storing, size) = self.content(worker, job, &mut source, &original)?;
        storing.finish(&mut worker.client, &original, size, !self.writing.no_sync)?;
        if storing.foreign {
            Lost::add(&self.lost.attributes);
        }
        if let Some(first) = &job.first {
            // Each file is stored by one job only.
            let _ = first.set(storing.file.node.object);
        }
        self.progress.advance(0, 1);
        Ok(())
    }

    /// Refuses to copy a file onto one of its own names, also through a link.
    fn refuse_same(&self, client: &mut Client, job: &Job, from: ObjectId) -> Outcome {
        let mut there = job.to.lookup(client)?;
        let is_link = |node: &Node| node.attributes.kind == Kind::SymbolicLink;
        if there.as_ref().is_some_and(is_link) && self.writing.inplace {
            there = client.stat(job.to.place(), true).ok();
        }
        match there {
            Some(node) if node.object == from => Err(Failure::new(
                format!("copying to {}", printable(&job.to.path)),
                "source and destination are the same file",
            )
            .hint("name another destination")),
            _ => Ok(()),
        }
    }

    /// Copies everything but holes, which the servers do by themselves if the copy lies as the file does, and otherwise everything but blocks of
    /// zeros. Returns the unfinished file, and its size.
    fn content(
        &self,
        worker: &mut Worker,
        job: &Job,
        source: &mut File,
        original: &Original<'_>,
    ) -> Outcome<(Storing, u64)> {
        let client = &mut worker.client;
        let Some(hint) = self.distribution(client, source, job.to.directory)? else {
            return self.content_through(worker, job, source, original, None);
        };
        let mut storing = self.writing.begin(client, &job.to, original, Some(hint))?;
        if !client.lie_alike(source, &storing.file) {
            return self.content_through(worker, job, source, original, Some(storing));
        }
        let mut done = 0;
        loop {
            let copied = client.copy_range(source, done, &mut storing.file, done, CHUNK_BYTES);
            match copied {
                Ok(0) => return Ok((storing, done)),
                Ok(copied) => {
                    self.progress.advance(copied, 0);
                    done += copied;
                }
                Err(error) => {
                    self.progress.subtract(done);
                    storing.discard(client);
                    return Err(about(job.from.shown(), error));
                }
            }
        }
    }

    /// The distribution of a copy that lies as the file does, if its directory leaves that open.
    fn distribution(
        &self,
        client: &mut Client,
        source: &File,
        directory: ObjectId,
    ) -> Outcome<Option<DistributionHint>> {
        if !matches!(source.node.body, Body::Striped { .. }) {
            return Ok(None);
        }
        let last = || {
            self.directory
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = last().clone().filter(|node| node.object == directory);
        let node = match known {
            Some(node) => node,
            None => client.stat_object(directory)?,
        };
        let hint = client.distribution_for_copy(source, &node);
        *last() = Some(node);
        Ok(hint)
    }

    /// Copies everything but blocks of zeros, to a file that is perhaps begun.
    fn content_through(
        &self,
        worker: &mut Worker,
        job: &Job,
        source: &mut File,
        original: &Original<'_>,
        begun: Option<Storing>,
    ) -> Outcome<(Storing, u64)> {
        let (to, path) = (&job.to, job.from.shown());
        // A file whose first piece is no larger than this is small, and is read whole.
        let small = source.node.attributes.size.min(MAX_STUFFED_BYTES as u64);
        let mut begun = begun;
        let mut advanced = 0;
        let read = worker.read_pieces((source, path), 0, u64::MAX, |client, part, offset| {
            match part {
                Part::Data(piece) if begun.is_none() && part.len() <= small => {
                    let content = piece.to_vec();
                    let stored = self.writing.small(client, to, original, None, content)?;
                    begun = Some(stored);
                }
                Part::Data(piece) => {
                    let storing = match &mut begun {
                        Some(storing) => storing,
                        None => begun.insert(self.writing.begin(client, to, original, None)?),
                    };
                    for run in sparse::runs_of_data(piece) {
                        let region = Region {
                            offset: offset + run.start as u64,
                            len: run.len() as u64,
                        };
                        client.write_list(&mut storing.file, &[region], &[piece.slice(run)])?;
                    }
                }
                // A sparse file stays sparse.
                Part::Hole(_) => {}
            }
            self.progress.advance(part.len(), 0);
            advanced += part.len();
            Ok(())
        });
        let client = &mut worker.client;
        match (read, begun) {
            (Ok(size), Some(storing)) => Ok((storing, size)),
            (Ok(size), None) => {
                let storing = self.writing.small(client, to, original, None, Vec::new())?;
                Ok((storing, size))
            }
            (Err(failure), begun) => {
                self.progress.subtract(advanced);
                if let Some(storing) = begun {
                    storing.discard(client);
                }
                Err(failure)
            }
        }
    }
}

/// Refuses to copy a directory to somewhere below itself, also if their paths do not show that.
fn refuse_inside(client: &mut Client, source: &Node, to: &RemoteName, what: &str) -> Outcome {
    let mut directory = to.directory;
    let there = to.lookup(client)?;
    if there.is_some_and(|node| node.object == source.object) {
        return Err(
            Failure::new(what, "source and destination are the same directory")
                .hint("name another destination"),
        );
    }
    while directory != source.object {
        if directory == ObjectId::ROOT {
            return Ok(());
        }
        directory = client
            .stat(Place::from((directory, b"..".as_slice())), false)?
            .object;
    }
    Err(
        Failure::new(what, "a directory cannot be copied into itself")
            .hint("name a destination outside of it"),
    )
}
