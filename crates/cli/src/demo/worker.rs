//! One client process of the demonstration: stores files, or reads them and reports their content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File as LocalFile;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use causeway_bmi::Memory;
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::{hex, printable};
use causeway_command::remote::{PIECE_BYTES, exists_already, join};
use causeway_command::workers::{self, Channel};
use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::Configuration;
use causeway_report::histogram::Histogram;
use causeway_watch::process::monotonic_ns;
use causeway_wire::fs::{
    Attributes, MAX_STUFFED_BYTES, ObjectId, Region, SetAttributes, Timestamp,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::tree::Name;
use crate::fs::tree::link_target;

/// Length of a slot in which moved bytes are added up.
pub(crate) const SLOT_NS: u64 = 100_000_000;

/// The worker's task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The file system's configuration.
    pub(crate) config: PathBuf,
    /// The tree on this machine.
    pub(crate) source: PathBuf,
}

impl workers::Task for Assignment {
    const ROLE: &'static str = WORKER;
}

/// The command's messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Carries out these items.
    Batch(Vec<Item>),
}

/// A file or link to store or to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Item {
    /// The command's number for it.
    pub(crate) number: usize,
    /// The path below the tree's top.
    pub(crate) path: Name,
    /// Whether it is a symbolic link.
    pub(crate) link: bool,
    /// Reads it from under this directory of the file system and reports its content.
    pub(crate) check: Option<String>,
    /// Stores it under this directory of the file system.
    pub(crate) store: Option<String>,
}

/// The worker's messages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The worker is connected.
    Ready,
    /// Items were carried out.
    Batch {
        /// One for each item.
        results: Vec<Done>,
        /// Bytes read and written, by slot of the common clock.
        slots: BTreeMap<u64, (u64, u64)>,
        /// These were the last items of a batch. Errors are reported at once, before the batch's end.
        complete: bool,
    },
    /// All batches are done; the measurements.
    Finished {
        /// Latencies by operation.
        latencies: BTreeMap<Cow<'static, str>, Histogram>,
        /// Microseconds and counts by stage.
        stages: BTreeMap<Cow<'static, str>, (f64, u64)>,
    },
}

/// The outcome of an item.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The command's number for it.
    pub(crate) number: usize,
    /// The content of the source, if the item was stored.
    pub(crate) stored: Option<Content>,
    /// The content that was read, if the item was checked.
    pub(crate) found: Option<Content>,
    /// The error, if there was one.
    pub(crate) error: Option<Fault>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) mode: u16,
    pub(crate) modified: (i64, u32),
}

/// An operation that failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The error as the user would see it.
    pub(crate) text: String,
    /// When the item was begun and when the error occurred, on the common clock.
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// A server was out of reach: the item should be tried again.
    pub(crate) retry: bool,
}

struct Worker {
    client: Client,
    source: PathBuf,
    buffer: Memory,
    private: Vec<u8>,
    slots: BTreeMap<u64, (u64, u64)>,
    latencies: BTreeMap<Cow<'static, str>, Histogram>,
    stages: BTreeMap<Cow<'static, str>, (f64, u64)>,
}

/// The argument after `worker` that starts a client process of the demonstration.
pub(crate) const WORKER: &str = "demo";

/// Runs a client process of the demonstration, with its task from standard input.
pub(crate) fn work() -> Outcome {
    workers::serve(|assignment, channel| run(&assignment, channel))
}

fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    let configuration =
        Configuration::load(&assignment.config).doing(|| "reading the configuration".to_owned())?;
    let options = ClientOptions {
        record_stages: true,
        ..ClientOptions::default()
    };
    let mut client = Client::connect(&configuration, options)?;
    let buffer = client.allocate(PIECE_BYTES)?;
    let mut worker = Worker {
        client,
        source: assignment.source.clone(),
        buffer,
        private: vec![0; 256 << 10],
        slots: BTreeMap::new(),
        latencies: BTreeMap::new(),
        stages: BTreeMap::new(),
    };
    channel.send(&Report::Ready)?;
    while let Some(Order::Batch(items)) = channel.receive()? {
        let mut results = Vec::new();
        for item in &items {
            let done = worker.item(item);
            let failed = done.error.is_some();
            results.push(done);
            if failed {
                channel.send(&worker.report(std::mem::take(&mut results), false))?;
            }
        }
        channel.send(&worker.report(results, true))?;
    }
    for stage in worker.client.take_stages() {
        worker.add_stage(stage.name, stage.total_us, stage.count);
    }
    channel.send(&Report::Finished {
        latencies: worker.latencies,
        stages: worker.stages,
    })
}

impl Worker {
    fn report(&mut self, results: Vec<Done>, complete: bool) -> Report {
        Report::Batch {
            results,
            slots: std::mem::take(&mut self.slots),
            complete,
        }
    }

    fn item(&mut self, item: &Item) -> Done {
        let from_ns = monotonic_ns();
        let mut done = Done {
            number: item.number,
            stored: None,
            found: None,
            error: None,
        };
        if let Err(failure) = self.steps(item, &mut done) {
            let failure = failure.about(printable(item.path.bytes()));
            done.error = Some(Fault {
                text: failure.to_string(),
                from_ns,
                to_ns: monotonic_ns(),
                retry: failure.fatal,
            });
        }
        done
    }

    fn steps(&mut self, item: &Item, done: &mut Done) -> Outcome {
        if let Some(top) = &item.check {
            let remote = join(top.as_bytes(), item.path.bytes());
            done.found = Some(match item.link {
                true => self.check_link(&remote)?,
                false => self.check_file(&remote)?,
            });
        }
        if let Some(top) = &item.store {
            let remote = join(top.as_bytes(), item.path.bytes());
            let local = self.source.join(OsStr::from_bytes(item.path.bytes()));
            done.stored = Some(match item.link {
                true => self.store_link(&local, &remote)?,
                false => self.store_file(&local, &remote)?,
            });
        }
        Ok(())
    }

    fn store_file(&mut self, local: &Path, remote: &[u8]) -> Outcome<Content> {
        // The hash is of the source itself, not of the buffer from which it is stored.
        let sha256 = self.stage("hash the source", |worker| {
            hash_local(local, &mut worker.private)
        })?;
        let doing = || format!("reading {}", local.display());
        let source = LocalFile::open(local).doing(doing)?;
        let metadata = source.metadata().doing(doing)?;
        let size = metadata.len();
        let mode = u16::try_from(metadata.permissions().mode() & 0o7777).unwrap_or(0o644);
        let small = size <= MAX_STUFFED_BYTES as u64;
        let mut content = Vec::new();
        if small {
            (&source)
                .take(MAX_STUFFED_BYTES as u64)
                .read_to_end(&mut content)
                .doing(doing)?;
        }
        let bytes = content.len() as u64;
        let mut file = self.timed("create", |client| {
            create_or_replace(client, remote, mode, content)
        })?;
        self.count(0, bytes);
        let mut offset = if small { size } else { 0 };
        while offset < size {
            let buffer = self.buffer.clone();
            let got = self.stage("read the source", |_| {
                buffer.read_from_file(&source, offset).doing(doing)
            })?;
            if got == 0 {
                break;
            }
            let region = Region {
                offset,
                len: got as u64,
            };
            let piece = [buffer.slice(0..got)];
            let file = &mut file;
            self.timed("write", |client| {
                Ok(client.write_list(file, &[region], &piece)?)
            })?;
            self.count(0, got as u64);
            offset += got as u64;
        }
        let modified = Timestamp {
            seconds: metadata.mtime(),
            nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        };
        self.set(file.node.object, mode, modified)?;
        Ok(Content {
            sha256,
            bytes: size,
            mode,
            modified: (modified.seconds, modified.nanoseconds),
        })
    }

    fn set(&mut self, object: ObjectId, mode: u16, modified: Timestamp) -> Outcome {
        let set = SetAttributes {
            mode: Some(mode),
            modified: Some(modified),
            ..SetAttributes::default()
        };
        self.timed("set attributes", |client| {
            Ok(client.set_attributes(object, set)?)
        })?;
        Ok(())
    }

    fn store_link(&mut self, local: &Path, remote: &[u8]) -> Outcome<Content> {
        let target = std::fs::read_link(local).doing(|| format!("reading {}", local.display()))?;
        let target = target.as_os_str().as_bytes();
        self.timed("symlink", |client| {
            match client.symbolic_link(target, remote) {
                Err(error) if exists_already(&error) => Ok(()),
                other => other.map(|_| ()).map_err(Failure::from),
            }
        })?;
        Ok(link_content(target))
    }

    fn check_file(&mut self, remote: &[u8]) -> Outcome<Content> {
        let mut file = self.timed("open", |client| Ok(client.open_once(remote)?))?;
        let mut hasher = Sha256::new();
        let mut offset = 0;
        let size = file.node.attributes.size;
        while offset < size {
            let len = (size - offset).min(PIECE_BYTES as u64);
            let want = usize::try_from(len).unwrap_or(PIECE_BYTES);
            let piece = self.buffer.slice(0..want);
            let region = Region { offset, len };
            let (file, into) = (&mut file, [piece.clone()]);
            let got = self.timed("read", |client| {
                Ok(client.read_list(file, &[region], &into)?)
            })?;
            let got = usize::try_from(got).unwrap_or(want).min(want);
            if got == 0 {
                break;
            }
            self.count(got as u64, 0);
            hash_memory(&mut hasher, &piece.slice(0..got), &mut self.private);
            offset += got as u64;
        }
        Ok(content_of(hasher, offset, &file.node.attributes))
    }

    fn check_link(&mut self, remote: &[u8]) -> Outcome<Content> {
        let node = self.timed("stat", |client| Ok(client.stat(remote, false)?))?;
        let what = || format!("reading {}", printable(remote));
        let target = link_target(&node)
            .ok_or("the object is not a symbolic link")
            .doing(what)?;
        Ok(link_content(target))
    }

    /// Times a call of the file system, as latency and as stage.
    fn timed<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Client) -> Outcome<T>,
    ) -> Outcome<T> {
        let started = Instant::now();
        let result = work(&mut self.client);
        let us = started.elapsed().as_secs_f64() * 1e6;
        if result.is_ok() {
            self.latencies.entry(name.into()).or_default().add(us);
        }
        // Reads and writes are broken down by the client itself.
        if !matches!(name, "read" | "write") {
            self.add_stage(name, us, 1);
        }
        result
    }

    /// Times a step outside the file system.
    fn stage<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        let started = Instant::now();
        let result = work(self);
        self.add_stage(name, started.elapsed().as_secs_f64() * 1e6, 1);
        result
    }

    fn add_stage(&mut self, name: &'static str, us: f64, count: u64) {
        let stage = self.stages.entry(name.into()).or_default();
        stage.0 += us;
        stage.1 += count;
    }

    fn count(&mut self, read: u64, written: u64) {
        let slot = self.slots.entry(monotonic_ns() / SLOT_NS).or_default();
        slot.0 += read;
        slot.1 += written;
    }
}

fn hash_local(path: &Path, buffer: &mut [u8]) -> Outcome<String> {
    let doing = || format!("reading {}", path.display());
    let mut file = LocalFile::open(path).doing(doing)?;
    let mut hasher = Sha256::new();
    loop {
        let count = file.read(buffer).doing(doing)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

fn hash_memory(hasher: &mut Sha256, memory: &Memory, buffer: &mut [u8]) {
    let mut offset = 0;
    while offset < memory.len() {
        let len = (memory.len() - offset).min(buffer.len());
        if let Some(part) = buffer.get_mut(..len) {
            memory.read_at(offset, part);
            hasher.update(part);
        }
        offset += len;
    }
}

fn content_of(hasher: Sha256, bytes: u64, attributes: &Attributes) -> Content {
    Content {
        sha256: hex(&hasher.finalize()),
        bytes,
        mode: attributes.mode,
        modified: (attributes.modified.seconds, attributes.modified.nanoseconds),
    }
}

/// A link's content is its target; mode and time of links are not kept.
fn link_content(target: &[u8]) -> Content {
    Content {
        sha256: hex(&Sha256::digest(target)),
        bytes: target.len() as u64,
        mode: 0,
        modified: (0, 0),
    }
}

/// Makes a file with this content, or replaces the content of the file that an interrupted attempt
/// has left: the demonstration checks that this succeeds.
fn create_or_replace(
    client: &mut Client,
    path: &[u8],
    mode: u16,
    content: Vec<u8>,
) -> Outcome<File> {
    let options = CreateOptions {
        exclusive: true,
        mode,
        distribution: None,
        content,
    };
    match client.create(path, &options) {
        Err(error) if exists_already(&error) => {}
        other => return Ok(other?),
    }
    let mut file = client.open(path)?;
    client.truncate(&mut file, 0)?;
    if !options.content.is_empty() {
        client.write_at(&mut file, 0, &options.content)?;
    }
    Ok(file)
}
