//! The format of datafiles, an I/O server's part of a striped file (`docs/formats/datafile.md`).
//!
//! Page 0 is a [`Header`], followed by [`WrittenGroups`]. Then groups follow: one page of sums,
//! then [`GROUP_BLOCKS`] blocks of data. Offsets are computed, never stored, and data pages are
//! aligned. The file ends where the data ends, so its length determines the datafile's size
//! ([`size_of_file`], [`file_len`]).

mod history;
mod layout;
mod sums;
mod written;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, zero};
use crate::fs::{Generation, Incarnation, ObjectId};

pub use history::{
    Extent, HISTORY_ENTRIES, HISTORY_ENTRY_BYTES, HistoryEntry, HistoryHeader, WriteId,
};
pub use layout::{
    BLOCK_BYTES, GROUP_BLOCKS, GROUP_BYTES, SUMS_BYTES, file_len, physical, size_of_file,
    sums_offset,
};
pub use sums::{Binding, Sums};
pub use written::{MAX_FAR_SPANS, NEAR_GROUPS, WRITTEN_OFFSET, WrittenGroups};

/// Bytes of an encoded [`Header`]: less than a sector, so that a device writes it whole.
pub const HEADER_BYTES: usize = 104;

const MAGIC: [u8; 8] = *b"cw-data\n";
/// Rises with every change of the layout or the meaning of a datafile.
pub const FORMAT: u32 = 2;
const SEED: u64 = 0x6461_7461_6669_6c65;

/// The format of a datafile that begins with these bytes, if it is an earlier one. Read in the
/// present format, its sums would seem damaged.
pub fn earlier_format(bytes: &[u8]) -> Option<u32> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (format, _) = rest.split_first_chunk()?;
    let format = u32::from_le_bytes(*format);
    (*magic == MAGIC && (1..FORMAT).contains(&format)).then_some(format)
}

codes! {
    /// The kind of a datafile's sums.
    pub enum Algorithm: "checksum algorithm" {
        /// There are no sums; their pages are holes.
        None = 0,
        /// CRC-32C of the block, padded with zeros after the end of the data, bound to its place:
        /// see [`Binding`].
        Crc32c = 1,
    }
}

codes! {
    /// Whether the data and its sums are known to be durable and to agree.
    pub enum State: "datafile state" {
        /// The data and its sums were synced and have not been written since.
        Clean = 0,
        /// The data or its sums may have been written since.
        Dirty = 1,
    }
}

codes! {
    /// What an interruption may have left, until a scrub has covered the whole datafile.
    #[derive(PartialOrd, Ord)]
    pub enum Trust: "datafile trust" {
        /// Nothing: every block matches its latest sum.
        Latest = 0,
        /// A server process ended while it wrote: a block matches its latest sum or the previous one.
        Either = 1,
        /// The host lost power while writes were not synced: a block that matches neither sum may
        /// hold any bytes that the device happened to store.
        Unsynced = 2,
    }
}

/// The object and file system that a datafile belongs to, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The object.
    pub object: ObjectId,
    /// The file system's identity.
    pub file_system: u128,
    /// Generation of the server's directory in which it was made.
    pub generation: Generation,
    /// Incarnation of the metadata that the object number is from.
    pub incarnation: Incarnation,
    /// Version of the last truncation; 0 without one.
    pub version: u64,
    /// The size in bytes when the datafile was last marked clean. Not valid while it is dirty.
    pub size: u64,
    /// The kind of the sums.
    pub algorithm: Algorithm,
    /// Whether it was written since it was last marked clean.
    pub state: State,
    /// What the sums of its blocks can be expected to match.
    pub trust: Trust,
    /// The host's run in which it was last marked dirty.
    pub boot: u128,
    /// The server's run, a random number, in which it was last marked dirty.
    pub run: u64,
}

impl Wire for Header {
    fn encode(&self, out: &mut Writer) {
        let start = out.len();
        out.raw(&MAGIC);
        out.u32(FORMAT);
        self.algorithm.encode(out);
        self.state.encode(out);
        self.trust.encode(out);
        out.u8(0);
        self.object.encode(out);
        out.u128(self.file_system);
        self.generation.encode(out);
        self.incarnation.encode(out);
        out.u64(self.version);
        out.u64(self.size);
        out.u128(self.boot);
        out.u64(self.run);
        let check = xxh3_64_with_seed(out.written(start), SEED);
        out.u64(check);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut whole = Reader::new(input.take(HEADER_BYTES, "datafile header")?);
        let mut fields = Reader::new(whole.take(HEADER_BYTES - 8, "datafile header")?);
        let magic = fields.take(MAGIC.len(), "datafile magic")?;
        if magic != MAGIC {
            let value = magic.try_into().map_or(0, u64::from_le_bytes);
            return unknown("datafile magic", value);
        }
        let body = fields.clone();
        // The format is checked first: it determines what the checksum covers.
        match fields.u32("datafile format")? {
            FORMAT => {}
            value => return unknown("datafile format", value),
        }
        let mut summed = Writer::new();
        summed.raw(&MAGIC);
        summed.raw(body.clone().take(body.remaining(), "datafile header")?);
        let check = whole.u64("datafile header's check")?;
        if xxh3_64_with_seed(&summed.finish(), SEED) != check {
            return unknown("datafile header's check", check);
        }
        let algorithm = Algorithm::decode(&mut fields)?;
        let state = State::decode(&mut fields)?;
        let trust = Trust::decode(&mut fields)?;
        zero(fields.u8("datafile padding")?, "datafile padding")?;
        let header = Self {
            object: ObjectId::decode(&mut fields)?,
            file_system: fields.u128("file system")?,
            generation: Generation::decode(&mut fields)?,
            incarnation: Incarnation::decode(&mut fields)?,
            version: fields.u64("truncation version")?,
            size: fields.u64("datafile size")?,
            algorithm,
            state,
            trust,
            boot: fields.u128("boot")?,
            run: fields.u64("run")?,
        };
        fields.finish()?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn header() -> Header {
        Header {
            object: ObjectId(0x0102_0304_0506_0708),
            file_system: 0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20,
            generation: Generation(0x21),
            incarnation: Incarnation(0x22),
            version: 0x23,
            size: 0x24,
            algorithm: Algorithm::Crc32c,
            state: State::Dirty,
            trust: Trust::Either,
            boot: 0x25,
            run: 0x26,
        }
    }

    #[test]
    fn a_header_has_these_bytes() {
        let bytes = header().to_bytes();
        let mut expected: Vec<u8> = b"cw-data\n\x02\0\0\0\x01\x01\x01\0".to_vec();
        expected.extend([8, 7, 6, 5, 4, 3, 2, 1]);
        expected.extend((0x11..=0x20).rev());
        for value in [0x21, 0x22, 0x23, 0x24, 0x25, 0, 0x26u64] {
            expected.extend(value.to_le_bytes());
        }
        assert_eq!(bytes[..HEADER_BYTES - 8], expected);
        assert_eq!(bytes.len(), HEADER_BYTES);
        let check = [208, 39, 230, 178, 205, 165, 37, 119];
        assert_eq!(bytes[HEADER_BYTES - 8..], check);
        assert_eq!(Header::from_bytes(&bytes), Ok(header()));
        assert_eq!(earlier_format(&bytes), None);
        assert_eq!(earlier_format(b"cw-data\n\x01\0\0\0"), Some(1));
        assert_eq!(earlier_format(b"cw-data\n\x01\0\0"), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let bytes = header().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::from_bytes(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Header::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn sums_are_bound_to_their_place() {
        let binding = Binding::new(0x0102, Generation(3), ObjectId(4));
        let crc = 0x1234_5678;
        assert_eq!(binding.sum(0, crc), 4_263_370_489);
        assert_eq!(binding.sum(u64::MAX, crc), 2_186_343_669);
        // 0 means a block that was never written.
        let mask = binding.sum(7, 0);
        assert_eq!(binding.sum(7, mask), 1);
        let others = [
            Binding::new(0x0103, Generation(3), ObjectId(4)),
            Binding::new(0x0102, Generation(4), ObjectId(4)),
            Binding::new(0x0102, Generation(3), ObjectId(5)),
        ];
        for block in 0..1000 {
            let sum = binding.sum(block, crc);
            assert_ne!(sum, binding.sum(block + 1, crc));
            assert!(others.iter().all(|other| other.sum(block, crc) != sum));
        }
    }

    #[test]
    fn offsets_are_these() {
        assert_eq!(physical(0), 8192);
        assert_eq!(physical(GROUP_BYTES - 1), 8192 + GROUP_BYTES - 1);
        assert_eq!(physical(GROUP_BYTES), 8192 + GROUP_BYTES + 4096);
        assert_eq!(sums_offset(0), 4096);
        assert_eq!(sums_offset(511), 4096 + 511 * 8);
        assert_eq!(sums_offset(512), 8192 + GROUP_BYTES);
        let sums = Sums {
            previous: 0x0403_0201,
            latest: 0x0807_0605,
        };
        assert_eq!(sums.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Sums::from_bytes(sums.to_bytes()), sums);
    }

    #[test]
    fn a_datafiles_length_gives_the_size() {
        let group = GROUP_BYTES;
        for size in [
            0,
            1,
            4096,
            group - 1,
            group,
            group + 1,
            5 * group,
            i64::MAX as u64,
        ] {
            assert_eq!(size_of_file(file_len(size)), size, "{size}");
        }
        // A file that ends inside a page of sums: the group has no data yet.
        for len in 0..=8192 {
            assert_eq!(size_of_file(len), 0);
        }
        assert_eq!(size_of_file(file_len(group) + 77), group);
    }
}
