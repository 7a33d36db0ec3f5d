//! A sequence of numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014; the constants are those of Vigna's `splitmix64.c`).
//!
//! The sums of a datafile's blocks are masked with it, and the simulator and tests draw from it.
//! Its numbers are predictable: unpredictable ones come from the kernel.

use alloc::vec;
use alloc::vec::Vec;

/// The increment of the state with each number: 2⁶⁴ divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number `index` of the sequence of `seed`: each of its bits depends on all bits of both.
#[inline]
pub const fn nth(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}

/// Maps a number to another one, one-to-one, without a visible pattern.
#[inline]
pub const fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A position in a sequence.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    #[inline]
    pub const fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number().checked_rem(limit).unwrap_or(0)
    }

    /// Fills `bytes` with the next numbers.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.number().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    /// `len` bytes of the next numbers.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of Vigna's program.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (index, number) in published.into_iter().enumerate() {
            assert_eq!(nth(1_234_567, index as u64), number);
            assert_eq!(random.number(), number);
        }
    }

    #[test]
    fn bytes_are_those_of_the_numbers() {
        let bytes = SplitMix64::new(7).bytes(13);
        assert_eq!(bytes[..8], nth(7, 0).to_le_bytes());
        assert_eq!(bytes[8..], nth(7, 1).to_le_bytes()[..5]);
        assert_eq!(SplitMix64::new(7).below(0), 0);
    }
}
