//! Packets of the message layer (`docs/formats/bmi.md` draws them).
//!
//! Every packet starts with the same 16-byte [`Header`]; with an 8-byte message and a ring's own
//! 8-byte header it fits into half a cache line. Eager and unexpected packets go on with the
//! message's bytes, the others with a [`Body`] that depends on the kind.
//!
//! A receiver of eager packets decodes only the header and copies the payload straight from the
//! packet. Everything else is decoded by [`decode`], a pure function, which is also fuzzed.
//!
//! `greeting` defines how a connection begins: which formats each side speaks, and which side
//! called.

mod greeting;

use alloc::vec::Vec;

use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within, zero};
use crate::formats::Formats;
use crate::region::{RegionDescriptor, Regions};

pub use greeting::{
    IN_PARTS, INTRODUCING, InstanceId, Introduction, MAX_INTRODUCED, MAX_INTRODUCED_BYTES,
    OFFERING, RECALLING,
};

/// Bytes of a [`Header`].
pub const HEADER_BYTES: usize = 16;

/// [`Header::word`] of a [`Kind::Hello`] whose lowest format is 1: four letters and that number.
/// See [`Formats::hello`].
pub const HELLO_WORD: u64 = u64::from_le_bytes(*b"CWBM\x01\0\0\0");

/// The part of the receiver's window that an eager message takes besides its bytes: the record that
/// the receiver keeps for it. It bounds a flood of empty messages.
pub const EARLY_RECORD_BYTES: u32 = 64;

/// Rendezvous announcements of expected messages from one sender that may be unmatched at a receiver.
pub const MAX_ANNOUNCED: u32 = 256;

/// Announcements of large unexpected messages from one sender that may wait at a receiver.
pub const MAX_ANNOUNCED_UNEXPECTED: u32 = 16;

/// Receives that a receiver may have offered to one sender ([`Kind::ReadyToReceive`]) without a
/// message or a refusal that has ended the offer.
pub const MAX_OFFERED: usize = 4;

/// Largest size of a message: offsets stay positive as signed numbers.
pub const MAX_MESSAGE_BYTES: u64 = i64::MAX as u64;

/// Flag beside the highest format in [`Header::regions`] of a greeting: its sender can be called.
const CALLABLE: u16 = 0x100;

/// The sender asks whether the receiver needs the connection ([`Kind::Leave`]).
pub const ASKS_TO_LEAVE: u64 = 0;
/// The sender does not need it either.
pub const AGREES_TO_LEAVE: u64 = 1;

/// The sender waits for window: the receiver may enlarge it.
pub const FLAG_STARVED: u8 = 1;
/// The sender of an announcement is a server under load (Yu et al. §5.1): the other side copies.
pub const FLAG_BUSY_SERVER: u8 = 2;
/// Only the sender of an announcement can read the message, and sends it in parts ([`Kind::Part`]):
/// the receiver clears it without exporting memory.
pub const FLAG_IN_PARTS: u8 = 4;

codes! {
    /// The kind of a packet.
    pub enum Kind: "packet kind" {
        /// First packet in each direction: the formats that its sender speaks ([`Formats`]), and
        /// the first grant. The lower half of [`Header::regions`] has the highest format, or 0 if
        /// that is the lowest as well.
        Hello = 1,
        /// A whole message, to be matched by its tag.
        Eager = 2,
        /// A whole message for which the receiver need not have posted a receive.
        Unexpected = 3,
        /// Announces a message that waits in the sender's memory (request to send).
        Announce = 4,
        /// Announces a large unexpected message.
        AnnounceUnexpected = 5,
        /// The receiver's memory for a part of an announced message: the sender writes it.
        ClearToSend = 6,
        /// The sender has written what the last [`Kind::ClearToSend`] named. Word: the receive.
        Written = 7,
        /// The receiver has read the whole message. Word: the send.
        Read = 8,
        /// An announced message, or a receive that was cleared to send, cannot be completed. Word:
        /// the operation of the process that receives this packet.
        Refuse = 9,
        /// The sender withdraws an announced message. Word: the send.
        Withdraw = 10,
        /// Only carries credit and flags. Word: the present size of the window.
        Credit = 11,
        /// The receiver shrinks the window. Word: its new size.
        Reclaim = 12,
        /// Credit that the sender returns after [`Kind::Reclaim`]. Word: bytes.
        Return = 13,
        /// A caller that can be called itself introduces itself; the called instance consents with
        /// a packet of the same kind. Word: number of addresses.
        Introduce = 14,
        /// Such a caller goes on with a connection to which the other side has consented: messages may flow. Word: the
        /// format.
        Ready = 15,
        /// The sender no longer needs the connection, and sends no more messages. Word:
        /// [`ASKS_TO_LEAVE`], or [`AGREES_TO_LEAVE`] as the reply, after which the side that asked
        /// closes the connection or sends [`Kind::Stay`].
        Leave = 16,
        /// The sender needs the connection: messages may flow again.
        Stay = 17,
        /// A receive waits for a message of this tag and offers its memory for it: the other side may write its next message
        /// of the tag there without announcing it, see [`Offer`]. Word: the tag.
        ReadyToReceive = 18,
        /// The sender has written a whole message into the memory that a [`Kind::ReadyToReceive`] offered. Word: the receive.
        SendComplete = 19,
        /// The receiver retracts an offer. The other side replies with [`Kind::Refuse`], after the
        /// [`Kind::SendComplete`] of a message that it has written by then. Word: the receive.
        Retract = 20,
        /// The next bytes of an announced message that was cleared without regions ([`Clearance`]). Word: the receive.
        Part = 21,
        /// The sender asks for an announced message back. The receiver agrees with [`Kind::Refuse`] if it has found no receive
        /// for the message; otherwise the message goes on, and there is no reply of its own. Word: the send.
        Recall = 22,
    }
}

/// The header of every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the packet.
    pub kind: Kind,
    /// `FLAG_*`.
    pub flags: u8,
    /// Number of region descriptors in the body.
    pub regions: u16,
    /// Bytes of window that the sender of this packet grants to its receiver, in addition to what
    /// it has granted before.
    pub credit: u32,
    /// The message's tag, or the word that the kind defines.
    pub word: u64,
}

impl Header {
    /// A header with all fields zero but kind and word.
    pub fn new(kind: Kind, word: u64) -> Self {
        Self {
            kind,
            flags: 0,
            regions: 0,
            credit: 0,
            word,
        }
    }

    /// The header's encoding.
    #[inline]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let first = u64::from(self.kind as u8)
            | u64::from(self.flags) << 8
            | u64::from(self.regions) << 16
            | u64::from(self.credit) << 32;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.word.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    #[inline]
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let [k, flags, r0, r1, c0, c1, c2, c3, w @ ..] = bytes;
        let kind = Kind::from_code(k)?;
        if flags & !(FLAG_STARVED | FLAG_BUSY_SERVER | FLAG_IN_PARTS) != 0 {
            return unknown("packet flags", flags);
        }
        Ok(Self {
            kind,
            flags,
            regions: u16::from_le_bytes([r0, r1]),
            credit: u32::from_le_bytes([c0, c1, c2, c3]),
            word: u64::from_le_bytes(w),
        })
    }
}

impl Header {
    /// The tag, if `bytes` are the header of an expected message that is complete and carries neither flags nor credit.
    #[inline(always)]
    pub fn tag_of_bare_eager(bytes: [u8; HEADER_BYTES]) -> Option<u64> {
        let [k, flags, r0, r1, c0, c1, c2, c3, word @ ..] = bytes;
        let first = u64::from_le_bytes([k, flags, r0, r1, c0, c1, c2, c3]);
        (first == Kind::Eager as u64).then(|| u64::from_le_bytes(word))
    }
}

impl Formats {
    /// The greeting that states these formats. A side that can be called itself (`callable`)
    /// introduces itself when it calls, where both sides speak a format with introductions.
    pub fn hello(self, callable: bool) -> Header {
        let (word, regions) = self.to_words();
        Header {
            regions: regions | if callable { CALLABLE } else { 0 },
            ..Header::new(Kind::Hello, word)
        }
    }

    /// The formats that a greeting states, and whether its sender can be called.
    pub fn of_hello(hello: &Header) -> Result<(Self, bool), Malformed> {
        let formats = Self::from_words(hello.word, hello.regions & !CALLABLE)?;
        Ok((formats, hello.regions & CALLABLE != 0))
    }
}

/// An announced message ([`Kind::Announce`], [`Kind::AnnounceUnexpected`]; the word is the tag).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The sender's number for it.
    pub send: u64,
    /// Bytes of the message.
    pub size: u64,
    /// Transfers that the sender has in progress or waiting.
    pub load: u32,
    /// The memory of the message. Empty if its fragments do not fit into a packet: then only the
    /// sender can move it.
    pub regions: Regions,
}

/// Where to write a part of an announced message ([`Kind::ClearToSend`]; the word is the send).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clearance {
    /// The receiver's number for the receive.
    pub receive: u64,
    /// First byte of the part.
    pub offset: u64,
    /// Bytes of the part.
    pub len: u64,
    /// The memory to write to. Empty: the rest of the message is to be sent in packets
    /// ([`Kind::Part`]).
    pub regions: Regions,
}

/// A receive whose memory the sender may write a message into ([`Kind::ReadyToReceive`]; the word is the tag).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The receiver's number for the receive.
    pub receive: u64,
    /// How many expected messages from this sender have arrived at the receiver on this connection,
    /// announced ones included, modulo 2^32. A sender that has sent more does not use the offer:
    /// one of these may belong to the receive.
    pub seen: u32,
    /// The memory.
    pub region: RegionDescriptor,
}

/// Why an operation cannot be completed ([`Kind::Refuse`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The receive has room for only `room` bytes.
    TooLarge {
        /// Bytes of the receive.
        room: u64,
    },
    /// The other side could not move the bytes.
    Failed,
    /// The other side cancelled its operation.
    Cancelled,
}

/// The part of a packet after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// The message itself: this many bytes.
    Payload(usize),
    /// See [`Announcement`].
    Announcement(Announcement),
    /// See [`Clearance`].
    Clearance(Clearance),
    /// See [`Refusal`].
    Refusal(Refusal),
    /// See [`Introduction`].
    Introduction(Introduction),
    /// See [`Offer`].
    Offer(Offer),
    /// This number of bytes was written ([`Kind::SendComplete`]).
    Written(u64),
}

/// Decodes one packet. Any bytes are accepted or refused with an error, without a panic; memory is
/// allocated at most in proportion to `packet`.
pub fn decode(packet: &[u8]) -> Result<(Header, Body), Malformed> {
    let (head, rest) = packet.split_first_chunk().ok_or(Malformed::Truncated {
        field: "packet header",
    })?;
    let header = Header::decode(*head)?;
    Ok((header, decode_body(&header, rest)?))
}

/// Decodes the part of a packet after `header`.
pub fn decode_body(header: &Header, rest: &[u8]) -> Result<Body, Malformed> {
    let mut input = Reader::new(rest);
    let body = match header.kind {
        Kind::Eager | Kind::Unexpected | Kind::Part => return Ok(Body::Payload(rest.len())),
        Kind::Announce | Kind::AnnounceUnexpected => {
            Body::Announcement(decode_announcement(header, &mut input)?)
        }
        Kind::ClearToSend => Body::Clearance(decode_clearance(header, &mut input)?),
        Kind::Refuse => Body::Refusal(decode_refusal(&mut input)?),
        Kind::Introduce => Body::Introduction(Introduction::decode(header.word, &mut input)?),
        Kind::ReadyToReceive => Body::Offer(decode_offer(header, &mut input)?),
        Kind::SendComplete => {
            let size = input.u64("size of a written message")?;
            within(size, MAX_MESSAGE_BYTES, "size of a written message")?;
            Body::Written(size)
        }
        Kind::Hello
        | Kind::Written
        | Kind::Read
        | Kind::Withdraw
        | Kind::Recall
        | Kind::Credit
        | Kind::Reclaim
        | Kind::Return
        | Kind::Ready
        | Kind::Leave
        | Kind::Stay
        | Kind::Retract => Body::Empty,
    };
    input.finish()?;
    Ok(body)
}

/// Bytes of [`Announcement`] and [`Clearance`] before their regions.
pub const BODY_FIXED_BYTES: usize = 24;

/// The most bytes that a region's encoding takes.
pub const MAX_REGION_BYTES: usize = 41;

/// Encodes an announcement after `header`, whose count of regions is set here, into `buffer`, whose
/// content is replaced. The other encoders do the same.
pub fn encode_announcement(header: Header, body: &Announcement, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = start(header, &body.regions, buffer);
    out.u64(body.send);
    out.u64(body.size);
    out.u32(body.load);
    out.u32(0);
    finish(out, &body.regions)
}

/// Encodes a clearance after `header`, whose count of regions is set here.
pub fn encode_clearance(header: Header, body: &Clearance, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = start(header, &body.regions, buffer);
    out.u64(body.receive);
    out.u64(body.offset);
    out.u64(body.len);
    finish(out, &body.regions)
}

/// Encodes a refusal after `header`.
pub fn encode_refusal(header: Header, refusal: Refusal, buffer: Vec<u8>) -> Vec<u8> {
    let mut out = start(header, &[], buffer);
    let (reason, room) = match refusal {
        Refusal::TooLarge { room } => (1, room),
        Refusal::Failed => (2, 0),
        Refusal::Cancelled => (3, 0),
    };
    out.u8(reason);
    out.u64(room);
    out.finish()
}

/// Encodes an offer after `header`, whose count of regions is set here. Without an object it fits
/// into one cache line of a ring.
pub fn encode_offer(header: Header, offer: &Offer, buffer: Vec<u8>) -> Vec<u8> {
    let regions = [offer.region];
    let mut out = start(header, &regions, buffer);
    out.u64(offer.receive);
    out.u32(offer.seen);
    finish(out, &regions)
}

/// Bytes of a [`Kind::SendComplete`].
pub const SEND_COMPLETE_BYTES: usize = HEADER_BYTES + 8;

/// Encodes the packet that completes a message of `size` bytes written into the memory of an offered receive.
pub fn send_complete(receive: u64, size: u64) -> [u8; SEND_COMPLETE_BYTES] {
    let mut packet = [0; SEND_COMPLETE_BYTES];
    let (header, body) = packet.split_at_mut(HEADER_BYTES);
    header.copy_from_slice(&Header::new(Kind::SendComplete, receive).encode());
    body.copy_from_slice(&size.to_le_bytes());
    packet
}

/// Encodes an introduction ([`Kind::Introduce`]) with as many of its addresses, from the first on, as fit into a packet of
/// `max_packet` bytes.
pub fn encode_introduction(introduction: &Introduction, max_packet: usize) -> Vec<u8> {
    let count = introduction.fitting(max_packet.saturating_sub(HEADER_BYTES));
    let mut out = Writer::new();
    out.raw(&Header::new(Kind::Introduce, count as u64).encode());
    introduction.encode(count, &mut out);
    out.finish()
}

fn start(mut header: Header, regions: &[RegionDescriptor], mut buffer: Vec<u8>) -> Writer {
    header.regions = u16::try_from(regions.len()).unwrap_or(u16::MAX);
    buffer.clear();
    buffer.reserve(HEADER_BYTES + BODY_FIXED_BYTES + regions.len() * MAX_REGION_BYTES);
    let mut out = Writer::onto(buffer);
    out.raw(&header.encode());
    out
}

fn finish(mut out: Writer, regions: &[RegionDescriptor]) -> Vec<u8> {
    for region in regions {
        region.encode(&mut out);
    }
    out.finish()
}

fn decode_announcement(header: &Header, input: &mut Reader<'_>) -> Result<Announcement, Malformed> {
    let send = input.u64("announcement send")?;
    let size = input.u64("announcement size")?;
    within(size, MAX_MESSAGE_BYTES, "announcement size")?;
    let load = input.u32("announcement load")?;
    zero(input.u32("announcement reserved")?, "announcement reserved")?;
    let regions = decode_regions(header, input)?;
    if !regions.is_empty() {
        same_length("announcement regions", &regions, size)?;
    }
    Ok(Announcement {
        send,
        size,
        load,
        regions,
    })
}

fn decode_clearance(header: &Header, input: &mut Reader<'_>) -> Result<Clearance, Malformed> {
    let receive = input.u64("clearance receive")?;
    let offset = input.u64("clearance offset")?;
    let len = input.u64("clearance length")?;
    within(offset, MAX_MESSAGE_BYTES, "clearance offset")?;
    within(len, MAX_MESSAGE_BYTES - offset, "clearance length")?;
    let regions = decode_regions(header, input)?;
    if !regions.is_empty() {
        same_length("clearance regions", &regions, len)?;
    }
    Ok(Clearance {
        receive,
        offset,
        len,
        regions,
    })
}

fn decode_offer(header: &Header, input: &mut Reader<'_>) -> Result<Offer, Malformed> {
    let receive = input.u64("offer's receive")?;
    let seen = input.u32("offer's count of messages")?;
    let regions = decode_regions(header, input)?;
    let [region] = regions[..] else {
        return unknown("offer's regions", regions.len() as u64);
    };
    within(region.len, MAX_MESSAGE_BYTES, "offer's length")?;
    Ok(Offer {
        receive,
        seen,
        region,
    })
}

fn decode_refusal(input: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    let reason = input.u8("refusal reason")?;
    let room = input.u64("refusal room")?;
    match reason {
        1 => Ok(Refusal::TooLarge { room }),
        2 => Ok(Refusal::Failed),
        3 => Ok(Refusal::Cancelled),
        value => unknown("refusal reason", value),
    }
}

fn decode_regions(header: &Header, input: &mut Reader<'_>) -> Result<Regions, Malformed> {
    let count = usize::from(header.regions);
    // Allocates no more than the packet's length.
    if count * 25 > input.remaining() {
        return Err(Malformed::Truncated {
            field: "region list",
        });
    }
    (0..count)
        .map(|_| RegionDescriptor::decode(input))
        .collect()
}

fn same_length(
    field: &'static str,
    regions: &[RegionDescriptor],
    len: u64,
) -> Result<(), Malformed> {
    let total = regions
        .iter()
        .try_fold(0u64, |sum, region| sum.checked_add(region.len))
        .unwrap_or(u64::MAX);
    match total == len {
        true => Ok(()),
        false => unknown(field, total),
    }
}

const _: () = assert!(HEADER_BYTES + 8 + 8 <= 64);

#[cfg(test)]
mod tests;
