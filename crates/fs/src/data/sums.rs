//! Checksums of blocks, and what a block may be held to.

use std::sync::OnceLock;

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{BLOCK_BYTES, SUMS_BYTES, Sums, Trust};

/// Bytes of a block, in memory.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes of a block's sums, in memory.
pub(super) const SUMS: usize = SUMS_BYTES as usize;

/// The sum of a whole block, never 0.
pub(crate) fn sum(block: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(block).max(1)
}

/// The sums in stored bytes, block by block.
pub(super) fn stored(bytes: &[u8]) -> impl Iterator<Item = Sums> {
    bytes.chunks_exact(SUMS).map(|sums| {
        let mut fixed = [0; SUMS];
        fixed.copy_from_slice(sums);
        Sums::from_bytes(fixed)
    })
}

/// The sum of the block at `start` in memory that others may write meanwhile.
pub(crate) fn sum_in(memory: &Memory, start: usize) -> u32 {
    memory.crc32c(start, BLOCK).max(1)
}

/// Whether a block is what one of its sums says.
pub(super) fn matches(block: &[u8], sums: Sums, trust: Trust) -> bool {
    is_sum(sum(block), sums, trust)
}

/// Whether a block's sum is one of those that it may have. A block that was never written consists of zeros.
pub(super) fn is_sum(found: u32, sums: Sums, trust: Trust) -> bool {
    let is = |stored: u32| found == meant(stored);
    is(sums.latest) || (trust != Trust::Latest && is(sums.previous))
}

/// The sum that a stored one stands for.
pub(super) fn meant(stored: u32) -> u32 {
    match stored {
        0 => zero_sum(),
        sum => sum,
    }
}

/// The sum of a block of zeros.
fn zero_sum() -> u32 {
    static SUM: OnceLock<u32> = OnceLock::new();
    *SUM.get_or_init(|| sum(&[0; BLOCK]))
}
