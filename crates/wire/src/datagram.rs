//! Datagrams of the UDP method: a reliable stream of bytes over a medium that loses, duplicates,
//! reorders and alters datagrams.
//!
//! Every datagram begins with a prefix that names the *incarnation* of the connection it belongs
//! to: each side draws a number at random when a connection begins, so that no datagram of an
//! earlier connection, or of an earlier process at the same address, is ever accepted as part of a
//! later one. Then comes a [`Greeting`] while the connection is set up, or a numbered [`Segment`]:
//! a span of the stream, an acknowledgement, or both. Numbers are never used twice; a span that was
//! lost is sent again in a datagram with a new number. The stream carries the frames of
//! [`crate::tcp`]. `docs/formats/datagram.md` draws all of it.
//!
//! A datagram in the clear ends with a checksum of everything before it (XXH3, 64 bits): UDP's own
//! 16 bits let alterations through. Segments are sealed, with or without the cluster's key; only
//! simulated networks use them in the clear.

use alloc::vec::Vec;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within, zero};
use crate::formats::Formats;
use crate::tcp::{Auth, Holder, Refusal};

/// The formats of everything in this module that this build speaks. A [`Greeting`] has the same fields in each, and its
/// prefix has the sender's lowest format; datagrams of an open connection have the highest common one.
pub const FORMATS: Formats = Formats::only(5);

/// Encoded size of the prefix: kind, format, and the incarnations of receiver and sender.
pub const PREFIX_BYTES: usize = 20;

/// Size of the checksum at the end of a datagram in the clear.
pub const CHECK_BYTES: usize = 8;

/// Bytes that authentication adds to a sealed segment.
pub const TAG_BYTES: usize = 16;

/// Size of a [`Greeting::cookie`].
pub const COOKIE_BYTES: usize = 24;

/// Size of a [`Greeting::noise`]: an ephemeral key and a tag.
pub const NOISE_BYTES: usize = 48;

/// Encoded size of a datagram with a [`Greeting`]. All have the same length, so that a sender with
/// a forged address causes no more bytes to that address than it sends.
pub const GREETING_BYTES: usize = PREFIX_BYTES + 12 + COOKIE_BYTES + NOISE_BYTES + CHECK_BYTES;

/// Where a [`Greeting`] has the number of formats above the lowest.
const ABOVE_AT: usize = PREFIX_BYTES + 2;

/// Encoded size of a [`Segment`] without acknowledgement and data.
pub const SEGMENT_BYTES: usize = 16;

/// Encoded size of an [`Ack`] without the delay, which the segment carries.
pub const ACK_BYTES: usize = 8 + 8 * BITMAP_WORDS + 8 + 8;

/// Words of an [`Ack::bitmap`].
pub const BITMAP_WORDS: usize = 4;

/// Most bytes that a datagram adds to its data.
pub const OVERHEAD_BYTES: usize = PREFIX_BYTES + 8 + SEGMENT_BYTES + ACK_BYTES + TAG_BYTES;

/// The largest datagram there is: what IPv4 and UDP leave of 64 KiB.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// A datagram size that every path is assumed to carry.
pub const SAFE_DATAGRAM_BYTES: usize = 1_200;

/// How far the stream may run ahead of received bytes, before the first [`Ack::limit`].
pub const FIRST_LIMIT: u64 = 64 * 1024;

/// The pre-shared key of processes without one: not a secret, but with it one handshake serves both
/// cases.
pub const PUBLIC_KEY: [u8; 32] = *b"causeway datagrams without a key";

/// Seed of the checksum, so that it differs from that of other protocols.
const SEED: u64 = u64::from_le_bytes(*b"causeway");

const FLAG_WANTS_ACK: u8 = 1;
const FLAG_ACK: u8 = 2;

const _: () = assert!(GREETING_BYTES <= SAFE_DATAGRAM_BYTES);
const _: () = assert!(OVERHEAD_BYTES + 1024 <= SAFE_DATAGRAM_BYTES);
const _: () = assert!(CHECK_BYTES <= TAG_BYTES);

codes! {
    /// The kind of a datagram.
    pub enum Kind: "datagram kind" {
        /// The caller requests a connection; first without a cookie, then with the one from the
        /// reply.
        Open = 1,
        /// The reply to an opening without a (valid) cookie: the cookie. The sender keeps nothing.
        Cookie = 2,
        /// The connection is up as soon as the caller's first segment arrives.
        Accept = 3,
        /// The connection is refused, for the reason in the greeting.
        Refuse = 4,
        /// The sender has no connection to which the receiver's segment belongs; or, with its own
        /// number 0, it does not accept connections where the receiver's opening arrived.
        Reset = 5,
        /// A segment in the clear: in simulated networks only.
        Plain = 6,
        /// A segment, sealed.
        Sealed = 7,
    }
}

/// The beginning of every datagram, the same in every format; so is the checksum at the end of
/// those in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// What follows.
    pub kind: Kind,
    /// The receiver's number for the connection; 0 in an opening, where it has none yet.
    pub to: u64,
    /// The sender's number for the connection.
    pub from: u64,
}

impl Prefix {
    /// Decodes the prefix of a datagram of which only the beginning may be available.
    pub fn peek(front: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(front);
        Ok(Self::decode(&mut input)?.0)
    }

    fn decode(input: &mut Reader<'_>) -> Result<(Self, u8), Malformed> {
        let kind = Kind::decode(input)?;
        let format = input.u8("datagram format")?;
        zero(input.u16("datagram reserved")?, "datagram reserved")?;
        let prefix = Self {
            kind,
            to: input.u64("datagram receiver")?,
            from: input.u64("datagram sender")?,
        };
        Ok((prefix, format))
    }

    fn encode(&self, format: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind as u8, format, 0, 0]);
        out.extend_from_slice(&self.to.to_le_bytes());
        out.extend_from_slice(&self.from.to_le_bytes());
    }
}

/// The messages of both sides of a connection before they trust each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// The sender's formats.
    pub formats: Formats,
    /// How the sender authenticates.
    pub auth: Auth,
    /// The reason, in a [`Kind::Refuse`].
    pub refusal: Refusal,
    /// For [`Auth::SameUser`]: which process holds the sender's socket. Zeros otherwise.
    pub holder: Holder,
    /// Proof that the caller receives datagrams to its address, or zeros.
    pub cookie: [u8; COOKIE_BYTES],
    /// A Noise handshake message in openings with a cookie and in acceptances, or zeros.
    pub noise: [u8; NOISE_BYTES],
}

impl Default for Greeting {
    fn default() -> Self {
        Self {
            formats: FORMATS,
            auth: Auth::SameUser,
            refusal: Refusal::None,
            holder: Holder::default(),
            cookie: [0; COOKIE_BYTES],
            noise: [0; NOISE_BYTES],
        }
    }
}

impl Greeting {
    /// Appends a whole datagram of this greeting.
    pub fn encode(&self, prefix: Prefix, out: &mut Vec<u8>) {
        let start = out.len();
        prefix.encode(self.formats.lowest, out);
        let above = self.formats.above();
        out.extend_from_slice(&[self.auth as u8, self.refusal as u8, above, 0]);
        out.extend_from_slice(&self.holder.pid.to_le_bytes());
        out.extend_from_slice(&self.holder.descriptor.to_le_bytes());
        out.extend_from_slice(&self.cookie);
        out.extend_from_slice(&self.noise);
        seal_with_check(start, out);
    }

    fn decode(formats: Formats, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let auth = Auth::decode(input)?;
        let refusal = Refusal::decode(input)?;
        within(
            input.u8("formats above")?,
            formats.above().into(),
            "formats above",
        )?;
        zero(input.u8("greeting reserved")?, "greeting reserved")?;
        Ok(Self {
            formats,
            auth,
            refusal,
            holder: Holder {
                pid: input.u32("greeting process")?,
                descriptor: input.u32("greeting descriptor")?,
            },
            cookie: array(input, "greeting cookie")?,
            noise: array(input, "greeting noise")?,
        })
    }
}

/// Numbers of datagrams that have arrived at the sender of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// How long ago the largest number arrived, in microseconds.
    pub delay_us: u32,
    /// The largest number that has arrived.
    pub largest: u64,
    /// Bit `i` of word `w`: the number `largest - 1 - (64 w + i)` has arrived.
    pub bitmap: [u64; BITMAP_WORDS],
    /// How much of the stream has arrived without a gap.
    pub received: u64,
    /// The offset up to which the stream may be sent.
    pub limit: u64,
}

/// A span of the stream, an acknowledgement, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Whether the sender requests an acknowledgement: always so if it has data.
    pub wants_ack: bool,
    /// The numbers that have arrived at the sender.
    pub ack: Option<Ack>,
    /// The offset of the data in the stream; 0 without data.
    pub offset: u64,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Appends everything but the data.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let mut flags = 0;
        if self.wants_ack {
            flags |= FLAG_WANTS_ACK;
        }
        if self.ack.is_some() {
            flags |= FLAG_ACK;
        }
        out.extend_from_slice(&[flags, 0, 0, 0]);
        let delay_us = self.ack.map_or(0, |ack| ack.delay_us);
        out.extend_from_slice(&delay_us.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        if let Some(ack) = &self.ack {
            out.extend_from_slice(&ack.largest.to_le_bytes());
            for word in ack.bitmap {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&ack.received.to_le_bytes());
            out.extend_from_slice(&ack.limit.to_le_bytes());
        }
    }

    /// Decodes a segment, which extends to the end of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let flags = input.u8("segment flags")?;
        if flags & !(FLAG_WANTS_ACK | FLAG_ACK) != 0 {
            return unknown("segment flags", flags);
        }
        zero(input.u8("segment reserved")?, "segment reserved")?;
        zero(input.u16("segment reserved")?, "segment reserved")?;
        let delay_us = input.u32("segment delay")?;
        let offset = input.u64("segment offset")?;
        let ack = match flags & FLAG_ACK != 0 {
            true => Some(Ack {
                delay_us,
                largest: input.u64("segment largest number")?,
                bitmap: {
                    let mut bitmap = [0; BITMAP_WORDS];
                    for word in &mut bitmap {
                        *word = input.u64("segment bitmap")?;
                    }
                    bitmap
                },
                received: input.u64("segment received")?,
                limit: input.u64("segment limit")?,
            }),
            false => {
                zero(delay_us, "segment delay")?;
                None
            }
        };
        let data = input.take(input.remaining(), "segment data")?;
        let wants_ack = flags & FLAG_WANTS_ACK != 0;
        if data.is_empty() {
            zero(offset, "segment offset")?;
        } else if !wants_ack || offset.checked_add(data.len() as u64).is_none() {
            return unknown("segment offset", offset);
        }
        Ok(Self {
            wants_ack,
            ack,
            offset,
            data,
        })
    }
}

/// Begins a datagram of a segment: prefix and number. The segment, in the clear or sealed, follows.
pub fn begin_segment(prefix: Prefix, number: u64, out: &mut Vec<u8>) {
    prefix.encode(FORMATS.highest, out);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Ends the datagram that begins at `start` of `out` with its checksum.
pub fn seal_with_check(start: usize, out: &mut Vec<u8>) {
    let check = xxh3_64_with_seed(out.get(start..).unwrap_or_default(), SEED);
    out.extend_from_slice(&check.to_le_bytes());
}

/// Appends a whole reset.
pub fn encode_reset(to: u64, from: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let kind = Kind::Reset;
    Prefix { kind, to, from }.encode(FORMATS.highest, out);
    seal_with_check(start, out);
}

/// A decoded datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// An opening, a cookie, an acceptance or a refusal.
    Greeting(Prefix, Greeting),
    /// See [`Kind::Reset`].
    Reset(Prefix),
    /// A segment in the clear, and its number.
    Plain(Prefix, u64, Segment<'a>),
    /// A sealed segment, and its number.
    Sealed(Prefix, u64, &'a [u8]),
    /// A datagram in the clear of formats that this build does not speak, which are in the second
    /// field; only its prefix is known.
    Foreign(Prefix, Formats),
}

impl<'a> Datagram<'a> {
    /// Decodes a whole datagram. Altered ones are refused, except that alterations of a sealed
    /// segment are only detected by decryption.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let (prefix, format) = Prefix::decode(&mut input)?;

        let kind = prefix.kind;
        let above = match kind {
            Kind::Open | Kind::Cookie | Kind::Accept | Kind::Refuse => bytes.get(ABOVE_AT).copied(),
            Kind::Reset | Kind::Plain | Kind::Sealed => None,
        };
        let formats = Formats::stated(format.into(), above.unwrap_or(0))?;
        let foreign = FORMATS.common(formats).is_none();
        if kind == Kind::Sealed {
            if foreign {
                return unknown("datagram format", format);
            }
            let number = input.u64("datagram number")?;
            let sealed = input.take(input.remaining(), "sealed segment")?;
            return Ok(Self::Sealed(prefix, number, sealed));
        }
        check(bytes)?;
        let body = input
            .remaining()
            .checked_sub(CHECK_BYTES)
            .ok_or(Malformed::Truncated {
                field: "datagram check",
            })?;
        let body = input.take(body, "datagram body")?;
        if foreign {
            return Ok(Self::Foreign(prefix, formats));
        }
        let mut body = Reader::new(body);
        let datagram = match kind {
            Kind::Plain => {
                let number = body.u64("datagram number")?;
                let rest = body.take(body.remaining(), "segment")?;
                Self::Plain(prefix, number, Segment::decode(rest)?)
            }
            Kind::Reset => Self::Reset(prefix),
            _ => Self::Greeting(prefix, Greeting::decode(formats, &mut body)?),
        };
        body.finish()?;
        Ok(datagram)
    }
}

fn check(bytes: &[u8]) -> Result<(), Malformed> {
    let (body, check) = bytes
        .split_last_chunk::<CHECK_BYTES>()
        .ok_or(Malformed::Truncated {
            field: "datagram check",
        })?;
    let value = u64::from_le_bytes(*check);
    match xxh3_64_with_seed(body, SEED) == value {
        true => Ok(()),
        false => unknown("datagram check", value),
    }
}

fn array<const N: usize>(
    input: &mut Reader<'_>,
    field: &'static str,
) -> Result<[u8; N], Malformed> {
    let bytes = input.take(N, field)?;
    bytes.try_into().map_err(|_| Malformed::Truncated { field })
}

#[cfg(test)]
mod tests;
