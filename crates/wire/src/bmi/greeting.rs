//! How two instances of the message layer begin: which formats of the packets each speaks, and who calls.
//!
//! The greeting ([`Kind::Hello`]) has the same 16 bytes in every format. Everything else is said in the highest
//! format that both sides speak. From [`INTRODUCING`] on, a caller introduces itself behind the greetings
//! ([`Kind::Introduce`]), so that the process that it calls knows it again.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{HEADER_BYTES, HELLO_WORD, Header, Kind};
use crate::codec::{Malformed, Reader, Writer, within};

/// The first format with introductions: [`Kind::Introduce`], [`Kind::Ready`], [`Kind::Leave`] and [`Kind::Stay`].
pub const INTRODUCING: u8 = 2;

/// Most addresses of an introduction.
pub const MAX_INTRODUCED: usize = 16;

/// Most bytes of one of them.
pub const MAX_INTRODUCED_BYTES: usize = 1024;

/// Formats of the message layer's packets that one side speaks: all from the lowest to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// At least 1.
    pub lowest: u8,
    /// At least the lowest.
    pub highest: u8,
}

impl Formats {
    /// What this build speaks.
    pub const OURS: Self = Self {
        lowest: 1,
        highest: INTRODUCING,
    };

    /// The greeting that states them. A side that speaks one format says what builds before [`INTRODUCING`] said.
    pub fn hello(self) -> Header {
        let word = HELLO_WORD & !(0xff << 32) | u64::from(self.lowest) << 32;
        let mut header = Header::new(Kind::Hello, word);
        if self.highest > self.lowest {
            header.regions = self.highest.into();
        }
        header
    }

    /// What a greeting states.
    pub fn of_hello(hello: &Header) -> Result<Self, Malformed> {
        let unknown = |field, value| Malformed::Unknown { field, value };
        let [letters @ .., lowest, a, b, c] = hello.word.to_le_bytes();
        if letters != *b"CWBM" || [a, b, c] != [0; 3] || lowest == 0 {
            return Err(unknown("greeting", hello.word));
        }
        let highest = match hello.regions {
            0 => lowest,
            above if above > lowest.into() && above <= u8::MAX.into() => above as u8,
            other => return Err(unknown("highest format", other.into())),
        };
        Ok(Self { lowest, highest })
    }

    /// The highest format that both sides speak.
    pub fn common(self, other: Self) -> Option<u8> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "format {}", self.lowest),
            false => write!(f, "formats {} to {}", self.lowest, self.highest),
        }
    }
}

/// Who an instance is: drawn at random when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InstanceId(pub u128);

/// What a caller says of itself, and the one that it calls in reply ([`Kind::Introduce`]; the word is the number of
/// addresses). Nothing of it is proven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Introduction {
    /// The instance.
    pub id: InstanceId,
    /// Where it can be reached, best first. None if it only calls.
    pub addresses: Vec<String>,
}

/// Encodes an introduction with as many of its addresses, from the first on, as fit into a packet of `max_packet` bytes.
pub fn encode_introduction(introduction: &Introduction, max_packet: usize) -> Vec<u8> {
    let mut room = max_packet.saturating_sub(HEADER_BYTES + 16);
    let fitting = introduction.addresses.iter().take(MAX_INTRODUCED);
    let fitting = fitting.take_while(|address| {
        let bytes = 2 + address.len();
        let fits = is_sound(address) && bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    });
    let addresses: Vec<&String> = fitting.collect();
    let mut out = Writer::new();
    out.raw(&Header::new(Kind::Introduce, addresses.len() as u64).encode());
    out.u128(introduction.id.0);
    for address in addresses {
        out.u16(address.len() as u16);
        out.raw(address.as_bytes());
    }
    out.finish()
}

pub(super) fn decode_introduction(
    header: &Header,
    input: &mut Reader<'_>,
) -> Result<Introduction, Malformed> {
    within(header.word, MAX_INTRODUCED as u64, "introduced addresses")?;
    let id = InstanceId(input.u128("instance")?);
    let mut addresses = Vec::new();
    for _ in 0..header.word {
        let field = "introduced address";
        let len = input.u16(field)?;
        let bytes = input.take(len.into(), field)?;
        let sound = core::str::from_utf8(bytes)
            .ok()
            .filter(|text| is_sound(text));
        let unknown = Malformed::Unknown {
            field,
            value: len.into(),
        };
        addresses.push(String::from(sound.ok_or(unknown)?));
    }
    Ok(Introduction { id, addresses })
}

/// Whether a text may stand in an introduction: it goes into logs.
fn is_sound(address: &str) -> bool {
    let fits = (1..=MAX_INTRODUCED_BYTES).contains(&address.len());
    fits && !address.chars().any(char::is_control)
}
