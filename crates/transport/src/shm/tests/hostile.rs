//! Peers that send invalid data: on the socket, as descriptors, in the shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use causeway_sys::mapping::Mapping;
use causeway_sys::memfd;
use causeway_sys::socket::{Accepted, Received, RecordListener, RecordSocket};
use causeway_wire::codec::Wire;
use causeway_wire::random::SplitMix64;
use causeway_wire::shm::{
    CopyRequest, FORMATS, Hello, Internal, MAX_RECORD_BYTES, PairLayout, ProcessInfo, Record,
    RefuseReason, SLOT_BYTES, SLOT_WORD_BYTES, SlotKind, SlotWord, Welcome, doorbell,
};

use causeway_sys::memory::Memory;

use super::*;

fn layout() -> PairLayout {
    PairLayout::new(16 << 10, 128).unwrap()
}

fn hello() -> Hello {
    Hello {
        formats: FORMATS,
        flags: 0,
        ring_bytes: layout().ring_bytes as u32,
        region_slots: layout().region_slots as u32,
        nonce: 0,
        process: ProcessInfo {
            incarnation: 1,
            doorbell_bit: 0,
            probe_address: 0,
            probe_value: 0,
        },
    }
}

/// A client that speaks the protocol by hand, or breaks it.
struct Raw {
    socket: RecordSocket,
    pair: Mapping,
    _bell: Mapping,
}

fn connect(address: &Address) -> RecordSocket {
    RecordSocket::connect(Path::new(address.rest())).unwrap()
}

fn pair_file() -> OwnedFd {
    memfd::create_fixed("test-pair", layout().len()).unwrap()
}

fn bell_file() -> OwnedFd {
    memfd::create_fixed("test-bell", doorbell::BYTES).unwrap()
}

impl Raw {
    /// Meets `host` properly.
    fn meet(host: &mut Host, address: &Address) -> (Self, Peer) {
        let socket = connect(address);
        let (pair, bell) = (pair_file(), bell_file());
        let record = Record::Hello(hello()).to_bytes();
        socket.send(&record, &[pair.as_fd(), bell.as_fd()]).unwrap();
        host.until("the caller is up", |host| !host.log.up.is_empty());
        let raw = Self {
            pair: Mapping::new(&pair, layout().len()).unwrap(),
            _bell: Mapping::new(&bell, doorbell::BYTES).unwrap(),
            socket,
        };
        assert!(matches!(raw.answer(), Some(Record::Welcome(_))));
        (raw, host.log.up.pop().unwrap())
    }

    fn answer(&self) -> Option<Record> {
        answer(&self.socket)
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        for (nth, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = u64::from_le_bytes(word);
            self.pair.word(at + nth * 8).store(word, Ordering::Release);
        }
    }

    /// Puts a packet into the first slot to be filled.
    fn put_packet(&self, kind: SlotKind, bytes: &[u8]) {
        self.put(first_slot() + SLOT_WORD_BYTES, bytes);
        let len = bytes.len() as u32;
        self.put(first_slot(), &SlotWord { kind, len }.pack().to_le_bytes());
    }
}

/// Offset of the first slot of ring 0 to be filled.
fn first_slot() -> usize {
    layout().ring(0) + layout().first_slot(0) as usize * SLOT_BYTES
}

/// The host's reply; `None` if it closed or is silent.
fn answer(socket: &RecordSocket) -> Option<Record> {
    let mut buffer = [0; MAX_RECORD_BYTES];
    match socket.receive(&mut buffer) {
        Ok(Received::Record(len, _)) => Some(Record::from_bytes(&buffer[..len]).unwrap()),
        _ => None,
    }
}

/// Sends a first record and returns the reply, once the host has processed it.
fn greet(
    host: &mut Host,
    address: &Address,
    record: &[u8],
    files: &[BorrowedFd<'_>],
) -> Option<Record> {
    let socket = connect(address);
    socket.send(record, files).unwrap();
    host.until("it is done with the client", |_| socket.is_hung_up());
    assert!(host.log.up.is_empty() && host.log.down.is_empty());
    assert!(host.shm.half_open.is_empty());
    answer(&socket)
}

fn refusal(host: &mut Host, address: &Address, record: &[u8], files: &[BorrowedFd<'_>]) -> String {
    match greet(host, address, record, files) {
        Some(Record::Refused {
            reason,
            why: causeway_wire::shm::RefuseReason::Other,
        }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A greeting that states these formats.
fn stating(record: &Record, lowest: u8, above: u8) -> Vec<u8> {
    let mut bytes = record.to_bytes();
    (bytes[5], bytes[8]) = (lowest, above);
    bytes
}

/// The first record of a build of format 4, whose process has the incarnation 1.
const HELLO_OF_FORMAT_4: &[u8; 45] = b"\x01CWSM\x04\0\x01\0\0\x40\0\0\x80\0\0\0\x01\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[test]
fn callers_with_a_common_format_are_welcomed_and_others_are_refused_with_both_ranges() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (pair, bell) = (pair_file(), bell_file());
    let files = [pair.as_fd(), bell.as_fd()];
    for (lowest, above) in [(5, 0), (1, 4), (6, 0), (4, 9), (5, 250)] {
        let socket = connect(&address);
        let record = stating(&Record::Hello(hello()), lowest, above);
        socket.send(&record, &files).unwrap();
        host.until("the caller is up", |host| !host.log.up.is_empty());
        assert!(matches!(answer(&socket), Some(Record::Welcome(_))));
        host.log.up.clear();
        drop(socket);
        host.until("the caller is down", |host| !host.log.down.is_empty());
        host.log.down.clear();
    }
    let foreign = |lowest, above| stating(&Record::Hello(hello()), lowest, above);
    for (record, theirs) in [
        (HELLO_OF_FORMAT_4.to_vec(), "format 4 "),
        (foreign(1, 3), "formats 1 to 4 "),
        (foreign(8, 0), "format 8 "),
        (foreign(8, 247), "formats 8 to 255 "),
    ] {
        let reason = refusal(&mut host, &address, &record, &files);
        for named in [theirs, &FORMATS.to_string(), "run builds"] {
            assert!(reason.contains(named), "{reason}");
        }
    }
    for (lowest, above) in [(0, 0), (0, 9), (8, 250)] {
        let reason = refusal(&mut host, &address, &foreign(lowest, above), &files);
        assert!(reason.contains("format"), "{reason}");
    }
}

/// The caller gets the same refusal from the called process, or refuses by itself.
#[test]
fn a_called_process_of_another_format_is_named_to_the_caller() {
    let (_folder, address) = place();
    let mut listener = RecordListener::bind(Path::new(address.rest())).unwrap();
    let welcome = Record::Welcome(Welcome {
        formats: FORMATS,
        flags: 0,
        process: hello().process,
    });
    let ours = FORMATS.to_string();
    let refused = Record::Refused {
        reason: "the words of the other side".to_owned(),
        why: RefuseReason::Other,
    };
    for (record, named) in [
        (refused.to_bytes(), ["the words of", "other side"]),
        (stating(&welcome, 8, 2), ["formats 8 to 10", &ours]),
        (stating(&welcome, 1, 3), ["formats 1 to 4", &ours]),
        (stating(&welcome, 9, 250), ["format", "unknown"]),
    ] {
        let mut host = Host::new(ShmConfig::default());
        let peer = host.shm.connect(Instant::now(), &address).unwrap();
        let _ = host.shm.send(peer, &[b"x"]);
        let mut socket = None;
        host.until("the caller connects", |host| {
            if let Ok(Accepted::Connection(caller)) = listener.accept(&[]) {
                caller.send(&record, &[]).unwrap();
                socket = Some(caller);
            }
            !host.log.down.is_empty()
        });
        let reason = host.log.down[0].1.to_string();
        for part in named {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

#[test]
fn bad_greetings_are_refused_with_the_reason() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (pair, bell) = (pair_file(), bell_file());
    let files = [pair.as_fd(), bell.as_fd()];
    let good = Record::Hello(hello()).to_bytes();
    assert!(refusal(&mut host, &address, &good[..20], &files).contains("ends inside"));
    assert!(refusal(&mut host, &address, b"\x09", &[]).contains("not a greeting"));
    assert!(refusal(&mut host, &address, &good, &files[..1]).contains("lacks its descriptors"));
    let mut odd = hello();
    odd.ring_bytes = 12345;
    let odd = Record::Hello(odd).to_bytes();
    assert!(refusal(&mut host, &address, &odd, &files).contains("ring bytes"));
    let huge = [1; MAX_RECORD_BYTES + 1];
    assert!(greet(&mut host, &address, &huge, &files).is_none());
    let mut random = SplitMix64::new(7);
    for _ in 0..200 {
        let len = 1 + random.number() as usize % MAX_RECORD_BYTES;
        let bytes: Vec<u8> = (0..len).map(|_| random.number() as u8).collect();
        let _ = greet(&mut host, &address, &bytes, &[]);
    }
    // The host works as before.
    let (_raw, peer) = Raw::meet(&mut host, &address);
    host.shm.send(peer, &[b"x"]).unwrap();
}

#[test]
fn memory_of_the_wrong_kind_is_refused() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (pair, bell) = (pair_file(), bell_file());
    let good = Record::Hello(hello()).to_bytes();
    let unsealed = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, layout().len() as u64).unwrap();
    let long = memfd::create_fixed("test", layout().len() + 4096).unwrap();
    let short = memfd::create_fixed("test", 64).unwrap();
    let disk = std::fs::File::open("/proc/self/exe").unwrap();
    for (file, bell, reason) in [
        (unsealed.as_fd(), bell.as_fd(), "not sealed"),
        (long.as_fd(), bell.as_fd(), "bytes instead of"),
        (short.as_fd(), bell.as_fd(), "bytes instead of"),
        (disk.as_fd(), bell.as_fd(), "not a memory file"),
        (pair.as_fd(), short.as_fd(), "shorter"),
        (pair.as_fd(), unsealed.as_fd(), "not sealed"),
    ] {
        let said = refusal(&mut host, &address, &good, &[file, bell]);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn silent_clients_are_bounded_and_dropped() {
    let (_folder, address) = place();
    let mut host = Host::listening(
        ShmConfig {
            connect_timeout: Duration::from_millis(300),
            ..ShmConfig::default()
        },
        &address,
    );
    let silent: Vec<RecordSocket> = (0..500).map(|_| connect(&address)).collect();
    let (_raw, _) = Raw::meet(&mut host, &address);
    assert!(host.shm.half_open.len() <= 128);
    host.until("all are dropped", |host| {
        host.shm.half_open.is_empty() && silent.iter().all(RecordSocket::is_hung_up)
    });
    assert!(host.log.down.is_empty());
}

#[test]
fn stray_words_in_a_ring_end_that_connection_only() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (_good, good_peer) = Raw::meet(&mut host, &address);
    let most = layout().max_packet() as u32;
    let packet = |len| {
        SlotWord {
            kind: SlotKind::Packet,
            len,
        }
        .pack()
    };
    let mut words = vec![
        1,
        u64::MAX,
        packet(most + 1),
        packet(u32::MAX),
        packet(0) | 1 << 40,
        SlotWord {
            kind: SlotKind::Pad,
            len: 0,
        }
        .pack(),
    ];
    let mut random = SplitMix64::new(3);
    words.extend((0..50).map(|_| random.number() | 1));
    for word in words {
        let (raw, peer) = Raw::meet(&mut host, &address);
        // A pad is valid in the first slot, but not behind another pad.
        raw.put(layout().ring(0), &word.to_le_bytes());
        raw.put(first_slot(), &word.to_le_bytes());
        host.until("the peer is reported down", |host| {
            !host.log.down.is_empty()
        });
        assert!(
            matches!(&host.log.down[..], [(down, PeerError::Protocol(_))] if *down == peer),
            "{:?}",
            host.log.down
        );
        host.log.down.clear();
        host.shm.disconnect(Instant::now(), peer, &mut host.log);
    }
    assert!(host.log.packets.is_empty());
    host.shm.send(good_peer, &[b"x"]).unwrap();
}

#[test]
fn a_packet_that_would_leave_the_ring_is_refused() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (raw, _) = Raw::meet(&mut host, &address);
    let slots = layout().ring_bytes / 64;
    let word = |len| {
        SlotWord {
            kind: SlotKind::Packet,
            len,
        }
        .pack()
    };
    for slot in (0..slots).rev() {
        let len = if slot + 1 == slots { 57 } else { 0 };
        raw.put(layout().ring(0) + slot * 64, &word(len).to_le_bytes());
    }
    host.until("the peer is reported down", |host| {
        !host.log.down.is_empty()
    });
    let first = layout().first_slot(0) as usize;
    assert_eq!(host.log.packets.len(), slots - first - 1);
    assert!(matches!(host.log.down[0].1, PeerError::Protocol(_)));
}

#[test]
fn an_impossible_index_ends_the_connection() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (raw, peer) = Raw::meet(&mut host, &address);
    raw.put(
        layout().control(1) + PairLayout::CONSUMED,
        &u64::MAX.to_le_bytes(),
    );
    while host.shm.send(peer, &[&[0; 1000]]).is_ok() {}
    host.until("the peer is reported down", |host| {
        !host.log.down.is_empty()
    });
    assert!(matches!(host.log.down[0].1, PeerError::Protocol(_)));
}

#[test]
fn invalid_internal_packets_end_the_connection() {
    let copied = Internal::Copied {
        piece: 1,
        outcome: causeway_wire::shm::CopyOutcome::Done,
    };
    let atomic_done = Internal::AtomicDone {
        id: 0,
        outcome: causeway_wire::atomic::Outcome::Old(1),
    };
    let nonsense = [
        vec![],
        vec![9; 40],
        copied.to_bytes(),
        atomic_done.to_bytes(),
    ];
    for bytes in nonsense {
        let (_folder, address) = place();
        let mut host = Host::listening(ShmConfig::default(), &address);
        let (raw, _) = Raw::meet(&mut host, &address);
        raw.put_packet(SlotKind::Internal, &bytes);
        host.until("the peer is reported down", |host| {
            !host.log.down.is_empty()
        });
        assert!(matches!(host.log.down[0].1, PeerError::Protocol(_)));
    }
    // A request without a copy area is valid, but refused.
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let (raw, _) = Raw::meet(&mut host, &address);
    let request = Internal::Copy(CopyRequest {
        piece: 0,
        into_regions: false,
        fragments: vec![],
    });
    raw.put_packet(SlotKind::Internal, &request.to_bytes());
    let answered = raw.pair.word(layout().ring(1));
    host.until("the host replies", |_| {
        answered.load(Ordering::Acquire) != 0
    });
    let outcome = raw.pair.word(layout().ring(1) + SLOT_WORD_BYTES);
    assert_eq!(
        outcome.load(Ordering::Acquire).to_le_bytes()[..3],
        [2, 0, 2]
    );
}

#[test]
fn records_out_of_place_and_random_ones_end_the_connection() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let refused = Record::Refused {
        reason: "x".into(),
        why: causeway_wire::shm::RefuseReason::Unauthorised,
    };
    let mut records: Vec<Vec<u8>> = vec![
        Record::Hello(hello()).to_bytes(),
        refused.to_bytes(),
        Record::Object {
            object: 1,
            base: 0,
            len: 4096,
        }
        .to_bytes(),
        Record::Bulk.to_bytes(),
        vec![0; MAX_RECORD_BYTES + 10],
    ];
    let mut random = SplitMix64::new(5);
    records.extend((0..50).map(|_| (0..20).map(|_| random.number() as u8 | 16).collect()));
    for record in records {
        let (raw, peer) = Raw::meet(&mut host, &address);
        raw.socket.send(&record, &[]).unwrap();
        host.until("the peer is reported down", |host| {
            !host.log.down.is_empty()
        });
        let (down, cause) = host.log.down.pop().unwrap();
        assert!(
            down == peer && matches!(cause, PeerError::Protocol(_)),
            "{cause}"
        );
        host.shm.disconnect(Instant::now(), peer, &mut host.log);
    }
}

#[test]
fn an_object_that_could_shrink_or_is_too_short_is_refused() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let unsealed = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    let short = memfd::create_fixed("test", 4096).unwrap();
    for (file, len) in [
        (&unsealed, 4096),
        (&short, 8192),
        (&short, 0),
        (&short, u64::MAX),
    ] {
        let (raw, _) = Raw::meet(&mut host, &address);
        let record = Record::Object {
            object: 1,
            base: 0,
            len,
        }
        .to_bytes();
        raw.socket.send(&record, &[file.as_fd()]).unwrap();
        host.until("the peer is reported down", |host| {
            !host.log.down.is_empty()
        });
        let (_, cause) = host.log.down.pop().unwrap();
        assert!(matches!(cause, PeerError::Protocol(_)), "{cause}");
    }
}

#[test]
fn an_overwritten_doorbell_costs_only_checks() {
    let mut met = meet(ShmConfig::default());
    let mut random = SplitMix64::new(11);
    for _ in 0..1000 {
        for _ in 0..5 {
            let at = random.number() as usize % (doorbell::BYTES / 8) * 8;
            met.server
                .shm
                .bell
                .words()
                .word(at)
                .store(random.number(), Ordering::Release);
        }
        met.server.poll();
    }
    met.client
        .shm
        .send(met.to_server, &[b"still there"])
        .unwrap();
    both(
        &mut met.client,
        &mut met.server,
        "it has arrived",
        |_, server| !server.log.packets.is_empty(),
    );
}

/// In a process of its own, whose table of descriptors is then full.
#[test]
fn a_full_table_of_descriptors_costs_mapping_only() {
    if !has_own_process("shm::tests::hostile::a_full_table_of_descriptors_costs_mapping_only") {
        return;
    }
    use crate::method::{Access, Direction, Registration, Transfer};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut met = meet(ShmConfig {
        attach: crate::shm::AttachPolicy::Off,
        ..ShmConfig::default()
    });
    let buffer = met.server.shm.allocate(4096).unwrap();
    let limit = getrlimit(Resource::Nofile);
    let with_full_table = |work: &mut dyn FnMut()| {
        let next = rustix::io::dup(std::io::stdin()).unwrap();
        let current = Some(std::os::fd::AsRawFd::as_raw_fd(&next) as u64);
        drop(next);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
        work();
        setrlimit(Resource::Nofile, limit).unwrap();
    };
    let export = |met: &mut ConnectedPair| {
        let (shm, client) = (&mut met.server.shm, met.to_client);
        shm.grant(client, &buffer, Registration::NONE, Access::Read)
            .unwrap()
    };
    let region = export(&mut met);
    with_full_table(&mut || {
        assert!(met.client.shm.map(met.to_server, &region).is_none());
    });
    both(
        &mut met.client,
        &mut met.server,
        "the owner knows that",
        |_, server| {
            let entry = server.shm.peers.get_mut(met.to_client).unwrap();
            let object = region.object.unwrap().object;
            !entry.pair().unwrap().objects.was_sent(object)
        },
    );
    let again = export(&mut met);
    assert!(met.client.shm.map(met.to_server, &again).is_some());
    // The copy area for other memory: the server cannot map it, and reports that.
    let (near, far) = (Memory::zeroed(4096), Memory::zeroed(4096));
    let exported = met
        .server
        .shm
        .grant(met.to_client, &far, Registration::NONE, Access::Read);
    let transfer = Transfer {
        direction: Direction::Get,
        local: vec![near].into(),
        remote: vec![exported.unwrap()].into(),
        registrations: Vec::new(),
        notify: None,
        token: 1,
    };
    let again_transfer = Transfer {
        token: 2,
        ..transfer.clone()
    };
    met.client.shm.transfer(met.to_server, transfer).unwrap();
    met.client.poll();
    with_full_table(&mut || {
        for _ in 0..2000 {
            met.server.poll();
        }
    });
    met.client
        .until("it is refused", |client| !client.log.done.is_empty());
    assert!(matches!(
        &met.client.log.done[..],
        [(1, Err(TransferError::Copy(why)))] if why.contains("cannot map the area")
    ));
    // The next transfer comes with an area of its own.
    met.client
        .shm
        .transfer(met.to_server, again_transfer)
        .unwrap();
    both(
        &mut met.client,
        &mut met.server,
        "the next one is done",
        |client, _| client.log.done.len() == 2,
    );
    assert_eq!(met.client.log.done[1], (2, Ok(())));
    assert!(met.client.log.down.is_empty() && met.server.log.down.is_empty());
}
