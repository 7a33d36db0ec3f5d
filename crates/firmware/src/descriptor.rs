//! Descriptors in progress: their requests, checked once, and their progress.

use alloc::vec;
use alloc::vec::Vec;

use causeway_wire::vi::{
    CONTROL_BYTES, Control, DESCRIPTOR_ALIGN, Operation, SEGMENT_BYTES, Segment, control, status,
};

use crate::memory::{Memory, Right};
use crate::settings::Settings;
use crate::setup::{Side, Time};

/// How far a descriptor is on its way to the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// A transfer is reading it, or the segments after its first bytes.
    #[default]
    Fetching,
    /// It is read together with the data of the descriptor before it (tailgating, §4.3.9).
    Tailgating,
    /// It is on the card and valid.
    Ready,
    /// It will never be on the card.
    Given,
}

/// A descriptor in progress, in as few cache lines as it fits in.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Op {
    pub(crate) vi: u32,
    pub(crate) receives: bool,
    pub(crate) phase: Phase,
    pub(crate) address: u64,
    pub(crate) handle: u32,
    pub(crate) stamp: Time,
    pub(crate) message: u64,
    pub(crate) best_effort: bool,
    pub(crate) control: Control,
    /// Bytes to be moved; for a receive, the room that it has.
    pub(crate) total: u32,
    /// Bytes of the descriptor on the card, and how many were last requested.
    pub(crate) fetched: usize,
    pub(crate) wanted: usize,

    /// Number of the message in its frames.
    pub(crate) number: u32,
    /// Bytes for which frames have been made.
    pub(crate) framed: u32,
    /// RDMA: the next remote segment, and how much of it is done.
    pub(crate) remote_at: usize,
    pub(crate) remote_done: u32,
    pub(crate) begun: bool,
    pub(crate) all_made: bool,
    /// The transfer of the operation's last data was passed to the engine.
    pub(crate) last_begun: bool,
    /// Frames that have not been sent, or (reliable levels) not been acknowledged.
    pub(crate) frames_open: u32,
    /// Of those frames, the ones that are being fetched or sent.
    pub(crate) moving: u32,

    /// RDMA read: bytes that have arrived in total, and of the remote segment that is being read.
    pub(crate) read_bytes: u32,
    pub(crate) reply_at: usize,
    pub(crate) reply_done: u32,

    /// Writes to the operation's memory that are in progress.
    pub(crate) writes_open: u32,
    /// Receive: its message has arrived completely, or never will.
    pub(crate) filled: bool,
    /// Receive: the message goes into the descriptor itself.
    pub(crate) payload: Option<(u32, u32)>,

    /// Some of the data may have been written to the operation's memory.
    pub(crate) touched: bool,

    /// The status to be written back.
    pub(crate) bits: u32,
    pub(crate) length: u32,
    pub(crate) immediate: u32,
    /// Everything is done except writing the status.
    pub(crate) done: bool,
    /// The descriptor that is read together with this one's data.
    pub(crate) tail: Option<u32>,
}

impl Op {
    /// Whether this is a descriptor and not a free slot: handles are never 0.
    pub(crate) fn is_taken(&self) -> bool {
        self.handle != 0
    }

    /// Bytes of the descriptor that were requested and are not on the card yet.
    pub(crate) fn left_to_fetch(&self) -> usize {
        let left = self.wanted.checked_sub(self.fetched);
        left.expect("no more of a descriptor is fetched than was requested")
    }

    pub(crate) fn side(&self) -> Side {
        if self.receives {
            Side::Receive
        } else {
            Side::Send
        }
    }

    pub(crate) fn failed(&self) -> bool {
        self.bits & status::ERRORS != 0
    }

    pub(crate) fn has(&self, bit: u16) -> bool {
        self.control.bits & bit != 0
    }

    pub(crate) fn is_read(&self) -> bool {
        !self.receives && self.control.operation() == Some(Operation::RdmaRead)
    }

    pub(crate) fn is_write(&self) -> bool {
        !self.receives && self.control.operation() == Some(Operation::RdmaWrite)
    }

    /// Whether the operation uses up a receive descriptor of the peer.
    pub(crate) fn wants_receive(&self) -> bool {
        !self.receives && !self.is_read() && (!self.is_write() || self.has(control::IMMEDIATE))
    }

    /// Whether the operation sends data from host memory.
    pub(crate) fn has_host_data(&self) -> bool {
        !self.receives && self.total > 0 && !self.is_read() && !self.has(control::PAYLOAD)
    }

    /// How many segments, counted from the first, name the peer's memory.
    pub(crate) fn remote_segments(&self) -> usize {
        if self.is_read() || self.is_write() {
            self.control.remote_segments.max(1) as usize
        } else {
            0
        }
    }

    /// Whether nothing more will happen to the operation.
    pub(crate) fn is_finished(&self) -> bool {
        let landed = self.frames_open == 0 && self.writes_open == 0;
        let known = matches!(self.phase, Phase::Ready | Phase::Given);
        if self.failed() {
            return known && landed;
        }
        let moved = match self.receives {
            true => self.filled,
            false => self.all_made && (!self.is_read() || self.read_bytes == self.total),
        };
        known && landed && moved
    }
}

/// The descriptors' bytes on the card.
#[derive(Debug)]
pub(crate) struct Slots {
    bytes: Vec<u8>,
    slot_bytes: usize,
    /// How many bytes of each descriptor are read at first: enough for short ones.
    first_bytes: usize,
}

impl Slots {
    pub(crate) fn new(count: usize, settings: &Settings) -> Self {
        let payload = settings.payload_bytes as usize;
        let segments = settings.limits.segments as usize * SEGMENT_BYTES;
        let align = |bytes: usize| bytes.next_multiple_of(DESCRIPTOR_ALIGN as usize);
        let slot_bytes = align(CONTROL_BYTES + payload.max(segments));
        Self {
            bytes: vec![0; count * slot_bytes],
            slot_bytes,
            first_bytes: align(CONTROL_BYTES + payload).min(slot_bytes),
        }
    }

    /// All slots.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn first_bytes(&self) -> usize {
        self.first_bytes
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    pub(crate) fn get(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.slot_bytes;
        &self.bytes[at..at + self.slot_bytes]
    }

    fn get_mut(&mut self, slot: u32) -> &mut [u8] {
        let at = slot as usize * self.slot_bytes;
        &mut self.bytes[at..at + self.slot_bytes]
    }

    /// Copies bytes into a slot from `from` on, as many as fit; returns how many did.
    pub(crate) fn fill(&mut self, slot: u32, from: usize, bytes: &[u8]) -> usize {
        let place = &mut self.get_mut(slot)[from..];
        let count = bytes.len().min(place.len());
        place[..count].copy_from_slice(&bytes[..count]);
        count
    }

    /// The segment of this number; one without memory if the slot cannot hold that many.
    pub(crate) fn segment(&self, slot: u32, number: usize) -> Segment {
        let at = CONTROL_BYTES + number * SEGMENT_BYTES;
        self.get(slot)
            .get(at..)
            .and_then(|bytes| Segment::decode(bytes).ok())
            .unwrap_or_default()
    }
}

/// The result of checking a descriptor's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The descriptor is complete and valid.
    Good,
    /// The descriptor has this many bytes in all, more than have been read.
    Longer(usize),
    /// The descriptor completes with this error.
    Bad(u32),
}

/// The limits that a descriptor is checked against.
pub(crate) struct Rules<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) tag: u32,
    pub(crate) reliable: bool,
    pub(crate) payload_bytes: u32,
    pub(crate) segments: usize,
}

impl Rules<'_> {
    /// Checks the bytes that have been read, and records their request in `op`.
    pub(crate) fn check(&self, op: &mut Op, slot: u32, slots: &Slots) -> Verdict {
        let bytes = &slots.get(slot)[..op.fetched.min(slots.slot_bytes())];
        let Ok(control) = Control::decode(bytes) else {
            return Verdict::Bad(status::FORMAT_ERROR);
        };
        op.control = control;
        if self.is_malformed(op) {
            return Verdict::Bad(status::FORMAT_ERROR);
        }
        if op.has(control::PAYLOAD) {
            op.total = control.length;
            let needed = CONTROL_BYTES + control.length as usize;
            return match () {
                () if control.length > self.payload_bytes => Verdict::Bad(status::LENGTH_ERROR),
                () if needed > op.fetched => Verdict::Longer(needed),
                () => Verdict::Good,
            };
        }
        let needed = CONTROL_BYTES + usize::from(control.segments) * SEGMENT_BYTES;
        if needed > op.fetched {
            return Verdict::Longer(needed);
        }
        self.check_segments(op, slot, slots)
    }

    fn is_malformed(&self, op: &Op) -> bool {
        let control = &op.control;
        let count = usize::from(control.segments);
        if control.bits & !control::ALL != 0 || count > self.segments {
            return true;
        }
        let payload = op.has(control::PAYLOAD);
        match control.operation() {
            None => true,
            Some(Operation::Send) if op.receives => payload,
            Some(_) if op.receives => true,
            Some(Operation::Send) => payload && count > 0,
            Some(Operation::RdmaWrite) => payload || op.remote_segments() > count,
            Some(Operation::RdmaRead) => {
                payload
                    || op.remote_segments() > count
                    || !self.reliable
                    || op.has(control::IMMEDIATE)
            }
        }
    }

    fn check_segments(&self, op: &mut Op, slot: u32, slots: &Slots) -> Verdict {
        let (remote, count) = (op.remote_segments(), usize::from(op.control.segments));
        let mut total = 0_u64;
        for number in remote..count {
            let segment = slots.segment(slot, number);
            let (handle, address) = (segment.handle, segment.address);
            if !self
                .memory
                .allows(handle, address, segment.bytes, self.tag, Right::Local)
            {
                return Verdict::Bad(status::PROTECTION_ERROR);
            }
            total += u64::from(segment.bytes);
        }
        let Ok(bytes) = u32::try_from(total) else {
            return Verdict::Bad(status::LENGTH_ERROR);
        };
        // VIPL's single address segment has no length of its own. In a list, each segment has one.
        let elsewhere = match remote {
            0 | 1 => total,
            _ => (0..remote)
                .map(|number| u64::from(slots.segment(slot, number).bytes))
                .sum(),
        };
        if elsewhere != total || (!op.receives && op.control.length != bytes) {
            return Verdict::Bad(status::LENGTH_ERROR);
        }
        op.total = bytes;
        Verdict::Good
    }
}

impl Slots {
    /// The next remote span: address, handle, and how many bytes of the segment are left after the
    /// first `done` bytes.
    pub(crate) fn remote(&self, op: &Op, slot: u32, at: usize, done: u32) -> (u64, u32, u32) {
        let segment = self.segment(slot, at);
        let bytes = match op.remote_segments() {
            1 => op.total,
            _ => segment.bytes,
        };
        (
            segment.address.wrapping_add(done.into()),
            segment.handle,
            bytes.saturating_sub(done),
        )
    }

    /// Translates `bytes` of an operation's own memory from `offset` on.
    pub(crate) fn translate(
        &self,
        op: &Op,
        slot: u32,
        span: (u32, u32),
        memory: &Memory,
        out: &mut Vec<crate::card::Piece>,
    ) {
        let (mut offset, mut left) = span;
        for number in op.remote_segments()..usize::from(op.control.segments) {
            let segment = self.segment(slot, number);
            if offset >= segment.bytes {
                offset -= segment.bytes;
                continue;
            }
            let here = left.min(segment.bytes - offset);
            let address = segment.address.wrapping_add(offset.into());
            memory.translate(segment.handle, address, here, out);
            left -= here;
            offset = 0;
            if left == 0 {
                return;
            }
        }
    }

    /// Whether the operation has been checked and names this region.
    pub(crate) fn names(&self, op: &Op, slot: u32, handle: u32) -> bool {
        let local = op.remote_segments()..usize::from(op.control.segments);
        op.handle == handle
            || (op.phase == Phase::Ready
                && !op.has(control::PAYLOAD)
                && local
                    .into_iter()
                    .any(|number| self.segment(slot, number).handle == handle))
    }
}
