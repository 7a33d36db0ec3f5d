//! `causeway fs put`: from this machine into the file system.

use std::fs::File as LocalFile;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::progress::Progress;
use causeway_command::remote::{PIECE_BYTES, about};
use causeway_fs::client::{Client, File, MANY};
use causeway_report::units::parse_bytes;
use causeway_wire::fs::{DistributionHint, MAX_STUFFED_BYTES, ObjectId, Region, SetAttributes};
use clap::Args;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::fs::at_end::{Stored, StoredAtEnd, conclude_stored};
use crate::fs::engine::{
    Countdown, Lost, PART_BYTES, Queue, Worker, conclude_copy, default_threads, jobs, parallel_over,
};
use crate::fs::local::{LocalMetadata, Tree, has_extended_attributes};
use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::small::{SmallFile, store_many};
use crate::fs::store::{Original, Storing, Writing, store_link};
use crate::fs::tree::{Destination, RemoteName};
use crate::fs::{partial, sparse};

/// Copy local files and directories into the file system
///
/// Directories are copied with everything in them: modes, modification times, symbolic links, hard
/// links, holes, access control lists; as root also owners. A file is written under a temporary name beside its own, and
/// replaces what has the name once it is whole and on the servers' disks. `-` reads standard input.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs put results.csv /runs/42/
  causeway fs put -j 8 ~/data /data
  tar c src | causeway fs put - /backup/src.tar
  causeway fs put --strip-size 1MiB --servers 2 big.bin /big.bin")]
pub(crate) struct Arguments {
    /// Local files and directories, or `-` for standard input
    #[arg(required = true, value_name = "LOCAL")]
    sources: Vec<PathBuf>,
    /// Where to: an existing directory, or the new name of the one source
    #[arg(value_name = "REMOTE", value_parser = remote_name())]
    destination: RemotePath,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads(), value_parser = jobs())]
    jobs: usize,
    /// Bytes of a strip of new files, such as 64KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    strip_size: Option<u64>,
    /// Number of servers that a new file is striped over
    #[arg(long, value_name = "N")]
    servers: Option<u16>,
    /// Do not keep modification times
    #[arg(long)]
    no_times: bool,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    target: Target,
}

/// A local file to be copied.
enum Source {
    /// In a tree that is walked.
    Below(Arc<Tree>, Vec<u8>),
    /// Named by the user: links are followed.
    Named(PathBuf),
}

/// A file to be copied, or a part of one.
enum Job {
    Whole {
        source: Source,
        to: RemoteName,
        first: Option<Arc<Stored>>,
    },
    Small(Vec<Small>),
    Part {
        shared: Arc<Parts>,
        from: u64,
        to: u64,
    },
}

/// A file that was small when it was visited.
struct Small {
    source: Source,
    to: RemoteName,
    first: Option<Arc<Stored>>,
}

/// A large file whose parts are copied by several threads.
struct Parts {
    source: LocalFile,
    known: LocalMetadata,
    file: File,
    storing: Mutex<Storing>,
    path: Vec<u8>,
    countdown: Countdown,
    first: Option<Arc<Stored>>,
}

/// The steps that the thread that finds files defers to the end.
#[derive(Default)]
struct Later {
    at_end: StoredAtEnd<(u64, u64), LocalMetadata>,
    /// Small files that wait to be stored together with others.
    small: Vec<Small>,
}

struct Put<'a> {
    progress: &'a Progress,
    distribution: Option<DistributionHint>,
    keep_times: bool,
    keep_owner: bool,
    writing: Writing,
    parts: bool,
    lost: Lost,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let distribution = hint(&session, arguments.strip_size, arguments.servers)?;
    let mut client = session.client()?;
    let names: Vec<&[u8]> = arguments
        .sources
        .iter()
        .map(|path| own_name(path))
        .collect();
    let destination = Destination::decide(&mut client, &arguments.destination, &names)?;
    let reads_input = arguments.sources.iter().any(|path| path.as_os_str() == "-");
    if reads_input && matches!(destination, Destination::Into(..)) {
        return Err(Failure::usage(
            "copying standard input",
            "the destination is a directory, and standard input has no name",
        )
        .hint("give the new file's name"));
    }
    partial::clean_up_at_end(&session)?;
    let progress = Progress::new(&session.output, "put", 0);
    let put = Put {
        progress: &progress,
        distribution,
        keep_times: !arguments.no_times,
        keep_owner: rustix::process::geteuid().is_root(),
        writing: arguments.writing,
        parts: arguments.jobs > 1,
        lost: Lost::default(),
    };
    let started = Instant::now();
    let mut later = Later::default();
    let operands = arguments.sources.iter().map(Some);
    let mut failures = parallel_over(
        &session,
        arguments.jobs,
        &progress,
        // After the last file, some small ones are still waiting for others.
        operands.chain([None]),
        |queue, source| {
            let mut finder = Finder {
                put: &put,
                client: &mut client,
                queue,
                later: &mut later,
            };
            match source {
                Some(source) => finder.operand(source, &destination),
                None => {
                    finder.push_small();
                    Ok(())
                }
            }
        },
        |worker, job| put.job(worker, job),
    )?;
    failures += conclude_stored(
        &mut client,
        later.at_end,
        (&progress, &put.lost),
        |known| put.original(known),
        |_, known| Ok(known.default_acl.as_deref().cloned()),
        put.sync(),
    );
    conclude_copy(&session, &progress, started, failures, &put.lost)
}

/// The distribution requested on the command line.
pub(crate) fn hint(
    session: &Session,
    strip_size: Option<u64>,
    servers: Option<u16>,
) -> Outcome<Option<DistributionHint>> {
    if strip_size.is_none() && servers.is_none() {
        return Ok(None);
    }
    let strip_size = match strip_size {
        None => 0,
        Some(size) => u32::try_from(size)
            .ok()
            .filter(|size| size.is_multiple_of(4096) && *size as usize >= MAX_STUFFED_BYTES)
            .ok_or_else(|| {
                Failure::usage(
                    "reading --strip-size",
                    "a strip is a multiple of 4 KiB, at least 16 KiB and less than 4 GiB",
                )
            })?,
    };
    let available = session.configuration.io_servers().len();
    if let Some(servers) = servers.filter(|count| *count == 0 || usize::from(*count) > available) {
        return Err(Failure::usage(
            format!("reading --servers {servers}"),
            format!("the file system has {available} servers for data; name 1 to {available}"),
        ));
    }
    Ok(Some(DistributionHint {
        strip_size,
        servers: servers.unwrap_or(0),
        start: 0,
    }))
}

/// The name that a source has in a directory that it is copied into. `.`, `tree/.` and `/` have none:
/// their entries go straight into the destination.
fn own_name(source: &Path) -> &[u8] {
    let bytes = source.as_os_str().as_bytes();
    if bytes == b"." || bytes.ends_with(b"/.") {
        return b"";
    }
    source.file_name().unwrap_or_default().as_bytes()
}

impl Source {
    fn shown(&self) -> String {
        match self {
            Self::Below(tree, below) => tree.shown(below),
            Self::Named(path) => path.display().to_string(),
        }
    }

    /// Opens the source without ever waiting; it must be a regular file.
    fn open(&self) -> Outcome<(LocalFile, LocalMetadata)> {
        let doing = || format!("opening {}", self.shown());
        let (file, known) = match self {
            Self::Below(tree, below) => tree.open_source(below).doing(doing)?,
            Self::Named(path) => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
                let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).doing(doing)?;
                let known = LocalMetadata::with_list(&file).doing(doing)?;
                (LocalFile::from(file), known)
            }
        };
        if known.kind != FileType::RegularFile {
            return Err(
                Failure::new(doing(), "the path no longer names a regular file")
                    .hint("copy again when nothing changes the tree any more"),
            );
        }
        Ok((file, known))
    }
}

/// Finds the files to copy, and queues them.
struct Finder<'a, 'b> {
    put: &'a Put<'b>,
    client: &'a mut Client,
    queue: &'a Queue<'b, Job>,
    later: &'a mut Later,
}

impl Finder<'_, '_> {
    /// A path given on the command line. A symbolic link given there is followed.
    fn operand(&mut self, path: &Path, destination: &Destination) -> Outcome {
        let to = destination.name_of(own_name(path));
        if path.as_os_str() == "-" {
            let what = "copying standard input";
            return self.stream(std::io::stdin().lock(), what, &to);
        }
        let doing = || format!("reading {}", path.display());
        let kind = rustix::fs::stat(path).doing(doing)?.st_mode;
        match FileType::from_raw_mode(kind) {
            FileType::Directory => self.tree(&Tree::open(path)?, to),
            FileType::RegularFile => {
                let source = Source::Named(path.to_owned());
                let known = source.open()?.1;
                self.file(source, &known, to)
            }
            FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice => {
                let input = LocalFile::open(path).doing(doing)?;
                self.stream(input, &doing(), &to)
            }
            _ => Err(Failure::new(
                doing(),
                "the source is neither a file, a directory nor a pipe",
            )),
        }
    }

    fn tree(&mut self, tree: &Arc<Tree>, to: RemoteName) -> Outcome {
        let mut pending = vec![(Vec::new(), to)];
        while let Some((below, to)) = pending.pop() {
            let result = self.directory(tree, &below, &to, &mut pending);
            if let Err(failure) = result {
                self.queue.fail(&failure, self.put.progress);
            }
            if self.queue.given_up() {
                break;
            }
        }
        Ok(())
    }

    fn directory(
        &mut self,
        tree: &Arc<Tree>,
        below: &[u8],
        to: &RemoteName,
        pending: &mut Vec<(Vec<u8>, RemoteName)>,
    ) -> Outcome {
        let doing = || format!("reading {}", tree.shown(below));
        let mode = tree.known(below).doing(doing)?.mode;
        // The directory is writable for its owner until its entries are copied. Of a directory with a list, the mode's group digit is
        // no permission of the group: it gets its own at the end.
        let node = to.make_directory(self.client, mode & 0o707 | 0o700, self.put.distribution)?;
        self.put.progress.advance(0, 1);
        let (known, extended) = tree.each_name(below, |name| {
            let mut path = below.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            let to = RemoteName::below(node.object, &to.path, name);
            let result = match partial::is_partial(name) {
                true => {
                    Lost::add(&self.put.lost.unfinished);
                    Ok(())
                }
                false => self.item(tree, path, to, pending),
            };
            if let Err(failure) = result {
                self.queue.fail(&failure, self.put.progress);
            }
            match self.queue.given_up() {
                true => Err(Failure::reported()),
                false => Ok(()),
            }
        })?;
        if extended {
            Lost::add(&self.put.lost.extended_attributes);
        }
        self.later.at_end.directory((node, known, to.path.clone()));
        Ok(())
    }

    fn item(
        &mut self,
        tree: &Arc<Tree>,
        below: Vec<u8>,
        to: RemoteName,
        pending: &mut Vec<(Vec<u8>, RemoteName)>,
    ) -> Outcome {
        let doing = || format!("reading {}", tree.shown(&below));
        let known = tree.known(&below).doing(doing)?;
        match known.kind {
            FileType::Directory => pending.push((below, to)),
            FileType::Symlink => {
                let target = tree.link_target(&below).doing(doing)?;
                store_link(self.client, &to, &target, &self.put.original(&known))?;
                self.put.progress.advance(0, 1);
            }
            FileType::RegularFile => {
                let source = Source::Below(Arc::clone(tree), below);
                return self.file(source, &known, to);
            }
            _ => {
                let shown = tree.shown(&below);
                self.put.lost.skip(self.put.progress, shown);
            }
        }
        Ok(())
    }

    fn file(&mut self, source: Source, known: &LocalMetadata, to: RemoteName) -> Outcome {
        let (to, first) = match known.linked {
            false => (to, None),
            true => match self
                .later
                .at_end
                .name(known.identity, to, |_| Stored::new())
            {
                Some((to, first)) => (to, Some(first)),
                None => return Ok(()),
            },
        };
        self.put.progress.add_total(known.size);
        if self.put.parts && known.size >= 2 * PART_BYTES {
            return self.large_file(&source, &to, first);
        }
        if known.size > MAX_STUFFED_BYTES as u64 || self.put.writing.inplace {
            self.queue.push(Job::Whole { source, to, first });
            return Ok(());
        }
        self.later.small.push(Small { source, to, first });
        if self.later.small.len() >= MANY {
            self.push_small();
        }
        Ok(())
    }

    fn push_small(&mut self) {
        let small = std::mem::take(&mut self.later.small);
        self.queue.push(Job::Small(small));
    }

    fn large_file(
        &mut self,
        source: &Source,
        to: &RemoteName,
        first: Option<Arc<Stored>>,
    ) -> Outcome {
        let (put, client) = (self.put, &mut *self.client);
        let (source, known) = source.open()?;
        let original = put.original(&known);
        let mut storing = put.writing.begin(client, to, &original, put.distribution)?;
        let (size, sparse) = (known.size, known.sparse);
        if let Err(failure) = storing.reserve(client, size) {
            storing.discard(client);
            return Err(failure);
        }
        let shared = Arc::new(Parts {
            source,
            known,
            file: storing.file.clone(),
            storing: Mutex::new(storing),
            path: to.path.clone(),
            countdown: Countdown::new(),
            first,
        });
        let data = |from| match sparse {
            true => sparse::stored_behind(&shared.source, from, size)
                .doing(|| "looking for holes in the local file".to_owned()),
            false => Ok(Some((from, size))),
        };
        let left_out = |holes| self.put.progress.advance(holes, 0);
        let job = |from, to| Job::Part {
            shared: Arc::clone(&shared),
            from,
            to,
        };
        self.queue
            .push_parts(size, &shared.countdown, data, left_out, job);
        Ok(())
    }

    /// Stores everything up to the end of a source that can be read only once.
    fn stream(&mut self, mut input: impl Read, what: &str, to: &RemoteName) -> Outcome {
        let (put, client) = (self.put, &mut *self.client);
        let caller = rustix::process::geteuid().as_raw();
        let original = Original {
            mode: 0o644,
            acl: None,
            inherits: true,
            owner: (caller, rustix::process::getegid().as_raw()),
            keep_owner: false,
            times: SetAttributes::default(),
            lost: &put.lost,
        };
        let mut bytes = vec![0; PIECE_BYTES];
        let mut got = fill(&mut input, &mut bytes).doing(|| what.to_owned())?;
        if got <= MAX_STUFFED_BYTES {
            bytes.truncate(got);
            let mut storing = put
                .writing
                .small(client, to, &original, put.distribution, bytes)?;
            storing.finish(client, &original, got as u64, put.sync())?;
            put.progress.advance(got as u64, 1);
            return Ok(());
        }
        let mut storing = put.writing.begin(client, to, &original, put.distribution)?;
        let buffer = client.allocate(PIECE_BYTES)?;
        let mut offset = 0;
        let mut copy = || -> Outcome {
            while let Some(piece) = bytes.get(..got).filter(|piece| !piece.is_empty()) {
                buffer.write_at(0, piece);
                let region = Region {
                    offset,
                    len: got as u64,
                };
                client
                    .write_list(&mut storing.file, &[region], &[buffer.slice(0..got)])
                    .map_err(|error| to.failure(error))?;
                offset += got as u64;
                put.progress.advance(got as u64, 0);
                got = fill(&mut input, &mut bytes).doing(|| what.to_owned())?;
            }
            Ok(())
        };
        if let Err(failure) = copy() {
            storing.discard(client);
            return Err(failure);
        }
        storing.finish(client, &original, offset, put.sync())?;
        put.progress.advance(0, 1);
        Ok(())
    }
}

impl Put<'_> {
    fn original(&self, known: &LocalMetadata) -> Original<'_> {
        Original {
            mode: known.mode,
            acl: known.acl.clone(),
            inherits: false,
            owner: (known.uid, known.gid),
            keep_owner: self.keep_owner,
            times: known.times(self.keep_times),
            lost: &self.lost,
        }
    }

    fn sync(&self) -> bool {
        !self.writing.no_sync
    }

    fn job(&self, worker: &mut Worker, job: Job) -> Outcome {
        match job {
            Job::Whole { source, to, first } => self
                .whole_file(worker, &source, &to, first.as_deref())
                .map_err(|failure| failure.about(source.shown())),
            Job::Small(files) => {
                self.small_files(worker, files);
                Ok(())
            }
            Job::Part { shared, from, to } => self
                .part(worker, &shared, from, to)
                .map_err(|failure| failure.about(printable(&shared.path))),
        }
    }

    fn whole_file(
        &self,
        worker: &mut Worker,
        source: &Source,
        to: &RemoteName,
        first: Option<&Stored>,
    ) -> Outcome {
        let (source, known) = source.open()?;
        let content =
            read_up_to(&source, MAX_STUFFED_BYTES + 1).doing(|| "reading it".to_owned())?;
        let original = self.original(&known);
        let (mut storing, size);
        if content.len() <= MAX_STUFFED_BYTES {
            size = content.len() as u64;
            let client = &mut worker.client;
            storing = self
                .writing
                .small(client, to, &original, self.distribution, content)?;
            self.progress.advance(size, 0);
        } else {
            let client = &mut worker.client;
            storing = self
                .writing
                .begin(client, to, &original, self.distribution)?;
            let range = (0, u64::MAX);
            let file = (&mut storing.file, to.path.as_slice());
            match worker.upload(&source, known.sparse, file, range, self.progress) {
                Ok(end) => size = end,
                Err(failure) => {
                    storing.discard(&mut worker.client);
                    return Err(failure);
                }
            }
        }
        storing.finish(&mut worker.client, &original, size, self.sync())?;
        self.stored(has_extended_attributes(&source), &storing, first);
        Ok(())
    }

    /// Stores small files together. The worker keeps their failures.
    fn small_files(&self, worker: &mut Worker, files: Vec<Small>) {
        let (mut small, mut their) = (Vec::new(), Vec::new());
        for file in files {
            let read = self.read_small(&file);
            match read.map_err(|failure| failure.about(file.source.shown())) {
                Err(failure) => worker.failed.push(failure),
                Ok(Some((content, extended))) => {
                    small.push(content);
                    their.push((file, extended));
                }
                Ok(None) => {
                    let stored =
                        self.whole_file(worker, &file.source, &file.to, file.first.as_deref());
                    let failed = stored
                        .map_err(|failure| failure.about(file.source.shown()))
                        .err();
                    worker.failed.extend(failed);
                }
            }
        }
        let stored = store_many(&mut worker.client, &small, self.distribution);
        for ((stored, content), (file, extended)) in stored.into_iter().zip(&small).zip(their) {
            match stored {
                Ok(node) => {
                    self.progress.advance(content.content.len() as u64, 0);
                    self.stored_as(node.object, extended, file.first.as_deref());
                }
                Err(failure) => worker.failed.push(failure.about(file.source.shown())),
            }
        }
    }

    /// Reads a small file whole, and whether it has extended attributes; returns `None` if the file has grown.
    fn read_small(&self, file: &Small) -> Outcome<Option<(SmallFile<'_>, bool)>> {
        let (source, known) = file.source.open()?;
        let content =
            read_up_to(&source, MAX_STUFFED_BYTES + 1).doing(|| "reading it".to_owned())?;
        if content.len() > MAX_STUFFED_BYTES {
            return Ok(None);
        }
        let small = SmallFile {
            to: file.to.clone(),
            original: self.original(&known),
            content,
        };
        Ok(Some((small, has_extended_attributes(&source))))
    }

    /// Counts a file that has been stored.
    fn stored(&self, extended: bool, storing: &Storing, first: Option<&Stored>) {
        if storing.foreign {
            Lost::add(&self.lost.attributes);
        }
        self.stored_as(storing.file.node.object, extended, first);
    }

    fn stored_as(&self, object: ObjectId, extended: bool, first: Option<&Stored>) {
        if extended {
            Lost::add(&self.lost.extended_attributes);
        }
        if let Some(first) = first {
            // Each file is stored by one job only.
            let _ = first.set(object);
        }
        self.progress.advance(0, 1);
    }

    fn part(&self, worker: &mut Worker, shared: &Parts, from: u64, to: u64) -> Outcome {
        let mut file = shared.file.clone();
        let sparse = shared.known.sparse;
        let ended = shared.countdown.part(|| {
            let (source, range) = (&shared.source, (from, to));
            let to_file = (&mut file, shared.path.as_slice());
            let end = worker.upload(source, sparse, to_file, range, self.progress)?;
            if end != to {
                return Err(Failure::new(
                    "reading the local file",
                    "the file became shorter while it was copied",
                )
                .hint("copy it again when nothing writes to it"));
            }
            match self.sync() {
                // Each thread syncs what its own client has written.
                true => worker
                    .client
                    .fsync(&mut file)
                    .map_err(|error| about(&shared.path, error)),
                false => Ok(()),
            }
        });
        let Some(stored) = ended else {
            return Ok(());
        };
        let mut storing = shared
            .storing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if stored.is_err() {
            storing.discard(&mut worker.client);
            return stored;
        }
        let original = self.original(&shared.known);
        storing.finish(&mut worker.client, &original, shared.known.size, false)?;
        let extended = has_extended_attributes(&shared.source);
        self.stored(extended, &storing, shared.first.as_deref());
        Ok(())
    }
}

/// Reads at most `most` bytes from the front of a file.
fn read_up_to(file: &LocalFile, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
