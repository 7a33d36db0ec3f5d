//! A file server with replies that a test scripts: it speaks the file system's protocol over TCP, is metadata server and
//! I/O server at once, and has a tiny tree of its own for requests that the script leaves alone.
//!
//! ```text
//! /        object 1
//! /d       object 2, a directory with one small file, /d/x (object 5)
//! /f       object 3, FILE_BYTES in one datafile
//! /l       object 4, a link to "f"
//! ```
//!
//! Object 6 has no name: a file like `/f` that may have holes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bmi::{
    Addr, Bmi, Config, Context, Direction, InfoOption, Memory, Posted, RegionDescriptor,
    Unexpected, Waker,
};
use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::formats::Formats;
use causeway_wire::fs::formats::{FORMATS, NUMBERED_WRITES};
use causeway_wire::fs::{
    Attributes, Body, Distribution, DistributionHint, Entry, Errno, Failure, Generation, Greeting,
    Incarnation, Kind, LayoutPart, LayoutServer, MAX_MESSAGE_BYTES, Moment, Node, ObjectId,
    Operation, Place, PointerStep, Region, Reply, ReplyBody, Request, ServerIdentity, StripedFile,
    Timestamp,
};

/// Bytes of `/f`.
pub const FILE_BYTES: u64 = 1000;
/// The directory `/d`.
pub const DIRECTORY: ObjectId = ObjectId(2);
/// The file `/f`.
pub const FILE: ObjectId = ObjectId(3);
/// The link `/l`.
pub const LINK: ObjectId = ObjectId(4);
/// The small file `/d/x`.
pub const SMALL: ObjectId = ObjectId(5);
/// A file that may have holes, without a name.
pub const SPARSE: ObjectId = ObjectId(6);

const FILE_SYSTEM: u128 = 0x00c0_ffee;
const NAME: &str = "all";

/// The response to a request.
#[derive(Debug, Clone)]
pub enum Response {
    /// The correct response.
    Honest,
    /// This result.
    Reply(ReplyBody),
    /// These bytes, valid or not.
    Bytes(Vec<u8>),
    /// The correct one, under a tag that belongs to no request.
    WrongTag,
    /// A failure.
    Fail(Errno),
    /// None.
    Silence,
}

/// Chooses replies: gets each operation, and the correct result.
pub type Script = Box<dyn FnMut(&Operation, &ReplyBody) -> Response + Send>;

/// The formats that a server speaks, which can be changed while it runs: as if another build of it were started.
pub type Spoken = Arc<Mutex<Formats>>;

/// A running server; it ends when this is dropped.
pub struct ScriptedServer {
    config: PathBuf,
    stopping: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Starts it, with a configuration for clients in `directory`.
    pub fn start(directory: &Path, script: Script) -> Self {
        Self::speaking(directory, Arc::new(Mutex::new(FORMATS)), script)
    }

    /// The same, with a server that speaks these formats.
    pub fn speaking(directory: &Path, formats: Spoken, script: Script) -> Self {
        let mut bmi = Bmi::new(Config {
            listen: vec!["tcp://127.0.0.1:0".to_owned()],
            unexpected_limit: MAX_MESSAGE_BYTES,
            ..Config::default()
        })
        .expect("a message layer");
        bmi.set_info(None, InfoOption::Server(true))
            .expect("a server");
        let context = bmi.open_context().expect("a context");
        let config = directory.join("scripted.toml");
        let address = bmi.listening().join("\", \"");
        let text = format!(
            "name = \"scripted\"\nid = \"{FILE_SYSTEM:032x}\"\ndurability = \"relaxed\"\ntimeout = \"2 s\"\n\
             [distribution]\nstrip_size = \"64 KiB\"\nservers = 0\nstart = 0\n\
             [[server]]\nname = \"{NAME}\"\nroles = [\"metadata\", \"io\"]\naddresses = [\"{address}\"]\n\
             directory = \"/nonexistent\"\n"
        );
        std::fs::write(&config, text).expect("a configuration");
        // Whatever the mask is: one that others may change is not used.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&config, mode).expect("a configuration's mode");
        let stopping = Arc::new(AtomicBool::new(false));
        let waker = bmi.waker();
        let mut server = Serving {
            bmi,
            context,
            script,
            formats,
        };
        let until = stopping.clone();
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                server.serve_once();
            }
        });
        Self {
            config,
            stopping,
            waker,
            thread: Some(thread),
        }
    }

    /// The configuration file for clients.
    pub fn config(&self) -> &Path {
        &self.config
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The test has seen the error as a client.
            let _ = thread.join();
        }
    }
}

struct Serving {
    bmi: Bmi,
    context: Context,
    script: Script,
    formats: Spoken,
}

impl Serving {
    fn serve_once(&mut self) {
        let mut arrived = Vec::new();
        let patience = Duration::from_millis(100);
        if self.bmi.testunexpected(64, patience, &mut arrived).is_err() {
            return;
        }
        let mut sent = Vec::new();
        let _ = self
            .bmi
            .testcontext(self.context, 64, Duration::ZERO, &mut sent);
        for message in arrived {
            self.reply(&message);
            self.bmi.release(message.from);
        }
    }

    fn reply(&mut self, message: &Unexpected) {
        let ours = *self.formats.lock().expect("no test has failed");
        let asked = message.data.first().copied().unwrap_or_default();
        if !ours.has(asked) {
            let tag = Request::reply_tag_of(&message.data).unwrap_or_default();
            return self.send(message.from, tag, refusal(ours, &message.data));
        }
        let Ok((request, _)) = Request::from_bytes(&message.data) else {
            return;
        };
        let result = honest_result(&request.operation);
        let honest = result.clone().unwrap_or(ReplyBody::Done);
        let tag = request.reply_tag;
        let encoded = |result| Reply { result }.to_bytes(asked);
        let response = (self.script)(&request.operation, &honest);
        if let (Response::Honest, Operation::Read { memory, .. }) = (&response, &request.operation)
        {
            self.bring(message.from, memory);
        }
        match response {
            Response::Honest => self.send(message.from, tag, encoded(result)),
            Response::Reply(reply) => self.send(message.from, tag, encoded(Ok(reply))),
            Response::Bytes(bytes) => self.send(message.from, tag, bytes),
            Response::WrongTag => self.send(message.from, tag + 1000, encoded(result)),
            Response::Fail(errno) => {
                let text = String::from("as the script has it");
                let failed = Err(Failure {
                    errno,
                    message: text,
                });
                self.send(message.from, tag, encoded(failed));
            }
            Response::Silence => {}
        }
    }

    /// Writes the content of `/f` into the client's memory, as much as fits.
    fn bring(&mut self, to: Addr, memory: &[RegionDescriptor]) {
        let mut left = FILE_BYTES;
        let mut parts = Vec::new();
        for region in memory {
            let len = left.min(region.len);
            left -= len;
            if len > 0 {
                parts.push(region.part(0, len));
            }
        }
        let content = Memory::from_vec(vec![b'a'; (FILE_BYTES - left) as usize]);
        let posted =
            self.bmi
                .post_transfer(to, Direction::Put, &[content], &parts, self.context, 0);
        if let Ok(Posted::Pending(op)) = posted {
            // The client reports the error.
            let _ = self.bmi.test(op, Duration::from_secs(10));
        }
    }

    fn send(&mut self, to: Addr, tag: u64, bytes: Vec<u8>) {
        let message = Memory::from_vec(bytes);
        // A client that has disconnected needs no reply.
        let _ = self.bmi.post_send(to, &[message], tag, self.context, 0);
    }
}

/// The refusal of a server that speaks `ours` to a request in none of these formats. Servers of one format send it in that format,
/// without the range of their formats.
fn refusal(ours: Formats, request: &[u8]) -> Vec<u8> {
    let asked = request.first().copied().unwrap_or_default();
    let theirs = Request::formats_of(request).unwrap_or(Formats::only(asked));
    let (format, message) = match ours.highest <= NUMBERED_WRITES {
        true => (ours.highest, format!("unknown value {asked}")),
        false => {
            let text = Formats::refusal(theirs, ours, "the protocol");
            (asked.min(ours.highest), text)
        }
    };
    let result = Err(Failure {
        errno: Errno::EPROTO,
        message,
    });
    Reply { result }.to_bytes(format)
}

/// The correct result.
fn honest_result(operation: &Operation) -> Result<ReplyBody, Failure> {
    let known = |object| match node(object) {
        Some(node) => Ok(ReplyBody::Node(Box::new(node))),
        None => Err(missing()),
    };
    match operation {
        Operation::Hello { .. } => Ok(ReplyBody::Hello(Box::new(greeting()))),
        Operation::Lookup { place, follow, .. } => match (find(place), follow) {
            (Some(LINK), true) => known(FILE),
            (Some(object), _) => known(object),
            (None, _) => Err(missing()),
        },
        Operation::GetNode { object, .. } => known(*object),
        Operation::Create { .. } => known(FILE),
        Operation::MakeDirectory { .. } => known(DIRECTORY),
        Operation::SymbolicLink { .. } => known(LINK),
        Operation::MakeSpecial { kind, device, .. } => Ok(special(*kind, *device)),
        Operation::HardLink { object, .. }
        | Operation::SetAttributes { object, .. }
        | Operation::Extend { object, .. }
        | Operation::EndAppend { object, .. }
        | Operation::Grow { object, .. }
        | Operation::FinishTruncate { object, .. }
        | Operation::Filled { object, .. }
        | Operation::WriteStuffed { object, .. }
        | Operation::BeginUnstuff { object } => known(*object),
        Operation::Truncate { object, size } => truncating(*object, *size).ok_or_else(missing),
        Operation::FinishUnstuff { object } => unstuffed(*object).ok_or_else(missing),
        Operation::Append { object, data } => {
            let node = node(*object).ok_or_else(missing)?;
            Ok(appended(node, data.len() as u64))
        }
        Operation::BeginAppend { object } => {
            let node = Box::new(node(*object).ok_or_else(missing)?);
            Ok(ReplyBody::AppendLock {
                append_lock: 1,
                node,
            })
        }
        Operation::ReadDirectory { object, after, .. } => Ok(ReplyBody::Entries {
            entries: entries(*object)
                .into_iter()
                .filter(|entry| entry.name > *after)
                .collect(),
            end: true,
        }),
        Operation::Read { memory, .. } => {
            let carried = match memory.is_empty() {
                true => FILE_BYTES,
                false => 0,
            };
            Ok(transferred(FILE_BYTES, FILE_BYTES, carried))
        }
        Operation::Write { memory, inline, .. } => {
            let exported: u64 = memory.iter().map(|region| region.len).sum();
            let bytes = exported + inline.len() as u64;
            Ok(transferred(bytes, FILE_BYTES.max(bytes), 0))
        }
        Operation::PunchData { .. } => Ok(ReplyBody::Punched { next: None }),
        Operation::FindDescriptor { .. } => Ok(ReplyBody::Descriptor(None)),
        Operation::StoredData { .. } => {
            Ok(ReplyBody::Stored(FILE_BYTES.next_multiple_of(BLOCK_BYTES)))
        }
        Operation::ListStriped { after, .. } => {
            let file = StripedFile {
                object: FILE,
                servers: vec![0],
                lengths: vec![FILE_BYTES],
            };
            let files = Some(file).filter(|file| file.object > *after);
            Ok(ReplyBody::StripedFiles {
                files: files.into_iter().collect(),
                end: true,
            })
        }
        Operation::ListData { after, .. } => {
            let datafiles = Some((FILE, FILE_BYTES)).filter(|(object, _)| object > after);
            Ok(ReplyBody::Datafiles {
                datafiles: datafiles.into_iter().collect(),
                end: true,
            })
        }
        Operation::RemoveOrphans { objects, .. } => Ok(ReplyBody::OrphansRemoved {
            deleted: objects.len() as u64,
            moved: 0,
        }),
        Operation::Scrub { .. } => Ok(ReplyBody::Scrubbed {
            next: None,
            bytes: FILE_BYTES,
            datafiles: 1,
            faults: Vec::new(),
        }),
        Operation::Clock => Ok(ReplyBody::Clock(Moment { boot: 1, at: 1 })),
        Operation::MovePointer { step, .. } => Ok(ReplyBody::Pointer(moved(*step))),
        Operation::TestLock { .. } => Ok(ReplyBody::LockHolder { holder: None }),
        Operation::GetXattr { .. } => Ok(ReplyBody::Xattr(b"value".to_vec())),
        Operation::KeepFiles { .. } => Ok(ReplyBody::Objects(Vec::new())),
        Operation::Check { .. } => Ok(ReplyBody::Checked {
            next: None,
            records: 0,
            findings: Vec::new(),
            mended: 0,
        }),
        Operation::MetadataStatus => Ok(ReplyBody::MetadataStatus {
            objects: 5,
            removals: 0,
            numbers: 6,
            gaps: Vec::new(),
        }),
        Operation::StorageStatus => Ok(ReplyBody::StorageStatus {
            total: 1 << 30,
            free: 1 << 29,
            written: 0,
            read: 0,
            busy: 0,
            aside: 0,
            aside_bytes: 0,
        }),
        Operation::FindData { offset, .. } => Ok(ReplyBody::Data {
            first: Some(Region {
                offset: *offset,
                len: 1 << 20,
            }),
        }),
        Operation::ListXattrs { .. } => Ok(ReplyBody::XattrNames(Vec::new())),
        Operation::Exist { objects } => Ok(ReplyBody::Objects(objects.clone())),
        Operation::Paths { .. } => Ok(ReplyBody::Paths(Vec::new())),
        Operation::CheckData { .. } => Ok(ReplyBody::Faults(Vec::new())),
        Operation::Rename { .. }
        | Operation::Exchange { .. }
        | Operation::Unlink { .. }
        | Operation::RemoveDirectory { .. }
        | Operation::SetXattr { .. }
        | Operation::RemoveXattr { .. }
        | Operation::Commit
        | Operation::AddServer { .. }
        | Operation::DrainServer { .. }
        | Operation::AcceptServer { .. }
        | Operation::EndSession
        | Operation::Authorize
        | Operation::EndCapabilities { .. }
        | Operation::CancelAppend { .. }
        | Operation::CheckAppendLock { .. }
        | Operation::Lock { .. }
        | Operation::Unlock { .. }
        | Operation::CancelLock { .. }
        | Operation::CloseFiles { .. }
        | Operation::HoldLeases { .. }
        | Operation::EndLeases { .. }
        | Operation::Seed { .. }
        | Operation::TruncateData { .. }
        | Operation::ReserveData { .. }
        | Operation::Flush { .. }
        | Operation::Remove { .. }
        | Operation::AcceptData { .. }
        | Operation::Enroll { .. } => Ok(ReplyBody::Done),
    }
}

/// Where a pointer that stood at the front of its file stands then.
fn moved(step: PointerStep) -> u64 {
    match step {
        PointerStep::Put(at) => at,
        PointerStep::Add(_) | PointerStep::Get | PointerStep::End => 0,
    }
}

/// A new pipe, socket or device.
fn special(kind: Kind, device: u32) -> ReplyBody {
    let object = ObjectId(7);
    let body = Body::Special { kind, device };
    ReplyBody::Node(Box::new(described(object, kind, 0, body)))
}

/// A striped file whose datafiles have not followed a truncation yet.
fn truncating(object: ObjectId, to: u64) -> Option<ReplyBody> {
    let mut node = node(object)?;
    node.attributes.size = to;
    if let Body::Striped {
        version,
        truncating,
        lengths,
        ..
    } = &mut node.body
    {
        (*version, *truncating) = (1, Some(to));
        lengths.clear();
    }
    Some(ReplyBody::Node(Box::new(node)))
}

/// A small file whose content has become a datafile.
fn unstuffed(object: ObjectId) -> Option<ReplyBody> {
    let mut node = node(object)?;
    if let Body::Stuffed { distribution, .. } = node.body {
        node.body = striped(distribution, node.attributes.size, false);
    }
    Some(ReplyBody::Node(Box::new(node)))
}

/// A small file with this number of additional bytes, and without its content.
fn appended(mut node: Node, more: u64) -> ReplyBody {
    node.attributes.size += more;
    if let Body::Stuffed { content, .. } = &mut node.body {
        *content = None;
    }
    ReplyBody::Node(Box::new(node))
}

fn striped(distribution: Distribution, len: u64, sparse: bool) -> Body {
    Body::Striped {
        distribution,
        version: 0,
        truncating: None,
        lengths: vec![len],
        sparse,
    }
}

fn missing() -> Failure {
    Failure {
        errno: Errno::ENOENT,
        message: String::new(),
    }
}

fn find(place: &Place) -> Option<ObjectId> {
    let path = std::str::from_utf8(&place.path).ok()?;
    let base = match path.starts_with('/') {
        true => ObjectId::ROOT,
        false => place.base,
    };
    let steps = path.split('/').filter(|step| !matches!(*step, "" | "."));
    steps.into_iter().try_fold(base, |object, step| {
        let mut entries = entries(object).into_iter();
        Some(entries.find(|entry| entry.name == step.as_bytes())?.object)
    })
}

fn entries(directory: ObjectId) -> Vec<Entry> {
    match directory {
        ObjectId::ROOT => vec![entry(b"d", DIRECTORY), entry(b"f", FILE), entry(b"l", LINK)],
        DIRECTORY => vec![entry(b"x", SMALL)],
        _ => Vec::new(),
    }
}

/// An entry called `name` for one of the objects.
pub fn entry(name: &[u8], object: ObjectId) -> Entry {
    let attributes = node(object).map(|node| node.attributes);
    Entry {
        name: name.to_vec(),
        object,
        kind: attributes.map_or(Kind::File, |attributes| attributes.kind),
        attributes,
    }
}

/// The correct description of one of the objects.
pub fn node(object: ObjectId) -> Option<Node> {
    let distribution = Distribution {
        strip_size: 64 << 10,
        servers: vec![0],
    };
    let (kind, size, body) = match object {
        ObjectId::ROOT | DIRECTORY => (
            Kind::Directory,
            1,
            Body::Directory(DistributionHint::default()),
        ),
        FILE | SPARSE => {
            let body = striped(distribution, FILE_BYTES, object == SPARSE);
            (Kind::File, FILE_BYTES, body)
        }
        LINK => (Kind::SymbolicLink, 1, Body::Link(b"f".to_vec())),
        SMALL => {
            let body = Body::Stuffed {
                distribution,
                content: Some(b"small".to_vec()),
                moving: false,
            };
            (Kind::File, 5, body)
        }
        _ => return None,
    };
    Some(described(object, kind, size, body))
}

fn described(object: ObjectId, kind: Kind, size: u64, body: Body) -> Node {
    let attributes = Attributes {
        kind,
        mode: if kind == Kind::Directory {
            0o755
        } else {
            0o644
        },
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        links: 2,
        size,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    Node {
        object,
        attributes,
        body,
        acl: None,
    }
}

/// The result of a read of small data that states this number of `bytes`, of a datafile of `size`, and carries
/// `carried`.
pub fn transferred(bytes: u64, size: u64, carried: u64) -> ReplyBody {
    ReplyBody::Transferred {
        bytes,
        size,
        copy_us: 0,
        storage_us: 0,
        inline: vec![b'a'; carried as usize],
        sums: Vec::new(),
    }
}

/// The server's own identity.
pub fn greeting() -> Greeting {
    let generation = Generation(7);
    Greeting {
        identity: ServerIdentity {
            file_system: FILE_SYSTEM,
            name: NAME.to_owned(),
            metadata: true,
            io: true,
            generation,
            index: Some(0),
            incarnation: Incarnation(9),
        },
        pid: std::process::id(),
        uptime_ms: 1,
        boot: 1,
        failed_syncs: 0,
        version: "scripted".to_owned(),
        layout: Some(LayoutPart {
            epoch: 1,
            count: 1,
            servers: vec![LayoutServer {
                index: 0,
                name: NAME.to_owned(),
                generation,
                active: true,
            }],
        }),
    }
}

#[cfg(test)]
mod lies;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
