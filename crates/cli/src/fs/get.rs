//! `causeway fs get`: from the file system to this machine.

use std::fs::File as LocalFile;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::{printable, write_stdout};
use causeway_command::progress::Progress;
use causeway_command::remote::{about, base_name, reading};
use causeway_command::shutdown;
use causeway_fs::client::{Client, File};
use causeway_wire::fs::{Acl, Attributes, Kind, Node, ObjectId};
use clap::Args;
use rustix::fs::OFlags;

use crate::fs::at_end::{AtEnd, first_name_failed};
use crate::fs::engine::{
    Countdown, Lost, PART_BYTES, Queue, Worker, conclude_copy, default_threads, jobs, parallel_over,
};
use crate::fs::local::{
    CopyAttributes, LocalMetadata, PendingFile, Tree, make_hard_link, make_link, safe_mode,
};
use crate::fs::session::{RemotePath, Session, Target, base_names, remote_name};
use crate::fs::source::Source;
use crate::fs::tree::{Visited, is_directory, link_target, refuse_equal_names};
use crate::fs::{lists, partial};

/// Copy files and directories out of the file system
///
/// Directories are copied with everything in them: modes, modification times, symbolic links, hard
/// links, holes, access control lists; as root also owners. A file appears under its name only once it is complete, and symbolic
/// links in the destination are never followed. `-` writes to standard output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs get /runs/42/results.csv .
  causeway fs get -j 8 /data ~/data-copy
  causeway fs get /backup/src.tar - | tar x")]
pub(crate) struct Arguments {
    /// Files and directories in the file system
    #[arg(required = true, value_name = "REMOTE", value_parser = remote_name())]
    sources: Vec<RemotePath>,
    /// Where to: an existing directory, the new name of the one source, or `-`
    #[arg(value_name = "LOCAL")]
    destination: PathBuf,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads(), value_parser = jobs())]
    jobs: usize,
    /// Do not keep modification times
    #[arg(long)]
    no_times: bool,
    #[command(flatten)]
    target: Target,
}

/// A file to be copied, or a part of one.
enum Job {
    Whole {
        source: Source,
        below: Vec<u8>,
        first: Option<Arc<FirstName>>,
    },
    Part {
        shared: Arc<Parts>,
        from: u64,
        to: u64,
    },
}

/// A large file whose parts are copied by several threads.
struct Parts {
    source: Source,
    file: File,
    below: Vec<u8>,
    pending: PendingFile,
    countdown: Countdown,
    /// Bytes of the parts that are complete.
    copied: AtomicU64,
    first: Option<Arc<FirstName>>,
}

/// The first visited of a file's several names.
struct FirstName {
    below: Vec<u8>,
    complete: AtomicBool,
}

/// The steps that the thread that finds files defers to the end.
type Later = AtEnd<ObjectId, FirstName, Vec<u8>, (Vec<u8>, Node, Option<Acl>)>;

struct Get<'a> {
    progress: &'a Progress,
    tree: Arc<Tree>,
    keep_times: bool,
    keep_owner: bool,
    parts: bool,
    lost: Lost,
}

/// The destination on this machine.
enum Destination {
    /// Standard output.
    Output,
    /// A device or pipe: it is written to, not replaced.
    Special,
    /// Into this directory, under their own names.
    Into(Arc<Tree>),
    /// Under this name in this directory.
    As(Arc<Tree>, Vec<u8>),
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let names = base_names(&arguments.sources);
    let (tree, name) = match decide(&arguments.destination, &names)? {
        Destination::Output => return to_standard_output(&session, &arguments.sources),
        Destination::Special => return to_special(&session, &arguments),
        Destination::Into(tree) => (tree, None),
        Destination::As(tree, name) => (tree, Some(name)),
    };
    shutdown::on_signals()?;
    let progress = Progress::new(&session.output, "get", 0);
    let get = Get {
        progress: &progress,
        tree,
        keep_times: !arguments.no_times,
        keep_owner: rustix::process::geteuid().is_root(),
        parts: arguments.jobs > 1,
        lost: Lost::default(),
    };
    let mut client = session.client()?;
    let mut later = Later::default();
    let started = Instant::now();
    let mut failures = parallel_over(
        &session,
        arguments.jobs,
        &progress,
        &arguments.sources,
        |queue, source| {
            let below = match &name {
                Some(name) => name.clone(),
                None => base_name(&source.0).to_vec(),
            };
            get.operand(&mut client, queue, source, &below, &mut later)
        },
        |worker, job| get.job(worker, job),
    )?;
    failures += get.conclude(later);
    conclude_copy(&session, &progress, started, failures, &get.lost)
}

/// Chooses the destination as `cp` does: inside a directory that exists, otherwise under the name given, which only one
/// source can have. A link to a directory is followed, since the user has named it.
fn decide(destination: &Path, names: &[&[u8]]) -> Outcome<Destination> {
    let what = || format!("copying to {}", destination.display());
    let bytes = destination.as_os_str().as_bytes();
    if bytes == b"-" || bytes == b"/dev/stdout" {
        return Ok(Destination::Output);
    }
    let there = std::fs::metadata(destination).ok();
    if there.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        refuse_equal_names(names, &what())?;
        return Ok(Destination::Into(Tree::open(destination)?));
    }
    if names.len() > 1 {
        return Err(
            Failure::new(what(), "the destination is not a directory").hint("make it with mkdir")
        );
    }
    if there.is_some_and(|there| !there.is_file()) {
        return Ok(Destination::Special);
    }
    match (destination.parent(), destination.file_name()) {
        (Some(parent), Some(name)) => Ok(Destination::As(
            Tree::open(parent)?,
            name.as_bytes().to_vec(),
        )),
        _ => Err(Failure::usage(what(), "the path ends in no name")
            .hint("name an existing directory, or the new file")),
    }
}

fn to_standard_output(session: &Session, sources: &[RemotePath]) -> Outcome {
    if session.output.json {
        return Err(Failure::usage(
            "copying to standard output",
            "--json and file contents cannot share standard output",
        ));
    }
    let mut worker = Worker::new(session)?;
    for source in sources {
        write_out(&mut worker, &source.0, |bytes| {
            write_stdout(bytes, b"");
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes a file into a device or pipe.
fn to_special(session: &Session, arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let doing = || format!("writing to {}", arguments.destination.display());
    let mut worker = Worker::new(session)?;
    let progress = Progress::new(&session.output, "get", 0);
    for source in &arguments.sources {
        worker.client.stat(&source.0, true)?;
        let mut target = LocalFile::options()
            .write(true)
            .open(&arguments.destination)
            .doing(doing)?;
        write_out(&mut worker, &source.0, |bytes| {
            progress.advance(bytes.len() as u64, 0);
            target.write_all(bytes).doing(doing)
        })?;
        progress.advance(0, 1);
    }
    conclude_copy(session, &progress, started, 0, &Lost::default())
}

/// Passes a file's content to `write`, in order: that of one version of the file, though other clients may replace it.
pub(crate) fn write_out(
    worker: &mut Worker,
    path: &[u8],
    mut write: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let mut bytes = Vec::new();
    let mut written: u64 = 0;
    Source::path(path).read(worker, |worker, mut file| {
        let read = worker.read_pieces((&mut file, path), 0, u64::MAX, |_, part, _| {
            part.write_out(&mut bytes, |bytes| {
                written += bytes.len() as u64;
                write(bytes)
            })
        });
        match read {
            Err(failure) if failure.gone && written > 0 => Err(Failure::new(
                failure.what,
                format!("the file was replaced or removed after its first {written} bytes had been written out"),
            )
            .hint("what was written is the beginning of the old file; do it again")),
            read => read.map(drop),
        }
    })
}

/// The user and group of files that this process makes.
fn effective_ids() -> (u32, u32) {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    (user.as_raw(), group.as_raw())
}

impl Get<'_> {
    fn wanted(&self, node: &Node) -> CopyAttributes<'_> {
        let attributes = node.attributes;
        let original = (attributes.uid, attributes.gid);
        if !self.keep_owner
            && safe_mode(attributes.mode, original, effective_ids()) != attributes.mode
        {
            Lost::add(&self.lost.identity_bits);
        }
        CopyAttributes {
            attributes,
            acl: node.acl.clone(),
            times: self.keep_times,
            owner: self.keep_owner,
            lost: &self.lost,
        }
    }

    /// A path given on the command line. A symbolic link given there is followed.
    fn operand(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        source: &RemotePath,
        below: &[u8],
        later: &mut Later,
    ) -> Outcome {
        let node = client.stat(&source.0, true)?;
        if !is_directory(&node) {
            let (object, attributes) = (node.object, &node.attributes);
            let source = Source::named(&source.0, &node);
            return self.file(client, queue, (source, object), below, attributes, later);
        }
        let path = source.trimmed();
        queue.walk(client, (&path, &node), self.progress, |client, visited| {
            let within = visited.path.get(path.len()..).unwrap_or_default();
            let within = within.strip_prefix(b"/").unwrap_or(within);
            let local = match (below, within) {
                (below, b"") => below.to_vec(),
                (b"", within) => within.to_vec(),
                (below, within) => [below, b"/", within].concat(),
            };
            self.visit(client, queue, &visited, &local, later)
        })
    }

    fn visit(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        visited: &Visited<'_>,
        below: &[u8],
        later: &mut Later,
    ) -> Outcome {
        match visited.attributes.kind {
            Kind::Directory if visited.leaving => Ok(()),
            Kind::Directory => {
                self.tree.make_directory(below)?;
                // Listings do not say which list a directory has.
                let node = client
                    .stat_object(visited.object)
                    .map_err(|error| about(visited.path, error))?;
                let default = lists::default_list(client, visited.object)
                    .map_err(|error| about(visited.path, error))?;
                later.directory((below.to_vec(), node, default));
                self.progress.advance(0, 1);
                Ok(())
            }
            _ if partial::is_partial(visited.name()) => {
                Lost::add(&self.lost.unfinished);
                Ok(())
            }
            Kind::SymbolicLink => {
                let node = Source::visited(visited).link(client)?;
                let target = link_target(&node)
                    .ok_or("the server sent no target")
                    .doing(|| format!("reading the link {}", printable(visited.path)))?;
                make_link(&self.tree, below, target, &self.wanted(&node))?;
                self.progress.advance(0, 1);
                Ok(())
            }
            Kind::File => {
                let source = (Source::visited(visited), visited.object);
                self.file(client, queue, source, below, &visited.attributes, later)
            }
            _ => {
                self.lost.skip(self.progress, printable(visited.path));
                Ok(())
            }
        }
    }

    fn file(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        (source, object): (Source, ObjectId),
        below: &[u8],
        attributes: &Attributes,
        later: &mut Later,
    ) -> Outcome {
        let mut first = None;
        if attributes.links > 1 {
            let named = later.name(object, below.to_vec(), |below| FirstName {
                below: below.clone(),
                complete: AtomicBool::new(false),
            });
            let Some((_, name)) = named else {
                return Ok(());
            };
            first = Some(name);
        }
        self.progress.add_total(attributes.size);
        if !self.parts || attributes.size < 2 * PART_BYTES {
            queue.push(Job::Whole {
                source,
                below: below.to_vec(),
                first,
            });
            return Ok(());
        }
        let mut file = source.open(client)?;
        let size = file.node.attributes.size;
        let pending = PendingFile::new(&self.tree, below)?;
        pending
            .file
            .set_len(size)
            .doing(|| format!("making {}", pending.shown))?;
        let shared = Arc::new(Parts {
            source,
            file: file.clone(),
            below: below.to_vec(),
            pending,
            countdown: Countdown::new(),
            copied: AtomicU64::new(0),
            first,
        });
        let data = |from| {
            let data = client.next_data(&mut file, from);
            let data = data.map_err(|error| reading(shared.source.shown(), error))?;
            Ok(data.map(|data| (data.offset, data.offset + data.len)))
        };
        let left_out = |holes| {
            self.progress.advance(holes, 0);
            shared.copied.fetch_add(holes, Ordering::AcqRel);
        };
        queue.push_parts(size, &shared.countdown, data, left_out, |from, to| {
            Job::Part {
                shared: Arc::clone(&shared),
                from,
                to,
            }
        });
        Ok(())
    }

    fn job(&self, worker: &mut Worker, job: Job) -> Outcome {
        match job {
            Job::Whole {
                source,
                below,
                first,
            } => self
                .whole(worker, &source, &below, first.as_deref())
                .map_err(|failure| failure.about(self.tree.shown(&below))),
            Job::Part { shared, from, to } => self
                .part(worker, &shared, from, to)
                .map_err(|failure| failure.about(self.tree.shown(&shared.below))),
        }
    }

    fn whole(
        &self,
        worker: &mut Worker,
        source: &Source,
        below: &[u8],
        first: Option<&FirstName>,
    ) -> Outcome {
        source.read(worker, |worker, mut file| {
            let pending = PendingFile::new(&self.tree, below)?;
            let (target, path) = (&pending.file, source.shown());
            let size = worker.download((&mut file, path), target, 0, u64::MAX, self.progress)?;
            // Zeros at the end have not been written.
            target
                .set_len(size)
                .doing(|| "writing the local file".to_owned())?;
            self.complete(&pending, &file, first)
        })
    }

    fn part(&self, worker: &mut Worker, shared: &Parts, from: u64, to: u64) -> Outcome {
        let first = shared.first.as_deref();
        let ended = shared.countdown.part(|| {
            let mut file = shared.file.clone();
            let (target, path) = (&shared.pending.file, shared.source.shown());
            let copied = worker.download((&mut file, path), target, from, to, self.progress)?;
            shared.copied.fetch_add(copied, Ordering::AcqRel);
            match copied == to - from {
                true => Ok(()),
                false => Err(Failure::new(
                    "reading the file",
                    "the file became shorter while it was copied",
                )
                .hint("copy it again when nothing writes to it")),
            }
        });
        match ended {
            None => Ok(()),
            Some(Ok(())) => self.complete(&shared.pending, &shared.file, first),
            // The name may lead to another file now, whose parts do not fit those copied before.
            Some(Err(failure)) if failure.gone => {
                let copied = shared.copied.load(Ordering::Acquire);
                self.progress.subtract(copied);
                self.whole(worker, &shared.source, &shared.below, first)
            }
            Some(failed) => failed,
        }
    }

    fn complete(&self, pending: &PendingFile, file: &File, first: Option<&FirstName>) -> Outcome {
        pending.complete(&self.wanted(&file.node))?;
        if let Some(first) = first {
            first.complete.store(true, Ordering::Release);
        }
        self.progress.advance(0, 1);
        Ok(())
    }

    /// Carries out the deferred steps after all files are copied: further names, and attributes of
    /// directories, the deepest first. Returns how many of these steps failed.
    fn conclude(&self, later: Later) -> u64 {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        later.conclude(
            self.progress,
            |first, below| match first.complete.load(Ordering::Acquire) {
                true => make_hard_link(&self.tree, &first.below, below),
                false => Err(first_name_failed(&self.tree.shown(below))),
            },
            |(below, node, default)| {
                let finished = self.tree.open_below(&below, flags).and_then(|directory| {
                    let owner = LocalMetadata::of(&directory)?.uid;
                    if !self.keep_owner && owner != rustix::process::geteuid().as_raw() {
                        Lost::add(&self.lost.attributes);
                        return Ok(());
                    }
                    lists::set_local_default(&directory, default.as_ref(), &self.lost)?;
                    self.wanted(&node).apply_to(&directory)
                });
                finished.doing(|| format!("finishing {}", self.tree.shown(&below)))
            },
        )
    }
}
