//! One connection's socket, apart from the protocol.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_sys::net::{self, MAX_PIECES, Piece};
use causeway_wire::tcp::{HEADER_BYTES, Header, Kind, MAX_PIECE};

use super::config::Liveness;
use super::handshake::{Agreement, Handshake, Protection};
use super::records::{RecordBuffers, Records};
use super::user_limits::CountedConnection;
use crate::agent::AgentConnection;
use crate::error::PeerError;
use crate::method::{Peer, Sink};
use crate::session::{AHEAD_BYTES, MAIN, Session};

/// Room for one read: about one of the largest packets, or four records.
const INPUT_BYTES: usize = 132 * 1024;

/// A connection's first reads are limited to this: if large data begins there, the rest is read
/// straight to its place. Reads that are filled with short frames grow to `INPUT_BYTES`.
const FIRST_READ_BYTES: usize = 8 * 1024;

/// How many bytes a read takes beyond expected data: the next headers and short packets. Few,
/// because those that belong to the next data are copied once more.
const BEHIND_DATA_BYTES: usize = 4 * 1024;

/// Most reads and writes per connection and poll, and bytes after which no further write begins, so that one busy peer does not
/// starve the others.
const READS_PER_POLL: usize = 6;
const WRITES_PER_POLL: usize = 8;
const BYTES_PER_POLL: usize = WRITES_PER_POLL * MAX_PIECE;

/// Bytes that a call that sends should have where both ends are on this host: more than the socket accepts at once, so that the kernel
/// goes on sending until its buffer is full (`docs/tcp-engine.md`).
pub(super) const LOCAL_AHEAD_BYTES: usize = 4 * MAX_PIECE;

/// Buffers that all connections of one instance share: an idle connection has none of its own.
pub(super) struct Buffers {
    input: Vec<u8>,
    records: RecordBuffers,
    spans: Vec<Memory>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            input: vec![0; INPUT_BYTES],
            records: RecordBuffers::new(),
            spans: Vec::new(),
        }
    }
}

/// Reads and writes of more bytes count as data.
const BULK_BYTES: usize = 512;

pub(super) enum Phase {
    /// TCP itself is connecting.
    Connecting,
    /// The two sides are authenticating each other.
    Handshaking(Box<Handshake>),
    /// Frames can be sent and received.
    Up,
}

pub(super) struct Link {
    pub(super) socket: OwnedFd,
    pub(super) phase: Phase,
    /// The connection to the agent that makes the handshake.
    pub(super) agent: Option<AgentConnection>,
    /// Counts the connection for the user at the other end, if users have a limit
    /// ([`UserLimits`](super::user_limits::UserLimits)).
    pub(super) counted: Option<CountedConnection>,
    records: Option<Box<Records>>,
    /// The socket accepts nothing more now; epoll reports when it does.
    pub(super) full: bool,
    /// Whether epoll is set to report room.
    pub(super) watches_room: bool,
    /// Whether epoll is set to report, of the input, only its end.
    pub(super) watches_end: bool,
    /// Writing has failed; bytes that have arrived before are still read.
    pub(super) broken: Option<PeerError>,
    /// A sealed record that the kernel has not accepted completely has packets in it.
    sealed_packets: bool,
    /// Its index among its session's connections.
    pub(super) connection: usize,
    /// Bytes that a call that sends should have.
    ahead_bytes: usize,
    /// The size of the next read of mixed frames.
    read_bytes: usize,
    /// How often reads or writes were so large that they must have been data, not a probe.
    pub(super) bulk: Cell<u64>,
    /// Something has arrived since the last tick.
    pub(super) has_received: bool,
    pub(super) last_heard: Instant,
    /// The peer was probed since then.
    pub(super) probed: bool,
    /// When the connection has to be up.
    pub(super) trust_deadline: Instant,
    /// While it is being made: when the peer's next address is tried instead.
    pub(super) gives_way_at: Option<Instant>,
}

impl Link {
    pub(super) fn new(
        socket: OwnedFd,
        phase: Phase,
        now: Instant,
        trust_deadline: Instant,
    ) -> Self {
        Self {
            socket,
            phase,
            agent: None,
            counted: None,
            records: None,
            full: false,
            watches_room: false,
            watches_end: false,
            broken: None,
            sealed_packets: false,
            connection: MAIN,
            ahead_bytes: AHEAD_BYTES,
            read_bytes: FIRST_READ_BYTES,
            bulk: Cell::new(0),
            has_received: false,
            last_heard: now,
            probed: false,
            trust_deadline,
            gives_way_at: None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Sets up the connected socket; see [`net::tune`].
    pub(super) fn tune(&mut self, vanished: Duration, liveness: Liveness) -> io::Result<()> {
        let unread = (liveness == Liveness::Process).then_some(vanished);
        if net::tune(&self.socket, vanished, unread)? {
            self.ahead_bytes = LOCAL_AHEAD_BYTES;
        }
        Ok(())
    }

    /// What protects its records.
    pub(super) fn protection(&self) -> Option<&Protection> {
        Some(self.records.as_ref()?.protection())
    }

    /// Whether a packet can be written straight to the socket.
    pub(super) fn takes_plain(&self) -> bool {
        self.is_up() && !self.full && self.broken.is_none() && self.records.is_none()
    }

    /// Whether everything that the session has committed has reached the kernel.
    pub(super) fn has_sent_all(&self, session: &Session) -> bool {
        let sealed = self
            .records
            .as_ref()
            .is_some_and(|c| !c.unsent().is_empty());
        !session.has_output_at(self.connection) && !sealed
    }

    /// Whether a sealed record with packets has not reached the kernel.
    pub(super) fn holds_sealed_packets(&self) -> bool {
        self.sealed_packets
    }

    /// The handshake has succeeded.
    pub(super) fn agree(&mut self, agreement: Agreement) -> Vec<u8> {
        self.phase = Phase::Up;
        self.agent = None;
        self.records = agreement
            .protection
            .map(|protection| Box::new(Records::new(protection)));
        agreement.rest
    }

    /// Sends bytes of the handshake: so few that a fresh connection always accepts them.
    pub(super) fn send_step(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        if bytes.is_empty() {
            return Ok(());
        }
        match net::send_pieces(&self.socket, &[Piece::Bytes(bytes)]) {
            Ok(Some(sent)) if sent == bytes.len() => Ok(()),
            Ok(_) => Err(PeerError::Broken("its window is closed".to_owned())),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Sends a packet at once, if nothing is queued before it. Returns how many bytes of the frame
    /// were sent.
    pub(super) fn send_now(&mut self, parts: &[Piece<'_>], len: usize) -> usize {
        let header = Header::new(Kind::Packet, len).encode();
        let mut pieces = [Piece::Bytes(&[]); MAX_PIECES];
        if parts.len() >= MAX_PIECES {
            return 0;
        }
        pieces[0] = Piece::Bytes(&header);
        for (slot, part) in pieces.iter_mut().skip(1).zip(parts) {
            *slot = *part;
        }
        let pieces = pieces.get(..=parts.len()).unwrap_or_default();
        let sent = self.write(pieces);
        self.full = sent < HEADER_BYTES + len;
        sent
    }

    fn note(&self, bytes: usize) {
        if bytes >= BULK_BYTES {
            self.bulk.set(self.bulk.get().wrapping_add(1));
        }
    }

    /// Writes; an error is kept for the next read.
    fn write(&mut self, pieces: &[Piece<'_>]) -> usize {
        match net::send_pieces(&self.socket, pieces) {
            Ok(Some(sent)) => {
                self.note(sent);
                sent
            }
            Ok(None) => 0,
            Err(error) => {
                self.broken = Some(broken(&error));
                0
            }
        }
    }

    /// Sends a bounded amount of the session's output. Returns whether anything was sent.
    pub(super) fn flush(&mut self, session: &mut Session, buffers: &mut Buffers) -> bool {
        let mut bytes = 0;
        for _ in 0..WRITES_PER_POLL {
            if self.full || self.broken.is_some() || bytes >= BYTES_PER_POLL {
                break;
            }
            let sent = match self.records.is_some() {
                true => self.flush_sealed(session, buffers),
                false => self.flush_plain(session),
            };
            if sent == 0 {
                break;
            }
            bytes += sent;
        }
        bytes > 0
    }

    /// Writes once; returns the bytes that the socket has accepted.
    fn flush_plain(&mut self, session: &mut Session) -> usize {
        session.refill(self.connection, self.ahead_bytes);
        let mut pieces = [Piece::Bytes(&[]); MAX_PIECES];
        let count = session.outbox(self.connection).pieces(&mut pieces);
        let pieces = pieces.get(..count).unwrap_or_default();
        let offered: usize = pieces.iter().map(Piece::len).sum();
        if offered == 0 {
            return 0;
        }
        let sent = self.write(pieces);
        self.full = sent < offered;
        session.connection(self.connection).outbox.advance(sent);
        sent
    }

    /// The same for a connection with sealed records. A whole record counts when the socket has accepted a part of it or none: the rest
    /// is kept.
    fn flush_sealed(&mut self, session: &mut Session, buffers: &mut Buffers) -> usize {
        let Some(mut records) = self.records.take() else {
            return 0;
        };
        let sent = if records.unsent().is_empty() {
            self.seal(&mut records, session, buffers)
        } else {
            let sent = self.write(&[Piece::Bytes(records.unsent())]);
            self.full = sent < records.unsent().len();
            records.sent(sent);
            self.sealed_packets &= self.full;
            sent
        };
        self.records = Some(records);
        sent
    }

    /// Seals one record and sends it; returns its length.
    fn seal(
        &mut self,
        records: &mut Records,
        session: &mut Session,
        buffers: &mut Buffers,
    ) -> usize {
        let queued_bytes = session.outbox(self.connection).short_bytes();
        let sealed = records.seal(&mut buffers.records, |room| {
            session.refill(self.connection, AHEAD_BYTES);
            session.connection(self.connection).outbox.copy_out(room)
        });
        let has_packets = session.outbox(self.connection).short_bytes() < queued_bytes;
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(cause) => {
                self.broken = Some(cause);
                return 0;
            }
        };
        if sealed.is_empty() {
            return 0;
        }
        let sent = self.write(&[Piece::Bytes(sealed)]);
        self.full = sent < sealed.len();
        self.sealed_packets = self.full && has_packets;
        records.keep_unsent(sealed.get(sent..).unwrap_or_default());
        sealed.len()
    }

    /// Reads a bounded amount of input, and passes it to the session. Returns whether there was
    /// any; the error states why the connection has ended.
    pub(super) fn read(
        &mut self,
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<bool, PeerError> {
        let mut any = false;
        for _ in 0..READS_PER_POLL {
            if session.is_stopped() && self.connection == MAIN {
                break;
            }
            let more = if self.records.is_some() {
                self.read_sealed(session, peer, buffers, sink)?
            } else if session.direct(self.connection, MAX_PIECES, &mut buffers.spans) {
                self.read_direct(session, peer, buffers, sink)?
            } else {
                self.read_plain(session, peer, buffers, sink)?
            };
            match more {
                None => break,
                Some(more) => {
                    any = true;
                    self.has_received = true;
                    if !more {
                        break;
                    }
                }
            }
        }
        match &self.broken {
            Some(cause) if !any => Err(cause.clone()),
            _ => Ok(any),
        }
    }

    /// `None` if nothing has arrived, otherwise whether there may be more.
    fn read_plain(
        &mut self,
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>, PeerError> {
        let room = buffers.input.get_mut(..self.read_bytes).unwrap_or_default();
        let got = net::receive(&self.socket, room);
        let Some(count) = self.received(got)? else {
            return Ok(None);
        };
        let more = count == self.read_bytes;
        if more {
            self.read_bytes = (2 * self.read_bytes).min(INPUT_BYTES);
        }
        session.input(
            self.connection,
            buffers.input.get(..count).unwrap_or_default(),
            peer,
            sink,
        )?;
        Ok(Some(more))
    }

    fn read_direct(
        &mut self,
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>, PeerError> {
        self.read_bytes = FIRST_READ_BYTES;
        let expected: usize = buffers.spans.iter().map(Memory::len).sum();
        let behind = buffers
            .input
            .get_mut(..BEHIND_DATA_BYTES)
            .unwrap_or_default();
        let got = net::receive_into(&self.socket, &buffers.spans, behind);
        // The session's memory is not held after this call.
        buffers.spans.clear();
        let Some(count) = self.received(got)? else {
            return Ok(None);
        };
        session.direct_done(self.connection, count.min(expected), peer, sink)?;
        let behind = count.saturating_sub(expected);
        session.input(
            self.connection,
            buffers.input.get(..behind).unwrap_or_default(),
            peer,
            sink,
        )?;
        Ok(Some(count >= expected))
    }

    fn read_sealed(
        &mut self,
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>, PeerError> {
        let Some(mut records) = self.records.take() else {
            return Ok(None);
        };
        let outcome = self.read_records(&mut records, session, peer, buffers, sink);
        self.records = Some(records);
        outcome
    }

    fn read_records(
        &mut self,
        records: &mut Records,
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<Option<bool>, PeerError> {
        let kept = records.partial().len();
        let Some((front, room)) = buffers.input.split_at_mut_checked(kept) else {
            return Err(PeerError::Protocol("a record is too long".to_owned()));
        };
        front.copy_from_slice(records.partial());
        let got = net::receive(&self.socket, room);
        let more = room.len();
        let Some(count) = self.received(got)? else {
            return Ok(None);
        };
        let (whole, _) = buffers.input.split_at(kept + count);
        records.open(whole, &mut buffers.records, |plain| {
            session.input(self.connection, plain, peer, sink)
        })?;
        Ok(Some(count == more))
    }

    /// Processes the first frames, which arrived with the last step of the handshake.
    pub(super) fn input(
        &mut self,
        bytes: &[u8],
        session: &mut Session,
        peer: Peer,
        buffers: &mut Buffers,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let connection = self.connection;
        match &mut self.records {
            Some(records) => records.open(bytes, &mut buffers.records, |plain| {
                session.input(connection, plain, peer, sink)
            }),
            None => session.input(self.connection, bytes, peer, sink),
        }
    }

    /// Reads raw bytes: of the handshake, or to be discarded.
    pub(super) fn read_raw<'a>(
        &self,
        buffers: &'a mut Buffers,
    ) -> Result<Option<&'a [u8]>, PeerError> {
        let got = net::receive(&self.socket, &mut buffers.input);
        let Some(count) = self.received(got)? else {
            return Ok(None);
        };
        Ok(Some(buffers.input.get(..count).unwrap_or_default()))
    }

    fn received(&self, got: io::Result<Option<usize>>) -> Result<Option<usize>, PeerError> {
        match got {
            Ok(Some(0)) => Err(self.broken.clone().unwrap_or_else(|| {
                PeerError::Broken("it ended without a goodbye: its process died".to_owned())
            })),
            Ok(count) => {
                self.note(count.unwrap_or(0));
                Ok(count)
            }
            Err(error) => Err(broken(&error)),
        }
    }
}

/// The operating system's reason for the end of a connection.
pub(super) fn broken(error: &io::Error) -> PeerError {
    PeerError::Broken(error.to_string())
}
