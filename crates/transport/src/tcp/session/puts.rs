//! Puts: data from our memory into the peer's, and from the peer into what we export.
//!
//! The sender cuts each remote fragment into frames and ends with one [`Kind::PutEnd`]; the receiver
//! answers once. The receiver keeps two words for each put that has begun, and there are at most
//! [`PUT_WINDOW`] of them.

use std::collections::VecDeque;

use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::{Header, Kind, MAX_PIECE, PUT_WINDOW};

use super::cursor::Cursor;
use super::inbox::Stream;
use super::{Bulk, Session, Turn, violation};
use crate::error::{PeerError, TransferError};
use crate::method::{Direction, Packet, Peer, Sink, Token, Transfer};
use crate::tcp::outbox::Lender;

/// The most frames that one turn lines up: a turn of many small ones shall end as well.
const MAX_FRAMES_PER_TURN: usize = 1024;

/// A put of ours that is not sent to its end.
#[derive(Debug)]
pub(super) struct Put {
    id: u64,
    transfer: Transfer,
    local: Cursor,
    remote_index: usize,
    remote_offset: u64,
}

impl Put {
    pub(super) fn new(id: u64, transfer: Transfer) -> Self {
        Self {
            id,
            transfer,
            local: Cursor::default(),
            remote_index: 0,
            remote_offset: 0,
        }
    }

    pub(super) fn token(&self) -> Token {
        self.transfer.token
    }

    /// The remote fragment that comes next, and how much of it is left; `None` at the end.
    fn rest(&mut self) -> Option<(RegionDescriptor, u64)> {
        loop {
            let region = *self.transfer.remote.get(self.remote_index)?;
            let rest = region.len - self.remote_offset;
            if rest > 0 {
                return Some((region, rest));
            }
            self.remote_index += 1;
            self.remote_offset = 0;
        }
    }

    /// The next frame's place and length; `None` at the end.
    fn next(&mut self) -> Option<(RegionDescriptor, u64, usize)> {
        let (region, rest) = self.rest()?;
        let len = rest.min(MAX_PIECE as u64);
        let base = region.base.wrapping_add(self.remote_offset);
        self.remote_offset += len;
        Some((region, base, len as usize))
    }
}

/// A put of ours that waits for its answer.
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
}

#[derive(Debug, Default)]
pub(super) struct Puts {
    /// Ours, not begun.
    pub(super) waiting: VecDeque<Put>,
    /// Ours, begun and not answered.
    begun: usize,
    /// Ours, sent to their end.
    sent: Vec<Sent>,
    /// The peer's.
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

    fn open(&mut self, id: u64) -> Result<&mut Open, PeerError> {
        let at = match self.open.iter().position(|open| open.id == id) {
            Some(at) => at,
            None => {
                if self.open.len() >= PUT_WINDOW {
                    return Err(violation("it begins more puts than the window allows"));
                }
                self.open.push(Open { id, refused: false });
                self.open.len() - 1
            }
        };
        self.open
            .get_mut(at)
            .ok_or_else(|| violation("a put got lost"))
    }
}

/// Our side of our puts.
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
            self.bulk.push_back(Bulk::Put(put));
        }
    }

    pub(super) fn put_turn(&mut self, mut put: Put) -> Turn<Bulk> {
        let mut lined_up = 0;
        for _ in 0..MAX_FRAMES_PER_TURN {
            let Some((region, base, len)) = put.next() else {
                break;
            };
            let mut header = Header::new(Kind::Put, len).with_id(put.id);
            header.key = region.key;
            header.base = base;
            self.outbox.line_up_bytes(&header.encode());
            let mut missing = len;
            while missing > 0 {
                let Some(span) = put.local.peek(&put.transfer.local, missing) else {
                    break;
                };
                put.local.skip(&put.transfer.local, span.len());
                missing -= span.len();
                self.outbox.line_up_memory(span, Lender::Put(put.id));
            }
            lined_up += len;
            if lined_up >= MAX_PIECE {
                break;
            }
        }
        if put.rest().is_some() {
            return Turn::Again(Bulk::Put(put));
        }
        self.line_up_put_end(put);
        Turn::Over
    }

    fn line_up_put_end(&mut self, put: Put) {
        let notifies = put.transfer.notify.is_some();
        let notify = put.transfer.notify.unwrap_or_default();
        let header = Header::new(Kind::PutEnd, notify.len())
            .with_id(put.id)
            .with_flag(notifies);
        self.outbox.line_up_bytes(&header.encode());
        self.outbox.line_up_bytes(&notify);
        self.puts.sent.push(Sent {
            id: put.id,
            token: put.transfer.token,
            notify_bytes: notify.len(),
        });
    }

    pub(super) fn put_done(
        &mut self,
        id: u64,
        landed: bool,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let at = self.puts.sent.iter().position(|sent| sent.id == id);
        // An answer to what is not sent yet would end the transfer while its memory is in use.
        let Some(at) = at.filter(|_| !self.outbox.borrows(Lender::Put(id))) else {
            return Err(violation("it answers a put that was not sent to its end"));
        };
        let sent = self.puts.sent.swap_remove(at);
        self.puts.begun -= 1;
        self.notify_bytes -= sent.notify_bytes;
        let result = if landed {
            Ok(())
        } else {
            Err(TransferError::Protection)
        };
        self.complete(peer, sent.token, result, sink);
        Ok(())
    }
}

/// Our side of the peer's puts.
impl Session {
    pub(super) fn begin_put_data(&mut self, header: &Header) -> Result<Stream, PeerError> {
        let into = self.exported(header.key, header.base, header.len.into(), Direction::Put);
        let open = self.puts.open(header.id)?;
        match into.filter(|_| !open.refused) {
            Some(into) => Ok(Stream::Put {
                id: header.id,
                key: header.key,
                into,
            }),
            None => {
                open.refused = true;
                Ok(Stream::Discard)
            }
        }
    }

    /// Turns away what is arriving under `key`.
    pub(super) fn revoke_put(&mut self, key: u64) {
        let Some((stream @ Stream::Put { .. }, _)) = &mut self.inbox.stream else {
            return;
        };
        if let Stream::Put { id, key: of, .. } = *stream
            && of == key
        {
            *stream = Stream::Discard;
            if let Ok(open) = self.puts.open(id) {
                open.refused = true;
            }
        }
    }

    pub(super) fn end_put(
        &mut self,
        id: u64,
        notify: Option<&[u8]>,
        peer: Peer,
        sink: &mut dyn Sink,
    ) {
        let open = &mut self.puts.open;
        let refused = match open.iter().position(|open| open.id == id) {
            Some(at) => open.swap_remove(at).refused,
            None => false, // it had no bytes
        };
        if let Some(notify) = notify.filter(|_| !refused) {
            sink.packet(peer, Packet::private(notify));
        }
        let answer = Header::new(Kind::PutDone, 0).with_id(id).with_flag(refused);
        self.outbox.push_reply(&answer);
    }
}
