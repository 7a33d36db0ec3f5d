//! `causeway fs get`: from the file system to this machine.

use std::ffi::OsStr;
use std::fs::File as LocalFile;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway_fs::client::{Client, File};
use causeway_wire::fs::{Attributes, Kind, Node, Timestamp};
use clap::Args;
use tempfile::TempPath;

use crate::failure::{Doing, Failure, Outcome};
use crate::fs::engine::{
    Countdown, PART_BYTES, Queue, Worker, conclude_copy, default_threads, parallel,
};
use crate::fs::session::{RemotePath, Session, Target, base_name, remote_path};
use crate::fs::tree::{Met, is_directory, link_target, walk};
use crate::output::{printable, write_stdout};
use crate::progress::Progress;
use crate::shutdown;

/// Copy files and directories out of the file system
///
/// Directories are copied with everything in them. Modes, modification times and symbolic links are
/// kept. A file appears under its name only once it is complete. `-` writes to standard output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs get /runs/42/results.csv .
  causeway fs get -j 8 /data ~/data-copy
  causeway fs get /backup/src.tar - | tar x")]
pub(crate) struct Arguments {
    /// Files and directories in the file system
    #[arg(required = true, value_name = "REMOTE", value_parser = remote_path())]
    sources: Vec<RemotePath>,
    /// Where to: an existing directory, the new name of the one source, or `-`
    #[arg(value_name = "LOCAL")]
    destination: PathBuf,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads())]
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
        remote: Vec<u8>,
        local: PathBuf,
    },
    Part {
        shared: Arc<Parts>,
        from: u64,
        to: u64,
    },
}

/// A large file whose parts are copied by several threads.
struct Parts {
    file: File,
    what: String,
    pending: PendingFile,
    countdown: Countdown,
}

/// A local file on its way: written under a temporary name beside its own.
struct PendingFile {
    handle: LocalFile,
    path: std::sync::Mutex<Option<TempPath>>,
    target: PathBuf,
    _registration: shutdown::Registration,
}

struct Get<'a> {
    progress: &'a Progress,
    keep_times: bool,
    parts: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    if arguments.destination.as_os_str() == "-" {
        return to_standard_output(&session, &arguments.sources);
    }
    shutdown::on_signals()?;
    let into = arguments.destination.is_dir();
    if !into && arguments.sources.len() > 1 {
        let what = format!("copying to {}", arguments.destination.display());
        return Err(Failure::new(what, "it is not a directory").hint("make it with mkdir"));
    }
    let progress = Progress::new(&session.output, "get", 0);
    let get = Get {
        progress: &progress,
        keep_times: !arguments.no_times,
        parts: arguments.jobs > 1,
    };
    let mut client = session.client()?;
    let mut directories = Vec::new();
    let started = Instant::now();
    let failures = parallel(
        &session,
        arguments.jobs,
        &progress,
        |queue| {
            for source in &arguments.sources {
                let path = source.trimmed();
                let local = match into {
                    true => arguments
                        .destination
                        .join(OsStr::from_bytes(base_name(&path))),
                    false => arguments.destination.clone(),
                };
                let result = get.source(&mut client, queue, &path, &local, &mut directories);
                if let Err(failure) = result {
                    queue.fail(&failure, &progress);
                }
            }
            Ok(())
        },
        |worker, job| get.job(worker, job),
    )?;
    for (local, attributes) in directories.into_iter().rev() {
        get.dress(&local, &attributes)?;
    }
    conclude_copy(&session, &progress, started, failures)
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
        write_out(&mut worker, &source.trimmed())?;
    }
    Ok(())
}

/// Copies a file to standard output.
pub(crate) fn write_out(worker: &mut Worker, path: &[u8]) -> Outcome {
    let mut file = worker.client.open(path)?;
    let mut bytes = Vec::new();
    worker.read_pieces(&mut file, 0, u64::MAX, |piece, _| {
        bytes.resize(piece.len(), 0);
        piece.read_at(0, &mut bytes);
        write_stdout(&bytes, b"");
        Ok(())
    })?;
    Ok(())
}

impl Get<'_> {
    fn source(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        path: &[u8],
        local: &Path,
        directories: &mut Vec<(PathBuf, Attributes)>,
    ) -> Outcome {
        let node = client.stat(path, true)?;
        if !is_directory(&node) {
            return self.file(client, queue, path, local, &node.attributes);
        }
        let depth = path.len();
        walk(client, path, &node, &mut |client, met| {
            let below = met.path.get(depth..).unwrap_or_default();
            let below = below.strip_prefix(b"/").unwrap_or(below);
            let local = match below.is_empty() {
                true => local.to_owned(),
                false => local.join(OsStr::from_bytes(below)),
            };
            if let Err(failure) = self.met(client, queue, &met, &local, directories) {
                let fatal = failure.fatal || met.attributes.kind == Kind::Directory;
                queue.fail(&failure, self.progress);
                if fatal {
                    return Err(Failure::reported());
                }
            }
            Ok(())
        })
    }

    fn met(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        met: &Met<'_>,
        local: &Path,
        directories: &mut Vec<(PathBuf, Attributes)>,
    ) -> Outcome {
        match met.attributes.kind {
            Kind::Directory if met.leaving => Ok(()),
            Kind::Directory => {
                make_local_directory(local)?;
                directories.push((local.to_owned(), met.attributes));
                self.progress.advance(0, 1);
                Ok(())
            }
            Kind::SymbolicLink => {
                let node = client.stat(met.path, false)?;
                self.link(&node, local)
            }
            Kind::File => self.file(client, queue, met.path, local, &met.attributes),
        }
    }

    fn file(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        remote: &[u8],
        local: &Path,
        attributes: &Attributes,
    ) -> Outcome {
        self.progress.add_total(attributes.size);
        if !self.parts || attributes.size < 2 * PART_BYTES {
            queue.push(Job::Whole {
                remote: remote.to_owned(),
                local: local.to_owned(),
            });
            return Ok(());
        }
        let file = client.open(remote)?;
        let size = file.node.attributes.size;
        let pending = PendingFile::new(local)?;
        pending
            .handle
            .set_len(size)
            .doing(|| format!("making {}", local.display()))?;
        let shared = Arc::new(Parts {
            file,
            what: printable(remote),
            pending,
            countdown: Countdown::of(size),
        });
        queue.push_parts(size, |from, to| Job::Part {
            shared: Arc::clone(&shared),
            from,
            to,
        });
        Ok(())
    }

    fn link(&self, node: &Node, local: &Path) -> Outcome {
        let doing = || format!("making the link {}", local.display());
        let target = link_target(node)
            .ok_or("the server sent no target")
            .doing(doing)?;
        let target = OsStr::from_bytes(target);
        if std::fs::symlink_metadata(local).is_ok_and(|there| !there.is_dir()) {
            std::fs::remove_file(local).doing(doing)?;
        }
        std::os::unix::fs::symlink(target, local).doing(doing)?;
        self.progress.advance(0, 1);
        Ok(())
    }

    fn job(&self, worker: &mut Worker, job: Job) -> Outcome {
        match job {
            Job::Whole { remote, local } => self
                .whole(worker, &remote, &local)
                .map_err(|failure| failure.about(printable(&remote))),
            Job::Part { shared, from, to } => self
                .part(worker, &shared, from, to)
                .map_err(|failure| failure.about(&shared.what)),
        }
    }

    fn whole(&self, worker: &mut Worker, remote: &[u8], local: &Path) -> Outcome {
        let mut file = worker.client.open(remote)?;
        let pending = PendingFile::new(local)?;
        worker.download(&mut file, &pending.handle, 0, u64::MAX, self.progress)?;
        self.complete(&pending, &file)
    }

    fn part(&self, worker: &mut Worker, shared: &Parts, from: u64, to: u64) -> Outcome {
        let mut file = shared.file.clone();
        let result = worker.download(&mut file, &shared.pending.handle, from, to, self.progress);
        let complete = result.as_ref().is_ok_and(|copied| *copied == to - from);
        let all_complete = shared.countdown.ended(complete);
        result?;
        if !complete {
            return Err(Failure::new(
                "reading the file",
                "it became shorter meanwhile",
            ));
        }
        if all_complete {
            return self.complete(&shared.pending, &shared.file);
        }
        Ok(())
    }

    fn complete(&self, pending: &PendingFile, file: &File) -> Outcome {
        let attributes = &file.node.attributes;
        let doing = || format!("finishing {}", pending.target.display());
        let mode = std::fs::Permissions::from_mode(u32::from(attributes.mode & 0o7777));
        pending.handle.set_permissions(mode).doing(doing)?;
        if self.keep_times {
            pending.handle.set_times(times(attributes)).doing(doing)?;
        }
        pending.put_in_place()?;
        self.progress.advance(0, 1);
        Ok(())
    }

    /// Gives a directory its mode and times, after everything in it has been made.
    fn dress(&self, local: &Path, attributes: &Attributes) -> Outcome {
        let doing = || format!("finishing {}", local.display());
        if self.keep_times {
            let handle = LocalFile::open(local).doing(doing)?;
            handle.set_times(times(attributes)).doing(doing)?;
        }
        let mode = std::fs::Permissions::from_mode(u32::from(attributes.mode & 0o7777));
        std::fs::set_permissions(local, mode).doing(doing)
    }
}

fn make_local_directory(local: &Path) -> Outcome {
    match std::fs::create_dir(local) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && local.is_dir() => Ok(()),
        other => other.doing(|| format!("making the directory {}", local.display())),
    }
}

fn times(attributes: &Attributes) -> std::fs::FileTimes {
    let time = |time: Timestamp| {
        let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
        let seconds = Duration::from_secs(time.seconds.unsigned_abs());
        let whole = match time.seconds < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
            false => SystemTime::UNIX_EPOCH.checked_add(seconds),
        };
        whole
            .and_then(|whole| whole.checked_add(nanoseconds))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    std::fs::FileTimes::new()
        .set_accessed(time(attributes.accessed))
        .set_modified(time(attributes.modified))
}

impl PendingFile {
    fn new(target: &Path) -> Outcome<Self> {
        let doing = || format!("making {}", target.display());
        if target.is_dir() {
            return Err(Failure::new(doing(), "a directory is in the way"));
        }
        let parent = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".causeway-get-")
            .tempfile_in(parent.unwrap_or(Path::new(".")))
            .doing(doing)?;
        let (handle, path) = file.into_parts();
        Ok(Self {
            handle,
            _registration: shutdown::register_path(&path),
            path: std::sync::Mutex::new(Some(path)),
            target: target.to_owned(),
        })
    }

    fn put_in_place(&self) -> Outcome {
        let path = self.path.lock().ok().and_then(|mut path| path.take());
        let Some(path) = path else { return Ok(()) };
        path.persist(&self.target)
            .map_err(|error| error.error)
            .doing(|| format!("putting {} in place", self.target.display()))
    }
}
