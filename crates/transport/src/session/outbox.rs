//! The queue of data to be sent on one connection, in order, at byte granularity.
//!
//! It accepts two kinds of frames: *short* frames (packets, requests, replies), which are copied
//! and never wait for more than what is already committed, and *bulk* frames, which are committed
//! one quantum at a time and refer to memory instead of copying it. The socket code takes the front
//! with [`Outbox::pieces`] and reports with [`Outbox::advance`] how many bytes it has sent.

use std::collections::VecDeque;

use causeway_sys::memory::Memory;
use causeway_sys::net::{MAX_PIECES, Piece};
use causeway_wire::tcp::{HEADER_BYTES, Header};
use smallvec::SmallVec;

/// Spans shorter than this are copied next to their header: that is cheaper than one more piece.
const COPY_BELOW_BYTES: usize = 2048;

/// Buffers up to this size are kept for the next burst, one for each connection; larger ones are freed. A packet with a message of 1 KiB
/// and its headers fits: 2 MiB for 1,000 connections that have sent such packets.
const RECYCLED_BYTES: usize = 2048;

/// Private parts of bulk frames are joined in buffers of at most this size. A buffer is freed, and
/// the replies in it are counted as sent, only when all of it has left, so its size is bounded.
const JOIN_BELOW_BYTES: usize = 64 * 1024;

/// The owner of a span of memory that the outbox refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanOwner {
    /// This side's put of this number.
    Put(u64),
    /// This side's export under this key.
    Export(u64),
}

/// Private bytes. Two headers, such as the end of one reply and the beginning of the next, need no
/// allocation.
type Bytes = SmallVec<[u8; 2 * HEADER_BYTES]>;

#[derive(Debug)]
enum Segment {
    Bytes {
        data: Bytes,
        sent: usize,
        /// Whether these are short frames, which count against the limit of queued bytes.
        short: bool,
        replies: usize,
    },
    Memory {
        memory: Memory,
        owner: SpanOwner,
    },
}

impl Segment {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes { data, sent, .. } => data.len() - sent,
            Self::Memory { memory, .. } => memory.len(),
        }
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    segments: VecDeque<Segment>,
    /// Bytes in `segments`.
    committed: usize,
    /// Pending short frames: complete, and not committed yet.
    pending_short: Vec<u8>,
    pending_replies: usize,
    /// Bytes of short frames, committed or not.
    short_bytes: usize,
    /// Replies to the peer's requests, committed or not.
    replies: usize,
}

impl Outbox {
    /// Whether nothing is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.committed == 0 && self.pending_short.is_empty()
    }

    /// Bytes of short frames that are queued.
    pub(crate) fn short_bytes(&self) -> usize {
        self.short_bytes
    }

    /// Bytes of buffers that are allocated now.
    pub(super) fn owned_bytes(&self) -> usize {
        let data = |segment: &Segment| match segment {
            Segment::Bytes { data, .. } if data.spilled() => data.capacity(),
            Segment::Bytes { .. } | Segment::Memory { .. } => 0,
        };
        self.segments.iter().map(data).sum::<usize>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.pending_short.capacity()
    }

    /// Bytes that are committed to the stream: their order is final.
    pub(crate) fn committed(&self) -> usize {
        self.committed
    }

    /// Replies that are queued.
    pub(super) fn replies(&self) -> usize {
        self.replies
    }

    /// Queues a short frame, without its first `skip` bytes (which were sent already).
    pub(super) fn push_short(&mut self, header: &[u8], parts: &[Piece<'_>], mut skip: usize) {
        let before = self.pending_short.len();
        let len = header.len() + parts.iter().map(Piece::len).sum::<usize>();
        self.pending_short.reserve(len.saturating_sub(skip));
        for part in std::iter::once(&Piece::Bytes(header)).chain(parts) {
            let from = skip.min(part.len());
            skip -= from;
            match part {
                Piece::Bytes(bytes) => self
                    .pending_short
                    .extend_from_slice(bytes.get(from..).unwrap_or_default()),
                Piece::Memory(memory) => memory.append_from(from, &mut self.pending_short),
            }
        }
        self.short_bytes += self.pending_short.len() - before;
    }

    /// Queues the reply to a request.
    pub(super) fn push_reply(&mut self, header: &Header, payload: &[u8]) {
        self.push_short(&header.encode(), &[Piece::Bytes(payload)], 0);
        self.pending_replies += 1;
        self.replies += 1;
    }

    /// Commits the short frames that were queued since the last call.
    pub(super) fn commit_short(&mut self) {
        if self.pending_short.is_empty() {
            return;
        }
        let data = std::mem::take(&mut self.pending_short);
        self.committed += data.len();
        self.segments.push_back(Segment::Bytes {
            data: data.into(),
            sent: 0,
            short: true,
            replies: std::mem::take(&mut self.pending_replies),
        });
    }

    /// Commits the header, or another private part, of a bulk frame.
    pub(super) fn commit_bytes(&mut self, bytes: &[u8]) {
        self.committed += bytes.len();
        if let Some(Segment::Bytes {
            data,
            sent: 0,
            short: false,
            ..
        }) = self.segments.back_mut()
            && data.len() + bytes.len() <= JOIN_BELOW_BYTES
        {
            data.extend_from_slice(bytes);
            return;
        }
        self.segments.push_back(Segment::Bytes {
            data: bytes.into(),
            sent: 0,
            short: false,
            replies: 0,
        });
    }

    /// Commits the reply that ends a bulk reply.
    pub(super) fn commit_reply(&mut self, header: &Header) {
        self.commit_bytes(&header.encode());
        if let Some(Segment::Bytes { replies, .. }) = self.segments.back_mut() {
            *replies += 1;
            self.replies += 1;
        }
    }

    /// Commits data of a bulk frame.
    pub(super) fn commit_memory(&mut self, memory: Memory, owner: SpanOwner) {
        if memory.len() < COPY_BELOW_BYTES {
            let mut copy = [0; COPY_BELOW_BYTES];
            if let Some(copy) = copy.get_mut(..memory.len()) {
                memory.read_at(0, copy);
                self.commit_bytes(copy);
            }
            return;
        }
        self.committed += memory.len();
        self.segments.push_back(Segment::Memory { memory, owner });
    }

    /// The front of the committed bytes, as pieces for one call.
    pub(crate) fn pieces<'a>(&'a self, into: &mut [Piece<'a>; MAX_PIECES]) -> usize {
        let mut count = 0;
        for (slot, segment) in into.iter_mut().zip(&self.segments) {
            *slot = match segment {
                Segment::Bytes { data, sent, .. } => {
                    Piece::Bytes(data.get(*sent..).unwrap_or_default())
                }
                Segment::Memory { memory, .. } => Piece::Memory(memory),
            };
            count += 1;
        }
        count
    }

    /// Drops the first `count` committed bytes: they were sent.
    pub(crate) fn advance(&mut self, mut count: usize) {
        self.committed -= count;
        while let Some(front) = self.segments.front_mut() {
            let now = front.remaining().min(count);
            count -= now;
            match front {
                Segment::Bytes {
                    sent, short: true, ..
                } => {
                    *sent += now;
                    self.short_bytes -= now;
                }
                Segment::Bytes { sent, .. } => *sent += now,
                Segment::Memory { memory, .. } => *memory = memory.slice(now..memory.len()),
            }
            if front.remaining() > 0 {
                return;
            }
            if let Some(Segment::Bytes { data, replies, .. }) = self.segments.pop_front() {
                self.replies -= replies;
                self.recycle(data);
            }
        }
        if self.segments.capacity() > 8 * MAX_PIECES {
            self.segments = VecDeque::new();
        }
    }

    fn recycle(&mut self, mut data: Bytes) {
        if self.pending_short.capacity() == 0 && data.spilled() && data.capacity() <= RECYCLED_BYTES
        {
            data.clear();
            self.pending_short = data.into_vec();
        }
    }

    /// Moves up to `into.len()` committed bytes from the front; returns how many.
    pub(crate) fn copy_out(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        for segment in &self.segments {
            let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) else {
                break;
            };
            let count = segment.remaining().min(room.len());
            let Some(room) = room.get_mut(..count) else {
                break;
            };
            match segment {
                Segment::Bytes { data, sent, .. } => {
                    room.copy_from_slice(data.get(*sent..*sent + count).unwrap_or_default());
                }
                Segment::Memory { memory, .. } => memory.read_at(0, room),
            }
            filled += count;
        }
        self.advance(filled);
        filled
    }

    /// Whether memory of `owner` is still needed.
    pub(super) fn borrows(&self, owner: SpanOwner) -> bool {
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::Memory { owner: of, .. } if *of == owner))
    }

    /// Copies committed bytes out of memory whose owner `ends`, so that the memory is no longer
    /// accessed.
    pub(super) fn detach(&mut self, ends: impl Fn(SpanOwner) -> bool) {
        for segment in &mut self.segments {
            if let Segment::Memory { memory, owner } = segment
                && ends(*owner)
            {
                *segment = Segment::Bytes {
                    data: memory.to_vec().into(),
                    sent: 0,
                    short: false,
                    replies: 0,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(outbox: &mut Outbox, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            match outbox.copy_out(&mut buffer) {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn bytes_leave_in_order_in_steps_of_any_length() {
        for step in [1, 3, 1000, 9000] {
            let mut outbox = Outbox::default();
            outbox.push_short(
                b"head",
                &["er", "", "x"].map(|part| Piece::Bytes(part.as_bytes())),
                0,
            );
            outbox.commit_short();
            outbox.commit_bytes(b"bulk");
            outbox.commit_memory(Memory::from_vec(vec![7; 3000]), SpanOwner::Put(1));
            outbox.commit_memory(Memory::from_vec(vec![8; 10]), SpanOwner::Put(1));
            outbox.push_short(b"last", &[], 0);
            assert!(!outbox.is_empty());
            outbox.commit_short();
            let mut expected = b"headerxbulk".to_vec();
            expected.extend([7; 3000]);
            expected.extend([8; 10]);
            expected.extend(b"last");
            assert_eq!(drain(&mut outbox, step), expected);
            assert!(outbox.is_empty());
            assert_eq!((outbox.short_bytes(), outbox.committed()), (0, 0));
        }
    }

    #[test]
    fn a_partly_sent_frame_keeps_its_rest_only() {
        let memory = Memory::from_vec(b"fg".to_vec());
        for skip in 0..=7 {
            let mut outbox = Outbox::default();
            outbox.push_short(b"abc", &[Piece::Bytes(b"de"), Piece::Memory(&memory)], skip);
            outbox.commit_short();
            assert_eq!(drain(&mut outbox, 4), &b"abcdefg"[skip..]);
        }
    }

    #[test]
    fn detached_memory_is_free_and_its_bytes_still_leave() {
        let mut outbox = Outbox::default();
        let memory = Memory::from_vec((0..=255).cycle().take(5000).collect());
        outbox.commit_memory(memory.clone(), SpanOwner::Export(5));
        outbox.advance(100);
        assert!(outbox.borrows(SpanOwner::Export(5)));
        outbox.detach(|owner| owner == SpanOwner::Export(6));
        assert_eq!(memory.sharers(), 2);
        outbox.detach(|owner| owner == SpanOwner::Export(5));
        assert_eq!(memory.sharers(), 1);
        assert!(!outbox.borrows(SpanOwner::Export(5)));
        assert_eq!(drain(&mut outbox, 999), &memory.to_vec()[100..]);
    }

    #[test]
    fn a_buffer_that_never_runs_empty_is_freed_as_well() {
        let mut outbox = Outbox::default();
        let header = Header::new(causeway_wire::tcp::Kind::GetDone, 0);
        let mut expected = Vec::new();
        let mut left = Vec::new();
        for number in 0..20_000_u32 {
            let part = [number as u8; 300];
            expected.extend(part);
            expected.extend(header.encode());
            outbox.commit_bytes(&part);
            outbox.commit_reply(&header);
            if number >= 500 {
                // As many bytes leave as are added, and never all.
                let mut buffer = [0; 332];
                let count = outbox.copy_out(&mut buffer);
                left.extend_from_slice(&buffer[..count]);
            }
            assert!(outbox.owned_bytes() < 500 * 332 + 4 * JOIN_BELOW_BYTES);
            assert!(outbox.replies() <= 500 + 1 + JOIN_BELOW_BYTES / 332 + 1);
        }
        left.extend(drain(&mut outbox, 1000));
        assert!(left == expected);
        assert_eq!((outbox.replies(), outbox.committed()), (0, 0));
    }

    #[test]
    fn nothing_is_appended_to_a_partly_sent_frame() {
        let mut outbox = Outbox::default();
        let header = Header::new(causeway_wire::tcp::Kind::GetDone, 0);
        outbox.commit_reply(&header);
        outbox.advance(31);
        outbox.commit_reply(&header);
        outbox.advance(1);
        assert_eq!(outbox.replies(), 1);
    }

    #[test]
    fn replies_count_until_they_are_sent() {
        let mut outbox = Outbox::default();
        let header = Header::new(causeway_wire::tcp::Kind::PutDone, 0);
        outbox.push_reply(&header, &[]);
        outbox.commit_short();
        outbox.commit_reply(&header);
        assert_eq!(outbox.replies(), 2);
        outbox.advance(33);
        assert_eq!(outbox.replies(), 1);
        outbox.advance(31);
        assert_eq!(outbox.replies(), 0);
    }
}
