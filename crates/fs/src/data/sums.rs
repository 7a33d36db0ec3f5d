//! Checksums of blocks, and which of them a block may match.

use std::sync::OnceLock;

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{BLOCK_BYTES, Binding, SUMS_BYTES, Sums, Trust};

/// Bytes of a block, in memory.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes of a block's sums, in memory.
pub(super) const SUMS: usize = SUMS_BYTES as usize;

/// The CRC-32C of a whole block.
pub(crate) fn crc(block: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(block)
}

/// The CRC-32C of the block at `start` in memory that other processes may write meanwhile.
pub(crate) fn crc_in(memory: &Memory, start: usize) -> u32 {
    memory.crc32c(start, BLOCK)
}

/// The sums in stored bytes, block by block.
pub(super) fn stored(bytes: &[u8]) -> impl Iterator<Item = Sums> {
    bytes.chunks_exact(SUMS).map(|sums| {
        let mut fixed = [0; SUMS];
        fixed.copy_from_slice(sums);
        Sums::from_bytes(fixed)
    })
}

/// The sums of a block that is known to match.
pub(super) fn both(sum: u32) -> Sums {
    Sums {
        previous: sum,
        latest: sum,
    }
}

/// What the sums of consecutive blocks depend on: the datafile, and the position of the first block in it. Blocks are
/// named by their index, counted from the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockBinding {
    binding: Binding,
    first: u64,
}

impl BlockBinding {
    pub(super) fn new(binding: Binding, first: u64) -> Self {
        Self { binding, first }
    }

    /// The sum of a block with this CRC.
    pub(super) fn sum_of(self, index: usize, crc: u32) -> u32 {
        self.binding.sum(self.first.wrapping_add(index as u64), crc)
    }

    /// The sum of a block.
    pub(super) fn sum(self, index: usize, block: &[u8]) -> u32 {
        self.sum_of(index, crc(block))
    }

    /// The sum of a block of zeros.
    pub(super) fn zeros(self, index: usize) -> u32 {
        self.sum_of(index, zero_crc())
    }

    /// The sum that a stored sum means.
    pub(super) fn effective(self, index: usize, stored: u32) -> u32 {
        match stored {
            0 => self.zeros(index),
            sum => sum,
        }
    }

    /// Whether a block matches one of its sums.
    pub(super) fn matches(self, index: usize, block: &[u8], sums: Sums, trust: Trust) -> bool {
        self.is_sum(index, self.sum(index, block), sums, trust)
    }

    /// Whether a block's sum is one of those that it may have. A block that was never written consists of zeros.
    pub(super) fn is_sum(self, index: usize, found: u32, sums: Sums, trust: Trust) -> bool {
        let is = |stored: u32| found == self.effective(index, stored);
        is(sums.latest) || (trust != Trust::Latest && is(sums.previous))
    }
}

/// The CRC of a block of zeros.
fn zero_crc() -> u32 {
    static CRC: OnceLock<u32> = OnceLock::new();
    *CRC.get_or_init(|| crc(&[0; BLOCK]))
}
