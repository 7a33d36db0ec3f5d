//! The protocol of one connection of [`tcp`](crate::tcp) or [`udp`](crate::udp) after the handshake: a pure state machine without
//! sockets, clock or randomness.
//!
//! Input: [`Session::input`], or read straight into memory where [`Session::direct`] returns spans
//! because only payload is expected, followed by [`Session::direct_done`]. Events go to the
//! [`Sink`]. Commands: [`Session::send`], [`Session::transfer`], [`Session::atomic`],
//! [`Session::export`]. Output: [`Session::refill`], then the outbox's pieces, or
//! [`Session::output`]. [`Session::fail`] ends everything.
//!
//! A session has one or more *connections*, each with an outbox and an inbox of its own. The first
//! carries everything that has an order: packets, requests, ends. The others, the *subflows*, if
//! there are any, carry the data of large transfers, so that short messages do not queue behind it;
//! every piece of data states where it belongs, and an end states how much data it ends, so that
//! nothing depends on the order between connections.
//!
//! Parts: `inbox` finds the frames in the stream, `outbox` holds the data to be sent, `puts` and
//! `gets` move data and `atomics` change words, each with both sides in one file, `coverage` tracks
//! which bytes have arrived, `pausing` holds packets back.

mod atomics;
mod coverage;
mod gets;
mod inbox;
mod outbox;
mod pausing;
mod puts;

use std::collections::{HashMap, VecDeque};

use causeway_sys::memory::Memory;
use causeway_sys::net::Piece;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::{
    ATOMIC_WINDOW, GET_WINDOW, HEADER_BYTES, Header, Kind, MAX_CONNECTIONS, MAX_PACKET, MAX_PIECE,
    PUT_WINDOW, Ticket,
};
use smallvec::SmallVec;

use crate::error::{PeerError, SendError, TransferError};
use crate::fragments::exported_part;
use crate::method::{Access, Direction, Outlet, Packet, Peer, Readiness, Sink, Token, Transfer};
use coverage::Coverage;
use outbox::{Outbox, SpanOwner};

/// The most replies that may wait for a peer that keeps to the windows: replies to all its
/// requests, and as many again in the one buffer that is partly sent.
const MAX_REPLIES: usize = 2 * (PUT_WINDOW + GET_WINDOW + ATOMIC_WINDOW);

/// The address by which peers name the first byte of every export. Our own addresses are not
/// revealed to peers; and with a base of 0, descriptors that were never filled in would look valid.
const FIRST_BASE: u64 = 1 << 40;

/// Limits of what a session accepts from its caller.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of packets that may be queued.
    pub queue_bytes: usize,
    /// Transfers that may be in progress.
    pub max_transfers: usize,
}

/// The index of the first connection, which always exists.
pub const MAIN: usize = 0;

/// Bytes that are committed before they are sent, where a short frame shall not have to wait for more.
pub const AHEAD_BYTES: usize = MAX_PIECE / 2;

/// Separate ranges of an export up to which the written bytes are tracked: more than the frames of
/// [`MAX_PIECE`] bytes that can be ahead of others on subflows.
const MAX_WRITTEN_RANGES: usize = 1024;

/// Transfers of at least this many bytes use subflows.
pub(super) const SPREAD_FROM_BYTES: u64 = 256 * 1024;

/// One connection's part of a session.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) outbox: Outbox,
    inbox: inbox::Inbox,
}

/// The peer's permission to open subflows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Invitation {
    pub(super) ticket: Ticket,
    pub(super) subflows: usize,
}

#[derive(Debug)]
struct Export {
    memory: Memory,
    access: Access,
    /// The bytes that the peer has written; `None` once they were in more separate ranges than are
    /// tracked.
    written: Option<Coverage>,
}

/// A source of bulk frames. Sources are served round robin, one quantum at a time.
#[derive(Debug)]
enum Bulk {
    Put(puts::Put),
    Serve(gets::Serve),
}

/// Whether a source of bulk frames has more to send.
enum Quantum<T> {
    Again(T),
    Over,
}

/// See the module's page.
#[derive(Debug)]
pub struct Session {
    bounds: Bounds,
    main: Connection,
    subflows: Vec<Connection>,
    exports: HashMap<u64, Export>,
    /// Data to be sent on the first connection.
    bulk: VecDeque<Bulk>,
    /// Data to be sent on the others, on whichever has room first.
    spread: VecDeque<Bulk>,
    invitation: Option<Invitation>,
    /// Data may be on its way on another connection than its end. The peer may use a subflow before
    /// this side has noticed that it is established.
    may_overtake: bool,
    /// There was a transfer that would be sent on subflows.
    wants_subflows: bool,
    puts: puts::Puts,
    gets: gets::Gets,
    atomics: atomics::Atomics,
    /// Transfers that have ended without a reply from the peer.
    done: VecDeque<(Token, Result<(), TransferError>)>,
    /// Accepted transfers that are not complete.
    transfers: usize,
    notify_bytes: usize,
    /// Whether a send was refused for lack of room.
    blocked: bool,
    probe_reply_waits: bool,
    next_id: u64,
    pausing: pausing::Pausing,
}

impl Session {
    /// A session that has not sent or received anything.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            main: Connection::default(),
            subflows: Vec::new(),
            exports: HashMap::new(),
            bulk: VecDeque::new(),
            spread: VecDeque::new(),
            invitation: None,
            may_overtake: false,
            wants_subflows: false,
            puts: puts::Puts::default(),
            gets: gets::Gets::default(),
            atomics: atomics::Atomics::default(),
            done: VecDeque::new(),
            transfers: 0,
            notify_bytes: 0,
            blocked: false,
            probe_reply_waits: false,
            next_id: 1,
            pausing: pausing::Pausing::default(),
        }
    }

    /// A connection by its number.
    pub(super) fn connection(&mut self, at: usize) -> &mut Connection {
        match self.subflows.get_mut(at.wrapping_sub(1)) {
            Some(connection) => connection,
            None => &mut self.main,
        }
    }

    fn connection_ref(&self, at: usize) -> &Connection {
        self.subflows.get(at.wrapping_sub(1)).unwrap_or(&self.main)
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        std::iter::once(&self.main).chain(&self.subflows)
    }

    fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        std::iter::once(&mut self.main).chain(&mut self.subflows)
    }

    /// Adds an established subflow; returns its number.
    pub fn add_subflow(&mut self) -> usize {
        self.may_overtake = true;
        self.subflows.push(Connection::default());
        self.subflows.len()
    }

    /// Invites the peer to open subflows with this ticket.
    pub(super) fn invite(&mut self, invitation: Invitation) {
        self.may_overtake = true;
        let (id, key) = invitation.ticket.words();
        let mut header = Header::new(Kind::Invite, 0)
            .with_id(id)
            .with_base(invitation.subflows as u64);
        header.key = key;
        self.main.outbox.push_short(&header.encode(), &[], 0);
    }

    /// Takes the peer's invitation, once subflows are of use.
    pub(super) fn take_invitation(&mut self) -> Option<Invitation> {
        if self.wants_subflows {
            self.invitation.take()
        } else {
            None
        }
    }

    fn queue_bulk(&mut self, bulk: Bulk, bytes: u64) {
        let large = bytes >= SPREAD_FROM_BYTES;
        self.wants_subflows |= large;
        match large && !self.subflows.is_empty() {
            true => self.spread.push_back(bulk),
            false => self.bulk.push_back(bulk),
        }
    }

    /// Whether a packet of `len` bytes is accepted now. If not, [`Session::take_writable`] will
    /// report room.
    pub(super) fn admit(&mut self, len: usize) -> Result<(), SendError> {
        if len > MAX_PACKET {
            return Err(SendError::TooLarge {
                len,
                limit: MAX_PACKET,
            });
        }
        let waiting = self.main.outbox.short_bytes();
        if waiting > 0 && waiting + len + HEADER_BYTES > self.bounds.queue_bytes {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        Ok(())
    }

    /// Queues a packet.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.admit(len)?;
        let parts: SmallVec<[Piece<'_>; 4]> = parts.iter().map(|part| Piece::Bytes(part)).collect();
        self.queue_packet(&parts, len, 0);
        Ok(())
    }

    /// Queues a packet of `len` bytes that [`Session::admit`] has accepted, without the first
    /// `skip` bytes of its frame, which were sent already.
    pub(super) fn queue_packet(&mut self, parts: &[Piece<'_>], len: usize, skip: usize) {
        let header = Header::new(Kind::Packet, len).encode();
        if skip < header.len() + len {
            self.main.outbox.push_short(&header, parts, skip);
        }
    }

    /// Bytes of short frames that are queued.
    pub fn queued_bytes(&self) -> usize {
        self.main.outbox.short_bytes()
    }

    /// Queues a transfer.
    pub fn transfer(&mut self, transfer: Transfer) -> Result<(), SendError> {
        let notify = transfer.notify.as_ref().map_or(0, |notify| notify.len());
        if notify > MAX_PACKET {
            return Err(SendError::TooLarge {
                len: notify,
                limit: MAX_PACKET,
            });
        }
        let full = self.transfers >= self.bounds.max_transfers
            || (self.notify_bytes > 0 && self.notify_bytes + notify > self.bounds.queue_bytes);
        if full {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        self.transfers += 1;
        if let Some(error) = transfer.mistake() {
            self.done.push_back((transfer.token, Err(error)));
            return Ok(());
        }
        self.notify_bytes += notify;
        match transfer.direction {
            Direction::Put => {
                let id = self.number();
                self.puts.waiting.push_back(puts::Put::new(id, transfer));
            }
            Direction::Get => self.begin_get(transfer),
        }
        Ok(())
    }

    fn number(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Lets the peer access `memory` under `key`, which the caller has drawn at random.
    pub fn export(&mut self, key: u64, memory: &Memory, access: Access) -> RegionDescriptor {
        let export = Export {
            memory: memory.clone(),
            access,
            written: Some(Coverage::default()),
        };
        self.exports.insert(key, export);
        RegionDescriptor {
            key,
            base: FIRST_BASE,
            len: memory.len() as u64,
            object: None,
        }
    }

    /// Whether `key` is in use.
    pub fn exports(&self, key: u64) -> bool {
        self.exports.contains_key(&key)
    }

    /// Whether the peer has written all of an export since it was made, each byte at least once.
    pub fn is_all_written(&self, key: u64) -> bool {
        self.exports.get(&key).is_some_and(|export| {
            let written = export.written.as_ref();
            written.is_some_and(|written| written.is_whole(export.memory.len() as u64))
        })
    }

    /// Ends an export at once: bytes of it that are committed to the outbox are copied, and bytes
    /// that arrive for it are discarded.
    pub fn unexport(&mut self, key: u64) {
        if self.exports.remove(&key).is_none() {
            return;
        }
        for connection in self.connections_mut() {
            connection
                .outbox
                .detach(|owner| owner == SpanOwner::Export(key));
        }
        self.revoke_put(key);
    }

    /// The part of an export that the peer names, if it has that access.
    fn exported(&self, key: u64, base: u64, len: u64, direction: Direction) -> Option<Memory> {
        let export = self.exports.get(&key)?;
        let may_write = direction == Direction::Get || export.memory.is_writable();
        if !export.access.allows(direction) || !may_write {
            return None;
        }
        exported_part(&export.memory, FIRST_BASE, base, len)
    }

    /// Sends a probe, to which the peer has to reply.
    pub fn probe(&mut self) {
        let header = Header::new(Kind::Probe, 0);
        self.main.outbox.push_short(&header.encode(), &[], 0);
    }

    /// Queues a goodbye after all queued frames; transfers must have ended (by
    /// [`Session::abandon`]; [`Session::fail`] would drop the queued frames).
    pub fn goodbye(&mut self) {
        let header = Header::new(Kind::Goodbye, 0);
        self.main.outbox.push_short(&header.encode(), &[], 0);
    }

    /// Sends the peer the description of its violation of the protocol.
    pub fn send_protocol_error(&mut self, text: &str) {
        let mut end = text.len().min(causeway_wire::tcp::MAX_ERROR_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text.as_bytes().get(..end).unwrap_or_default();
        let header = Header::new(Kind::Error, text.len());
        self.main
            .outbox
            .push_short(&header.encode(), &[Piece::Bytes(text)], 0);
    }

    /// Commits what a connection can send next, if fewer than `ahead` bytes are committed there: at most [`MAX_PIECE`] bytes of data
    /// more than that.
    pub fn refill(&mut self, at: usize, ahead: usize) {
        self.main.outbox.commit_short();
        self.issue_gets();
        self.start_puts();
        self.issue_atomics();
        while self.connection(at).outbox.committed() < ahead {
            let queue = match at {
                MAIN => &mut self.bulk,
                _ => &mut self.spread,
            };
            let quantum = match queue.pop_front() {
                Some(Bulk::Put(put)) => self.put_quantum(put, at),
                Some(Bulk::Serve(serve)) => self.serve_quantum(serve, at),
                None => break,
            };
            if let Quantum::Again(bulk) = quantum {
                match at {
                    MAIN => self.bulk.push_back(bulk),
                    _ => self.spread.push_back(bulk),
                }
            }
            // Short frames are committed between any two quanta.
            self.main.outbox.commit_short();
        }
        self.main.outbox.commit_short();
        if self.main.outbox.is_empty() {
            self.probe_reply_waits = false;
        }
    }

    /// Moves the next bytes of a connection's stream into `into`; returns how many.
    pub fn output(&mut self, at: usize, into: &mut [u8]) -> usize {
        self.refill(at, AHEAD_BYTES);
        self.connection(at).outbox.copy_out(into)
    }

    /// Bytes of buffers that the session has allocated now.
    pub fn owned_bytes(&self) -> usize {
        let connection = |connection: &Connection| {
            connection.outbox.owned_bytes() + connection.inbox.owned_bytes()
        };
        let written = self.exports.values().filter_map(|e| e.written.as_ref());
        self.connections().map(connection).sum::<usize>()
            + self.puts.owned_bytes()
            + self.held_bytes()
            + written.map(Coverage::owned_bytes).sum::<usize>()
    }

    /// Whether there is anything to send, committed or not.
    pub fn has_output(&self) -> bool {
        self.has_output_at(MAIN)
            || !self.spread.is_empty()
            || self
                .subflows
                .iter()
                .any(|connection| !connection.outbox.is_empty())
    }

    /// Whether this connection has anything to send.
    pub fn has_output_at(&self, at: usize) -> bool {
        let queued = match at {
            MAIN => !self.bulk.is_empty() || self.can_start(),
            _ => !self.spread.is_empty(),
        };
        queued || !self.connection_ref(at).outbox.is_empty()
    }

    /// The outbox of a connection.
    pub(super) fn outbox(&self, at: usize) -> &Outbox {
        &self.connection_ref(at).outbox
    }

    fn can_start(&self) -> bool {
        self.can_start_put() || self.can_issue_get() || self.atomics.can_issue()
    }

    /// Whether either side has yet to reply to the other.
    pub fn is_outstanding(&self) -> bool {
        self.transfers > 0 || self.has_output()
    }

    /// Whether there are results for [`Session::deliver`] to report.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty() || self.atomics.has_done()
    }

    /// Reports transfers that have ended without a reply from the peer. Returns whether there were
    /// any.
    pub fn deliver(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let any = self.deliver_atomics(peer, sink) | !self.done.is_empty();
        while let Some((token, result)) = self.done.pop_front() {
            self.transfers -= 1;
            sink.transfer_done(peer, token, result);
        }
        any
    }

    /// Whether to report room now to a caller whose send was refused.
    pub fn take_writable(&mut self) -> bool {
        let owed = self.owes_writable();
        self.blocked &= !owed;
        owed
    }

    /// Whether [`Session::take_writable`] would return `true` now.
    pub fn owes_writable(&self) -> bool {
        let room = self.main.outbox.short_bytes() <= self.bounds.queue_bytes / 2
            && self.transfers < self.bounds.max_transfers
            && self.notify_bytes <= self.bounds.queue_bytes / 2;
        self.blocked && room
    }

    fn complete(
        &mut self,
        peer: Peer,
        token: Token,
        result: Result<(), TransferError>,
        sink: &mut dyn Sink,
    ) {
        self.transfers -= 1;
        sink.transfer_done(peer, token, result);
    }

    /// Processes the next bytes of a connection's stream. After an error there must be no further
    /// input.
    pub fn input(
        &mut self,
        at: usize,
        bytes: &[u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        self.read_stream(at, bytes, peer, sink)
    }

    /// Handles a whole frame that is not data for memory.
    fn frame(
        &mut self,
        header: Header,
        payload: &[u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        match header.kind {
            Kind::Packet => sink.handle(peer, Packet::private(payload), self),
            Kind::PutEnd => {
                let notify = header.flag.then_some(payload);
                self.end_put(header.id, header.base, notify, peer, sink)?;
            }
            Kind::PutDone => self.put_done(header.id, !header.flag, peer, sink)?,
            Kind::Get => self.serve(header.id, payload)?,
            Kind::GetDone => self.get_done(&header, peer, sink)?,
            Kind::Probe => self.reply_to_probe(),
            Kind::ProbeReply => {}
            Kind::Goodbye => return Err(PeerError::Closed),
            Kind::Error => {
                let text = String::from_utf8_lossy(payload).escape_debug().to_string();
                return Err(PeerError::Protocol(format!(
                    "it reports a violation of the protocol: {text}"
                )));
            }
            Kind::Invite => self.invited(&header)?,
            Kind::Atomic => self.serve_atomic(&header, payload)?,
            Kind::AtomicDone => self.atomic_done(&header, payload, peer, sink)?,
            // Their payload is not passed here: the inbox writes it to memory.
            Kind::Put | Kind::GetData => {}
        }
        if self.main.outbox.replies() > MAX_REPLIES {
            return Err(violation("it requests more than the windows allow"));
        }
        Ok(())
    }

    fn invited(&mut self, header: &Header) -> Result<(), PeerError> {
        if self.invitation.is_some() || !self.subflows.is_empty() {
            return Err(violation("it invites twice"));
        }
        if header.base == 0 || header.base >= MAX_CONNECTIONS.into() {
            return Err(violation("it invites to a wrong number of connections"));
        }
        self.invitation = Some(Invitation {
            ticket: Ticket::from_words(header.id, header.key),
            subflows: header.base as usize,
        });
        Ok(())
    }

    fn reply_to_probe(&mut self) {
        if !self.probe_reply_waits {
            self.probe_reply_waits = true;
            let header = Header::new(Kind::ProbeReply, 0);
            self.main.outbox.push_short(&header.encode(), &[], 0);
        }
    }

    /// Ends every transfer and export, and drops unsent bytes.
    pub fn fail(&mut self, cause: &PeerError, peer: Peer, sink: &mut dyn Sink) {
        for connection in self.connections_mut() {
            connection.outbox = Outbox::default();
        }
        self.abandon(cause, peer, sink);
    }

    /// Ends every transfer and export; queued packets, and frames that were begun, will still be
    /// sent.
    pub fn abandon(&mut self, cause: &PeerError, peer: Peer, sink: &mut dyn Sink) {
        for connection in self.connections_mut() {
            connection.outbox.detach(|_| true);
            connection.inbox = inbox::Inbox::default();
        }
        self.exports = HashMap::new();
        self.pausing = pausing::Pausing::default();
        let mut tokens = self.puts.take_tokens();
        let bulk = std::mem::take(&mut self.bulk);
        for bulk in bulk.into_iter().chain(std::mem::take(&mut self.spread)) {
            if let Bulk::Put(put) = bulk {
                tokens.push(put.token());
            }
        }
        tokens.extend(self.gets.take_tokens());
        self.notify_bytes = 0;
        self.deliver(peer, sink);
        self.fail_atomics(cause, peer, sink);
        for token in tokens {
            self.complete(peer, token, Err(TransferError::Peer(cause.clone())), sink);
        }
    }
}

/// Pausing.
impl Session {
    /// Delivers no packets from now on.
    pub fn pause(&mut self) {
        self.pausing.is_on = true;
    }

    /// Delivers packets again: [`Session::take_held`] delivers those that were held back.
    pub fn resume(&mut self) {
        self.pausing.is_on = false;
    }

    /// Whether a packet is held back: all later input is kept behind it.
    pub fn is_stopped(&self) -> bool {
        self.pausing.is_stopped()
    }

    /// Whether [`Session::take_held`] has something to do.
    pub fn has_held(&self) -> bool {
        self.pausing.has_held()
    }

    /// Bytes that are held back.
    pub fn held_bytes(&self) -> usize {
        self.pausing.held_bytes()
    }

    /// After [`Session::resume`], processes the input that was held back. Returns whether there was
    /// any.
    pub fn take_held(&mut self, peer: Peer, sink: &mut dyn Sink) -> Result<bool, PeerError> {
        if !self.has_held() {
            return Ok(false);
        }
        let held = self.pausing.take();
        self.input(MAIN, &held, peer, sink)?;
        Ok(true)
    }

    /// Delivers packets that were held back, after the connection has ended.
    pub fn flush_held(&mut self, peer: Peer, sink: &mut dyn Sink) {
        self.resume();
        // The cause of the end is known already.
        let _ = self.take_held(peer, sink);
    }

    /// See [`crate::Method::readiness`].
    pub fn readiness(&mut self) -> Readiness {
        let writable = self.main.outbox.short_bytes() <= self.bounds.queue_bytes / 2;
        self.blocked |= !writable;
        Readiness {
            readable: self.held_bytes() > 0,
            writable,
        }
    }

    /// Shows the peer that this process is alive, although it does not read the peer's bytes.
    pub fn send_keepalive(&mut self) {
        let header = Header::new(Kind::ProbeReply, 0);
        self.main.outbox.push_short(&header.encode(), &[], 0);
    }
}

impl Outlet for Session {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        Self::send(self, parts)
    }
}

fn violation(text: &str) -> PeerError {
    PeerError::Protocol(text.to_owned())
}

#[cfg(test)]
mod tests;
