//! How a connection of two instances begins: which formats of the packets each speaks, and which of
//! them called.
//!
//! The greeting has the same 16 bytes in every format. All other packets are in the highest format
//! that both sides speak. From [`INTRODUCING`] on, a caller that can be called itself introduces
//! itself after the greetings, so that the called process recognizes it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Malformed, Reader, Writer, unknown, within};
use crate::formats::Formats;

/// The first format with introductions, and with leaving.
pub const INTRODUCING: u8 = 2;

/// The first format in which receivers offer their memory
/// ([`Kind::ReadyToReceive`](super::Kind::ReadyToReceive)).
pub const OFFERING: u8 = 3;

/// The format in which messages may be sent in parts ([`Kind::Part`](super::Kind::Part)).
pub const IN_PARTS: u8 = 4;

/// The first format in which senders ask for announced messages back ([`Kind::Recall`](super::Kind::Recall)).
pub const RECALLING: u8 = 5;

/// Most addresses of an introduction.
pub const MAX_INTRODUCED: usize = 16;

/// Most bytes of each of them.
pub const MAX_INTRODUCED_BYTES: usize = 1024;

impl Formats {
    /// The formats of the message layer that this build speaks.
    pub const OURS: Self = Self {
        lowest: 1,
        highest: OFFERING,
    };

    /// The formats of instances whose messages may be in many pieces, such as those of MPI: the
    /// meaning of their messages has formats of its own
    /// ([`contact::FORMATS`](crate::contact::FORMATS)).
    pub const IN_PARTS: Self = Self {
        lowest: IN_PARTS,
        highest: RECALLING,
    };

    /// The word of the greeting that states these formats, and its number of regions, which encodes
    /// the highest format. A side that speaks one format sends the same as builds before
    /// [`INTRODUCING`].
    pub(super) const fn to_words(self) -> (u64, u16) {
        let word = u64::from_le_bytes([b'C', b'W', b'B', b'M', self.lowest, 0, 0, 0]);
        match self.highest > self.lowest {
            true => (word, self.highest as u16),
            false => (word, 0),
        }
    }

    /// The formats that a greeting with this word and number of regions states.
    pub(super) fn from_words(word: u64, regions: u16) -> Result<Self, Malformed> {
        let [letters @ .., lowest, a, b, c] = word.to_le_bytes();
        if letters != *b"CWBM" || [a, b, c] != [0; 3] || lowest == 0 {
            return unknown("greeting", word);
        }
        let highest = match regions {
            0 => lowest,
            above if above > lowest.into() && above <= u8::MAX.into() => above as u8,
            other => return unknown("highest format", other),
        };
        Ok(Self { lowest, highest })
    }
}

/// An instance's identity: drawn at random when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InstanceId(pub u128);

/// The introduction of a caller, and of the called instance in reply. None of it is proven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Introduction {
    /// The instance.
    pub id: InstanceId,
    /// Where it can be reached, best first.
    pub addresses: Vec<String>,
}

impl Introduction {
    /// How many of the addresses, counted from the first, fit into this number of bytes.
    pub(super) fn fitting(&self, bytes: usize) -> usize {
        let mut room = bytes.saturating_sub(16);
        let fits = |address: &&String| {
            let bytes = 2 + address.len();
            let fits = is_sound(address) && bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let addresses = self.addresses.iter().take(MAX_INTRODUCED);
        addresses.take_while(fits).count()
    }

    /// Encodes the introduction with the first `count` addresses.
    pub(super) fn encode(&self, count: usize, out: &mut Writer) {
        out.u128(self.id.0);
        for address in self.addresses.iter().take(count) {
            out.u16(address.len() as u16);
            out.raw(address.as_bytes());
        }
    }

    /// Decodes an introduction with `count` addresses.
    pub(super) fn decode(count: u64, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        within(count, MAX_INTRODUCED as u64, "introduced addresses")?;
        let id = InstanceId(input.u128("instance")?);
        let mut addresses = Vec::new();
        for _ in 0..count {
            let field = "introduced address";
            let len = input.u16(field)?;
            let bytes = input.take(len.into(), field)?;
            match core::str::from_utf8(bytes) {
                Ok(text) if is_sound(text) => addresses.push(String::from(text)),
                _ => return unknown(field, len),
            }
        }
        Ok(Self { id, addresses })
    }
}

/// Whether a text is permitted in an introduction: it is logged.
fn is_sound(address: &str) -> bool {
    let fits = (1..=MAX_INTRODUCED_BYTES).contains(&address.len());
    fits && !address.chars().any(char::is_control)
}
