//! The sums of a datafile's blocks, and their binding to a place.

use xxhash_rust::xxh3::xxh3_64;

use super::layout::SUMS_BYTES;
use crate::fs::{Generation, ObjectId};
use crate::random;

/// The place to which the sums of a datafile are bound: the same bytes have another sum in another
/// datafile, and in another block. The metadata's incarnation is left out, as object numbers are
/// never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding(pub(super) u64);

impl Binding {
    /// The binding of an object's datafile in a directory of this generation.
    pub fn new(file_system: u128, generation: Generation, object: ObjectId) -> Self {
        let mut place = [0; 32];
        place[..16].copy_from_slice(&file_system.to_le_bytes());
        place[16..24].copy_from_slice(&generation.0.to_le_bytes());
        place[24..].copy_from_slice(&object.0.to_le_bytes());
        Self(xxh3_64(&place))
    }

    /// The sum of a block with this CRC-32C, never 0. Blocks are numbered from the start of the
    /// datafile.
    pub const fn sum(self, block: u64, crc: u32) -> u32 {
        match crc ^ self.mask(block) {
            0 => 1,
            sum => sum,
        }
    }

    /// SplitMix64's output number `block` for this seed, of which each bit depends on all bits of
    /// both.
    const fn mask(self, block: u64) -> u32 {
        (random::nth(self.0, block) >> 32) as u32
    }
}

/// The sums of a block. 0 means a block of zeros that was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Before the last write.
    pub previous: u32,
    /// After it.
    pub latest: u32,
}

impl Sums {
    /// As they are stored.
    pub const fn to_bytes(self) -> [u8; SUMS_BYTES as usize] {
        let ([a, b, c, d], [e, f, g, h]) = (self.previous.to_le_bytes(), self.latest.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// From the stored word.
    pub const fn from_bytes(bytes: [u8; SUMS_BYTES as usize]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            previous: u32::from_le_bytes([a, b, c, d]),
            latest: u32::from_le_bytes([e, f, g, h]),
        }
    }
}
