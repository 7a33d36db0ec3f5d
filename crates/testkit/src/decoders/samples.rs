//! Well-formed inputs of every decoder.

use causeway_wire::bmi;
use causeway_wire::codec::Wire;
use causeway_wire::fs::{
    Answer, Attributes, Body, Caller, CheckCursor, Distribution, DistributionHint, Entry, Errno,
    Failure, Kind, Node, ObjectId, Operation, Place, Region, Regions, Reply, Request,
    SetAttributes, Timestamp,
};
use causeway_wire::region::{ObjectSpan, RegionDescriptor};
use causeway_wire::{datagram, shm, store, tcp, vi, watch};

const HINT: DistributionHint = DistributionHint {
    strip_size: 65_536,
    servers: 4,
    start: 1,
};

const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

fn region(object: bool) -> RegionDescriptor {
    RegionDescriptor {
        key: 0x1234_5678_9abc_def0,
        base: 0x7f00_0000_1000,
        len: 4096,
        object: object.then_some(ObjectSpan {
            object: 3,
            offset: 8192,
        }),
    }
}

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

pub(super) fn regions() -> Vec<Vec<u8>> {
    vec![region(false).to_bytes(), region(true).to_bytes()]
}

pub(super) fn virtual_interfaces() -> Vec<Vec<u8>> {
    let header = vi::FrameHeader {
        flags: vi::flag::SEQUENCED | vi::flag::ACK,
        to_vi: 1,
        total: 4096,
        ..vi::FrameHeader::new(vi::FrameKind::Write)
    };
    let control = vi::Control {
        segments: 2,
        bits: vi::control::IMMEDIATE,
        ..vi::Control::default()
    };
    let completion = vi::Completion {
        descriptor: 64,
        vi: 3,
        receive: true,
        round: true,
    };
    vec![
        header.to_bytes().to_vec(),
        control.to_bytes().to_vec(),
        completion.to_bytes().to_vec(),
    ]
}

fn operations() -> Vec<Operation> {
    let object = ObjectId(42);
    let place = place();
    let content = b"small".to_vec();
    vec![
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
        },
        Operation::RemoveDirectory { place },
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
        Operation::Extend {
            object,
            end: 1 << 40,
            modified: NOW,
        },
        Operation::WriteStuffed {
            object,
            offset: 3,
            data: content.clone(),
        },
        Operation::Commit,
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
        Operation::Read {
            object,
            regions: Regions::Here(vec![
                Region { offset: 0, len: 10 },
                Region { offset: 20, len: 1 },
            ]),
            memory: vec![region(true), region(false)],
        },
        Operation::Write {
            object,
            regions: Regions::Strided {
                offset: 0,
                len: 32,
                stride: 320,
                count: 100,
            },
            memory: vec![region(false)],
            inline: Vec::new(),
        },
        Operation::Write {
            object,
            regions: Regions::There {
                count: 7,
                list: region(false),
            },
            memory: Vec::new(),
            inline: content.clone(),
        },
        Operation::Seed { object, content },
        Operation::Remove {
            objects: vec![object],
        },
        Operation::ListData {
            after: object,
            limit: 5,
        },
        Operation::Ping,
    ]
}

pub(super) fn requests() -> Vec<Vec<u8>> {
    let request = |operation| Request {
        reply_tag: 77,
        client: 0x0123_4567,
        slot: 1,
        sequence: 9,
        caller: Caller {
            uid: 1000,
            gid: 1000,
            groups: vec![4, 27],
        },
        operation,
    };
    (operations().into_iter())
        .map(|operation| request(operation).to_bytes())
        .collect()
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

fn bodies() -> Vec<Body> {
    vec![
        Body::Directory(HINT),
        Body::Link(b"target".to_vec()),
        Body::Stuffed {
            distribution: distribution(),
            content: Some(b"content".to_vec()),
            moving: false,
        },
        Body::Striped {
            distribution: distribution(),
            version: 2,
            truncating: Some(100),
        },
    ]
}

pub(super) fn replies() -> Vec<Vec<u8>> {
    let mut answers: Vec<Answer> = bodies()
        .into_iter()
        .map(|body| {
            Answer::Node(Box::new(Node {
                object: ObjectId(42),
                attributes: attributes(),
                body,
            }))
        })
        .collect();
    answers.extend([
        Answer::Done,
        Answer::Entries {
            entries: vec![Entry {
                name: b"name".to_vec(),
                object: ObjectId(42),
                kind: Kind::File,
                attributes: Some(attributes()),
            }],
            end: true,
        },
        Answer::Transferred {
            bytes: 10,
            size: 20,
            copy_us: 30,
            storage_us: 40,
            inline: b"0123456789".to_vec(),
        },
        Answer::Objects(vec![ObjectId(42)]),
        Answer::Datafiles {
            datafiles: vec![(ObjectId(42), 7)],
            end: false,
        },
        Answer::Checked {
            next: Some(CheckCursor {
                phase: 4,
                key: vec![5],
            }),
            records: 10,
            findings: vec!["an orphan".into()],
            mended: 1,
        },
        Answer::MetadataStatus {
            objects: 3,
            removals: 1,
        },
        Answer::StorageStatus {
            total: 10,
            free: 5,
            written: 2,
            read: 1,
            busy: 0,
        },
        Answer::Pong {
            file_system: 99,
            server: "io1".into(),
            pid: 12,
            uptime_ms: 13,
            boot: 14,
            version: "0.1.0".into(),
        },
    ]);
    let failure = Reply {
        result: Err(Failure {
            errno: Errno(2),
            message: "no such file".into(),
        }),
    };
    (answers.into_iter())
        .map(|answer| Reply { result: Ok(answer) }.to_bytes())
        .chain([failure.to_bytes()])
        .collect()
}

pub(super) fn records() -> Vec<Vec<u8>> {
    let record = |kind: u8, bytes: Vec<u8>| {
        let mut all = vec![kind];
        all.extend(bytes);
        all
    };
    let mut all = vec![
        record(0, store::Superblock { file_system: 7 }.to_bytes()),
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
            }
            .to_bytes(),
        ),
        record(
            5,
            store::SessionRecord {
                sequence: 3,
                used: 4,
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
        store::Key::Counters,
        store::Key::Object(object),
        store::Key::Content(object),
        store::Key::Entry(object, b"name".to_vec()),
        store::Key::Link(object, ObjectId::ROOT, b"name".to_vec()),
        store::Key::Removal(object),
        store::Key::Session(5, 6),
    ]
    .iter()
    .map(store::Key::to_bytes)
    .collect()
}

pub(super) fn packets() -> Vec<Vec<u8>> {
    let header = |kind, regions| {
        let mut header = bmi::Header::new(kind, 7);
        header.regions = regions;
        header.credit = 64;
        header
    };
    let mut all: Vec<Vec<u8>> = [
        bmi::Kind::Written,
        bmi::Kind::Read,
        bmi::Kind::Withdraw,
        bmi::Kind::Credit,
        bmi::Kind::Eager,
    ]
    .iter()
    .map(|kind| header(*kind, 0).encode().to_vec())
    .collect();
    all.push(
        bmi::Header::new(bmi::Kind::Hello, bmi::HELLO_WORD)
            .encode()
            .to_vec(),
    );
    all.push(bmi::encode_announcement(
        header(bmi::Kind::Announce, 2),
        &bmi::Announcement {
            send: 1,
            size: 8192,
            load: 0,
            regions: vec![region(false), region(true)],
        },
    ));
    all.push(bmi::encode_clearance(
        header(bmi::Kind::ClearToSend, 1),
        &bmi::Clearance {
            receive: 1,
            offset: 0,
            len: 4096,
            regions: vec![region(false)],
        },
    ));
    for refusal in [
        bmi::Refusal::TooLarge { room: 5 },
        bmi::Refusal::Failed,
        bmi::Refusal::Cancelled,
    ] {
        all.push(bmi::encode_refusal(header(bmi::Kind::Refuse, 0), refusal));
    }
    all
}

pub(super) fn openings() -> Vec<Vec<u8>> {
    let hello = tcp::Hello {
        version: tcp::VERSION,
        auth: tcp::Auth::SameUser,
        encrypt: true,
        holder: tcp::Holder {
            pid: 1234,
            descriptor: 5,
        },
        fast_aes: true,
        lanes: 2,
        purpose: tcp::Purpose::Lane,
    };
    let steps = [
        (tcp::StepKind::Noise, tcp::Refusal::None, &[7_u8; 48][..]),
        (tcp::StepKind::Accept, tcp::Refusal::None, b""),
        (tcp::StepKind::Refuse, tcp::Refusal::WrongKey, b""),
    ];
    (steps.into_iter())
        .map(|(kind, refusal, payload)| {
            let mut bytes = hello.encode().to_vec();
            let step = tcp::Step {
                kind,
                refusal,
                payload,
            };
            step.encode(&mut bytes);
            step.encode(&mut bytes);
            bytes
        })
        .collect()
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    let prefix = |kind| datagram::Prefix {
        kind,
        to: 1,
        from: 2,
    };
    let mut greeting = Vec::new();
    datagram::Greeting {
        cookie: [3; datagram::COOKIE_BYTES],
        noise: [4; datagram::NOISE_BYTES],
        ..Default::default()
    }
    .encode(prefix(datagram::Kind::Open), &mut greeting);
    let mut reset = Vec::new();
    datagram::encode_reset(1, 2, &mut reset);
    let ack = datagram::Ack {
        delay_us: 5,
        largest: 6,
        bitmap: [7; datagram::BITMAP_WORDS],
        received: 8,
        limit: 9,
    };
    let segment = |ack, offset, data| datagram::Segment {
        wants_ack: true,
        ack,
        offset,
        data,
    };
    let mut all = vec![greeting, reset];
    for segment in [segment(Some(ack), 0, &[]), segment(None, 10, b"data")] {
        let mut bytes = Vec::new();
        datagram::begin_segment(prefix(datagram::Kind::Plain), 11, &mut bytes);
        segment.encode_head(&mut bytes);
        bytes.extend_from_slice(segment.data);
        // Without its checksum, which the body adds.
        all.push(bytes.clone());
        all.push(bytes.split_off(datagram::PREFIX_BYTES + 8));
    }
    all
}

pub(super) fn frames() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for base in [4096, 8192] {
        tcp::Fragment {
            key: 9,
            base,
            len: 100,
        }
        .encode(&mut list);
    }
    let frame = |header: tcp::Header, payload: &[u8]| {
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    };
    let mut put = tcp::Header::new(tcp::Kind::Put, 5).with_id(1);
    (put.key, put.base) = (9, 4096);
    let mut all = vec![
        frame(tcp::Header::new(tcp::Kind::Packet, 5), b"hello"),
        frame(put, b"bytes"),
        frame(
            tcp::Header::new(tcp::Kind::PutEnd, 4)
                .with_id(1)
                .with_base(5)
                .with_flag(true),
            b"done",
        ),
        frame(tcp::Header::new(tcp::Kind::PutDone, 0).with_id(1), b""),
        frame(
            tcp::Header::new(tcp::Kind::Get, list.len()).with_id(2),
            &list,
        ),
        frame(tcp::Header::new(tcp::Kind::GetData, 3).with_id(2), b"abc"),
        frame(
            tcp::Header::new(tcp::Kind::GetDone, 0)
                .with_id(2)
                .with_base(3),
            b"",
        ),
        frame(
            tcp::Header::new(tcp::Kind::Invite, 0)
                .with_id(7)
                .with_base(1),
            b"",
        ),
        frame(tcp::Header::new(tcp::Kind::Probe, 0), b""),
        frame(tcp::Header::new(tcp::Kind::Error, 3), b"why"),
        tcp::record::encode(100).to_vec(),
    ];
    all.push(all.concat());
    all
}

/// Frames on the first lane, and data on the other.
pub(super) fn session_streams() -> Vec<Vec<u8>> {
    // What the session calls the first byte of every export.
    const FIRST_BASE: u64 = 1 << 40;
    let mut put = tcp::Header::new(tcp::Kind::Put, 5)
        .with_id(1)
        .with_base(FIRST_BASE);
    put.key = 9;
    let end = tcp::Header::new(tcp::Kind::PutEnd, 4)
        .with_id(1)
        .with_base(10)
        .with_flag(true);
    let data = [&put.encode()[..], b"bytes"].concat();
    let end = [&end.encode()[..], b"done"].concat();
    // The session that is fed has asked for 3,000 bytes under this number.
    let got = tcp::Header::new(tcp::Kind::GetData, 3000).with_id(3);
    let got = [&got.encode()[..], &[7; 3000]].concat();
    let done = tcp::Header::new(tcp::Kind::GetDone, 0)
        .with_id(3)
        .with_base(3000)
        .encode();
    let switch = [0xfe_u8];
    let mut all = frames();
    all.push([&data[..], &end[..], &switch[..], &data[..]].concat());
    all.push([&done[..], &switch[..], &got[..]].concat());
    all.push([&got[..], &done[..], &data[..]].concat());
    // Packets that are large enough to be placed, one of them taken back.
    let packet = tcp::Header::new(tcp::Kind::Packet, 12_000).encode();
    let packet = [&packet[..], &[4; 12_000]].concat();
    let (front, back) = packet.split_at(2000);
    let (back, last) = back.split_at(9000);
    all.push([front, &switch, &switch, back, &switch, &switch, last].concat());
    all.push([front, &switch, &data, &switch, back, last].concat());
    all
}

fn process() -> shm::Process {
    shm::Process {
        incarnation: 0x0123_4567_89ab_cdef,
        doorbell_bit: 3,
        probe_address: 0x7fff_0000,
        probe_value: 11,
    }
}

pub(super) fn shm_records() -> Vec<Vec<u8>> {
    [
        shm::Record::Hello(shm::Hello {
            flags: shm::FLAG_MEMBARRIER,
            ring_bytes: 32 << 10,
            region_slots: 1024,
            process: process(),
        }),
        shm::Record::Welcome(shm::Welcome {
            flags: 0,
            process: process(),
        }),
        shm::Record::Refused {
            reason: "another version".into(),
            unauthorised: false,
        },
        shm::Record::Wake,
        shm::Record::Goodbye,
        shm::Record::Object {
            object: 5,
            base: u64::MAX,
            len: 4096,
        },
        shm::Record::Forgot { object: 5 },
        shm::Record::Retired { object: 5 },
        shm::Record::Bulk,
    ]
    .iter()
    .map(Wire::to_bytes)
    .collect()
}

pub(super) fn rings() -> Vec<Vec<u8>> {
    let word = shm::SlotWord {
        kind: shm::SlotKind::Internal,
        len: 40,
    };
    let fragment = |base| shm::CopyFragment {
        key: 9,
        base,
        len: 100,
    };
    [
        shm::Internal::Copy(shm::CopyRequest {
            piece: 2,
            into_regions: true,
            fragments: vec![fragment(4096), fragment(8192)],
        }),
        shm::Internal::Copied {
            piece: 1,
            outcome: shm::CopyOutcome::Done,
        },
        shm::Internal::Copied {
            piece: 0,
            outcome: shm::CopyOutcome::Protection,
        },
    ]
    .iter()
    .map(|packet| {
        let mut bytes = word.pack().to_le_bytes().to_vec();
        bytes.extend(packet.to_bytes());
        bytes
    })
    .collect()
}

pub(super) fn watch_pages() -> Vec<Vec<u8>> {
    let instance = watch::InstanceRow {
        instance: 1,
        peers: 2,
        listening: "tcp://node1:7070".to_owned(),
        ..watch::InstanceRow::default()
    };
    let count = watch::Count {
        number: 3,
        bytes: 3000,
    };
    let peer = watch::PeerRow {
        instance: 1,
        peer: 2,
        phase: watch::PhaseCode::Up,
        outbound: true,
        blocked: true,
        stalled: true,
        pid: 4242,
        reports: 1,
        sent: count,
        sent_large: count,
        received: count,
        received_large: count,
        moved: count,
        credit: 12_000,
        window: 32_768,
        granted: 32_768,
        held: 0,
        sends: 1,
        unexpected_sends: 0,
        announced: 1,
        receives: 2,
        transfers: 0,
        early: 0,
        unexpected: 0,
        published_ns: 10_000_000_000,
        progress_ns: 9_000_000_000,
        waiting: Some(watch::Waiting {
            kind: watch::OpKind::Send,
            why: watch::Why::Receive,
            tag: 7,
            size: 4 << 20,
            moved: 0,
            since_ns: 1_000_000_000,
        }),
        address: "shm:///run/x.sock".to_owned(),
    };
    let event = watch::LogEvent {
        at_ns: 1_700_000_000_000_000_000,
        thread: 4242,
        level: 2,
        target: "bmi.stall".to_owned(),
        text: "stalled".to_owned(),
    };
    vec![
        watch::Row::Instance(instance).encode().to_vec(),
        watch::Row::Peer(peer).encode().to_vec(),
        event.encode().to_vec(),
    ]
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
