//! Descriptors as processes post them, and the status that the card writes back.

use crate::codec::{Malformed, Reader, unknown};

/// Descriptors begin at multiples of this.
pub const DESCRIPTOR_ALIGN: u64 = 64;
/// Bytes of the control segment. Segments, or the payload, follow.
pub const CONTROL_BYTES: usize = 32;
/// Bytes of a data or address segment.
pub const SEGMENT_BYTES: usize = 16;
/// Offset in a descriptor at which the card writes its completion; the payload of a receive follows
/// it.
pub const STATUS_OFFSET: usize = 20;
/// Bytes of the completion.
pub const STATUS_BYTES: usize = 12;
/// Bytes of an entry of a completion queue.
pub const COMPLETION_BYTES: usize = 16;

const _: () = assert!(STATUS_OFFSET + STATUS_BYTES == CONTROL_BYTES);

/// Bits of [`Control::bits`].
pub mod control {
    /// The operation: [`Operation`](super::Operation).
    pub const OPERATION: u16 = 0x3;
    /// The immediate word is sent with the message.
    pub const IMMEDIATE: u16 = 0x4;
    /// Wait until all RDMA reads of this queue are complete.
    pub const FENCE: u16 = 0x8;
    /// The message, `length` bytes, follows the control segment; there are no segments.
    pub const PAYLOAD: u16 = 0x10;
    /// All bits with a meaning.
    pub const ALL: u16 = 0x1f;
}

/// Bits of [`Status::bits`], VIPL's.
pub mod status {
    /// Complete, with or without an error.
    pub const DONE: u32 = 0x1;
    /// The descriptor was malformed.
    pub const FORMAT_ERROR: u32 = 0x2;
    /// Segments are outside registered memory, or have another tag.
    pub const PROTECTION_ERROR: u32 = 0x4;
    /// The segments were too short for the message, or a message to send is too long.
    pub const LENGTH_ERROR: u32 = 0x8;
    /// Part of the data had been moved when the error happened.
    pub const PARTIAL: u32 = 0x10;
    /// Never carried out: the connection was closed or broken.
    pub const FLUSHED: u32 = 0x20;
    /// The peer did not acknowledge.
    pub const TRANSPORT_ERROR: u32 = 0x40;
    /// The peer refused access to its memory.
    pub const RDMA_PROTECTION_ERROR: u32 = 0x80;
    /// The peer had a malformed or too short descriptor.
    pub const REMOTE_DESCRIPTOR_ERROR: u32 = 0x100;
    /// All errors.
    pub const ERRORS: u32 = 0x1fe;
    /// Which operation completed: the constants below.
    pub const OPERATION: u32 = 0x7_0000;
    /// A send.
    pub const SEND: u32 = 0;
    /// A receive, by a send.
    pub const RECEIVE: u32 = 0x1_0000;
    /// An RDMA write.
    pub const RDMA_WRITE: u32 = 0x2_0000;
    /// A receive, by the peer's RDMA write with immediate data.
    pub const REMOTE_RDMA_WRITE: u32 = 0x3_0000;
    /// An RDMA read.
    pub const RDMA_READ: u32 = 0x4_0000;
    /// Immediate data came along.
    pub const IMMEDIATE: u32 = 0x8_0000;
    /// The message is after the control segment (not in VIPL).
    pub const PAYLOAD: u32 = 0x10_0000;
}

/// The operation of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A message for the peer's next receive descriptor; in the receive queue: a receive.
    Send,
    /// Write to the peer's memory.
    RdmaWrite,
    /// Read the peer's memory.
    RdmaRead,
}

/// The control segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// Address of the next descriptor; used by the library only.
    pub next: u64,
    /// Handle of the next descriptor's memory; used by the library only.
    pub next_handle: u32,
    /// How many segments follow, address segments included.
    pub segments: u16,
    /// See [`control`].
    pub bits: u16,
    /// RDMA: how many of the segments, the first ones, are remote; 0 means 1 (VIPL reserves it).
    pub remote_segments: u32,
    /// Immediate data.
    pub immediate: u32,
    /// Bytes of the message: of a send the sum of its data segments, or of the payload. Written back.
    pub length: u32,
    /// See [`status`]. Written back.
    pub status: u32,
}

impl Control {
    /// Decodes the control segment at the start of `bytes`, without checking its meaning.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        Ok(Self {
            next: input.u64("next descriptor")?,
            next_handle: input.u32("next descriptor's handle")?,
            segments: input.u16("segment count")?,
            bits: input.u16("control bits")?,
            remote_segments: input.u32("remote segment count")?,
            immediate: input.u32("immediate data")?,
            length: input.u32("length")?,
            status: input.u32("status")?,
        })
    }

    /// The control segment as bytes.
    pub fn to_bytes(&self) -> [u8; CONTROL_BYTES] {
        let mut out = [0; CONTROL_BYTES];
        out[..8].copy_from_slice(&self.next.to_le_bytes());
        out[8..12].copy_from_slice(&self.next_handle.to_le_bytes());
        out[12..14].copy_from_slice(&self.segments.to_le_bytes());
        out[14..16].copy_from_slice(&self.bits.to_le_bytes());
        out[16..20].copy_from_slice(&self.remote_segments.to_le_bytes());
        out[20..24].copy_from_slice(&self.immediate.to_le_bytes());
        out[24..28].copy_from_slice(&self.length.to_le_bytes());
        out[28..].copy_from_slice(&self.status.to_le_bytes());
        out
    }

    /// The operation, if it is valid.
    pub fn operation(&self) -> Option<Operation> {
        match self.bits & control::OPERATION {
            0 => Some(Operation::Send),
            1 => Some(Operation::RdmaWrite),
            2 => Some(Operation::RdmaRead),
            _ => None,
        }
    }
}

/// A data segment (memory of the poster) or an address segment (memory of the peer).
///
/// VIPL's single address segment has no length, which is then that of the data. In a list of them
/// each has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Virtual address in its owner's memory.
    pub address: u64,
    /// Handle of the registered memory.
    pub handle: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Segment {
    /// Takes a segment from the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        Ok(Self {
            address: input.u64("segment address")?,
            handle: input.u32("segment handle")?,
            bytes: input.u32("segment length")?,
        })
    }

    /// The segment as bytes.
    pub fn to_bytes(&self) -> [u8; SEGMENT_BYTES] {
        let mut out = [0; SEGMENT_BYTES];
        out[..8].copy_from_slice(&self.address.to_le_bytes());
        out[8..12].copy_from_slice(&self.handle.to_le_bytes());
        out[12..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }
}

/// The status that the card writes into a descriptor, at [`STATUS_OFFSET`], when it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Immediate data that came along.
    pub immediate: u32,
    /// Bytes moved.
    pub length: u32,
    /// See [`status`]. The last word, and the last to become visible.
    pub bits: u32,
}

impl Status {
    /// Takes it from the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        Ok(Self {
            immediate: input.u32("immediate data")?,
            length: input.u32("length")?,
            bits: input.u32("status")?,
        })
    }

    /// The status as bytes.
    pub fn to_bytes(&self) -> [u8; STATUS_BYTES] {
        let mut out = [0; STATUS_BYTES];
        out[..4].copy_from_slice(&self.immediate.to_le_bytes());
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..].copy_from_slice(&self.bits.to_le_bytes());
        out
    }
}

/// An entry of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Address of the completed descriptor.
    pub descriptor: u64,
    /// Its virtual interface.
    pub vi: u32,
    /// Whether it was a receive.
    pub receive: bool,
    /// True in the queue's first round, then false, and so on: distinguishes new entries from old ones. In
    /// memory that is all zero there are no entries.
    pub round: bool,
}

impl Completion {
    /// Takes it from the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let descriptor = input.u64("completed descriptor")?;
        let vi = input.u32("virtual interface")?;
        match input.u32("completion flags")? {
            flags @ 0..=3 => Ok(Self {
                descriptor,
                vi,
                receive: flags & 2 != 0,
                round: flags & 1 != 0,
            }),
            flags => unknown("completion flags", flags),
        }
    }

    /// The entry as bytes.
    pub fn to_bytes(&self) -> [u8; COMPLETION_BYTES] {
        let flags = u32::from(self.round) | u32::from(self.receive) << 1;
        let mut out = [0; COMPLETION_BYTES];
        out[..8].copy_from_slice(&self.descriptor.to_le_bytes());
        out[8..12].copy_from_slice(&self.vi.to_le_bytes());
        out[12..].copy_from_slice(&flags.to_le_bytes());
        out
    }
}
