//! Gets: data from the peer's memory into ours, and from our exports to the peer.
//!
//! The requester splits a transfer into *requests* of bounded length and keeps at most
//! [`GET_WINDOW`] of them outstanding; the server replies to them round robin, and keeps only their
//! lists.

use std::collections::{HashMap, VecDeque};

use causeway_sys::memory::Memory;
use causeway_sys::net::Piece;
use causeway_wire::tcp::{
    FRAGMENT_BYTES, Fragment, Fragments, GET_WINDOW, Header, Kind, MAX_GET_BYTES,
    MAX_GET_FRAGMENTS, MAX_PIECE,
};
use smallvec::SmallVec;

use super::coverage::{Coverage, Rejected};
use super::inbox::Stream;
use super::outbox::SpanOwner;
use super::{Bulk, MAIN, Quantum, Session, violation};
use crate::error::{PeerError, TransferError};
use crate::fragments::Cursor;
use crate::method::{Direction, NotifyPacket, Peer, Sink, Token, Transfer};

/// Most separate ranges of one request that may have arrived, over subflows.
const MAX_RANGES: usize = (MAX_GET_BYTES as usize).div_ceil(MAX_PIECE);

/// A get that this side requests.
#[derive(Debug)]
struct Get {
    transfer: Transfer,
    /// The position up to which data was requested.
    local: Cursor,
    remote: Cursor,
    /// Requests without a reply.
    outstanding: usize,
    refused: bool,
}

impl Get {
    /// The next request's fragments, and its length in bytes.
    fn next_request(&mut self) -> (SmallVec<[u8; FRAGMENT_BYTES]>, u64) {
        let mut list = SmallVec::new();
        let mut bytes = 0;
        while list.len() < MAX_GET_FRAGMENTS * FRAGMENT_BYTES && bytes < MAX_GET_BYTES {
            let most = MAX_GET_BYTES - bytes;
            let Some((region, range)) = self.remote.next(&self.transfer.remote, most) else {
                break;
            };
            let fragment = Fragment {
                key: region.key,
                base: region.base.wrapping_add(range.start),
                len: range.end - range.start,
            };
            list.extend_from_slice(&fragment.encode());
            bytes += fragment.len;
        }
        (list, bytes)
    }
}

/// A part of a get that was requested.
#[derive(Debug)]
struct Request {
    id: u64,
    /// The number of the get.
    get: u64,
    into: Cursor,
    /// The bytes whose frames have begun. No byte is accepted twice, so all of them have arrived
    /// when the count reaches the requested length: earlier contents of the memory never count as
    /// data.
    began: Coverage,
    received: u64,
    len: u64,
    /// The end, if it has overtaken data on other connections.
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
struct End {
    bytes: u64,
    refused: bool,
}

#[derive(Debug, Default)]
pub(super) struct Gets {
    all: HashMap<u64, Get>,
    /// Gets with data that was not requested yet.
    asking: VecDeque<u64>,
    requests: Vec<Request>,
    /// The peer's requests whose replies are not complete.
    serving: usize,
}

impl Gets {
    pub(super) fn take_tokens(&mut self) -> Vec<Token> {
        let all = std::mem::take(self).all;
        all.into_values().map(|get| get.transfer.token).collect()
    }

    /// The local list of the get that a request belongs to.
    pub(super) fn local(&self, id: u64) -> &[Memory] {
        let request = self.requests.iter().find(|request| request.id == id);
        let get = request.and_then(|request| self.all.get(&request.get));
        get.map_or(&[], |get| &get.transfer.local)
    }
}

/// Gets that this side requests.
impl Session {
    pub(super) fn begin_get(&mut self, transfer: Transfer) {
        let number = self.number();
        let is_empty = transfer.remote.iter().all(|region| region.len == 0);
        if is_empty {
            self.send_notify(transfer.notify);
            self.done.push_back((transfer.token, Ok(())));
            return;
        }
        let get = Get {
            transfer,
            local: Cursor::default(),
            remote: Cursor::default(),
            outstanding: 0,
            refused: false,
        };
        self.gets.all.insert(number, get);
        self.gets.asking.push_back(number);
    }

    fn send_notify(&mut self, notify: Option<NotifyPacket>) {
        if let Some(notify) = notify {
            self.notify_bytes -= notify.len();
            let header = Header::new(Kind::Packet, notify.len()).encode();
            self.main
                .outbox
                .push_short(&header, &[Piece::Bytes(&notify)], 0);
        }
    }

    pub(super) fn can_issue_get(&self) -> bool {
        self.gets.requests.len() < GET_WINDOW && !self.gets.asking.is_empty()
    }

    pub(super) fn issue_gets(&mut self) {
        while self.gets.requests.len() < GET_WINDOW {
            let Some(number) = self.gets.asking.pop_front() else {
                return;
            };
            let id = self.number();
            let Some(get) = self.gets.all.get_mut(&number) else {
                continue;
            };
            let (list, bytes) = get.next_request();
            if bytes == 0 {
                continue;
            }
            let into = get.local;
            get.local.skip(&get.transfer.local, bytes);
            get.outstanding += 1;
            self.gets.requests.push(Request {
                id,
                get: number,
                into,
                began: Coverage::default(),
                received: 0,
                len: bytes,
                end: None,
            });
            let header = Header::new(Kind::Get, list.len()).with_id(id);
            self.main
                .outbox
                .push_short(&header.encode(), &[Piece::Bytes(&list)], 0);
            self.gets.asking.push_back(number);
        }
    }

    pub(super) fn begin_get_data(&mut self, header: &Header) -> Result<Stream, PeerError> {
        let len = u64::from(header.len);
        let gets = &mut self.gets;
        let asked = gets.requests.iter_mut().find(|request| {
            let end = header.base.checked_add(len);
            request.id == header.id && end.is_some_and(|end| end <= request.len)
        });
        let Some(request) = asked else {
            return Err(violation("it sends data that was not asked for"));
        };
        let range = header.base..header.base + len;
        request
            .began
            .add(range, MAX_RANGES)
            .map_err(|rejected| match rejected {
                Rejected::Overlap => violation("it sends the same data of a get twice"),
                Rejected::Scattered => violation("it sends data of a get in too small pieces"),
            })?;
        let mut at = request.into;
        let number = request.get;
        if let Some(get) = gets.all.get(&number) {
            at.skip(&get.transfer.local, header.base);
        }
        Ok(Stream::Get { id: header.id, at })
    }

    /// Accounts for `count` bytes of a get that have arrived.
    pub(super) fn get_received(
        &mut self,
        id: u64,
        count: u64,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let requests = &mut self.gets.requests;
        let Some(at) = requests.iter().position(|request| request.id == id) else {
            return Ok(());
        };
        let Some(request) = requests.get_mut(at) else {
            return Ok(());
        };
        request.received += count;
        match request.end {
            Some(end) if request.received == end.bytes => {
                self.end_request(at, end.refused, peer, sink);
                Ok(())
            }
            Some(end) if request.received > end.bytes => {
                Err(violation("it sends more data of a get than the end states"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn get_done(
        &mut self,
        header: &Header,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let end = End {
            bytes: header.base,
            refused: header.flag,
        };
        let may_be_on_its_way = self.may_overtake;
        let requests = &mut self.gets.requests;
        let at = requests.iter().position(|request| {
            request.id == header.id
                && request.end.is_none()
                && (request.received == end.bytes
                    || (may_be_on_its_way && request.received < end.bytes))
                && (end.refused || request.len == end.bytes)
                && end.bytes <= request.len
        });
        let Some(at) = at else {
            return Err(violation("it ends a get that is not complete"));
        };
        match requests.get_mut(at).filter(|r| r.received < end.bytes) {
            Some(request) => request.end = Some(end),
            None => self.end_request(at, end.refused, peer, sink),
        }
        Ok(())
    }

    fn end_request(&mut self, at: usize, refused: bool, peer: Peer, sink: &mut dyn Sink) {
        let number = self.gets.requests.swap_remove(at).get;
        let Some(get) = self.gets.all.get_mut(&number) else {
            return;
        };
        get.outstanding -= 1;
        get.refused |= refused;
        if get.refused {
            self.gets.asking.retain(|&asking| asking != number);
        }
        let asked_for_all = get.refused || get.remote.is_at_end(&get.transfer.remote);
        if get.outstanding > 0 || !asked_for_all {
            return;
        }
        self.gets.asking.retain(|&asking| asking != number);
        let Some(get) = self.gets.all.remove(&number) else {
            return;
        };
        let Transfer {
            local,
            notify,
            token,
            ..
        } = get.transfer;
        drop(local);
        if get.refused {
            self.notify_bytes -= notify.map_or(0, |notify| notify.len());
            self.complete(peer, token, Err(TransferError::Protection), sink);
        } else {
            self.send_notify(notify);
            self.complete(peer, token, Ok(()), sink);
        }
    }
}

/// A request of the peer's that is being served.
#[derive(Debug)]
pub(super) struct Serve {
    id: u64,
    fragments: Fragments,
    index: usize,
    offset: u64,
    sent: u64,
}

/// Gets that the peer requests.
impl Session {
    pub(super) fn serve(&mut self, id: u64, payload: &[u8]) -> Result<(), PeerError> {
        if self.gets.serving >= GET_WINDOW {
            return Err(violation("it requests more gets than the window allows"));
        }
        let fragments = Fragment::decode_list(payload)
            .map_err(|error| PeerError::Protocol(error.to_string()))?;
        self.gets.serving += 1;
        let bytes = fragments.iter().map(|fragment| fragment.len).sum();
        let serve = Serve {
            id,
            fragments,
            index: 0,
            offset: 0,
            sent: 0,
        };
        self.queue_bulk(Bulk::Serve(serve), bytes);
        Ok(())
    }

    pub(super) fn serve_quantum(&mut self, mut serve: Serve, at: usize) -> Quantum<Bulk> {
        let Some(spans) = self.gather(&mut serve) else {
            self.end_serve(&serve, false, at);
            return Quantum::Over;
        };
        let len = spans.iter().map(|(_, memory)| memory.len()).sum();
        let mut header = Header::new(Kind::GetData, len).with_id(serve.id);
        header.base = serve.sent;
        let outbox = &mut self.connection(at).outbox;
        outbox.commit_bytes(&header.encode());
        for (key, memory) in spans {
            outbox.commit_memory(memory, SpanOwner::Export(key));
        }
        serve.sent += len as u64;
        if serve.index < serve.fragments.len() {
            return Quantum::Again(Bulk::Serve(serve));
        }
        self.end_serve(&serve, true, at);
        Quantum::Over
    }

    fn end_serve(&mut self, serve: &Serve, served: bool, at: usize) {
        self.gets.serving -= 1;
        let header = Header::new(Kind::GetDone, 0)
            .with_id(serve.id)
            .with_base(serve.sent)
            .with_flag(!served);
        match at {
            MAIN => self.main.outbox.commit_reply(&header),
            _ => self.main.outbox.push_reply(&header, &[]),
        }
    }

    /// The memory of the next frame; `None` if the peer may not read it.
    fn gather(&self, serve: &mut Serve) -> Option<SmallVec<[(u64, Memory); 1]>> {
        let mut spans = SmallVec::new();
        let mut room = MAX_PIECE as u64;
        while room > 0 {
            let Some(fragment) = serve.fragments.get(serve.index) else {
                break;
            };
            let len = (fragment.len - serve.offset).min(room);
            let base = fragment.base.checked_add(serve.offset)?;
            let memory = self.exported(fragment.key, base, len, Direction::Get)?;
            spans.push((fragment.key, memory));
            room -= len;
            serve.offset += len;
            if serve.offset == fragment.len {
                serve.index += 1;
                serve.offset = 0;
            }
        }
        Some(spans)
    }
}
