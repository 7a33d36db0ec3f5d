//! Bounded reading and writing of little-endian fields.
//!
//! A [`Reader`] never reads past its input and never trusts a length: [`Reader::bytes`] takes the
//! largest length that the caller accepts. A [`Writer`] appends to a byte vector. `fields` makes encoders and decoders
//! from tables of fields.

use alloc::vec::Vec;

pub(crate) mod fields;

/// Why input was refused. Names the field that was being read, but does not show the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The input ended inside `field`.
    #[error("the message ends inside {field}")]
    Truncated {
        /// The field that was being read.
        field: &'static str,
    },
    /// A length or count is above what its field allows.
    #[error("{field} is {value}, more than the {limit} allowed")]
    TooLarge {
        /// The field that was being read.
        field: &'static str,
        /// The value in the input.
        value: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A value that is unknown in the field.
    #[error("{field} has the unknown value {value}")]
    Unknown {
        /// The field that was being read.
        field: &'static str,
        /// The value in the input.
        value: u64,
    },
    /// Bytes were left over behind the last field.
    #[error("{count} bytes follow the end of the message")]
    Trailing {
        /// The number of bytes.
        count: usize,
    },
}

/// Reads fields from the start of a byte slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        impl<'a> Reader<'a> {
            $(
                #[doc = concat!("Takes one little-endian `", stringify!($type), "`.")]
                pub fn $name(&mut self, field: &'static str) -> Result<$type, Malformed> {
                    let (head, rest) =
                        self.rest.split_first_chunk().ok_or(Malformed::Truncated { field })?;
                    self.rest = rest;
                    Ok(<$type>::from_le_bytes(*head))
                }
            )*
        }
        impl Writer {
            $(
                #[doc = concat!("Appends one little-endian `", stringify!($type), "`.")]
                pub fn $name(&mut self, value: $type) {
                    self.bytes.extend_from_slice(&value.to_le_bytes());
                }
            )*
        }
    };
}

integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i64: i64);

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes exactly `count` bytes.
    pub fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(Malformed::Truncated { field })?;
        self.rest = rest;
        Ok(head)
    }

    /// Takes exactly `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N, field)?);
        Ok(bytes)
    }

    /// Takes a `u32` length of at most `limit` and that many bytes.
    pub fn bytes(&mut self, limit: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let count = self.count(limit, 1, field)?;
        self.take(count, field)
    }

    /// Takes a `u32` count of at most `limit` items, each of which occupies at least
    /// `least_item_bytes` of the input, so that a count cannot make the caller allocate more
    /// than the input could fill.
    pub fn count(
        &mut self,
        limit: usize,
        least_item_bytes: usize,
        field: &'static str,
    ) -> Result<usize, Malformed> {
        let count = self.u32(field)? as usize;
        within(count as u64, limit as u64, field)?;
        if count.saturating_mul(least_item_bytes) > self.rest.len() {
            return Err(Malformed::Truncated { field });
        }
        Ok(count)
    }

    /// Takes a byte that must be 0 or 1.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            value => unknown(field, value),
        }
    }

    /// Ends the reading: fails if bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(Malformed::Trailing { count }),
        }
    }
}

/// A value that is at most `limit`.
pub(crate) fn within(
    value: impl Into<u64>,
    limit: u64,
    field: &'static str,
) -> Result<(), Malformed> {
    let value = value.into();
    if value > limit {
        return Err(Malformed::TooLarge {
            field,
            value,
            limit,
        });
    }
    Ok(())
}

/// Refuses a value that the field does not have.
pub(crate) fn unknown<T>(field: &'static str, value: impl Into<u64>) -> Result<T, Malformed> {
    Err(Malformed::Unknown {
        field,
        value: value.into(),
    })
}

/// Checks that a reserved field is zero.
pub(crate) fn zero(value: impl Into<u64>, field: &'static str) -> Result<(), Malformed> {
    match value.into() {
        0 => Ok(()),
        value => unknown(field, value),
    }
}

/// Text; the error carries the first byte that is not UTF-8.
pub(crate) fn utf8<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, Malformed> {
    core::str::from_utf8(bytes).or_else(|error| {
        let first_bad = bytes.get(error.valid_up_to()).copied();
        unknown(field, first_bad.unwrap_or_default())
    })
}

/// Bytes of most messages.
const USUAL_BYTES: usize = 192;

/// Appends fields to a growing byte vector.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer, with room for a usual message: growing step by step costs more than
    /// encoding the message.
    pub fn new() -> Self {
        Self::onto(Vec::with_capacity(USUAL_BYTES))
    }

    /// Appends to `bytes`, which lets a caller reuse its allocation.
    pub fn onto(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Appends `bytes` as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a `u32` length and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends a `u32` count.
    ///
    /// # Panics
    /// If `count` does not fit: our own messages are far smaller.
    pub fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("a count of ours fits 32 bits"));
    }

    /// Appends 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// The bytes that were written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes written from `start` on.
    pub(crate) fn written(&self, start: usize) -> &[u8] {
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A value with one encoding.
pub trait Wire: Sized {
    /// Appends the value.
    fn encode(&self, out: &mut Writer);

    /// Decodes the value at the start of `input`.
    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// The value's encoding.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.encode(&mut out);
        out.finish()
    }

    /// The value whose encoding is exactly `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let value = Self::decode(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}

/// Helpers for tests of several formats.
#[cfg(test)]
pub(crate) mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    pub(crate) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Encodes to these bytes, and they decode to it.
    #[track_caller]
    pub(crate) fn golden<T: Wire + PartialEq + core::fmt::Debug>(value: &T, expected: &str) {
        let expected: String = expected.split_whitespace().collect();
        let bytes = value.to_bytes();
        assert_eq!(hex(&bytes), expected, "{value:?}");
        assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    }
}
