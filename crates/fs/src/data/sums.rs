//! Checksums of blocks, and what a block may be held to.

use causeway_wire::datafile::{BLOCK_BYTES, SUMS_BYTES, Sums, Trust};

/// Bytes of a block, in memory.
pub(super) const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes of a block's sums, in memory.
pub(super) const SUMS: usize = SUMS_BYTES as usize;

/// The sum of a whole block, never 0.
pub(super) fn sum(block: &[u8]) -> u32 {
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

/// Whether a block is what one of its sums says.
pub(super) fn matches(block: &[u8], sums: Sums, trust: Trust) -> bool {
    let found = sum(block);
    let is = |wanted: u32| found == wanted || (wanted == 0 && is_zero(block));
    is(sums.latest) || (trust != Trust::Latest && is(sums.previous))
}

fn is_zero(block: &[u8]) -> bool {
    let (words, rest) = block.as_chunks::<64>();
    words
        .iter()
        .all(|word| word.iter().fold(0, |all, byte| all | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}
