//! Finds the frames in the stream. Data for memory is written there at once; every other frame is
//! processed whole, without a copy if it arrived in one piece. A large packet may be treated like
//! data: its first bytes are passed to the sink, once, and if the sink has a receive buffer for the
//! rest, the rest is written there too.

use std::ops::Range;

use causeway_sys::memory::Memory;
use causeway_wire::tcp::{HEADER_BYTES, Header, Kind};

use super::{MAIN, Session, violation};
use crate::error::PeerError;
use crate::fragments::Cursor;
use crate::method::{PLACEMENT_HEAD_BYTES, Peer, Sink, Spans};

/// With less data than this expected, reading straight into memory does not pay.
const DIRECT_FROM_BYTES: usize = 8 * 1024;

/// Where to write the payload that is arriving.
#[derive(Debug)]
pub(super) enum Stream {
    /// Into an export: the span for the rest of the frame, and the memory of the whole frame.
    Put {
        id: u64,
        key: u64,
        frame: Range<u64>,
        into: Memory,
    },
    /// Into nothing: data of the put with this number.
    Discard { id: u64 },
    /// Into the local list of the get with this number, from `at` on.
    Get { id: u64, at: Cursor },
    /// Into the memory that the sink provided for a packet.
    Packet(Placement),
}

/// A packet that is written straight into a receive buffer of the sink.
#[derive(Debug)]
pub(super) struct Placement {
    head: [u8; PLACEMENT_HEAD_BYTES],
    /// The receive buffer for the bytes behind the head, and how far it is filled.
    into: Spans,
    at: Cursor,
}

impl Placement {
    /// The bytes of the frame that have arrived; `missing` bytes have not.
    fn to_frame(&self, missing: usize) -> Vec<u8> {
        let len: usize = self.into.iter().map(Memory::len).sum();
        let payload = PLACEMENT_HEAD_BYTES + len;
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload);
        frame.extend_from_slice(&Header::new(Kind::Packet, payload).encode());
        frame.extend_from_slice(&self.head);
        let came = len.saturating_sub(missing) as u64;
        for memory in Cursor::default().spans(&self.into, came) {
            frame.extend_from_slice(&memory.to_vec());
        }
        frame
    }
}

/// Bytes of a packet's frame that must have arrived before the sink is called for a receive buffer.
const PLACEMENT_FROM_BYTES: usize = HEADER_BYTES + PLACEMENT_HEAD_BYTES;

/// The transfer or packet that data belongs to.
enum Received {
    Put(u64),
    Get(u64),
    Packet([u8; PLACEMENT_HEAD_BYTES]),
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The beginning of a frame whose rest has not arrived: at most a header and a packet. The sink
    /// is not called (again) for a receive buffer when a packet has [`PLACEMENT_FROM_BYTES`] bytes.
    partial: Vec<u8>,
    /// Data that is arriving, and how many bytes are missing: never 0.
    pub(super) stream: Option<(Stream, usize)>,
}

impl Inbox {
    pub(super) fn owned_bytes(&self) -> usize {
        self.partial.capacity()
    }
}

impl Session {
    pub(super) fn read_stream(
        &mut self,
        at: usize,
        mut bytes: &[u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            if at == MAIN && !self.pausing.is_idle() {
                let Inbox { partial, stream } = &self.main.inbox;
                if stream.is_none() && self.pausing.hold_back(partial, bytes) {
                    return Ok(());
                }
            }
            let inbox = &self.connection(at).inbox;
            bytes = if inbox.stream.is_some() {
                self.read_data(at, bytes, peer, sink)?
            } else if inbox.partial.is_empty() {
                self.read_frame(at, bytes, peer, sink)?
            } else {
                self.read_rest_of_frame(at, bytes, peer, sink)?
            };
        }
        Ok(())
    }

    /// Reads a frame that begins at the front of `bytes`. Returns the bytes after it.
    fn read_frame<'a>(
        &mut self,
        at: usize,
        bytes: &'a [u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<&'a [u8], PeerError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            self.connection(at).inbox.partial.extend_from_slice(bytes);
            return Ok(&[]);
        };
        let header = decode(header)?;
        check_subflow(at, header.kind)?;
        if is_data(header.kind) {
            self.begin_data(at, &header)?;
            return Ok(rest);
        }
        let Some((payload, rest)) = rest.split_at_checked(header.payload_len()) else {
            if let Some((head, behind)) = rest.split_first_chunk()
                && self.begin_placement(at, &header, head, behind.len(), peer, sink)
            {
                return Ok(behind);
            }
            self.connection(at).inbox.partial.extend_from_slice(bytes);
            return Ok(&[]);
        };
        self.frame(header, payload, peer, sink)?;
        Ok(rest)
    }

    /// Continues a frame whose beginning was kept with `bytes`. Returns the bytes after it.
    fn read_rest_of_frame<'a>(
        &mut self,
        at: usize,
        bytes: &'a [u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<&'a [u8], PeerError> {
        let asked = self.connection(at).inbox.partial.len() >= PLACEMENT_FROM_BYTES;
        let bytes = self.top_up(at, bytes, HEADER_BYTES);
        let Some(header) = self
            .connection(at)
            .inbox
            .partial
            .first_chunk::<HEADER_BYTES>()
        else {
            return Ok(bytes);
        };
        let header = decode(header)?;
        check_subflow(at, header.kind)?;
        if is_data(header.kind) {
            self.connection(at).inbox.partial = Vec::new();
            self.begin_data(at, &header)?;
            return Ok(bytes);
        }
        let whole = HEADER_BYTES + header.payload_len();
        let mut bytes = bytes;
        if !asked && whole > PLACEMENT_FROM_BYTES {
            bytes = self.top_up(at, bytes, PLACEMENT_FROM_BYTES);
            let Some((_, head)) = self.connection(at).inbox.partial.split_last_chunk() else {
                return Ok(bytes);
            };
            let (head, complete) = (
                *head,
                self.connection(at).inbox.partial.len() == PLACEMENT_FROM_BYTES,
            );
            if complete && self.begin_placement(at, &header, &head, bytes.len(), peer, sink) {
                self.connection(at).inbox.partial = Vec::new();
                return Ok(bytes);
            }
        }
        let bytes = self.top_up(at, bytes, whole);
        if self.connection(at).inbox.partial.len() == whole {
            let frame = std::mem::take(&mut self.connection(at).inbox.partial);
            let payload = frame.get(HEADER_BYTES..).unwrap_or_default();
            self.frame(header, payload, peer, sink)?;
        }
        Ok(bytes)
    }

    /// Calls the sink for a receive buffer for a packet that begins with `head`, if much of it is
    /// still to arrive after the `there` bytes behind the head. If the sink provides one, the bytes
    /// behind the head are data for it.
    fn begin_placement(
        &mut self,
        at: usize,
        header: &Header,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        there: usize,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> bool {
        let len = header.payload_len();
        let missing = len.saturating_sub(PLACEMENT_HEAD_BYTES);
        if header.kind != Kind::Packet || missing < there.saturating_add(DIRECT_FROM_BYTES) {
            return false;
        }
        let mut into = Spans::new();
        if !sink.receive_buffer(peer, head, len, &mut into) {
            return false;
        }
        debug_assert_eq!(into.iter().map(Memory::len).sum::<usize>(), missing);
        let placement = Placement {
            head: *head,
            into,
            at: Cursor::default(),
        };
        self.connection(at).inbox.stream = Some((Stream::Packet(placement), missing));
        true
    }

    /// Cancels the placement of a packet: its bytes, those that have arrived and later ones, are
    /// kept here.
    pub fn cancel_placement(&mut self) {
        let inbox = &mut self.main.inbox;
        match inbox.stream.take() {
            Some((Stream::Packet(placement), missing)) => {
                inbox.partial = placement.to_frame(missing)
            }
            stream => inbox.stream = stream,
        }
    }

    /// Moves bytes to the kept beginning until it has `len`; returns the rest of `bytes`.
    fn top_up<'a>(&mut self, at: usize, bytes: &'a [u8], len: usize) -> &'a [u8] {
        let partial = &mut self.connection(at).inbox.partial;
        let missing = len.saturating_sub(partial.len()).min(bytes.len());
        let (now, rest) = bytes.split_at(missing);
        partial.extend_from_slice(now);
        rest
    }

    fn begin_data(&mut self, at: usize, header: &Header) -> Result<(), PeerError> {
        let stream = match header.kind {
            Kind::Put => self.begin_put_data(header)?,
            _ => self.begin_get_data(header)?,
        };
        if header.payload_len() > 0 {
            self.connection(at).inbox.stream = Some((stream, header.payload_len()));
        }
        Ok(())
    }

    fn read_data<'a>(
        &mut self,
        at: usize,
        bytes: &'a [u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<&'a [u8], PeerError> {
        let Some((mut stream, missing)) = self.connection(at).inbox.stream.take() else {
            return Ok(bytes);
        };
        let (now, rest) = bytes.split_at(missing.min(bytes.len()));
        match &mut stream {
            Stream::Put { into, .. } => {
                into.write_at(0, now);
                *into = into.slice(now.len()..into.len());
            }
            Stream::Discard { .. } => {}
            Stream::Get { id, at } => at.write(self.gets.local(*id), now),
            Stream::Packet(Placement { into, at, .. }) => at.write(into, now),
        }
        self.data_came(at, stream, missing, now.len(), peer, sink)?;
        Ok(rest)
    }

    /// Accounts for `count` of the `missing` bytes of a stream.
    fn data_came(
        &mut self,
        at: usize,
        stream: Stream,
        missing: usize,
        count: usize,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let received = match &stream {
            Stream::Put { id, .. } | Stream::Discard { id } => Received::Put(*id),
            Stream::Get { id, .. } => Received::Get(*id),
            Stream::Packet(placement) => Received::Packet(placement.head),
        };
        let missing = missing.saturating_sub(count);
        if missing == 0
            && let Stream::Put { key, frame, .. } = &stream
        {
            self.note_written(*key, frame);
        }
        // The received spans are dropped before their transfer, or their packet, may end.
        self.connection(at).inbox.stream = (missing > 0).then_some((stream, missing));
        match received {
            Received::Put(id) => self.put_received(id, count as u64, peer, sink),
            Received::Get(id) => self.get_received(id, count as u64, peer, sink),
            Received::Packet(head) => {
                if missing == 0 {
                    sink.placement_done(peer, &head);
                }
                Ok(())
            }
        }
    }

    /// If much data is expected, puts its spans, in order and at most `most` of them, into `spans`.
    /// Bytes that are read beyond them are the next input.
    pub fn direct(&self, at: usize, most: usize, spans: &mut Vec<Memory>) -> bool {
        spans.clear();
        match &self.connection_ref(at).inbox.stream {
            Some((stream, missing)) if *missing >= DIRECT_FROM_BYTES => match stream {
                Stream::Put { into, .. } => spans.push(into.clone()),
                Stream::Discard { .. } => {}
                Stream::Get { id, at } => {
                    let into = self.gets.local(*id);
                    spans.extend({ *at }.spans(into, *missing as u64).take(most));
                }
                Stream::Packet(Placement { into, at, .. }) => {
                    spans.extend({ *at }.spans(into, *missing as u64).take(most));
                }
            },
            _ => {}
        }
        !spans.is_empty()
    }

    /// Accounts for `count` bytes that were read into [`Session::direct`]'s spans: at most their
    /// length.
    pub fn direct_done(
        &mut self,
        at: usize,
        count: usize,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        let Some((mut stream, missing)) = self.connection(at).inbox.stream.take() else {
            return Ok(());
        };
        match &mut stream {
            Stream::Put { into, .. } => *into = into.slice(count..into.len()),
            Stream::Discard { .. } => {}
            Stream::Get { id, at } => at.skip(self.gets.local(*id), count as u64),
            Stream::Packet(Placement { into, at, .. }) => at.skip(into, count as u64),
        }
        self.data_came(at, stream, missing, count, peer, sink)
    }

    /// Whether every stream is between two frames.
    #[cfg(test)]
    pub(super) fn is_between_frames(&self) -> bool {
        self.connections().all(|connection| {
            connection.inbox.partial.is_empty() && connection.inbox.stream.is_none()
        })
    }
}

fn is_data(kind: Kind) -> bool {
    matches!(kind, Kind::Put | Kind::GetData)
}

/// Refuses everything but data on subflows: everything else has an order.
fn check_subflow(at: usize, kind: Kind) -> Result<(), PeerError> {
    match at == MAIN || is_data(kind) {
        true => Ok(()),
        false => Err(violation("it sends ordered frames on a subflow")),
    }
}

fn decode(header: &[u8; HEADER_BYTES]) -> Result<Header, PeerError> {
    Header::decode(header).map_err(|error| PeerError::Protocol(error.to_string()))
}
