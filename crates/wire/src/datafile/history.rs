//! The latest writes that an I/O server has begun to store, in order: they show whether a write
//! that is repeated after a lost connection has been overwritten since.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::codec::{Malformed, Reader, Wire, Writer, unknown};
use crate::fs::{Generation, ObjectId};

/// Entries of the file; the next one replaces the oldest.
pub const HISTORY_ENTRIES: u64 = 16 << 10;
/// Bytes of the file's header, and of each entry behind it.
pub const HISTORY_ENTRY_BYTES: usize = 80;

const MAGIC: [u8; 8] = *b"cw-hist\n";
const FORMAT: u32 = 1;
const SEED: u64 = 0x6869_7374_6f72_790a;

/// The first bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryHeader {
    /// The server's file system.
    pub file_system: u128,
    /// Generation of the server's directory.
    pub generation: Generation,
    /// The host's run in which the file was begun: a file of an earlier run cannot be relied on.
    pub boot: u128,
    /// When it was begun, in nanoseconds of the host's run.
    pub since: u64,
}

/// The origin of a write: an instance of the client library, and its number for the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteId {
    /// The client's instance, folded to a word.
    pub client: u64,
    /// The client's number for the write.
    pub number: u64,
}

impl WriteId {
    /// The identity of a write of a client.
    pub fn new(client: u128, number: u64) -> Self {
        Self {
            client: (client >> 64) as u64 ^ client as u64,
            number,
        }
    }
}

/// The bytes of a datafile that an entry covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// `count` ranges of `len` bytes, whose beginnings are `step` bytes apart.
    Steps {
        /// First byte.
        offset: u64,
        /// Bytes of each.
        len: u64,
        /// Distance between the beginnings of two ranges, at least `len`.
        step: u64,
        /// How many.
        count: u64,
    },
    /// Some of the bytes between these two, the second excluded.
    Within {
        /// First byte.
        offset: u64,
        /// Offset after the last byte.
        end: u64,
    },
    /// All bytes from here on: a truncation.
    From {
        /// First byte.
        offset: u64,
    },
}

/// One write, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its number in the order of all entries; it is stored at index `position % HISTORY_ENTRIES`.
    pub position: u64,
    /// Which write.
    pub write: WriteId,
    /// The datafile.
    pub object: ObjectId,
    /// When it was stored, in nanoseconds of the host's run.
    pub at: u64,
    /// The bytes.
    pub extent: Extent,
}

impl Wire for HistoryHeader {
    fn encode(&self, out: &mut Writer) {
        let start = out.len();
        out.raw(&MAGIC);
        out.u32(FORMAT);
        out.u32(0);
        out.u128(self.file_system);
        out.u64(self.generation.0);
        out.u128(self.boot);
        out.u64(self.since);
        out.u64(0);
        let check = xxh3_64_with_seed(out.written(start), SEED);
        out.u64(check);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let whole = input.clone();
        let magic = input.take(MAGIC.len(), "magic of a history")?;
        let format = input.u32("format of a history")?;
        if magic != MAGIC || format != FORMAT {
            return unknown("format of a history", format);
        }
        let reserved = input.u32("reserved")?;
        let header = Self {
            file_system: input.u128("file system of a history")?,
            generation: Generation(input.u64("generation of a history")?),
            boot: input.u128("boot of a history")?,
            since: input.u64("beginning of a history")?,
        };
        let zero = input.u64("reserved")?;
        if reserved != 0 || zero != 0 {
            return unknown("reserved", zero | u64::from(reserved));
        }
        check(whole, input)?;
        Ok(header)
    }
}

impl Wire for HistoryEntry {
    fn encode(&self, out: &mut Writer) {
        let start = out.len();
        let (kind, words) = match self.extent {
            Extent::Steps {
                offset,
                len,
                step,
                count,
            } => (0, [offset, len, step, count]),
            Extent::Within { offset, end } => (1, [offset, end, 0, 0]),
            Extent::From { offset } => (2, [offset, 0, 0, 0]),
        };
        out.u64(self.position << 2 | kind);
        out.u64(self.write.client);
        out.u64(self.write.number);
        out.u64(self.object.0);
        out.u64(self.at);
        for word in words {
            out.u64(word);
        }
        let check = xxh3_64_with_seed(out.written(start), SEED);
        out.u64(check);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let whole = input.clone();
        let word = input.u64("position of an entry")?;
        let mut entry = Self {
            position: word >> 2,
            write: WriteId {
                client: input.u64("client of an entry")?,
                number: input.u64("number of an entry")?,
            },
            object: ObjectId(input.u64("object of an entry")?),
            at: input.u64("time of an entry")?,
            extent: Extent::From { offset: 0 },
        };
        let mut words = [0; 4];
        for word in &mut words {
            *word = input.u64("extent of an entry")?;
        }
        entry.extent = match (word & 3, words) {
            (0, [offset, len, step, count]) if step >= len && count > 0 => Extent::Steps {
                offset,
                len,
                step,
                count,
            },
            (1, [offset, end, 0, 0]) => Extent::Within { offset, end },
            (2, [offset, 0, 0, 0]) => Extent::From { offset },
            (kind, _) => return unknown("kind of an entry", kind),
        };
        check(whole, input)?;
        Ok(entry)
    }
}

/// Verifies the check at the end of the entry that `whole` begins with.
fn check(mut whole: Reader<'_>, input: &mut Reader<'_>) -> Result<(), Malformed> {
    let summed = whole.take(HISTORY_ENTRY_BYTES - 8, "history")?;
    let check = input.u64("check of a history")?;
    match xxh3_64_with_seed(summed, SEED) == check {
        true => Ok(()),
        false => unknown("check of a history", check),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn entry(extent: Extent) -> HistoryEntry {
        HistoryEntry {
            position: 5,
            write: WriteId::new(0x11_0000_0000_0000_0000_0000_0000_0022, 7),
            object: ObjectId(9),
            at: 11,
            extent,
        }
    }

    #[test]
    fn entries_have_these_bytes() {
        let bytes = entry(Extent::Steps {
            offset: 1,
            len: 2,
            step: 3,
            count: 4,
        })
        .to_bytes();
        let mut golden = Vec::new();
        for word in [20, 0x0011_0000_0000_0022, 7, 9, 11, 1, 2, 3, 4] {
            golden.extend_from_slice(&u64::to_le_bytes(word));
        }
        assert_eq!(bytes[..72], golden);
        assert_eq!(bytes.len(), HISTORY_ENTRY_BYTES);
        assert_eq!(bytes[72..], GOLDEN_ENTRY_CHECK);
    }

    const GOLDEN_ENTRY_CHECK: [u8; 8] = [84, 76, 33, 218, 237, 122, 64, 26];
    const GOLDEN_HEADER_CHECK: [u8; 8] = [92, 10, 70, 14, 242, 178, 116, 99];

    #[test]
    fn a_header_has_these_bytes() {
        let header = HistoryHeader {
            file_system: 1,
            generation: Generation(2),
            boot: 3,
            since: 4,
        };
        let bytes = header.to_bytes();
        let mut golden = b"cw-hist\n\x01\0\0\0\0\0\0\0".to_vec();
        for word in [1, 0, 2, 3, 0, 4, 0] {
            golden.extend_from_slice(&u64::to_le_bytes(word));
        }
        assert_eq!(bytes[..72], golden);
        assert_eq!(bytes.len(), HISTORY_ENTRY_BYTES);
        assert_eq!(bytes[72..], GOLDEN_HEADER_CHECK);
        assert_eq!(HistoryHeader::from_bytes(&bytes), Ok(header));
    }

    #[test]
    fn every_altered_bit_is_noticed() {
        let extents = [
            Extent::Steps {
                offset: 1,
                len: 2,
                step: 2,
                count: 1,
            },
            Extent::Within { offset: 3, end: 9 },
            Extent::From { offset: 1 << 40 },
        ];
        for extent in extents {
            let bytes = entry(extent).to_bytes();
            assert_eq!(HistoryEntry::from_bytes(&bytes), Ok(entry(extent)));
            for bit in 0..bytes.len() * 8 {
                let mut altered = bytes.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert!(HistoryEntry::from_bytes(&altered).is_err(), "bit {bit}");
            }
        }
    }
}
