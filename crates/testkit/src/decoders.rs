//! Bodies that feed arbitrary bytes to every decoder: shared by the fuzz target under
//! `fuzz/` and by `tests/decoders.rs`, which feeds them seeded random and mutated inputs.
//!
//! A body panics when a decoder breaks a promise: no input makes it panic, and an accepted
//! input is encoded to the same bytes again, so that no two encodings mean the same.
//!
//! State machines that take events rather than bytes are fed with events that the bytes choose.
//!
//! [`all`] lists them; `samples` has well-formed inputs for mutations to start from;
//! [`mutate`] changes inputs.

// Shared with the firmware's own tests, which use all of it.
#[path = "../../firmware/tests/whole/world/mod.rs"]
#[allow(dead_code)]
mod cards;
mod samples;

use std::fmt::Debug;
use std::str::FromStr;

use causeway_fs::config::Configuration;
use causeway_sys::memory::Memory;
use causeway_transport::agent::{AgentHandshake, Credentials};
use causeway_transport::session::{AHEAD_BYTES, Bounds, Session};
use causeway_transport::{
    Access, Address, Atomic, Direction, PLACEMENT_HEAD_BYTES, Packet, Peer, PeerError, Sink, Spans,
    Transfer, TransferError,
};
use causeway_wire::codec::Wire;
use causeway_wire::datafile;
use causeway_wire::datagram::{self, Datagram, Segment};
use causeway_wire::formats::Formats;
use causeway_wire::node::{self, files};
use causeway_wire::region::RegionDescriptor;
use causeway_wire::user::User;
use causeway_wire::{
    agent, atomic, bmi, contact, fs, home, pmi, run, shm, store, tcp, vi, watch, window,
};

use crate::placement::Placements;
use crate::random::Random;

/// A decoder with a promise to keep.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Feeds it.
    pub feed: fn(&[u8]),
    /// Well-formed inputs.
    pub samples: fn() -> Vec<Vec<u8>>,
}

macro_rules! decoders {
    ($($name:literal: $feed:expr, $samples:expr;)*) => {
        &[$(Decoder { name: $name, feed: $feed, samples: $samples }),*]
    };
}

/// Every decoder of bytes from elsewhere.
pub fn all() -> &'static [Decoder] {
    decoders! {
        "region": canonical::<RegionDescriptor>, samples::regions;
        "fs_request": fs_request, samples::requests;
        "fs_reply": fs_reply, samples::replies;
        "fs_node": canonical::<fs::Node>, samples::nodes;
        "acl": access_control_list, samples::acls;
        "datafile_header": canonical::<datafile::Header>, samples::datafile_headers;
        "written_groups": canonical::<datafile::WrittenGroups>, samples::written_groups;
        "history": history_parts, samples::history;
        "store_record": store_record, samples::records;
        "store_key": store_key, samples::keys;
        "home": home_file, samples::homes;
        "certificate": canonical::<node::Certificate>, samples::certificates;
        "node_file": node_file, samples::node_files;
        "agent": agent_messages, samples::agent_messages;
        "bmi_packet": bmi_packet, samples::packets;
        "tcp_opening": tcp_opening, samples::openings;
        "tcp_frames": tcp_frames, samples::frames;
        "datagram": datagram, samples::datagrams;
        "tcp_session": tcp_session, samples::session_streams;
        "shm_record": shm_record, samples::shm_records;
        "shm_ring": shm_ring, samples::rings;
        "watch_page": watch_page, samples::watch_pages;
        "vi": virtual_interface, samples::virtual_interfaces;
        "firmware": cards::fuzz::feed, cards::fuzz::samples;
        "window_notice": canonical::<window::Notice>, samples::window_notices;
        "meeting": canonical::<contact::LeaderMessage>, samples::meetings;
        "run_event": run_event, samples::run_events;
        "pmi": pmi_lines, samples::pmi_lines;
        "address": address, samples::addresses;
        "configuration": configuration, samples::configurations;
    }
}

/// An accepted input has exactly one encoding.
fn canonical<T: Wire + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert!(value.to_bytes() == bytes, "another encoding: {value:?}");
    }
}

/// In each format, an accepted input has exactly one encoding.
fn fs_request(bytes: &[u8]) {
    if let Ok((request, formats)) = fs::Request::from_bytes(bytes) {
        let again = request.to_bytes(formats);
        assert!(again == bytes, "another encoding: {request:?}");
        assert_eq!(fs::Request::formats_of(bytes), Some(formats));
    }
}

/// The same for replies. A refusal because of the format fits every request, and does not count as a kind of
/// reply of its own.
fn fs_reply(bytes: &[u8]) {
    if let Ok((reply, granted, format)) = fs::Reply::from_bytes_with(bytes) {
        assert!(
            reply.to_bytes_with(&granted, format) == bytes,
            "another encoding: {reply:?}"
        );
        assert_eq!(fs::Reply::refusal_of(bytes, format), None);
    }
    if let Some((format, failure)) = fs::Reply::refusal_of(bytes, fs::formats::FORMATS.highest) {
        let result = Err(failure);
        let again = fs::Reply { result }.to_bytes(format);
        assert!(again == bytes, "another encoding");
    }
}

/// Lines, in two pieces: an accepted line means the same when it is written and read again.
fn pmi_lines(bytes: &[u8]) {
    let mut lines = pmi::Lines::default();
    for piece in bytes.chunks(bytes.len() / 2 + 1) {
        lines.push(piece);
        while let Ok(Some(command)) = lines.next_command() {
            let text = command.encode_lines();
            let mut again = pmi::Lines::default();
            again.push(text.as_bytes());
            assert_eq!(again.next_command(), Ok(Some(command)), "{text:?}");
        }
    }
}

/// A line of an event file: an accepted line means the same when it is written and read again.
fn run_event(bytes: &[u8]) {
    let Ok(line) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(event) = run::Event::decode(line) {
        let mut again = String::new();
        event.encode(&mut again);
        assert_eq!(run::Event::decode(&again), Some(event), "{line:?}");
    }
}

/// The header of a history or an entry of one.
fn history_parts(bytes: &[u8]) {
    canonical::<datafile::HistoryHeader>(bytes);
    canonical::<datafile::HistoryEntry>(bytes);
}

/// The first byte chooses the kind of record.
fn store_record(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 7 {
        0 => canonical::<store::Superblock>(bytes),
        1 => canonical::<store::Counter>(bytes),
        2 => canonical::<store::Counters>(bytes),
        3 => canonical::<store::ObjectRecord>(bytes),
        4 => canonical::<store::EntryRecord>(bytes),
        6 => canonical::<store::ServerRecord>(bytes),
        _ => {
            canonical::<store::RemovalRecord>(bytes);
            canonical::<store::SessionRecord>(bytes);
            canonical::<store::XattrsRecord>(bytes);
            canonical::<store::OrphanRecord>(bytes);
            canonical::<store::Gaps>(bytes);
            canonical::<store::Mark>(bytes);
            if let Ok((value, stamp)) = store::unseal(b"key", bytes) {
                assert!(store::seal(b"key", value, stamp) == bytes);
            }
        }
    }
}

/// An accepted input is written the same way again.
fn home_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let written = [
        home::DirectoryIdentity::parse(text).map(|value| value.to_text()),
        home::PartIdentity::parse(text).map(|value| value.to_text()),
        home::Enrollment::parse(text).map(|value| value.to_text()),
        home::FailedSyncs::parse(text).map(|value| value.to_text()),
        home::AppendLocksSetAside::parse(text).map(|value| value.to_text()),
        home::VersionsSetAside::parse(text).map(|value| value.to_text()),
        home::LeasesGiven::parse(text).map(|value| value.to_text()),
    ];
    for again in written.into_iter().flatten() {
        assert!(again == text, "another text: {again:?}");
    }
}

/// An access control list as an extended attribute: an accepted one means the same when it is written and read again, and its list can be
/// used.
fn access_control_list(bytes: &[u8]) {
    let Ok(Some(list)) = fs::Acl::from_xattr(bytes) else {
        return;
    };
    let again = list.to_xattr();
    assert!(again.len() <= fs::MAX_ACL_BYTES, "{} bytes", again.len());
    assert_eq!(fs::Acl::from_xattr(&again), Ok(Some(list.clone())));
    let mode = list.mode();
    assert_eq!(list.clone().with_mode(mode), list);
    let (inherited, made) = list.inherited(0o640);
    assert_eq!(inherited.mode(), made & 0o777);
    let caller = fs::Caller {
        uid: 5,
        gid: 6,
        umask: 0o022,
        groups: vec![7],
    };
    for wanted in 0..8 {
        // Nobody may do all of something and not a part of it.
        let may_part = list.allows(mode, (1, 2), &caller, wanted & 4);
        assert!(may_part || !list.allows(mode, (1, 2), &caller, wanted));
    }
}

/// What processes without keys and their node's agent say to each other, and the agent's reply to it.
fn agent_messages(bytes: &[u8]) {
    canonical::<agent::Reply>(bytes);
    canonical::<User>(bytes);
    let Ok(request) = agent::Request::from_bytes(bytes) else {
        return;
    };
    assert!(request.to_bytes() == bytes, "another encoding: {request:?}");
    let user = User {
        uid: 1,
        gid: 2,
        groups: vec![3],
    };
    let credentials = Credentials {
        key: [7; 32].into(),
        nodes: None,
    };
    let mut handshake = AgentHandshake::new(user);
    handshake.on_request(&credentials, &request);
    // No reply is good for the same again.
    let again = handshake.on_request(&credentials, &request);
    assert!(matches!(again, agent::Reply::Refused(_)), "{again:?}");
}

/// The same for the files of nodes and of their authority.
fn node_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(value) = files::NodeFile::parse(text) {
        let (head, key) = (files::NodeFile::head(&value.certificate), value.key);
        assert!(format!("{head}{key}\n") == text, "another text");
    }
    if let Ok(value) = files::AuthorityFile::parse(text) {
        let head = files::AuthorityFile::head();
        assert!(format!("{head}{}\n", value.key) == text, "another text");
    }
    if let Ok(value) = files::Revoked::parse(text) {
        assert!(value.to_text() == text, "another text: {value:?}");
    }
    if let Ok(value) = files::Register::parse(text) {
        assert!(value.to_text() == text, "another text: {value:?}");
    }
}

fn store_key(bytes: &[u8]) {
    if let Ok(key) = store::Key::parse(bytes) {
        assert!(key.to_bytes() == bytes, "another encoding: {key:?}");
    }
}

/// An accepted input means the same when it is encoded and decoded again.
fn bmi_packet(bytes: &[u8]) {
    let Ok((header, body)) = bmi::decode(bytes) else {
        return;
    };
    let again = match &body {
        bmi::Body::Announcement(body) => bmi::encode_announcement(header, body, Vec::new()),
        bmi::Body::Clearance(body) => bmi::encode_clearance(header, body, Vec::new()),
        bmi::Body::Refusal(body) => bmi::encode_refusal(header, *body, Vec::new()),
        bmi::Body::Offer(offer) => bmi::encode_offer(header, offer, Vec::new()),
        bmi::Body::Written(size) => {
            let mut again = header.encode().to_vec();
            again.extend_from_slice(&bmi::send_complete(header.word, *size)[bmi::HEADER_BYTES..]);
            again
        }
        bmi::Body::Payload(len) => {
            assert_eq!(bmi::HEADER_BYTES + len, bytes.len());
            let mut again = header.encode().to_vec();
            again.extend_from_slice(&bytes[bmi::HEADER_BYTES..]);
            again
        }
        bmi::Body::Introduction(body) => {
            let mut again = bmi::encode_introduction(body, usize::MAX);
            again[..bmi::HEADER_BYTES].copy_from_slice(&header.encode());
            again
        }
        bmi::Body::Empty => header.encode().to_vec(),
    };
    if header.kind == bmi::Kind::Hello
        && let Ok((formats, callable)) = Formats::of_hello(&header)
    {
        let hello = formats.hello(callable);
        assert_eq!((hello.word, hello.regions), (header.word, header.regions));
    }
    let (header_again, body_again) = bmi::decode(&again).expect("an encoding of this build");
    assert_eq!(body_again, body);
    assert_eq!(
        (
            header_again.kind,
            header_again.flags,
            header_again.credit,
            header_again.word
        ),
        (header.kind, header.flags, header.credit, header.word)
    );
}

/// A hello and the handshake's steps behind it.
fn tcp_opening(bytes: &[u8]) {
    let Some((hello, mut rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Ok(parsed) = tcp::Hello::decode(hello) else {
        return;
    };
    // Of formats that this build does not speak only the fields common to all formats are read.
    if tcp::FORMATS.common(parsed.formats).is_some() {
        assert_eq!(parsed.encode(), *hello);
    }
    while let Ok(Some((step, len))) = tcp::Step::decode(rest) {
        let mut again = Vec::new();
        step.encode(&mut again);
        assert!(again == rest[..len], "another encoding: {step:?}");
        rest = &rest[len..];
    }
}

/// A datagram as it comes, one with a right checksum, and a segment that was sealed.
fn datagram(bytes: &[u8]) {
    one_datagram(bytes);
    let mut whole = bytes.to_vec();
    datagram::seal_with_check(0, &mut whole);
    one_datagram(&whole);
    if let Ok(segment) = Segment::decode(bytes) {
        let mut again = Vec::new();
        segment.encode_head(&mut again);
        again.extend_from_slice(segment.data);
        assert!(again == bytes, "another encoding: {segment:?}");
    }
}

fn one_datagram(bytes: &[u8]) {
    let mut again = Vec::new();
    match Datagram::decode(bytes) {
        Ok(Datagram::Greeting(prefix, greeting)) => greeting.encode(prefix, &mut again),
        Ok(Datagram::Reset(prefix)) => datagram::encode_reset(prefix.to, prefix.from, &mut again),
        Ok(Datagram::Plain(prefix, number, segment)) => {
            datagram::begin_segment(prefix, number, &mut again);
            segment.encode_head(&mut again);
            again.extend_from_slice(segment.data);
            datagram::seal_with_check(0, &mut again);
        }
        Ok(Datagram::Sealed(prefix, number, sealed)) => {
            datagram::begin_segment(prefix, number, &mut again);
            again.extend_from_slice(sealed);
        }
        // Of other formats only the prefix is known.
        Ok(Datagram::Foreign(prefix, _)) => {
            assert_eq!(datagram::Prefix::peek(bytes), Ok(prefix));
            return;
        }
        Err(_) => return,
    }
    assert!(again == bytes, "another encoding: {bytes:?}");
}

/// A frame's header, or parts of a descriptor.
fn virtual_interface(bytes: &[u8]) {
    if let Ok(header) = vi::FrameHeader::decode(bytes) {
        assert_eq!(header.to_bytes(), *bytes);
    }
    let front = |again: &[u8]| assert_eq!(*again, bytes[..again.len()]);
    if let Ok(control) = vi::Control::decode(bytes) {
        front(&control.to_bytes());
    }
    if let Ok(segment) = vi::Segment::decode(bytes) {
        front(&segment.to_bytes());
    }
    if let Ok(status) = vi::Status::decode(bytes) {
        front(&status.to_bytes());
    }
    if let Ok(completion) = vi::Completion::decode(bytes) {
        front(&completion.to_bytes());
    }
}

/// Frames one behind the other, and the prefixes of encrypted records.
fn tcp_frames(bytes: &[u8]) {
    if let Some(prefix) = bytes.first_chunk()
        && let Ok(len) = tcp::record::decode(*prefix)
    {
        assert_eq!(tcp::record::encode(len), *prefix);
    }
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk() {
        let Ok(header) = tcp::Header::decode(head) else {
            return;
        };
        assert_eq!(header.encode(), *head);
        assert!(header.payload_len() <= header.kind.max_payload());
        let Some((payload, behind)) = behind.split_at_checked(header.payload_len()) else {
            return;
        };
        if header.kind == tcp::Kind::Get
            && let Ok(list) = tcp::Fragment::decode_list(payload)
        {
            let again: Vec<u8> = list.iter().flat_map(tcp::Fragment::encode).collect();
            assert!(again == payload, "another encoding: {list:?}");
        }
        match header.kind {
            tcp::Kind::Atomic => canonical::<atomic::Operation>(payload),
            tcp::Kind::AtomicDone => canonical::<atomic::Outcome>(payload),
            _ => {}
        }
        rest = behind;
    }
}

/// The state machine behind the frames, with two connections (subflows), exports and transfers of its own. A byte
/// 0xfe ends the input of one connection, and the other goes on. With any input, each transfer ends once and
/// memory that is not exported for writing stays as it is. The placement of a packet is cancelled when bytes
/// arrive on the second connection meanwhile.
fn tcp_session(bytes: &[u8]) {
    #[derive(Default)]
    struct Seen(Vec<u64>, Placements<Peer>);
    impl Sink for Seen {
        fn packet(&mut self, _: Peer, _: Packet<'_>) {}
        fn transfer_done(&mut self, _: Peer, token: u64, _: Result<(), TransferError>) {
            assert!(!self.0.contains(&token), "completed twice");
            self.0.push(token);
        }
        fn atomic_done(&mut self, _: Peer, token: u64, _: Result<u64, TransferError>) {
            assert!(!self.0.contains(&token), "completed twice");
            self.0.push(token);
        }
        fn receive_buffer(
            &mut self,
            peer: Peer,
            head: &[u8; PLACEMENT_HEAD_BYTES],
            len: usize,
            into: &mut Spans,
        ) -> bool {
            self.1.receive_buffer(peer, head, len, into)
        }
        fn placement_done(&mut self, peer: Peer, head: &[u8; PLACEMENT_HEAD_BYTES]) {
            self.1.placement_done(peer, head);
        }
        fn peer_up(&mut self, _: Peer) {}
        fn peer_down(&mut self, _: Peer, _: PeerError) {}
        fn writable(&mut self, _: Peer) {}
    }
    let (peer, mut seen) = (Peer(0), Seen::default());
    let mut session = Session::new(Bounds {
        queue_bytes: 1 << 16,
        max_transfers: 8,
    });
    session.add_subflow();
    let (open, closed) = (Memory::zeroed(5000), Memory::zeroed(100));
    let region = session.export(9, &open, Access::ReadWrite);
    session.export(8, &closed, Access::Read);
    for (token, direction) in [(0, Direction::Put), (1, Direction::Get)] {
        let transfer = Transfer {
            direction,
            local: vec![Memory::zeroed(3000)].into(),
            remote: vec![region.part(0, 3000)].into(),
            notify: Some(vec![1].into()),
            registrations: Vec::new(),
            token,
        };
        assert!(session.transfer(transfer).is_ok());
    }
    let atomic = Atomic {
        operation: atomic::Operation::FetchAdd(1),
        word: region.part(0, Atomic::BYTES),
        token: 2,
    };
    assert!(session.atomic(atomic).is_ok());
    let mut streams = bytes.split(|byte| *byte == 0xfe).enumerate();
    let outcome = streams.try_for_each(|(at, part)| {
        if at % 2 == 1 && !part.is_empty() {
            session.cancel_placement();
            seen.1.forget(&peer);
        }
        session.refill(at % 2, AHEAD_BYTES);
        session.input(at % 2, part, peer, &mut seen)
    });
    assert!(session.owned_bytes() < (4 << 20) + 2 * bytes.len());
    let cause = outcome.err().unwrap_or(PeerError::Closed);
    session.fail(&cause, peer, &mut seen);
    seen.1.forget(&peer);
    assert_eq!(seen.0.len(), 3, "every transfer and atomic ends");
    assert_eq!(closed.to_vec(), [0; 100]);
    assert_eq!(open.sharers(), 1, "nothing is kept");
}

/// A refusal's text is for people, and read as far as it is text.
fn shm_record(bytes: &[u8]) {
    match shm::Record::from_bytes(bytes) {
        Ok(shm::Record::Refused { reason, .. }) => {
            assert!(reason.len() <= 3 * shm::MAX_REASON_BYTES);
        }
        _ => canonical::<shm::Record>(bytes),
    }
}

/// The first word of a slot, and the methods' own packets.
fn shm_ring(bytes: &[u8]) {
    if let Some((word, packet)) = bytes.split_first_chunk() {
        let word = u64::from_le_bytes(*word);
        if let Ok(slot) = shm::SlotWord::unpack(word) {
            assert_eq!(slot.pack(), word);
            // For every length that a packet claims, the number of slots is computed without overflow.
            let _ = shm::slots_of(slot.len as usize);
        }
        canonical::<shm::Internal>(packet);
    }
}

/// A row and a log event of a page that another process has written.
fn watch_page(bytes: &[u8]) {
    if let Some(body) = bytes.first_chunk()
        && let Ok(row) = watch::Row::decode(body)
    {
        assert!(row.encode() == *body, "another encoding: {row:?}");
    }
    if let Some(body) = bytes.first_chunk()
        && let Ok(event) = watch::LogEvent::decode(body)
    {
        assert!(event.encode() == *body, "another encoding: {event:?}");
    }
}

fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(address) = Address::from_str(text) {
        assert_eq!(address.to_string(), text);
        assert_eq!(format!("{}://{}", address.scheme(), address.rest()), text);
    }
}

/// An accepted configuration prints a file that means the same; the error for a refused one names the place.
fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Configuration::parse(text, "fuzz.toml") {
        Ok(parsed) => {
            let printed = parsed.to_toml();
            let again = Configuration::parse(&printed, "printed.toml");
            assert_eq!(again.as_ref(), Ok(&parsed), "printed as:\n{printed}");
        }
        Err(error) => {
            assert!(error.line <= text.lines().count() + 1, "{error}");
            assert!(!error.message.is_empty());
        }
    }
}

/// Values at the limits of decoders.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Changes `bytes` in one to four ways: bits, bytes, fields, cuts, repetitions, insertions.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(8) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next_u64() as u8;
                }
            }
            3 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = 1 << random.below(4);
                for (byte, new) in bytes.iter_mut().skip(at).zip(&edge[..width]) {
                    *byte = *new;
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let len = random.spread(10);
                let inserted = random.bytes(len);
                bytes.splice(at..at, inserted);
            }
            6 => {
                let end = at + random.below(bytes.len() - at + 1);
                let repeated = bytes[at..end].to_vec();
                bytes.splice(end..end, repeated);
            }
            _ => {
                let end = at + random.below(bytes.len() - at + 1);
                bytes.drain(at..end);
            }
        }
    }
}
