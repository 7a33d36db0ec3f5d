//! Where the blocks of a datafile and their sums are in the file that holds it.

/// Bytes of a block, the unit of checksums; also bytes of the header's page and of a page of sums.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks behind one page of sums.
pub const GROUP_BLOCKS: u64 = 512;
/// Data bytes of a group.
pub const GROUP_BYTES: u64 = GROUP_BLOCKS * BLOCK_BYTES;
/// Bytes of a block's sums: [`Sums`](super::Sums).
pub const SUMS_BYTES: u64 = BLOCK_BYTES / GROUP_BLOCKS;

/// The physical offset of a data byte.
pub const fn physical(offset: u64) -> u64 {
    BLOCK_BYTES + offset + (offset / GROUP_BYTES + 1) * BLOCK_BYTES
}

/// The physical offset of a block's [`Sums`](super::Sums).
pub const fn sums_offset(block: u64) -> u64 {
    let group = block / GROUP_BLOCKS;
    BLOCK_BYTES + group * (GROUP_BYTES + BLOCK_BYTES) + block % GROUP_BLOCKS * SUMS_BYTES
}

/// The length of the file that holds a datafile of `size` bytes.
pub const fn file_len(size: u64) -> u64 {
    match size.checked_sub(1) {
        Some(last) => physical(last) + 1,
        None => BLOCK_BYTES,
    }
}

/// The size of the datafile that a file of `len` bytes holds.
pub const fn size_of_file(len: u64) -> u64 {
    let len = len.saturating_sub(BLOCK_BYTES);
    let group = BLOCK_BYTES + GROUP_BYTES;
    len / group * GROUP_BYTES + (len % group).saturating_sub(BLOCK_BYTES)
}
