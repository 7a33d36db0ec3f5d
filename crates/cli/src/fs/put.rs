//! `causeway fs put`: from this machine into the file system.

use std::fs::{File as LocalFile, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use causeway_fs::client::{Client, CreateOptions, File};
use causeway_wire::fs::{
    DistributionHint, Errno, MAX_STUFFED_BYTES, ObjectId, Region, SetAttributes, Timestamp,
};
use clap::Args;

use crate::failure::{Doing, Failure, Outcome};
use crate::fs::engine::{
    Countdown, PART_BYTES, PIECE_BYTES, Queue, Worker, conclude_copy, default_threads, parallel,
};
use crate::fs::session::{RemotePath, Session, Target, exists_already, join, remote_path};
use crate::fs::tree::{Destination, is_directory};
use crate::output::{printable, warn};
use crate::progress::Progress;
use crate::units::parse_bytes;

/// Copy local files and directories into the file system
///
/// Directories are copied with everything in them. Modes, modification times and symbolic links are
/// kept. `-` reads standard input.
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
    #[arg(value_name = "REMOTE", value_parser = remote_path())]
    destination: RemotePath,
    /// Threads that copy at the same time
    #[arg(long, short, value_name = "N", default_value_t = default_threads())]
    jobs: usize,
    /// Bytes of a strip of new files, such as 64KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    strip_size: Option<u64>,
    /// Number of servers that a new file is dealt over
    #[arg(long, value_name = "N")]
    servers: Option<u16>,
    /// Do not keep modification times
    #[arg(long)]
    no_times: bool,
    #[command(flatten)]
    target: Target,
}

/// A file to be copied, or a part of one.
enum Job {
    Whole {
        local: PathBuf,
        remote: Vec<u8>,
        metadata: Metadata,
    },
    Part {
        shared: Arc<Parts>,
        from: u64,
        to: u64,
    },
}

/// A large file whose parts are copied by several threads.
struct Parts {
    source: LocalFile,
    file: File,
    what: String,
    metadata: Metadata,
    countdown: Countdown,
}

struct Put<'a> {
    progress: &'a Progress,
    distribution: Option<DistributionHint>,
    keep_times: bool,
    parts: bool,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let distribution = hint(arguments.strip_size, arguments.servers)?;
    let mut client = session.client()?;
    let destination =
        Destination::decide(&mut client, &arguments.destination, arguments.sources.len())?;
    let progress = Progress::new(&session.output, "put", 0);
    let put = Put {
        progress: &progress,
        distribution,
        keep_times: !arguments.no_times,
        parts: arguments.jobs > 1,
    };
    let started = Instant::now();
    let mut directories = Vec::new();
    let failures = parallel(
        &session,
        arguments.jobs,
        &progress,
        |queue| {
            for source in &arguments.sources {
                if source.as_os_str() == "-" {
                    put.standard_input(&mut client, &destination)?;
                } else {
                    put.source(&mut client, queue, source, &destination, &mut directories);
                }
            }
            Ok(())
        },
        |worker, job| put.job(worker, job),
    )?;
    // Children before parents, after everything in them has been made.
    for (object, set) in directories.into_iter().rev() {
        client.set_attributes(object, set)?;
    }
    conclude_copy(&session, &progress, started, failures)
}

/// The distribution asked for on the command line.
pub(crate) fn hint(
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
    Ok(Some(DistributionHint {
        strip_size,
        servers: servers.unwrap_or(0),
        start: 0,
    }))
}

/// The attributes that a copy shall have.
pub(crate) fn kept_attributes(metadata: &Metadata, keep_times: bool) -> SetAttributes {
    let time = |seconds, nanoseconds: i64| Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    };
    SetAttributes {
        mode: Some(permission_bits(metadata)),
        accessed: keep_times.then(|| time(metadata.atime(), metadata.atime_nsec())),
        modified: keep_times.then(|| time(metadata.mtime(), metadata.mtime_nsec())),
        ..SetAttributes::default()
    }
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

fn permission_bits(metadata: &Metadata) -> u16 {
    u16::try_from(metadata.permissions().mode() & 0o7777).unwrap_or(0o644)
}

impl Put<'_> {
    /// A path given on the command line. A symbolic link given there is followed.
    fn source(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        source: &Path,
        destination: &Destination,
        directories: &mut Vec<(ObjectId, SetAttributes)>,
    ) {
        let result = std::fs::metadata(source)
            .doing(|| format!("reading {}", source.display()))
            .and_then(|metadata| {
                let remote = destination.path_of(own_name(source));
                self.item(client, queue, source, remote, metadata, directories)
            });
        if let Err(failure) = result {
            queue.fail(&failure, self.progress);
        }
    }

    fn item(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        local: &Path,
        remote: Vec<u8>,
        metadata: Metadata,
        directories: &mut Vec<(ObjectId, SetAttributes)>,
    ) -> Outcome {
        if metadata.is_dir() {
            self.directory(client, queue, local, &remote, &metadata, directories)
        } else if metadata.is_symlink() {
            self.link(client, local, &remote)
        } else if metadata.is_file() {
            self.progress.add_total(metadata.len());
            if self.parts && metadata.len() >= 2 * PART_BYTES {
                return self.large_file(client, queue, local, &remote, metadata);
            }
            queue.push(Job::Whole {
                local: local.to_owned(),
                remote,
                metadata,
            });
            Ok(())
        } else {
            self.progress.say(|| {
                warn(&format!(
                    "{}: skipped, it is neither a file, a directory nor a symbolic link",
                    local.display()
                ));
            });
            Ok(())
        }
    }

    fn directory(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        local: &Path,
        remote: &[u8],
        metadata: &Metadata,
        directories: &mut Vec<(ObjectId, SetAttributes)>,
    ) -> Outcome {
        // Writable for us until its entries are there.
        let mode = permission_bits(metadata) | 0o700;
        let node = match client.make_directory(remote, mode, self.distribution) {
            Ok(node) => node,
            Err(error) if exists_already(&error) => {
                let node = client.stat(remote, true)?;
                if !is_directory(&node) {
                    return Err(error.into());
                }
                node
            }
            Err(error) => return Err(error.into()),
        };
        directories.push((node.object, kept_attributes(metadata, self.keep_times)));
        self.progress.advance(0, 1);
        let reading = || format!("reading {}", local.display());
        for entry in std::fs::read_dir(local).doing(reading)? {
            let entry = entry.doing(reading)?;
            let path = entry.path();
            let result = entry
                .metadata()
                .doing(|| format!("reading {}", path.display()))
                .and_then(|metadata| {
                    let remote = join(remote, entry.file_name().as_bytes());
                    self.item(client, queue, &path, remote, metadata, directories)
                });
            if let Err(failure) = result {
                queue.fail(&failure, self.progress);
                if failure.fatal {
                    break;
                }
            }
        }
        Ok(())
    }

    fn link(&self, client: &mut Client, local: &Path, remote: &[u8]) -> Outcome {
        let target = std::fs::read_link(local).doing(|| format!("reading {}", local.display()))?;
        let target = target.as_os_str().as_bytes();
        let made = match client.symbolic_link(target, remote) {
            Err(error) if exists_already(&error) => {
                client.unlink(remote)?;
                client.symbolic_link(target, remote)
            }
            other => other,
        };
        made?;
        self.progress.advance(0, 1);
        Ok(())
    }

    fn job(&self, worker: &mut Worker, job: Job) -> Outcome {
        match job {
            Job::Whole {
                local,
                remote,
                metadata,
            } => self
                .whole_file(worker, &local, &remote, &metadata)
                .map_err(|failure| failure.about(local.display())),
            Job::Part { shared, from, to } => self
                .part(worker, &shared, from, to)
                .map_err(|failure| failure.about(&shared.what)),
        }
    }

    fn whole_file(
        &self,
        worker: &mut Worker,
        local: &Path,
        remote: &[u8],
        metadata: &Metadata,
    ) -> Outcome {
        let source = LocalFile::open(local).doing(|| format!("opening {}", local.display()))?;
        let first = read_up_to(&source, MAX_STUFFED_BYTES + 1)
            .doing(|| format!("reading {}", local.display()))?;
        let small = first.len() <= MAX_STUFFED_BYTES;
        let content = if small { first } else { Vec::new() };
        let bytes = content.len() as u64;
        let mut file = self.create(&mut worker.client, remote, metadata, content)?;
        if small {
            self.progress.advance(bytes, 0);
        } else {
            worker.upload(&source, &mut file, 0, u64::MAX, self.progress)?;
        }
        self.finish(&mut worker.client, &file, metadata)
    }

    /// Makes a file with this content, or replaces the content of the one that is there.
    fn create(
        &self,
        client: &mut Client,
        remote: &[u8],
        metadata: &Metadata,
        content: Vec<u8>,
    ) -> Outcome<File> {
        create_or_replace(
            client,
            remote,
            permission_bits(metadata),
            self.distribution,
            content,
        )
    }

    fn finish(&self, client: &mut Client, file: &File, metadata: &Metadata) -> Outcome {
        let set = kept_attributes(metadata, self.keep_times);
        let mode_is_right = Some(file.node.attributes.mode) == set.mode;
        if self.keep_times || !mode_is_right {
            client.set_attributes(file.node.object, set)?;
        }
        self.progress.advance(0, 1);
        Ok(())
    }

    fn large_file(
        &self,
        client: &mut Client,
        queue: &Queue<'_, Job>,
        local: &Path,
        remote: &[u8],
        metadata: Metadata,
    ) -> Outcome {
        let source = LocalFile::open(local).doing(|| format!("opening {}", local.display()))?;
        let size = metadata.len();
        let file = self.create(client, remote, &metadata, Vec::new())?;
        let shared = Arc::new(Parts {
            source,
            file,
            what: printable(remote),
            metadata,
            countdown: Countdown::of(size),
        });
        queue.push_parts(size, |from, to| Job::Part {
            shared: Arc::clone(&shared),
            from,
            to,
        });
        Ok(())
    }

    fn part(&self, worker: &mut Worker, shared: &Parts, from: u64, to: u64) -> Outcome {
        let mut file = shared.file.clone();
        let result = worker.upload(&shared.source, &mut file, from, to, self.progress);
        let complete = result.as_ref().is_ok_and(|copied| *copied == to - from);
        let all_complete = shared.countdown.ended(complete);
        result?;
        if !complete {
            return Err(Failure::new(
                "reading the local file",
                "it became shorter meanwhile",
            ));
        }
        if all_complete {
            return self.finish(&mut worker.client, &shared.file, &shared.metadata);
        }
        Ok(())
    }

    fn standard_input(&self, client: &mut Client, destination: &Destination) -> Outcome {
        let Destination::As(remote) = destination else {
            return Err(Failure::usage(
                "copying standard input",
                "the destination is a directory, and standard input has no name",
            )
            .hint("give the new file's name"));
        };
        let mut file = create_or_replace(client, remote, 0o644, self.distribution, Vec::new())?;
        let buffer = client.allocate(PIECE_BYTES)?;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut offset = 0;
        loop {
            let got = fill(&mut std::io::stdin().lock(), &mut bytes)
                .doing(|| "reading standard input".to_owned())?;
            let Some(piece) = bytes.get(..got).filter(|piece| !piece.is_empty()) else {
                break;
            };
            buffer.write_at(0, piece);
            let region = Region {
                offset,
                len: got as u64,
            };
            client.write_list(&mut file, &[region], &[buffer.slice(0..got)])?;
            offset += got as u64;
            self.progress.advance(got as u64, 0);
        }
        self.progress.advance(0, 1);
        Ok(())
    }
}

/// Makes a file with this content, or replaces the content of the file that has the name.
pub(crate) fn create_or_replace(
    client: &mut Client,
    path: &[u8],
    mode: u16,
    distribution: Option<DistributionHint>,
    content: Vec<u8>,
) -> Outcome<File> {
    let options = CreateOptions {
        exclusive: true,
        mode,
        distribution,
        content,
    };
    match client.create(path, &options) {
        Ok(file) => Ok(file),
        Err(error) if error.errno == Errno::EEXIST => {
            let mut file = client.open(path)?;
            client.truncate(&mut file, 0)?;
            if !options.content.is_empty() {
                client.write_at(&mut file, 0, &options.content)?;
            }
            Ok(file)
        }
        Err(error) => Err(error.into()),
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
