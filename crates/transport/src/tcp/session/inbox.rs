//! Finds the frames in the stream. Data for memory goes there at once; every other frame is shown
//! whole, from where it lies if it came in one piece.

use causeway_sys::memory::Memory;
use causeway_wire::tcp::{HEADER_BYTES, Header, Kind};

use super::Session;
use crate::error::PeerError;
use crate::method::{Peer, Sink};

/// Below this many expected bytes of data a read straight into memory does not pay.
const DIRECT_FROM_BYTES: usize = 8 * 1024;

/// Where the payload that is arriving goes.
#[derive(Debug)]
pub(super) enum Stream {
    /// Into an export: the span for what is still to come.
    Put { id: u64, key: u64, into: Memory },
    /// Into nothing.
    Discard,
    /// Into the local list of the get with this number.
    Get { id: u64 },
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The beginning of a frame whose rest has not come: at most a header and a packet.
    partial: Vec<u8>,
    /// Data that is arriving, and how much of it is to come: never 0.
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
        mut bytes: &[u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            bytes = if self.inbox.stream.is_some() {
                self.read_data(bytes)
            } else if self.inbox.partial.is_empty() {
                self.read_frame(bytes, peer, sink)?
            } else {
                self.read_rest_of_frame(bytes, peer, sink)?
            };
        }
        Ok(())
    }

    /// A frame begins at the front of `bytes`. Answers what follows.
    fn read_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<&'a [u8], PeerError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            self.inbox.partial.extend_from_slice(bytes);
            return Ok(&[]);
        };
        let header = decode(header)?;
        if is_data(header.kind) {
            self.begin_data(&header)?;
            return Ok(rest);
        }
        let Some((payload, rest)) = rest.split_at_checked(header.payload_len()) else {
            self.inbox.partial.extend_from_slice(bytes);
            return Ok(&[]);
        };
        self.frame(header, payload, peer, sink)?;
        Ok(rest)
    }

    /// `bytes` continue a frame whose beginning was kept. Answers what follows.
    fn read_rest_of_frame<'a>(
        &mut self,
        bytes: &'a [u8],
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<&'a [u8], PeerError> {
        let bytes = self.top_up(bytes, HEADER_BYTES);
        let Some(header) = self.inbox.partial.first_chunk::<HEADER_BYTES>() else {
            return Ok(bytes);
        };
        let header = decode(header)?;
        if is_data(header.kind) {
            self.inbox.partial = Vec::new();
            self.begin_data(&header)?;
            return Ok(bytes);
        }
        let whole = HEADER_BYTES + header.payload_len();
        let bytes = self.top_up(bytes, whole);
        if self.inbox.partial.len() == whole {
            let frame = std::mem::take(&mut self.inbox.partial);
            let payload = frame.get(HEADER_BYTES..).unwrap_or_default();
            self.frame(header, payload, peer, sink)?;
        }
        Ok(bytes)
    }

    /// Moves bytes to the kept beginning until it has `len`; answers what is left of `bytes`.
    fn top_up<'a>(&mut self, bytes: &'a [u8], len: usize) -> &'a [u8] {
        let partial = &mut self.inbox.partial;
        let missing = len.saturating_sub(partial.len()).min(bytes.len());
        let (now, rest) = bytes.split_at(missing);
        partial.extend_from_slice(now);
        rest
    }

    fn begin_data(&mut self, header: &Header) -> Result<(), PeerError> {
        let stream = match header.kind {
            Kind::Put => self.begin_put_data(header)?,
            _ => self.begin_get_data(header)?,
        };
        if header.payload_len() > 0 {
            self.inbox.stream = Some((stream, header.payload_len()));
        }
        Ok(())
    }

    fn read_data<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some((stream, missing)) = &mut self.inbox.stream else {
            return bytes;
        };
        let (now, rest) = bytes.split_at((*missing).min(bytes.len()));
        match stream {
            Stream::Put { into, .. } => {
                into.write_at(0, now);
                *into = into.slice(now.len()..into.len());
            }
            Stream::Discard => {}
            Stream::Get { id } => self.gets.write(*id, now),
        }
        self.data_came(now.len());
        rest
    }

    fn data_came(&mut self, count: usize) {
        if let Some((_, missing)) = &mut self.inbox.stream {
            *missing -= count;
            if *missing == 0 {
                self.inbox.stream = None;
            }
        }
    }

    /// If much data is expected, puts the spans that it belongs to, in order and at most `most` of
    /// them, into `spans`. Bytes read behind them are the next input.
    pub fn direct(&self, most: usize, spans: &mut Vec<Memory>) -> bool {
        spans.clear();
        match &self.inbox.stream {
            Some((stream, missing)) if *missing >= DIRECT_FROM_BYTES => match stream {
                Stream::Put { into, .. } => spans.push(into.clone()),
                Stream::Discard => {}
                Stream::Get { id } => self.gets.spans(*id, *missing, most, spans),
            },
            _ => {}
        }
        !spans.is_empty()
    }

    /// `count` bytes, not more than [`Session::direct`]'s spans have, were read into them.
    pub fn direct_done(&mut self, count: usize) {
        match &mut self.inbox.stream {
            Some((Stream::Put { into, .. }, _)) => *into = into.slice(count..into.len()),
            Some((Stream::Get { id }, _)) => self.gets.skip(*id, count),
            _ => {}
        }
        self.data_came(count);
    }

    /// Whether the stream stands between two frames.
    pub fn is_between_frames(&self) -> bool {
        self.inbox.partial.is_empty() && self.inbox.stream.is_none()
    }
}

fn is_data(kind: Kind) -> bool {
    matches!(kind, Kind::Put | Kind::GetData)
}

fn decode(header: &[u8; HEADER_BYTES]) -> Result<Header, PeerError> {
    Header::decode(header).map_err(|error| PeerError::Protocol(error.to_string()))
}
