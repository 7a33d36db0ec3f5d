//! What the shared-memory method sends on its socket and writes into shared memory.
//!
//! Control records ([`Record`]) are sent on a Unix socket that keeps record boundaries, some with
//! descriptors. Packets are sent in rings whose slots begin with a [`SlotWord`]; packets between
//! the two methods themselves are [`Internal`]. [`PairLayout`] defines the layout of the memory of
//! a pair of processes, and [`doorbell`] that of the page by which each process is notified.
//! `docs/formats/shm.md` draws it all.

use alloc::string::String;
use alloc::vec::Vec;

pub mod split_copy;

use crate::atomic::{Operation, Outcome};
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within};
use crate::formats::Formats;
use crate::node::MAX_CERTIFICATE_BYTES;

/// `CWSM`, the first word of a handshake.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CWSM");
/// The formats of everything in this module that this build speaks. In format 5 there are no pieces
/// of split copies ([`SlotKind::Piece`]), and before format 7 no nodes ([`Record::Node`]).
pub const FORMATS: Formats = Formats {
    lowest: 5,
    highest: NODES,
};
/// The first format with pieces of split copies.
pub const PIECES: u8 = 6;
/// The first format in which processes prove which nodes they are. A side that requires it states
/// no lower one.
pub const NODES: u8 = 7;
/// The longest message of that exchange.
pub const MAX_NODE_MESSAGE: usize = 96 + MAX_CERTIFICATE_BYTES;
/// The longest control record.
pub const MAX_RECORD_BYTES: usize = 8 + MAX_NODE_MESSAGE;
/// The longest text in a refusal.
pub const MAX_REASON_BYTES: usize = 200;
/// Handshake flag: the process is registered for `membarrier`, so senders to it may omit their
/// fences if they are registered too.
pub const FLAG_MEMBARRIER: u8 = 1;
/// Handshake flag of a [`Hello`]: its sender holds a cluster's key, and expects a [`Challenge`].
pub const FLAG_KEYED: u8 = 2;
/// Handshake flag of a [`Hello`] with [`FLAG_KEYED`]: its sender proves which node it is, and
/// requires the same; instead of [`Challenge`] and [`Proof`] there are three records of
/// [`Record::Node`], of which the caller sends the first one after its greeting.
pub const FLAG_NODES: u8 = 4;

codes! {
    /// Why a handshake is refused.
    pub enum RefuseReason: "refusal kind" {
        /// It violates the protocol, or is refused for another permanent reason.
        Other = 0,
        /// The other side's user is not accepted.
        Unauthorised = 1,
        /// The refusing side has no room or no descriptors for a further peer now.
        Full = 2,
    }
}

/// One record on the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first record, from the side that connected, with the pair's memory file and that
    /// process's doorbell page.
    Hello(Hello),
    /// The reply, with the accepting process's doorbell page.
    Welcome(Welcome),
    /// The reply to an unacceptable handshake; the socket is closed after it.
    Refused {
        /// Why, in words.
        reason: String,
        /// What kind of reason that is.
        why: RefuseReason,
    },
    /// Wakes a sleeping process; carries nothing else.
    Wake,
    /// The sender closes in an orderly way.
    Goodbye,
    /// A memory object, with its file. Regions of it can be mapped from now on.
    Object {
        /// Its number.
        object: u64,
        /// The address of its first byte in the owner: shows which regions are in it.
        base: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// The sender has dropped its mapping of an object and needs the file again before it can map
    /// further regions.
    ObjectUnmapped {
        /// Its number.
        object: u64,
    },
    /// The object's owner has freed it; mappings of it are of no more use.
    ObjectFreed {
        /// Its number.
        object: u64,
    },
    /// The area through which the sender's transfers are copied if one process may not access the
    /// other's memory, with its file.
    Bulk,
    /// The reply to the greeting of a caller that holds the cluster's key; the caller replies with
    /// [`Record::Proof`], and only then [`Record::Welcome`] follows.
    Challenge(Challenge),
    /// The proof that the caller holds the key, in this very exchange.
    Proof(Proof),
    /// A message of the exchange in which both sides prove which nodes they are.
    Node(Vec<u8>),
}

impl Record {
    /// The kind of the record in a word, for reports, for which the record's content would be too
    /// long.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "Hello",
            Self::Welcome(_) => "Welcome",
            Self::Refused { .. } => "Refused",
            Self::Wake => "Wake",
            Self::Goodbye => "Goodbye",
            Self::Object { .. } => "Object",
            Self::ObjectUnmapped { .. } => "ObjectUnmapped",
            Self::ObjectFreed { .. } => "ObjectFreed",
            Self::Bulk => "Bulk",
            Self::Challenge(_) => "Challenge",
            Self::Proof(_) => "Proof",
            Self::Node(_) => "Node",
        }
    }
}

/// A keyed hash (HMAC-SHA-256) of both sides' part of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof(pub [u8; PROOF_BYTES]);

/// Bytes of a [`Proof`].
pub const PROOF_BYTES: usize = 32;

/// See [`Record::Challenge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// Drawn by the accepting side for this handshake.
    pub nonce: u128,
    /// That the accepting side holds the key.
    pub proof: Proof,
}

impl Wire for Proof {
    fn encode(&self, out: &mut Writer) {
        self.0.iter().for_each(|byte| out.u8(*byte));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut bytes = [0; PROOF_BYTES];
        for byte in &mut bytes {
            *byte = input.u8("proof")?;
        }
        Ok(Self(bytes))
    }
}

impl Wire for Challenge {
    fn encode(&self, out: &mut Writer) {
        out.u128(self.nonce);
        self.proof.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            nonce: input.u128("nonce")?,
            proof: Proof::decode(input)?,
        })
    }
}

/// See [`Record::Hello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The formats that the sender speaks.
    pub formats: Formats,
    /// The sender's `FLAG_*` bits.
    pub flags: u8,
    /// Bytes of each ring.
    pub ring_bytes: u32,
    /// Entries of each region table.
    pub region_slots: u32,
    /// Drawn for this handshake, if [`FLAG_KEYED`] is set; else it is not sent.
    pub nonce: u128,
    /// About the sender.
    pub process: ProcessInfo,
}

/// See [`Record::Welcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The formats that the sender speaks.
    pub formats: Formats,
    /// The sender's `FLAG_*` bits.
    pub flags: u8,
    /// About the sender.
    pub process: ProcessInfo,
}

/// What each side states about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Random number of the method's instance.
    pub incarnation: u64,
    /// The bit in the sender's doorbell page that the other side rings.
    pub doorbell_bit: u32,
    /// Address in the sender's memory of a word that holds `probe_value`: a process that reads this
    /// value there can access the sender's memory.
    pub probe_address: u64,
    /// See `probe_address`.
    pub probe_value: u64,
}

impl Wire for ProcessInfo {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.incarnation);
        out.u32(self.doorbell_bit);
        out.u64(self.probe_address);
        out.u64(self.probe_value);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let incarnation = input.u64("incarnation")?;
        let doorbell_bit = input.u32("doorbell bit")?;
        let last = u64::from(doorbell::MAX_PEERS) - 1;
        within(doorbell_bit, last, "doorbell bit")?;
        Ok(Self {
            incarnation,
            doorbell_bit,
            probe_address: input.u64("probe address")?,
            probe_value: input.u64("probe value")?,
        })
    }
}

const WAKE: u8 = 4;

/// The whole of a wake-up record.
pub const WAKE_RECORD: [u8; 1] = [WAKE];

const HELLO: u8 = 1;
const WELCOME: u8 = 2;

variants!(Record, "record kind", {
    HELLO => Hello(hello: wire),
    WELCOME => Welcome(welcome: wire),
    3 => Refused { why: wire, reason: text(MAX_REASON_BYTES) },
    WAKE => Wake,
    5 => Goodbye,
    6 => Object { object: u64, base: u64, len: u64 },
    7 => ObjectUnmapped { object: u64 },
    8 => ObjectFreed { object: u64 },
    9 => Bulk,
    10 => Challenge(challenge: wire),
    11 => Proof(proof: wire),
    12 => Node(message: bytes(MAX_NODE_MESSAGE)),
});

fn encode_preamble(out: &mut Writer, formats: Formats, flags: u8) {
    out.u32(MAGIC);
    out.u16(formats.lowest.into());
    out.u8(flags);
    out.u8(formats.above());
}

fn decode_preamble(input: &mut Reader<'_>) -> Result<(Formats, u8), Malformed> {
    let (formats, flags) = decode_any_preamble(input)?;
    match FORMATS.common(formats) {
        Some(_) => Ok((formats, flags)),
        None => unknown("format of the shared-memory method", formats.lowest),
    }
}

/// The preamble has the same fields in every format.
fn decode_any_preamble(input: &mut Reader<'_>) -> Result<(Formats, u8), Malformed> {
    let magic = input.u32("magic")?;
    if magic != MAGIC {
        return unknown("magic", magic);
    }
    let lowest = input.u16("format of the shared-memory method")?;
    let flags = input.u8("flags")?;
    let formats = Formats::stated(lowest, input.u8("formats above")?)?;
    Ok((formats, flags))
}

/// The error for a first record that cannot be read because its sender speaks none of our formats, in words for
/// both sides.
pub fn mismatch_of(record: &[u8]) -> Option<String> {
    let mut input = Reader::new(record);
    let kind = input.u8("record kind").ok()?;
    let (theirs, _) = decode_any_preamble(&mut input).ok()?;
    let (caller, called) = match kind {
        HELLO => (theirs, FORMATS),
        WELCOME => (FORMATS, theirs),
        _ => return None,
    };
    let text = Formats::refusal(caller, called, "the shared-memory method");
    FORMATS.common(theirs).is_none().then_some(text)
}

impl Wire for Hello {
    fn encode(&self, out: &mut Writer) {
        encode_preamble(out, self.formats, self.flags);
        out.u32(self.ring_bytes);
        out.u32(self.region_slots);
        if self.flags & FLAG_KEYED != 0 {
            out.u128(self.nonce);
        }
        self.process.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (formats, flags) = decode_preamble(input)?;
        Ok(Self {
            formats,
            flags,
            ring_bytes: input.u32("ring bytes")?,
            region_slots: input.u32("region slots")?,
            nonce: match flags & FLAG_KEYED {
                0 => 0,
                _ => input.u128("nonce")?,
            },
            process: ProcessInfo::decode(input)?,
        })
    }
}

impl Wire for Welcome {
    fn encode(&self, out: &mut Writer) {
        encode_preamble(out, self.formats, self.flags);
        self.process.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (formats, flags) = decode_preamble(input)?;
        Ok(Self {
            formats,
            flags,
            process: ProcessInfo::decode(input)?,
        })
    }
}

/// The first word of a slot in which a packet begins; 0 if none does (yet).
///
/// Bits 0–31: the packet's length in bytes, without this word. Bits 32–39: its kind.
/// Bits 40–55: 0. Bits 56–63: [`SlotWord::MARK`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotWord {
    /// What the packet is.
    pub kind: SlotKind,
    /// Its length in bytes.
    pub len: u32,
}

/// The kind of what begins in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// A packet for the method's user.
    Packet,
    /// A packet for the method itself; see [`Internal`].
    Internal,
    /// Nothing up to the end of the ring; the next packet begins in slot 0.
    Pad,
    /// A part of a split copy: a [`PieceHeader`](split_copy::PieceHeader) and the bytes. From format 6 on.
    Piece,
}

impl SlotWord {
    /// The upper byte of every valid word: detects most stray bytes.
    pub const MARK: u64 = 0xC5;

    /// The encoded word.
    #[inline]
    pub fn pack(self) -> u64 {
        let kind = match self.kind {
            SlotKind::Packet => 1,
            SlotKind::Internal => 2,
            SlotKind::Pad => 3,
            SlotKind::Piece => 4,
        };
        Self::MARK << 56 | kind << 32 | u64::from(self.len)
    }

    /// The length of the packet for the method's user that this word introduces:
    /// [`SlotWord::unpack`] for the most frequent words.
    #[inline]
    pub fn len_of_packet(word: u64) -> Option<u32> {
        (word >> 32 == 0xC500_0001).then_some(word as u32)
    }

    /// Decodes a word other than 0.
    #[inline]
    pub fn unpack(word: u64) -> Result<Self, Malformed> {
        let kind = match word >> 32 {
            0xC500_0001 => SlotKind::Packet,
            0xC500_0002 => SlotKind::Internal,
            0xC500_0003 => SlotKind::Pad,
            0xC500_0004 => SlotKind::Piece,
            value => return unknown("slot word", value),
        };
        Ok(Self {
            kind,
            len: word as u32,
        })
    }
}

/// Bytes of a slot: a cache line.
pub const SLOT_BYTES: usize = 64;
/// Bytes of a [`SlotWord`].
pub const SLOT_WORD_BYTES: usize = 8;

/// How many slots a packet of `len` bytes occupies.
#[inline]
pub const fn slots_of(len: usize) -> u64 {
    (len + SLOT_WORD_BYTES).div_ceil(SLOT_BYTES) as u64
}

/// The memory of one pair of processes: ring 0, control words, ring 1, a region table for each side, a
/// page of split copies ([`split_copy`]) for each side. Side 0 connected, side 1 accepted; ring `n` is
/// written by side `n`.
///
/// The control words share a page with the end of ring 0 and the beginning of ring 1, and the first
/// packet in ring 0 is placed near its end: a pair that has exchanged little has touched one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairLayout {
    /// Bytes of each ring: a power of two.
    pub ring_bytes: usize,
    /// Entries of each region table: a power of two.
    pub region_slots: usize,
}

impl PairLayout {
    /// Bytes before ring 0, of control words, and after ring 1, together.
    pub const CONTROL_BYTES: usize = 4096;
    /// Bytes before ring 0, and bytes of it that share the control words' page.
    const LEAD_BYTES: usize = (Self::CONTROL_BYTES - 2 * Self::SIDE_BYTES) / 2;
    /// Slots of each ring that share the control words' page.
    pub const NEAR_SLOTS: u64 = (Self::LEAD_BYTES / SLOT_BYTES) as u64;
    /// Bytes of control words of each side.
    pub const SIDE_BYTES: usize = 512;
    /// In a side's control words: how many slots of ring `side` have been consumed (or skipped
    /// after a pad). Written by the ring's receiver.
    pub const CONSUMED: usize = 0;
    /// In a side's control words: whether notification is enabled, that is, the receiver of ring
    /// `side` does not poll the ring and must be rung. Written by the ring's receiver.
    pub const NOTIFY: usize = 8;
    /// In a side's control words: whether the sender of ring `side` waits for room.
    pub const WANTS_ROOM: usize = 128;
    /// In a side's control words: [`PairLayout::HAZARDS`] keys of the other side's regions that
    /// this side is copying from or to at this moment.
    pub const HAZARD: usize = 256;
    /// How many keys a side may name in its hazard words.
    pub const HAZARDS: usize = 7;
    /// In a side's control words: counts copies under more keys than that, twice each; odd during one.
    pub const HAZARD_MANY: usize = Self::HAZARD + 8 * Self::HAZARDS;
    /// Bytes of an entry in a region table: key, base, length, access, each a word.
    pub const REGION_BYTES: usize = 32;

    /// The layout, if the numbers are possible.
    pub fn new(ring_bytes: usize, region_slots: usize) -> Result<Self, Malformed> {
        if !ring_bytes.is_power_of_two() || !(16 << 10..=1 << 20).contains(&ring_bytes) {
            return unknown("ring bytes", ring_bytes as u64);
        }
        if !region_slots.is_power_of_two() || !(128..=1 << 16).contains(&region_slots) {
            return unknown("region slots", region_slots as u64);
        }
        Ok(Self {
            ring_bytes,
            region_slots,
        })
    }

    /// Bytes of the whole.
    pub const fn len(self) -> usize {
        self.split_copies(2)
    }

    /// Whether it has no bytes: never.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Where the control words of `side` begin.
    pub const fn control(self, side: usize) -> usize {
        self.ring(0) + self.ring_bytes + side * Self::SIDE_BYTES
    }

    /// Where the ring that `side` writes begins.
    pub const fn ring(self, side: usize) -> usize {
        Self::LEAD_BYTES + side * (self.ring_bytes + 2 * Self::SIDE_BYTES)
    }

    /// The slot of the ring that `side` writes in which the first packet begins.
    pub const fn first_slot(self, side: usize) -> u64 {
        if side == 0 {
            (self.ring_bytes / SLOT_BYTES) as u64 - Self::NEAR_SLOTS
        } else {
            0
        }
    }

    /// Where entry `slot` of the region table of `side` begins.
    pub const fn region(self, side: usize, slot: usize) -> usize {
        Self::CONTROL_BYTES
            + 2 * self.ring_bytes
            + (side * self.region_slots + slot) * Self::REGION_BYTES
    }

    /// Where the page of the split copies that `side` initiated begins.
    pub const fn split_copies(self, side: usize) -> usize {
        self.region(2, 0) + side * split_copy::BYTES
    }

    /// Where block `block` of that page begins.
    pub const fn split_copy_block(self, side: usize, block: usize) -> usize {
        self.split_copies(side) + split_copy::HEAD_BYTES + block * split_copy::BLOCK_BYTES
    }

    /// The largest packet that fits such rings: an eager message of a quarter of a ring with its
    /// headers.
    pub const fn max_packet(self) -> usize {
        self.ring_bytes / 4 + 256
    }
}

const _: () = {
    let layout = PairLayout {
        ring_bytes: 16 << 10,
        region_slots: 128,
    };
    assert!(layout.control(1) + PairLayout::SIDE_BYTES == layout.ring(1));
    assert!(layout.ring(1) + layout.ring_bytes <= layout.region(0, 0));
    // One page has the control words and the slots that are used first; lines come in pairs of 128
    // bytes.
    assert!(layout.control(0).is_multiple_of(128) && layout.ring(1).is_multiple_of(128));
    let near = layout.ring(0) + layout.first_slot(0) as usize * SLOT_BYTES;
    assert!(near.is_multiple_of(4096));
    assert!(layout.ring(1) + PairLayout::NEAR_SLOTS as usize * SLOT_BYTES == near + 4096);
    assert!(PairLayout::HAZARD_MANY + 8 <= PairLayout::SIDE_BYTES);
    assert!(layout.region(1, layout.region_slots) == layout.split_copies(0));
    assert!(layout.split_copy_block(1, split_copy::BLOCKS) == layout.len());
    assert!(split_copy::BLOCKS <= 64 && split_copy::OFFSET + 8 <= split_copy::BLOCK_BYTES);
    // A packet fits an empty ring wherever the last one ended: fewer slots are skipped at the end
    // than the packet has, and the slot after it must be free too.
    assert!(2 * slots_of(layout.max_packet()) < (layout.ring_bytes / SLOT_BYTES) as u64);
    assert!(SLOT_BYTES.is_multiple_of(SLOT_WORD_BYTES));
    assert!(WAKE_RECORD[0] == WAKE);
};

/// The page by which one process is notified by all others.
pub mod doorbell {
    /// Bytes of the page.
    pub const BYTES: usize = 4096;
    /// Not 0 while the process sleeps or is about to: the sleep's number times [`SLEEP_STEP`], with
    /// the flags below. Its low half is the futex on which a parked process sleeps.
    pub const ARMED: usize = 0;
    /// Flag of [`ARMED`]: the process sleeps on this word itself, not on its descriptors.
    pub const PARKED: u64 = 1;
    /// Flag of [`ARMED`]: a peer is about to wake the process that is parked on this word.
    pub const CALLED: u64 = 2;
    /// The flags are below the numbers of sleeps.
    pub const SLEEP_STEP: u64 = 4;
    /// Bit `n`: words `8n..8n + 8` of the bitmap may have bits set.
    pub const SUMMARY: usize = 128;
    /// One bit for each peer of the process.
    pub const BITMAP: usize = 256;
    /// Words of the bitmap.
    pub const BITMAP_WORDS: usize = (BYTES - BITMAP) / 8;
    /// Words of the bitmap behind one bit of the summary.
    pub const WORDS_PER_SUMMARY_BIT: usize = 8;
    /// Bits of the bitmap.
    pub const BITS: u32 = (BITMAP_WORDS * 64) as u32;
    /// The most peers of one process, which have the bits below this one.
    pub const MAX_PEERS: u32 = BITS - 1;

    const _: () = assert!(BITMAP_WORDS.div_ceil(WORDS_PER_SUMMARY_BIT) <= 64);
}

/// The area for transfers if one process may not access the other's memory: a few pieces, each used
/// by one request at a time.
pub mod bulk {
    /// Bytes of a piece.
    pub const PIECE_BYTES: usize = 32 << 10;
    /// How many pieces.
    pub const PIECES: usize = 8;
    /// Bytes of the whole.
    pub const BYTES: usize = PIECE_BYTES * PIECES;
    /// The most fragments of one request.
    pub const MAX_FRAGMENTS: usize = 128;
}

/// A packet for the method itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Internal {
    /// Requests the owner to copy between its regions and a piece of the sender's bulk area.
    Copy(CopyRequest),
    /// The owner's reply.
    Copied {
        /// The piece.
        piece: u8,
        /// The result.
        outcome: CopyOutcome,
    },
    /// Requests a remote atomic from the owner.
    Atomic(AtomicRequest),
    /// The owner's reply.
    AtomicDone {
        /// Which request.
        id: u64,
        /// The result.
        outcome: Outcome,
    },
}

/// The most atomics that a side may have requested without having received their results.
pub const ATOMIC_WINDOW: usize = 64;

/// See [`Internal::Atomic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The requester's number.
    pub id: u64,
    /// The region's key.
    pub key: u64,
    /// The address of the word in the owner.
    pub base: u64,
    /// The operation.
    pub operation: Operation,
}

/// See [`Internal::Copy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRequest {
    /// The piece of the requester's bulk area.
    pub piece: u8,
    /// Whether the owner's memory is written (from the piece) rather than read (into it).
    pub into_regions: bool,
    /// The memory, in order; together at most [`bulk::PIECE_BYTES`].
    pub fragments: Vec<CopyFragment>,
}

/// A span of an exported region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFragment {
    /// The region's key.
    pub key: u64,
    /// The address of the first byte in the owner.
    pub base: u64,
    /// Bytes.
    pub len: u32,
}

codes! {
    /// The result of the owner's copying.
    pub enum CopyOutcome: "outcome" {
        /// Done.
        Done = 0,
        /// A fragment is not (any more) exported with that access.
        Protection = 1,
        /// The owner has no mapping of the bulk area.
        NoArea = 2,
    }
}

record! { AtomicRequest { id: u64, key: u64, base: u64, operation: wire } }
record! { CopyFragment { key: u64, base: u64, len: u32 } }

const COPY: u8 = 1;
const COPIED: u8 = 2;
const ATOMIC: u8 = 3;
const ATOMIC_DONE: u8 = 4;
const FRAGMENT_BYTES: usize = 20;

fn decode_piece(input: &mut Reader<'_>) -> Result<u8, Malformed> {
    let piece = input.u8("piece")?;
    within(piece, bulk::PIECES as u64 - 1, "piece")?;
    Ok(piece)
}

impl Wire for CopyRequest {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.piece);
        out.bool(self.into_regions);
        put_list(&self.fragments, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let piece = decode_piece(input)?;
        let into_regions = input.bool("direction")?;
        let fragments: Vec<CopyFragment> = take!(
            list(FRAGMENT_BYTES, bulk::MAX_FRAGMENTS),
            input,
            "fragments"
        );
        let total = fragments.iter().map(|one| u64::from(one.len)).sum::<u64>();
        within(total, bulk::PIECE_BYTES as u64, "fragments together")?;
        Ok(Self {
            piece,
            into_regions,
            fragments,
        })
    }
}

impl Wire for Internal {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Copy(request) => {
                out.u8(COPY);
                request.encode(out);
            }
            Self::Copied { piece, outcome } => {
                out.u8(COPIED);
                out.u8(*piece);
                outcome.encode(out);
            }
            Self::Atomic(request) => {
                out.u8(ATOMIC);
                request.encode(out);
            }
            Self::AtomicDone { id, outcome } => {
                out.u8(ATOMIC_DONE);
                out.u64(*id);
                outcome.encode(out);
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.u8("internal packet kind")? {
            COPY => Self::Copy(CopyRequest::decode(input)?),
            COPIED => Self::Copied {
                piece: decode_piece(input)?,
                outcome: CopyOutcome::decode(input)?,
            },
            ATOMIC => Self::Atomic(AtomicRequest::decode(input)?),
            ATOMIC_DONE => Self::AtomicDone {
                id: input.u64("atomic number")?,
                outcome: Outcome::decode(input)?,
            },
            value => return unknown("internal packet kind", value),
        })
    }
}

#[cfg(test)]
mod tests;
