//! Well-formed inputs of every decoder.

use causeway_wire::codec::Wire;
use causeway_wire::formats::Formats;
use causeway_wire::fs::{
    Attributes, Body, Caller, CheckCursor, Distribution, DistributionHint, Entry, Errno, Failure,
    Generation, Greeting, Incarnation, Kind, LayoutPart, LayoutServer, Node, ObjectId, Operation,
    Place, Region, Regions, Reply, ReplyBody, Request, ServerIdentity, SetAttributes, Target,
    Timestamp,
};
use causeway_wire::{fs, store};

mod acls;
mod datafiles;
mod homes;
mod leases;
mod locks;
mod messages;
mod methods;
mod mpi;
mod opens;
mod pointers;
mod regions;

pub(super) use acls::acls;
pub(super) use datafiles::{datafile_headers, history, written_groups};
pub(super) use homes::homes;
pub(super) use messages::{packets, pmi_lines, run_events, watch_pages};
pub(super) use methods::{
    agent_messages, certificates, datagrams, frames, node_files, openings, rings, session_streams,
    shm_records, virtual_interfaces,
};
pub(super) use mpi::{meetings, window_notices};
pub(super) use regions::all as regions;
use regions::region;

const HINT: DistributionHint = DistributionHint {
    strip_size: 65_536,
    servers: 4,
    start: 1,
};

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

fn place() -> Place {
    Place {
        base: ObjectId::ROOT,
        path: b"a/b\xff/c".to_vec(),
    }
}

fn distribution() -> Distribution {
    Distribution {
        strip_size: 65_536,
        servers: vec![0, 1, 2, 3],
    }
}

/// A read of whole blocks, whose sums a client may want.
fn read_of_sums(sums: fs::WantedSums) -> Operation {
    let region = Region {
        offset: 4096,
        len: 8192,
    };
    Operation::Read {
        object: ObjectId(42),
        at_least: 12_288,
        regions: Regions::Here(vec![region]),
        memory: Vec::new(),
        sums,
    }
}

fn operations() -> Vec<Operation> {
    let object = ObjectId(42);
    let place = place();
    let content = b"small".to_vec();
    vec![
        Operation::MakeSpecial {
            place: place.clone(),
            kind: fs::Kind::Fifo,
            mode: 0o600,
            device: 0,
        },
        Operation::Filled {
            object: ObjectId(42),
            changed: NOW,
        },
        Operation::StoredData {
            object: ObjectId(42),
        },
        Operation::Authorize,
        Operation::EndCapabilities {
            ended: vec![(ObjectId(42), 8)],
        },
        Operation::Lookup {
            place: place.clone(),
            follow: true,
            content: true,
        },
        Operation::GetNode {
            object,
            content: false,
        },
        Operation::Create {
            place: place.clone(),
            exclusive: true,
            mode: 0o644,
            distribution: Some(HINT),
            content: content.clone(),
        },
        Operation::MakeDirectory {
            place: place.clone(),
            mode: 0o755,
            distribution: None,
        },
        Operation::SymbolicLink {
            place: place.clone(),
            target: b"../x".to_vec(),
        },
        Operation::HardLink {
            object,
            place: place.clone(),
        },
        Operation::Rename {
            from: place.clone(),
            to: place.clone(),
            no_replace: false,
        },
        Operation::Unlink {
            place: place.clone(),
            expected: Some(object),
        },
        Operation::RemoveDirectory {
            place,
            expected: None,
        },
        Operation::ReadDirectory {
            object,
            after: b"k".to_vec(),
            limit: 100,
            attributes: true,
        },
        Operation::SetAttributes {
            object,
            set: SetAttributes {
                mode: Some(0o600),
                modified: Some(NOW),
                distribution: Some(HINT),
                ..SetAttributes::default()
            },
        },
        Operation::Truncate {
            object,
            size: 1 << 40,
        },
        Operation::FinishTruncate { object, version: 3 },
        Operation::Extend {
            object,
            end: 1 << 40,
            modified: NOW,
            version: 3,
            reached: vec![fs::Reach {
                position: 1,
                end: 1 << 39,
            }],
            from: 1 << 38,
        },
        Operation::WriteStuffed {
            object,
            offset: 3,
            data: content.clone(),
        },
        Operation::BeginUnstuff { object },
        Operation::FinishUnstuff { object },
        Operation::Commit,
        Operation::MetadataStatus,
        Operation::Exist {
            objects: vec![object, ObjectId(43)],
        },
        Operation::Check {
            after: Some(CheckCursor {
                phase: 1,
                key: vec![1, 2, 3],
            }),
            repair: true,
        },
        Operation::ListStriped {
            after: object,
            limit: 9,
        },
        Operation::Paths {
            objects: vec![object],
        },
        Operation::CheckData {
            datafiles: vec![(object, 5)],
        },
        Operation::FindDescriptor {
            object: ObjectId(9),
        },
        Operation::FindData {
            object,
            at_least: 5,
            offset: 6,
        },
        Operation::AcceptData {
            objects: vec![object],
        },
        Operation::RemoveOrphans {
            objects: vec![object],
            numbers: 50,
        },
        Operation::Scrub {
            from: Some(fs::ScrubPosition { object, offset: 0 }),
            bytes: 1 << 20,
        },
        Operation::Read {
            object,
            at_least: 9,
            regions: Regions::Here(vec![
                Region { offset: 0, len: 10 },
                Region { offset: 20, len: 1 },
            ]),
            memory: vec![region(true), region(false)],
            sums: fs::WantedSums::Sent,
        },
        read_of_sums(fs::WantedSums::None),
        read_of_sums(fs::WantedSums::Stored),
        read_of_sums(fs::WantedSums::Only),
        Operation::Write {
            object,
            number: 2,
            repeated: Some(fs::Moment { boot: 3, at: 4 }),
            at_least: 9,
            regions: Regions::Strided {
                offset: 0,
                len: 32,
                stride: 320,
                count: 100,
            },
            memory: vec![region(false)],
            inline: Vec::new(),
            append_lock: 0,
        },
        Operation::Write {
            object,
            number: 2,
            repeated: None,
            at_least: 9,
            regions: Regions::There {
                count: 7,
                list: region(false),
            },
            memory: Vec::new(),
            inline: content.clone(),
            append_lock: 8,
        },
        Operation::Append {
            object,
            data: content.clone(),
        },
        Operation::BeginAppend { object },
        Operation::EndAppend {
            object,
            append_lock: 8,
            end: 100,
            modified: fs::Timestamp::default(),
            version: 2,
            reached: vec![fs::Reach {
                position: 1,
                end: 50,
            }],
        },
        Operation::CancelAppend {
            object,
            append_lock: 8,
        },
        Operation::Clock,
        Operation::Seed { object, content },
        Operation::Remove {
            objects: vec![object],
        },
        Operation::ListData {
            after: object,
            limit: 5,
        },
        Operation::AddServer { name: "io4".into() },
        Operation::DrainServer { name: "io4".into() },
        Operation::EndSession,
        Operation::SetXattr {
            object,
            name: b"user.name".to_vec(),
            value: vec![1; 300],
            mode: fs::SetXattrMode::Create,
        },
        Operation::RemoveXattr {
            object,
            name: b"user.name".to_vec(),
        },
        Operation::GetXattr {
            object,
            name: b"trusted.name".to_vec(),
        },
        Operation::ListXattrs { object },
        Operation::Exchange {
            first: Place::from((object, &b"one"[..])),
            second: Place::from((ObjectId::ROOT, &b"two"[..])),
        },
        Operation::Grow {
            object,
            size: 1 << 40,
        },
        Operation::TruncateData {
            object,
            size: 8192,
            version: 3,
            at_least: 5,
        },
        Operation::Flush {
            object,
            at_least: 5,
        },
        Operation::PunchData {
            object,
            number: 7,
            repeated: Some(fs::Moment { boot: 3, at: 4 }),
            at_least: 5,
            region: Region { offset: 6, len: 7 },
        },
        Operation::ReserveData {
            object,
            at_least: 5,
            region: Region { offset: 6, len: 7 },
        },
        Operation::StorageStatus,
        Operation::AcceptServer {
            name: "io4".into(),
            generation: Generation(5),
        },
        Operation::Enroll {
            index: 4,
            incarnation: Incarnation(6),
            replace: false,
        },
        Operation::Hello {
            layout_from: 0,
            timeout_s: 30,
        },
    ]
}

pub(super) fn requests() -> Vec<Vec<u8>> {
    let request = |operation| Request {
        reply_tag: 77,
        target: Target {
            file_system: 99,
            generation: Generation(5),
            incarnation: Incarnation(6),
        },
        client: 0x0123_4567,
        slot: 1,
        sequence: 9,
        caller: Caller {
            uid: 1000,
            gid: 1000,
            groups: vec![4, 27],
            umask: 0o022,
        },
        capability: Some(leases::capability()),
        opening: None,
        holder: Some(7),
        operation,
    };
    let mut all: Vec<Vec<u8>> = (opens::requests().into_iter())
        .map(|(opening, operation)| fs::Request {
            opening,
            ..request(operation)
        })
        .map(|request| request.to_bytes(fs::formats::FORMATS))
        .collect();
    for operation in (operations().into_iter())
        .chain(locks::operations())
        .chain(leases::operations())
        .chain(pointers::operations())
    {
        // Format 5 has no numbers of writes.
        let old = Formats::only(fs::formats::FORMATS.lowest);
        all.extend(
            [fs::formats::FORMATS, old].map(|formats| request(operation.clone()).to_bytes(formats)),
        );
    }
    all
}

fn attributes() -> Attributes {
    Attributes {
        kind: Kind::File,
        mode: 0o644,
        uid: 1,
        gid: 2,
        links: 1,
        size: 12_345,
        accessed: NOW,
        modified: NOW,
        changed: NOW,
    }
}

fn data_fault() -> fs::DataFault {
    fs::DataFault {
        object: ObjectId(42),
        offset: 4096,
        len: 4096,
        text: "damaged".into(),
    }
}

fn bodies() -> Vec<Body> {
    vec![
        Body::Directory(HINT),
        Body::Link(b"target".to_vec()),
        Body::Special {
            kind: fs::Kind::CharacterDevice,
            device: 0x103,
        },
        Body::Stuffed {
            distribution: distribution(),
            content: Some(b"content".to_vec()),
            moving: false,
        },
        Body::Striped {
            distribution: distribution(),
            version: 2,
            truncating: Some(100),
            lengths: vec![10, 20],
            sparse: false,
        },
        Body::Striped {
            distribution: distribution(),
            version: 2,
            truncating: None,
            lengths: vec![10],
            sparse: true,
        },
    ]
}

fn layout() -> LayoutPart {
    LayoutPart {
        epoch: 3,
        count: 2,
        servers: vec![LayoutServer {
            index: 1,
            name: "io1".into(),
            generation: Generation(5),
            active: true,
        }],
    }
}

fn greeting(layout: Option<LayoutPart>) -> Greeting {
    Greeting {
        identity: ServerIdentity {
            file_system: 99,
            name: "io1".into(),
            metadata: layout.is_some(),
            io: true,
            generation: Generation(5),
            index: Some(1),
            incarnation: Incarnation(6),
        },
        pid: 12,
        uptime_ms: 13,
        boot: 14,
        failed_syncs: 15,
        version: "0.1.0".into(),
        layout,
    }
}

/// A node with each kind of body.
fn each_node() -> impl Iterator<Item = Node> {
    bodies().into_iter().map(|body| Node {
        object: ObjectId(42),
        attributes: attributes(),
        body,
        acl: Some(Box::new(acls::list())),
    })
}

pub(super) fn nodes() -> Vec<Vec<u8>> {
    each_node().map(|node| node.to_bytes()).collect()
}

pub(super) fn replies() -> Vec<Vec<u8>> {
    let mut results: Vec<ReplyBody> = each_node()
        .map(Box::new)
        .flat_map(|node| {
            let append_lock = 8;
            let locked = ReplyBody::AppendLock {
                append_lock,
                node: node.clone(),
            };
            [ReplyBody::Node(node), locked]
        })
        .collect();
    results.extend([
        ReplyBody::Done,
        ReplyBody::Entries {
            entries: vec![Entry {
                name: b"name".to_vec(),
                object: ObjectId(42),
                kind: Kind::File,
                attributes: Some(attributes()),
            }],
            end: true,
        },
        ReplyBody::Transferred {
            bytes: 10,
            size: 20,
            copy_us: 30,
            storage_us: 40,
            inline: b"0123456789".to_vec(),
            sums: vec![1, u32::MAX],
        },
        ReplyBody::Objects(vec![ObjectId(42)]),
        ReplyBody::StripedFiles {
            files: vec![fs::StripedFile {
                object: ObjectId(42),
                servers: vec![0, 1],
                lengths: vec![7],
            }],
            end: true,
        },
        ReplyBody::Paths(vec![fs::ObjectPath {
            object: ObjectId(42),
            path: b"/a/b".to_vec(),
        }]),
        ReplyBody::Faults(vec![data_fault()]),
        ReplyBody::OrphansRemoved {
            deleted: 1,
            moved: 2,
        },
        ReplyBody::Clock(fs::Moment { boot: 3, at: 4 }),
        ReplyBody::Punched { next: Some(9) },
        ReplyBody::Descriptor(None),
        ReplyBody::Descriptor(Some(fs::FileDescriptor {
            number: 7,
            device: 8,
            inode: 9,
        })),
        ReplyBody::Stored(8192),
        ReplyBody::Xattr(vec![7; 20]),
        ReplyBody::XattrNames(vec![fs::XattrName {
            name: b"user.name".to_vec(),
        }]),
        ReplyBody::Data {
            first: Some(Region { offset: 5, len: 6 }),
        },
        ReplyBody::Scrubbed {
            next: None,
            bytes: 1 << 20,
            datafiles: 3,
            faults: vec![data_fault()],
        },
        ReplyBody::Datafiles {
            datafiles: vec![(ObjectId(42), 7)],
            end: false,
        },
        ReplyBody::Checked {
            next: Some(CheckCursor {
                phase: 4,
                key: vec![5],
            }),
            records: 10,
            findings: vec!["an orphan".into()],
            mended: 1,
        },
        ReplyBody::MetadataStatus {
            objects: 3,
            removals: 1,
            numbers: 60,
            gaps: vec![(ObjectId(20), 30)],
        },
        ReplyBody::StorageStatus {
            total: 10,
            free: 5,
            written: 2,
            read: 1,
            busy: 0,
            aside: 1,
            aside_bytes: 4096,
        },
    ]);
    results
        .extend([None, Some(layout())].map(|layout| ReplyBody::Hello(Box::new(greeting(layout)))));
    let failure = Reply {
        result: Err(Failure {
            errno: Errno::EPROTO,
            message: "another format".into(),
        }),
    };
    (results
        .into_iter()
        .chain(locks::replies())
        .chain(leases::replies())
        .chain(pointers::replies()))
    .map(|result| {
        let format = fs::formats::FORMATS.highest;
        let granted = leases::granted();
        Reply { result: Ok(result) }.to_bytes_with(&granted, format)
    })
    .chain([4, 7, 9].map(|format| failure.to_bytes(format)))
    .collect()
}

pub(super) fn records() -> Vec<Vec<u8>> {
    let record = |kind: u8, bytes: Vec<u8>| {
        let mut all = vec![kind];
        all.extend(bytes);
        all
    };
    let mut all = vec![
        record(
            0,
            store::Superblock {
                file_system: 7,
                generation: Generation(5),
                incarnation: Incarnation(6),
            }
            .to_bytes(),
        ),
        record(
            6,
            store::ServerRecord {
                name: "io1".into(),
                generation: Generation(5),
                accepted: Generation::NONE,
                active: true,
            }
            .to_bytes(),
        ),
        record(1, store::Counter(7).to_bytes()),
        record(5, store::seal(b"key", b"value", store::Stamp::new(9, 7))),
        record(
            5,
            store::Mark {
                boot: 1,
                acknowledged: 2,
                flushed: 3,
            }
            .to_bytes(),
        ),
        record(
            2,
            store::Counters {
                objects: 1,
                removals: 2,
            }
            .to_bytes(),
        ),
        record(
            4,
            store::EntryRecord {
                object: ObjectId(42),
                kind: Kind::Directory,
            }
            .to_bytes(),
        ),
        record(
            5,
            store::RemovalRecord {
                servers: vec![0, 3],
                writes: 1,
            }
            .to_bytes(),
        ),
        record(
            5,
            store::XattrsRecord {
                xattrs: vec![store::StoredXattr {
                    name: b"user.name".to_vec(),
                    value: vec![1, 2, 3],
                }],
            }
            .to_bytes(),
        ),
        record(5, store::OrphanRecord { since: NOW }.to_bytes()),
        record(5, store::Gaps(vec![(20, 30), (40, 41)]).to_bytes()),
        record(
            5,
            store::SessionRecord {
                sequence: 3,
                lease_s: 4,
                reply: vec![1, 2],
            }
            .to_bytes(),
        ),
    ];
    for body in bodies() {
        let body = match body {
            Body::Stuffed {
                distribution,
                moving,
                ..
            } => Body::Stuffed {
                distribution,
                content: None,
                moving,
            },
            other => other,
        };
        let object = store::ObjectRecord {
            mode: 0o644,
            uid: 1,
            gid: 2,
            links: 1,
            size: 3,
            accessed: NOW,
            modified: NOW,
            changed: NOW,
            parent: ObjectId::ROOT,
            name: b"name".to_vec(),
            body,
        };
        all.push(record(3, object.to_bytes()));
    }
    all
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    let object = ObjectId(42);
    [
        store::Key::Superblock,
        store::Key::NextObject,
        store::Key::Gaps,
        store::Key::Counters,
        store::Key::LayoutEpoch,
        store::Key::Programs,
        store::Key::Server(3),
        store::Key::Object(object),
        store::Key::Content(object),
        store::Key::Entry(object, b"name".to_vec()),
        store::Key::Link(object, ObjectId::ROOT, b"name".to_vec()),
        store::Key::Removal(object),
        store::Key::Xattrs(object),
        store::Key::Orphan(object),
        store::Key::Session(5, 6),
    ]
    .iter()
    .map(store::Key::to_bytes)
    .collect()
}

pub(super) fn addresses() -> Vec<Vec<u8>> {
    [
        "tcp://node1:7070",
        "tcp://[::1]:0",
        "shm:///run/x.sock",
        "vi://h/3",
        "mem://a",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

pub(super) fn configurations() -> Vec<Vec<u8>> {
    let sample = include_str!("sample.toml");
    vec![sample.as_bytes().to_vec(), b"name = \"x\"\n".to_vec()]
}
