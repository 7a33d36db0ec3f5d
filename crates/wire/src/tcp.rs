//! What the TCP method sends on a connection.
//!
//! A connection begins with one [`Hello`] each way, then [`Step`]s until both sides trust each
//! other, then frames: a [`Header`] of [`HEADER_BYTES`] and its payload. With the cluster's key the
//! stream of frames is split into records, each a [`record`] length and a Noise transport message,
//! or the plain bytes and a tag; frames and records do not align. `docs/formats/tcp.md` draws all
//! of it.
//!
//! Read [`Kind`] first: it defines each frame and the fields that it uses. A field that a kind does
//! not use is zero, and a receiver refuses anything else.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::atomic::{OPERATION_BYTES, OUTCOME_BYTES};
use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within, zero};
use crate::formats::Formats;
use crate::node::MAX_CERTIFICATE_BYTES;
use crate::user::MAX_USER_BYTES;

/// The formats of everything in this module that this build speaks. A [`Hello`] has the same fields in each, except those in which a side with a key states
/// whether it wants encryption, whether sides prove which nodes they are, and whether they state for which user they speak. In format 5 records are
/// authenticated only by their encryption, so they are always encrypted.
pub const FORMATS: Formats = Formats {
    lowest: 5,
    highest: USERS_FROM,
};

/// The first format with records that are authenticated and not encrypted.
pub const AUTHENTICATED_FROM: u8 = 6;

/// The first format in which sides prove which nodes they are. A side that demands it states no lower one.
pub const NODES_FROM: u8 = 7;

/// The first format in which an initiator states that the connection speaks for one user alone ([`crate::user`]). An initiator that
/// has to state that states no lower format.
pub const USERS_FROM: u8 = 8;

/// The first bytes on every connection.
pub const MAGIC: [u8; 8] = *b"causeway";

/// Encoded size of a [`Hello`].
pub const HELLO_BYTES: usize = 24;

/// Encoded size of the fixed part of a [`Step`].
pub const STEP_HEADER_BYTES: usize = 4;

/// The most payload that a [`Step`] carries: a Noise message with a certificate and a user. Those without have 48 bytes.
pub const MAX_STEP_PAYLOAD: usize = 96 + MAX_CERTIFICATE_BYTES + MAX_USER_BYTES;

/// Encoded size of a [`Header`].
pub const HEADER_BYTES: usize = 32;

/// The most payload of a [`Kind::Packet`] or of the packet after a put, so that a message of 128
/// KiB fits with the header of the layer above.
pub const MAX_PACKET: usize = 128 * 1024 + 512;

/// The most data in one [`Kind::Put`] or [`Kind::GetData`], for which a packet may have to wait.
pub const MAX_PIECE: usize = 256 * 1024;

/// Encoded size of a [`Fragment`].
pub const FRAGMENT_BYTES: usize = 24;

/// The most fragments in one [`Kind::Get`].
pub const MAX_GET_FRAGMENTS: usize = 1024;

/// The most data that one [`Kind::Get`] may request.
pub const MAX_GET_BYTES: u64 = 1024 * 1024;

/// The most puts that a sender may have begun without having received their [`Kind::PutDone`].
pub const PUT_WINDOW: usize = 64;

/// The most gets that a requester may have sent without having received their [`Kind::GetDone`]. Times
/// [`MAX_GET_BYTES`] this is the most data in flight: 8 MiB, the product of 10 GB/s and 0.8 ms.
pub const GET_WINDOW: usize = 8;

/// The most atomics that a requester may have sent without having received their [`Kind::AtomicDone`].
pub const ATOMIC_WINDOW: usize = 64;

/// The most text in a [`Kind::Error`].
pub const MAX_ERROR_TEXT: usize = 256;

/// The most bytes of frames in one record.
pub const MAX_RECORD_PLAIN: usize = 32 * 1024;

/// Bytes that authentication adds to a record.
pub const RECORD_TAG_BYTES: usize = 16;

/// Bytes of a record's length prefix.
pub const RECORD_HEADER_BYTES: usize = 2;

const _: () = assert!(HEADER_BYTES == 1 + 1 + 2 + 4 + 8 + 8 + 8);
const _: () = assert!(HELLO_BYTES == MAGIC.len() + 2 + 1 + 1 + 4 + 4 + 1 + 1 + 1 + 1);
const _: () = assert!(MAX_GET_FRAGMENTS * FRAGMENT_BYTES <= MAX_PACKET);
const _: () = assert!(MAX_PACKET <= MAX_PIECE);
const _: () = assert!(MAX_RECORD_PLAIN + RECORD_TAG_BYTES <= u16::MAX as usize);

codes! {
    /// How a side authenticates itself.
    pub enum Auth: "authentication" {
        /// It has no cluster key: the kernel reports its user, on this host only.
        SameUser = 0,
        /// It holds the cluster's key.
        ClusterKey = 1,
    }
}

/// The process that claims to hold the connection's end: with it, the other side on the same host
/// can ask the kernel about exactly that process. Zeros claim nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Number of the descriptor in that process.
    pub descriptor: u32,
}

impl Holder {
    /// The number that a side with a key states in this field, made of random bytes.
    pub fn drawn(bytes: [u8; 8]) -> Self {
        let [_, a, b, c, d, e, f, g] = bytes;
        Self {
            pid: u32::from_le_bytes([0, a, b, c]),
            descriptor: u32::from_le_bytes([d, e, f, g]),
        }
    }
}

codes! {
    /// What a connection is for.
    #[derive(Default)]
    pub enum Purpose: "purpose of a connection" {
        /// A peer of its own.
        #[default]
        Peer = 0,
        /// A further connection (subflow) of a peer that is connected already: the initiator's
        /// [`StepKind::Accept`] has the peer's [`Ticket`].
        Subflow = 1,
    }
}

/// Identifies further connections of a peer: a random number that the peer's two ends know.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub [u8; TICKET_BYTES]);

/// Encoded size of a [`Ticket`].
pub const TICKET_BYTES: usize = 16;

impl Ticket {
    /// The two words of a [`Kind::Invite`].
    pub fn words(&self) -> (u64, u64) {
        let word = |half: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.0[half * 8..half * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        (word(0), word(1))
    }

    /// The ticket of these two words.
    pub fn from_words(id: u64, key: u64) -> Self {
        let mut bytes = [0; TICKET_BYTES];
        bytes[..8].copy_from_slice(&id.to_le_bytes());
        bytes[8..].copy_from_slice(&key.to_le_bytes());
        Self(bytes)
    }
}

impl core::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ticket(secret)")
    }
}

/// The most connections with one peer.
pub const MAX_CONNECTIONS: u8 = 16;

/// The first 24 bytes that each side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hello {
    /// The formats that the sender speaks: its [`FORMATS`].
    pub formats: Formats,
    /// How the sender authenticates.
    pub auth: Auth,
    /// Whether the sender wants encryption. Records are encrypted if either side wants that; otherwise, with a key,
    /// they are authenticated. To a peer whose formats lack the latter ([`AUTHENTICATED_FROM`]), the sender always
    /// states that it wants encryption.
    pub encrypt: bool,
    /// For [`Auth::SameUser`]: the sending process and descriptor. For [`Auth::ClusterKey`]: a number drawn for this connection,
    /// without its lowest byte, which is zero ([`Holder::drawn`]).
    pub holder: Holder,
    /// Whether the sender's processor computes AES-GCM fast and in constant time. It is the cipher if
    /// both sides' do.
    pub fast_aes: bool,
    /// With a key: whether each side proves which node it is ([`crate::node`]). Sides that differ refuse each
    /// other.
    pub nodes: bool,
    /// How many connections with one peer the sender supports, at least 1. The smaller number of
    /// the two sides is used.
    pub connections: u8,
    /// What the connection is for; from the side that was connected to, its understanding of that.
    pub purpose: Purpose,
}

impl Hello {
    /// The bytes of this hello.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = self.formats.lowest;
        bytes[10] = self.auth as u8;
        bytes[11] = self.encrypt.into();
        bytes[12..16].copy_from_slice(&self.holder.pid.to_le_bytes());
        if self.auth == Auth::ClusterKey && self.formats.highest >= AUTHENTICATED_FROM {
            bytes[11] = 1;
            bytes[12] = (!self.encrypt).into();
        }
        bytes[16..20].copy_from_slice(&self.holder.descriptor.to_le_bytes());
        bytes[20] = u8::from(self.fast_aes) | u8::from(self.nodes) << 1;
        bytes[21] = self.connections;
        bytes[22] = self.purpose as u8;
        bytes[23] = self.formats.above();
        bytes
    }

    /// Reads a hello. If the sides share no format, only the fields that every format has are read;
    /// the caller compares the formats.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        if input.take(8, "hello magic")? != MAGIC {
            return unknown("hello magic", Reader::new(bytes).u64("hello magic")?);
        }
        let lowest = input.u16("hello format")?;
        let formats = Formats::stated(lowest, bytes[HELLO_BYTES - 1])?;
        let auth = Auth::decode(&mut input)?;
        let mut encrypt = input.bool("hello encryption")?;
        let mut holder = Holder {
            pid: input.u32("hello process")?,
            descriptor: input.u32("hello descriptor")?,
        };
        if auth == Auth::ClusterKey && formats.highest >= AUTHENTICATED_FROM {
            if !encrypt {
                return unknown("hello encryption", 0u8);
            }
            let tags_do = Reader::new(&bytes[12..]).bool("hello protection")?;
            encrypt = !tags_do;
            holder.pid &= !0xff;
        }
        if FORMATS.common(formats).is_none() {
            // Only the fields of every format are read: enough to report the mismatch.
            return Ok(Self {
                formats,
                auth,
                encrypt,
                holder,
                fast_aes: false,
                nodes: false,
                connections: 1,
                purpose: Purpose::Peer,
            });
        }
        let bits = input.u8("hello AES and nodes")?;
        let (fast_aes, nodes) = (bits & 1 != 0, bits & 2 != 0);
        let may_prove = auth == Auth::ClusterKey && formats.lowest >= NODES_FROM;
        if bits > 3 || nodes && !may_prove {
            return unknown("hello AES and nodes", bits);
        }
        let connections = input.u8("hello connections")?;
        within(connections, MAX_CONNECTIONS.into(), "hello connections")?;
        if connections == 0 {
            return unknown("hello connections", 0u8);
        }
        Ok(Self {
            formats,
            auth,
            encrypt,
            holder,
            fast_aes,
            nodes,
            connections,
            purpose: Purpose::decode(&mut input)?,
        })
    }
}

codes! {
    /// What a [`Step`] of the handshake is.
    pub enum StepKind: "handshake step" {
        /// A Noise handshake message.
        Noise = 1,
        /// The sender accepts the receiver. It carries the [`Ticket`] of a further connection, or nothing;
        /// with the cluster's key as a Noise transport message, which proves that the sender holds the
        /// key now and is no replay.
        Accept = 2,
        /// The sender refuses the receiver; the connection ends.
        Refuse = 3,
    }
}

codes! {
    /// Why a side refuses.
    pub enum Refusal: "handshake refusal" {
        /// No reason applies ([`StepKind::Noise`] and [`StepKind::Accept`]).
        None = 0,
        /// There is no common format.
        Version = 1,
        /// The refusing side requires the cluster's key and the other has none.
        KeyNeeded = 2,
        /// The refusing side has no cluster key and the other has one.
        NoKey = 3,
        /// The keys differ.
        WrongKey = 4,
        /// Without a key, the other side must be a process of the same user on the same host.
        OtherUser = 5,
        /// The refusing side has as many peers as it accepts.
        Full = 6,
        /// The refusing side's process has no file descriptors left.
        NoDescriptors = 7,
        /// The refusing side demands that nodes prove which they are, and the other does not.
        NodeNeeded = 8,
        /// The refusing side is not configured with a node, and the other demands that it proves
        /// one.
        NoNode = 9,
        /// The other's certificate is signed by an authority that the refusing side does not accept.
        UnknownAuthority = 10,
        /// Its certificate is not what an authority has signed, or is that of another key.
        Forged = 11,
        /// Its certificate has expired.
        Expired = 12,
        /// Its certificate was revoked.
        Revoked = 13,
        /// Its node does not have the role that the connection is for.
        WrongRole = 14,
    }
}

/// One message of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'a> {
    /// What it is.
    pub kind: StepKind,
    /// Why, for [`StepKind::Refuse`].
    pub refusal: Refusal,
    /// A Noise message, or nothing.
    pub payload: &'a [u8],
}

impl<'a> Step<'a> {
    /// Appends the step.
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_STEP_PAYLOAD`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.payload.len() <= MAX_STEP_PAYLOAD);
        out.extend_from_slice(&[self.kind as u8, self.refusal as u8]);
        out.extend_from_slice(&(self.payload.len() as u16).to_le_bytes());
        out.extend_from_slice(self.payload);
    }

    /// Takes the first step of `bytes` and returns it with its length in bytes; `None` if it is not
    /// complete yet.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut input = Reader::new(bytes);
        if input.remaining() < STEP_HEADER_BYTES {
            return Ok(None);
        }
        let kind = StepKind::decode(&mut input)?;
        let refusal = Refusal::decode(&mut input)?;
        let len = usize::from(input.u16("handshake length")?);
        within(len as u64, MAX_STEP_PAYLOAD as u64, "handshake length")?;
        if input.remaining() < len {
            return Ok(None);
        }
        let payload = input.take(len, "handshake payload")?;
        let step = Self {
            kind,
            refusal,
            payload,
        };
        Ok(Some((step, STEP_HEADER_BYTES + len)))
    }
}

codes! {
    /// The kind of a frame, and the meaning of its fields.
    pub enum Kind: "frame kind" {
        /// A packet: the payload.
        Packet = 1,
        /// Data of put `id` for the bytes from `base` on of the region `key`.
        Put = 2,
        /// The end of put `id`, which had `base` bytes of data. If [`Header::flag`] is set, the
        /// payload is a packet to deliver as soon as all data has arrived, unless the put was
        /// refused.
        PutEnd = 3,
        /// The reply to [`Kind::PutEnd`]: put `id` is in the receiver's memory, or ([`Header::flag`]) was refused.
        PutDone = 4,
        /// Requests data under the number `id`; the payload is a list of [`Fragment`]s.
        Get = 5,
        /// Data for get `id`, from its byte `base` on.
        GetData = 6,
        /// The end of get `id`: `base` bytes of data were sent, which is all, or ([`Header::flag`]) the rest
        /// was refused.
        GetDone = 7,
        /// Requests a [`Kind::ProbeReply`] as a sign of life.
        Probe = 8,
        /// The sign of life.
        ProbeReply = 9,
        /// The sender closes the connection in an orderly way; nothing follows.
        Goodbye = 10,
        /// The receiver violated the protocol; the payload states how. The sender closes the
        /// connection.
        Error = 11,
        /// Permits the receiver to open `base` further connections that belong to this one: they
        /// name the [`Ticket`] in `id` and `key`. Sent by the accepting side, once.
        Invite = 12,
        /// Requests a remote atomic under the number `id`, on the 8 bytes from `base` on of the region `key`; the payload is
        /// the [`Operation`](crate::atomic::Operation).
        Atomic = 13,
        /// The reply to atomic `id`; the payload is the [`Outcome`](crate::atomic::Outcome).
        AtomicDone = 14,
    }
}

impl Kind {
    /// The most payload that a frame of this kind may have.
    pub fn max_payload(self) -> usize {
        match self {
            Self::Packet | Self::PutEnd => MAX_PACKET,
            Self::Put | Self::GetData => MAX_PIECE,
            Self::Get => MAX_GET_FRAGMENTS * FRAGMENT_BYTES,
            Self::Error => MAX_ERROR_TEXT,
            Self::Atomic => OPERATION_BYTES,
            Self::AtomicDone => OUTCOME_BYTES,
            Self::PutDone
            | Self::GetDone
            | Self::Probe
            | Self::ProbeReply
            | Self::Goodbye
            | Self::Invite => 0,
        }
    }
}

/// The header of every frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// See [`Kind`].
    pub flag: bool,
    /// Bytes of payload that follow.
    pub len: u32,
    /// The number of a put or get, chosen by the side that began it.
    pub id: u64,
    /// The key of a region.
    pub key: u64,
    /// A position: see [`Kind`].
    pub base: u64,
}

impl Header {
    /// A header of `kind` with `len` payload bytes and all else zero.
    ///
    /// # Panics
    /// If `len` is more than `kind` may have.
    pub fn new(kind: Kind, len: usize) -> Self {
        assert!(len <= kind.max_payload());
        Self {
            kind,
            flag: false,
            len: len as u32,
            id: 0,
            key: 0,
            base: 0,
        }
    }

    /// This header with the number `id` of a put or get.
    pub fn with_id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// This header with this position or count.
    pub fn with_base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }

    /// This header with this flag.
    pub fn with_flag(mut self, flag: bool) -> Self {
        self.flag = flag;
        self
    }

    /// The bytes of this header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = self.flag.into();
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.key.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.to_le_bytes());
        bytes
    }

    /// Reads and checks a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let kind = Kind::decode(&mut input)?;
        let flag = input.bool("frame flag")?;
        zero(input.u16("frame reserved")?, "frame reserved")?;
        let header = Self {
            kind,
            flag,
            len: input.u32("frame length")?,
            id: input.u64("frame id")?,
            key: input.u64("frame key")?,
            base: input.u64("frame base")?,
        };
        header.check()?;
        Ok(header)
    }

    /// Payload length in bytes.
    pub fn payload_len(&self) -> usize {
        self.len as usize
    }

    fn check(&self) -> Result<(), Malformed> {
        within(self.len, self.kind.max_payload() as u64, "frame length")?;
        let (flag, id, key, base) = match self.kind {
            Kind::Put | Kind::Atomic => (false, true, true, true),
            Kind::AtomicDone => (false, true, false, false),
            Kind::PutEnd | Kind::GetDone => (true, true, false, true),
            Kind::PutDone => (true, true, false, false),
            Kind::Invite => (false, true, true, true),
            Kind::Get => (false, true, false, false),
            Kind::GetData => (false, true, false, true),
            Kind::Packet | Kind::Probe | Kind::ProbeReply | Kind::Goodbye | Kind::Error => {
                (false, false, false, false)
            }
        };
        if !flag {
            zero(self.flag, "frame flag")?;
        }
        if !id {
            zero(self.id, "frame id")?;
        }
        if !key {
            zero(self.key, "frame key")?;
        }
        if !base {
            zero(self.base, "frame base")?;
        }
        if self.kind == Kind::PutEnd && !self.flag {
            within(self.len, 0, "frame length")?;
        }
        if matches!(self.kind, Kind::Atomic | Kind::AtomicDone)
            && self.payload_len() != self.kind.max_payload()
        {
            return unknown("frame length", self.len);
        }
        Ok(())
    }
}

/// A list of fragments. One fragment, the usual case, needs no allocation.
pub type Fragments = SmallVec<[Fragment; 1]>;

/// A span of a region that a [`Kind::Get`] requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The region's key.
    pub key: u64,
    /// The position of the first byte, as the owner counts it.
    pub base: u64,
    /// How many bytes.
    pub len: u64,
}

impl Fragment {
    /// The fragment's encoding.
    pub fn encode(&self) -> [u8; FRAGMENT_BYTES] {
        let mut bytes = [0; FRAGMENT_BYTES];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads the payload of a [`Kind::Get`]: at least one fragment, none empty, together at most
    /// [`MAX_GET_BYTES`].
    pub fn decode_list(payload: &[u8]) -> Result<Fragments, Malformed> {
        let count = payload.len() / FRAGMENT_BYTES;
        within(count as u64, MAX_GET_FRAGMENTS as u64, "get list")?;
        let mut input = Reader::new(payload);
        let mut list = Fragments::with_capacity(count);
        let mut total = 0_u64;
        for _ in 0..count {
            let fragment = Self {
                key: input.u64("get key")?,
                base: input.u64("get base")?,
                len: input.u64("get length")?,
            };
            total = total.saturating_add(fragment.len);
            within(total, MAX_GET_BYTES, "get length")?;
            if fragment.len == 0 {
                return unknown("get length", 0u8);
            }
            list.push(fragment);
        }
        input.finish()?;
        if list.is_empty() {
            return Err(Malformed::Truncated { field: "get list" });
        }
        Ok(list)
    }
}

/// The length prefix of a record.
pub mod record {
    use super::{MAX_RECORD_PLAIN, RECORD_HEADER_BYTES, RECORD_TAG_BYTES};
    use crate::codec::{Malformed, Reader, unknown, within};

    /// The prefix for a record of `len` bytes, with its tag.
    ///
    /// # Panics
    /// If a record may not have that length.
    pub fn encode(len: usize) -> [u8; RECORD_HEADER_BYTES] {
        assert!(len > RECORD_TAG_BYTES && len <= MAX_RECORD_PLAIN + RECORD_TAG_BYTES);
        (len as u16).to_le_bytes()
    }

    /// The length, with the tag, that `prefix` announces.
    pub fn decode(prefix: [u8; RECORD_HEADER_BYTES]) -> Result<usize, Malformed> {
        let len = usize::from(Reader::new(&prefix).u16("record length")?);
        within(
            len as u64,
            (MAX_RECORD_PLAIN + RECORD_TAG_BYTES) as u64,
            "record length",
        )?;
        if len <= RECORD_TAG_BYTES {
            return unknown("record length", len as u64);
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
