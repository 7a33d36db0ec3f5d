//! Split copies: transfers that both sides may work on. The initiator claims parts from the front, the
//! helper from the back, until they meet. Each side has a page of the transfers that it initiated: a
//! head and [`BLOCKS`] blocks.
//!
//! The helper of a transfer that is [`THROUGH_RING`] may send its parts as pieces, in packets of
//! its ring, each after a [`PieceHeader`].

use crate::codec::{Malformed, unknown};

/// Bytes of a side's page.
pub const BYTES: usize = HEAD_BYTES + BLOCKS * BLOCK_BYTES;
/// Bytes of the head.
pub const HEAD_BYTES: usize = 128;
/// Bytes of a block: a cache line, and the next one, which the prefetcher may fetch with it.
pub const BLOCK_BYTES: usize = 128;
/// How many transfers one side may share at once.
pub const BLOCKS: usize = 31;
/// Parts are claimed in units of this many bytes, counted from the transfer's first; the last one
/// may be shorter.
pub const UNIT_BYTES: u64 = 4096;

/// In the head: bit `n` while block `n` may have something left to claim. Written by the initiator.
pub const OPEN: usize = 0;
/// In the head: the initiator sleeps until the helper has finished a part.
pub const WANTS_RING: usize = 64;

/// In a block: the [`Claims`].
pub const CLAIMS: usize = 0;
/// In a block: the helper's finished units, as [`Done`] packs them.
pub const DONE: usize = 8;
/// In a block: the key of the helper's region.
pub const KEY: usize = 16;
/// In a block: the address of the first byte in the helper.
pub const FAR: usize = 24;
/// In a block: the address of the first byte in the initiator.
pub const NEAR: usize = 32;
/// In a block: the length in bytes, [`PUT`] and [`THROUGH_RING`].
pub const LEN: usize = 40;
/// In a block: the memory object of the initiator's memory, 0 for none.
pub const OBJECT: usize = 48;
/// In a block: the offset of that memory in the object.
pub const OFFSET: usize = 56;

/// In the word of finished units: one of the parts could not be copied.
pub const FAILED: u64 = 1 << 63;
/// In the word of the length: the initiator's memory is read, not written.
pub const PUT: u64 = 1 << 63;
/// In the word of the length: the helper sends its parts as pieces through its ring, as long as
/// there is room. Only for transfers of fewer than 2^31 units that are not [`PUT`].
pub const THROUGH_RING: u64 = 1 << 62;

/// The helper's finished units, without [`FAILED`]. The helper adds to the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Units: the lower half of the word.
    pub units: u32,
    /// How many of them are in pieces, which the initiator copies when they arrive: bits 32 to 62.
    pub in_pieces: u32,
}

impl Done {
    /// The word.
    pub const fn pack(self) -> u64 {
        (self.in_pieces as u64) << 32 | self.units as u64
    }

    /// Decodes a word.
    pub const fn unpack(word: u64) -> Self {
        Self {
            units: word as u32,
            in_pieces: ((word & !FAILED) >> 32) as u32,
        }
    }
}

/// The header before the bytes of a piece, which end where its last unit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceHeader {
    /// The block that describes the transfer.
    pub block: u32,
    /// The first unit.
    pub first: u32,
}

impl PieceHeader {
    /// Bytes of a header.
    pub const BYTES: usize = 8;

    /// Encodes the header.
    pub const fn pack(self) -> [u8; Self::BYTES] {
        ((self.first as u64) << 32 | self.block as u64).to_le_bytes()
    }

    /// Decodes the header.
    pub const fn unpack(bytes: [u8; Self::BYTES]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self {
            block: word as u32,
            first: (word >> 32) as u32,
        }
    }
}

/// The claims of a transfer: units before `front` by the initiator, units from `back` on by the
/// helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claims {
    /// The first unit that the initiator has not claimed.
    pub front: u32,
    /// The unit after the last that the helper has not claimed.
    pub back: u32,
}

impl Claims {
    /// The word.
    #[inline]
    pub const fn pack(self) -> u64 {
        (self.back as u64) << 32 | self.front as u64
    }

    /// Decodes a word.
    #[inline]
    pub fn unpack(word: u64) -> Result<Self, Malformed> {
        let claims = Self {
            front: word as u32,
            back: (word >> 32) as u32,
        };
        if claims.front > claims.back {
            return unknown("claims of a shared transfer", word);
        }
        Ok(claims)
    }

    /// How many units are unclaimed.
    #[inline]
    pub const fn left(self) -> u32 {
        self.back - self.front
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_these_bits() {
        let claims = Claims { front: 1, back: 9 };
        assert_eq!(claims.pack(), 0x0000_0009_0000_0001);
        assert_eq!(Claims::unpack(claims.pack()), Ok(claims));
        assert_eq!(claims.left(), 8);
        assert!(Claims::unpack(0x0000_0001_0000_0002).is_err());
    }

    #[test]
    fn finished_units_and_pieces_have_these_bits() {
        let done = Done {
            units: 7,
            in_pieces: 3,
        };
        assert_eq!(done.pack(), 0x0000_0003_0000_0007);
        assert_eq!(Done::unpack(done.pack() | FAILED), done);
        let header = PieceHeader { block: 5, first: 9 };
        assert_eq!(header.pack(), [5, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(PieceHeader::unpack(header.pack()), header);
    }
}
