//! The header of every frame between two cards.

use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Bytes of a header. The frame's data follows; the medium determines its length.
pub const FRAME_HEADER_BYTES: usize = 64;
/// Version of the header.
pub const FRAME_VERSION: u8 = 1;

/// Bits of [`FrameHeader::flags`].
pub mod flag {
    /// `immediate` belongs to the message.
    pub const IMMEDIATE: u16 = 0x1;
    /// The data came inside the descriptor, and goes into one.
    pub const PAYLOAD: u16 = 0x2;
    /// Has a sequence number and is to be acknowledged.
    pub const SEQUENCED: u16 = 0x4;
    /// The sender waits for the acknowledgement.
    pub const HURRY: u16 = 0x8;
    /// `ack`, `credit` and `ahead` are valid.
    pub const ACK: u16 = 0x10;
    /// The sender of this acknowledgement misses frames from `ack` on.
    pub const GAP: u16 = 0x20;
    /// All bits with a meaning.
    pub const ALL: u16 = 0x3f;
}

codes! {
    /// The kind of a frame.
    pub enum FrameKind: "frame kind" {
        /// Part of a message for a receive descriptor.
        Send = 1,
        /// Part of an RDMA write.
        Write = 2,
        /// Requests a span of memory.
        ReadRequest = 3,
        /// Part of such a span.
        ReadReply = 4,
        /// Only an acknowledgement.
        Ack = 5,
        /// The sender's end of the connection is broken; `immediate` is a [`RefuseReason`].
        Refuse = 6,
    }
}

/// Why an end of a connection refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RefuseReason {
    /// Broken or closed for a reason of its own.
    Closed = 1,
    /// A remote address was outside of accessible memory.
    Protection = 2,
    /// A message was longer than its receive descriptor, which was malformed or too short.
    Descriptor = 3,
    /// Frames contradicted one another.
    Protocol = 4,
}

impl RefuseReason {
    /// The reason with this number; an unknown one is [`RefuseReason::Closed`].
    pub fn from_code(code: u32) -> Self {
        match code {
            2 => Self::Protection,
            3 => Self::Descriptor,
            4 => Self::Protocol,
            _ => Self::Closed,
        }
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it is.
    pub kind: FrameKind,
    /// See [`flag`].
    pub flags: u16,
    /// Receiving virtual interface.
    pub to_vi: u32,
    /// Sending node.
    pub from_node: u32,
    /// Sending virtual interface.
    pub from_vi: u32,
    /// The connection's key.
    pub key: u32,
    /// Sequence number: from 0 in each direction of a connection, one more for every sequenced frame.
    pub sequence: u32,
    /// All sequenced frames before this one have arrived.
    pub ack: u32,
    /// Credit: how many messages that take a receive descriptor may be sent in all since the connection began.
    pub credit: u32,
    /// Bit *i*: `ack + 1 + i` has arrived too.
    pub ahead: u32,
    /// Number of the message, or of the read that is requested or replied to.
    pub message: u32,
    /// Offset of this frame's data in the message, or in the data of the read.
    pub offset: u32,
    /// Bytes of the whole message; in a request: how many are requested.
    pub total: u32,
    /// Immediate data, or the reason of a refusal.
    pub immediate: u32,
    /// Handle of the remote memory.
    pub handle: u32,
    /// Remote address of the first byte.
    pub address: u64,
}

impl FrameHeader {
    /// A header of this kind with all other fields zero.
    pub fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            flags: 0,
            to_vi: 0,
            from_node: 0,
            from_vi: 0,
            key: 0,
            sequence: 0,
            ack: 0,
            credit: 0,
            ahead: 0,
            message: 0,
            offset: 0,
            total: 0,
            immediate: 0,
            handle: 0,
            address: 0,
        }
    }

    /// Whether all of these flags are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// The header that is exactly `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        match input.u8("frame version")? {
            FRAME_VERSION => {}
            version => return unknown("frame version", version),
        }
        let kind = FrameKind::decode(&mut input)?;
        let flags = input.u16("frame flags")?;
        if flags & !flag::ALL != 0 {
            return unknown("frame flags", flags);
        }
        let header = Self {
            kind,
            flags,
            to_vi: input.u32("receiving virtual interface")?,
            from_node: input.u32("sending node")?,
            from_vi: input.u32("sending virtual interface")?,
            key: input.u32("connection key")?,
            sequence: input.u32("sequence number")?,
            ack: input.u32("acknowledgement")?,
            credit: input.u32("credit")?,
            ahead: input.u32("frames ahead")?,
            message: input.u32("message number")?,
            offset: input.u32("offset")?,
            total: input.u32("message length")?,
            immediate: input.u32("immediate data")?,
            handle: input.u32("remote handle")?,
            address: input.u64("remote address")?,
        };
        input.finish()?;
        Ok(header)
    }

    /// The header as bytes.
    pub fn to_bytes(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[0] = FRAME_VERSION;
        out[1] = self.kind as u8;
        out[2..4].copy_from_slice(&self.flags.to_le_bytes());
        let words = [
            self.to_vi,
            self.from_node,
            self.from_vi,
            self.key,
            self.sequence,
            self.ack,
            self.credit,
            self.ahead,
            self.message,
            self.offset,
            self.total,
            self.immediate,
            self.handle,
        ];
        let (body, address) = out[4..].split_at_mut(4 * words.len());
        for (place, word) in body.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        address.copy_from_slice(&self.address.to_le_bytes());
        out
    }
}
