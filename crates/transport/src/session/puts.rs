//! Puts: data from our memory into the peer's, and from the peer into our exports.
//!
//! The sender splits each remote fragment into frames and ends with one [`Kind::PutEnd`]; the
//! receiver replies once. The receiver keeps two words for each put that has begun, and there are
//! at most [`PUT_WINDOW`] of them.

use std::collections::VecDeque;
use std::ops::Range;

use causeway_sys::net::Piece;
use causeway_wire::tcp::{Header, Kind, MAX_PIECE, PUT_WINDOW};

use super::inbox::Stream;
use super::outbox::SpanOwner;
use super::{
    Bulk, FIRST_BASE, MAIN, MAX_WRITTEN_RANGES, Quantum, SPREAD_FROM_BYTES, Session, violation,
};
use crate::error::{PeerError, TransferError};
use crate::fragments::Cursor;
use crate::method::{Direction, Packet, Peer, Sink, Token, Transfer};

/// The most frames that one quantum commits, so that a quantum of many small ones ends as well.
const MAX_FRAMES_PER_QUANTUM: usize = 1024;

/// A put of this side that is not completely sent.
#[derive(Debug)]
pub(super) struct Put {
    id: u64,
    transfer: Transfer,
    local: Cursor,
    remote: Cursor,
    bytes: u64,
}

impl Put {
    pub(super) fn new(id: u64, transfer: Transfer) -> Self {
        Self {
            id,
            bytes: transfer.local_bytes(),
            transfer,
            local: Cursor::default(),
            remote: Cursor::default(),
        }
    }

    pub(super) fn token(&self) -> Token {
        self.transfer.token
    }
}

/// A put of this side that waits for its reply.
#[derive(Debug)]
struct Sent {
    id: u64,
    token: Token,
    notify_bytes: usize,
}

/// A put of the peer's that has begun.
#[derive(Debug)]
struct Open {
    id: u64,
    refused: bool,
    received: u64,
    /// The end, if it has overtaken data on other connections.
    end: Option<End>,
}

#[derive(Debug)]
struct End {
    bytes: u64,
    notify: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Puts {
    /// Of this side, not begun.
    pub(super) waiting: VecDeque<Put>,
    /// Of this side, begun, without a reply yet.
    begun: usize,
    /// Of this side, completely sent.
    sent: Vec<Sent>,
    /// Of the peer.
    open: Vec<Open>,
}

impl Puts {
    pub(super) fn take_tokens(&mut self) -> Vec<Token> {
        let all = std::mem::take(self);
        let waiting = all.waiting.into_iter().map(|put| put.transfer.token);
        all.sent
            .iter()
            .map(|sent| sent.token)
            .chain(waiting)
            .collect()
    }

    /// Bytes of notify packets that wait for data.
    pub(super) fn owned_bytes(&self) -> usize {
        let ends = self.open.iter().filter_map(|open| open.end.as_ref());
        ends.filter_map(|end| Some(end.notify.as_ref()?.capacity()))
            .sum()
    }

    fn open(&mut self, id: u64) -> Result<&mut Open, PeerError> {
        let at = match self.open.iter().position(|open| open.id == id) {
            Some(at) => at,
            None => {
                if self.open.len() >= PUT_WINDOW {
                    return Err(violation("it begins more puts than the window allows"));
                }
                self.open.push(Open {
                    id,
                    refused: false,
                    received: 0,
                    end: None,
                });
                self.open.len() - 1
            }
        };
        self.open
            .get_mut(at)
            .ok_or_else(|| violation("a put is unknown"))
    }
}

/// Puts of this side.
impl Session {
    pub(super) fn can_start_put(&self) -> bool {
        self.puts.begun < PUT_WINDOW && !self.puts.waiting.is_empty()
    }

    pub(super) fn start_puts(&mut self) {
        while self.puts.begun < PUT_WINDOW {
            let Some(put) = self.puts.waiting.pop_front() else {
                return;
            };
            self.puts.begun += 1;
            let bytes = put.bytes;
            self.queue_bulk(Bulk::Put(put), bytes);
        }
    }

    pub(super) fn put_quantum(&mut self, mut put: Put, at: usize) -> Quantum<Bulk> {
        let mut committed = 0;
        for _ in 0..MAX_FRAMES_PER_QUANTUM {
            let Transfer { local, remote, .. } = &put.transfer;
            let Some((region, range)) = put.remote.next(remote, MAX_PIECE as u64) else {
                break;
            };
            let bytes = range.end - range.start;
            let len = bytes as usize;
            let mut header = Header::new(Kind::Put, len).with_id(put.id);
            header.key = region.key;
            header.base = region.base.wrapping_add(range.start);
            let outbox = &mut self.connection(at).outbox;
            outbox.commit_bytes(&header.encode());
            for span in put.local.spans(local, bytes) {
                outbox.commit_memory(span, SpanOwner::Put(put.id));
            }
            committed += len;
            if committed >= MAX_PIECE {
                break;
            }
        }
        if !put.remote.is_at_end(&put.transfer.remote) {
            return Quantum::Again(Bulk::Put(put));
        }
        self.commit_put_end(put, at);
        Quantum::Over
    }

    fn commit_put_end(&mut self, put: Put, at: usize) {
        let notifies = put.transfer.notify.is_some();
        let notify = put.transfer.notify.unwrap_or_default();
        let header = Header::new(Kind::PutEnd, notify.len())
            .with_id(put.id)
            .with_base(put.bytes)
            .with_flag(notifies);
        let outbox = &mut self.main.outbox;
        if at == MAIN {
            outbox.commit_bytes(&header.encode());
            outbox.commit_bytes(&notify);
        } else {
            outbox.push_short(&header.encode(), &[Piece::Bytes(&notify)], 0);
        }
        self.puts.sent.push(Sent {
            id: put.id,
            token: put.transfer.token,
            notify_bytes: notify.len(),
        });
    }

    /// Whether data of this side's put is committed and unsent.
    fn is_sending(&self, id: u64) -> bool {
        self.connections()
            .any(|connection| connection.outbox.borrows(SpanOwner::Put(id)))
    }

    pub(super) fn put_done(
        &mut self,
        id: u64,
        received: bool,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let at = self.puts.sent.iter().position(|sent| sent.id == id);
        // A reply to bytes that are not sent yet would end the transfer while its memory is in use.
        let Some(at) = at.filter(|_| !self.is_sending(id)) else {
            return Err(violation(
                "it replies to a put that has not been sent completely",
            ));
        };
        let sent = self.puts.sent.swap_remove(at);
        self.puts.begun -= 1;
        self.notify_bytes -= sent.notify_bytes;
        let result = if received {
            Ok(())
        } else {
            Err(TransferError::Protection)
        };
        self.complete(peer, sent.token, result, sink);
        Ok(())
    }
}

/// Puts of the peer.
impl Session {
    pub(super) fn begin_put_data(&mut self, header: &Header) -> Result<Stream, PeerError> {
        self.wants_subflows |= u64::from(header.len) >= SPREAD_FROM_BYTES;
        let into = self.exported(header.key, header.base, header.len.into(), Direction::Put);
        let open = self.puts.open(header.id)?;
        match into.filter(|_| !open.refused) {
            Some(into) => Ok(Stream::Put {
                id: header.id,
                key: header.key,
                frame: header.base..header.base + u64::from(header.len),
                into,
            }),
            None => {
                open.refused = true;
                Ok(Stream::Discard { id: header.id })
            }
        }
    }

    /// Notes which part of the export a frame of a put writes.
    pub(super) fn note_written(&mut self, key: u64, frame: &Range<u64>) {
        let Some(export) = self.exports.get_mut(&key) else {
            return;
        };
        let Some(written) = &mut export.written else {
            return;
        };
        let part = frame.start.saturating_sub(FIRST_BASE)..frame.end.saturating_sub(FIRST_BASE);
        if written.add_again(part, MAX_WRITTEN_RANGES).is_err() {
            export.written = None;
        }
    }

    /// Discards bytes that arrive under `key`.
    pub(super) fn revoke_put(&mut self, key: u64) {
        for connection in std::iter::once(&mut self.main).chain(&mut self.subflows) {
            let Some((stream, _)) = &mut connection.inbox.stream else {
                continue;
            };
            if let Stream::Put { id, key: of, .. } = *stream
                && of == key
            {
                *stream = Stream::Discard { id };
                if let Ok(open) = self.puts.open(id) {
                    open.refused = true;
                }
            }
        }
    }

    /// Accounts for `count` bytes of a put that have arrived, or were discarded.
    pub(super) fn put_received(
        &mut self,
        id: u64,
        count: u64,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let open = &mut self.puts.open;
        let Some(at) = open.iter().position(|open| open.id == id) else {
            return Ok(());
        };
        let Some(entry) = open.get_mut(at) else {
            return Ok(());
        };
        entry.received += count;
        match &entry.end {
            Some(end) if entry.received > end.bytes => {
                Err(violation("it sends more data of a put than the end states"))
            }
            Some(end) if entry.received == end.bytes => {
                let entry = open.swap_remove(at);
                let notify = entry.end.and_then(|end| end.notify);
                self.reply_to_put(id, entry.refused, notify.as_deref(), peer, sink);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn end_put(
        &mut self,
        id: u64,
        bytes: u64,
        notify: Option<&[u8]>,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let may_be_on_its_way = self.may_overtake;
        let at = self.puts.open.iter().position(|open| open.id == id);
        let received = at.and_then(|at| self.puts.open.get(at));
        let received = received.map_or(0, |open| open.received);
        if received == bytes {
            let open = at.map(|at| self.puts.open.swap_remove(at));
            let refused = open.is_some_and(|open| open.refused);
            self.reply_to_put(id, refused, notify, peer, sink);
            return Ok(());
        }
        let open = self.puts.open(id)?;
        if !may_be_on_its_way || received > bytes || open.end.is_some() {
            return Err(violation("it ends a put that is not complete"));
        }
        open.end = Some(End {
            bytes,
            notify: notify.map(<[u8]>::to_vec),
        });
        Ok(())
    }

    fn reply_to_put(
        &mut self,
        id: u64,
        refused: bool,
        notify: Option<&[u8]>,
        peer: Peer,
        sink: &mut dyn Sink,
    ) {
        if let Some(notify) = notify.filter(|_| !refused) {
            sink.handle(peer, Packet::private(notify), self);
        }
        let reply = Header::new(Kind::PutDone, 0).with_id(id).with_flag(refused);
        self.main.outbox.push_reply(&reply, &[]);
    }
}
