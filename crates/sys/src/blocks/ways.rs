//! The ways in which blocks are copied.
//!
//! A way is for some lengths, and is compiled into one loop for each [`Walk`], so that a block takes no call and no decision. Blocks of more
//! than 128 bytes are copied as the C library copies, whose call takes little beside them. Registers of 32 bytes, where the processor has them,
//! and loops for blocks of up to 512 bytes instead of the call were measured to gain nothing on the whole: blocks of 48 and 96 bytes were packed
//! faster by 7 and 27 %, those of 96 unpacked slower by 13 %, those of 256 slower by 7 % both ways, and those of 64 as fast.

use std::marker::PhantomData;

use crate::stream::{self, Word};

/// What the choice of a way goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Bytes of a block.
    pub(super) len: usize,
    /// All bits of the distances between targets.
    pub(super) step: usize,
    pub(super) past_caches: bool,
}

/// An order in which blocks are copied.
pub(super) trait Walk {
    /// Copies all blocks in one way.
    ///
    /// # Safety
    /// As [`Block::copy`], for each block.
    unsafe fn all<B: Block>(&self);
}

/// Rows of blocks at regular distances: the first block's places, and from one row to the next and from one block to the next.
pub(super) struct Rows {
    pub(super) to: *mut u8,
    pub(super) to_steps: (isize, isize),
    pub(super) from: *const u8,
    pub(super) from_steps: (isize, isize),
    pub(super) rows: usize,
    /// Blocks of a row, and bytes of a block.
    pub(super) row: usize,
    pub(super) len: usize,
}

/// Blocks of `len` bytes, from their offsets to one behind the other.
pub(super) struct Gather<'a> {
    pub(super) to: *mut u8,
    pub(super) from: *const u8,
    pub(super) offsets: &'a [i64],
    pub(super) len: usize,
}

/// Blocks of `len` bytes, from one behind the other to their offsets.
pub(super) struct Scatter<'a> {
    pub(super) to: *mut u8,
    pub(super) from: *const u8,
    pub(super) offsets: &'a [i64],
    pub(super) len: usize,
}

impl Walk for Rows {
    #[inline(always)]
    unsafe fn all<B: Block>(&self) {
        for row in 0..self.rows as isize {
            let to = self.to.wrapping_offset(row * self.to_steps.0);
            let from = self.from.wrapping_offset(row * self.from_steps.0);
            for block in 0..self.row as isize {
                let to = to.wrapping_offset(block * self.to_steps.1);
                let from = from.wrapping_offset(block * self.from_steps.1);
                // SAFETY: the caller's.
                unsafe { B::copy(to, from, self.len) };
            }
        }
    }
}

impl Walk for Gather<'_> {
    #[inline(always)]
    unsafe fn all<B: Block>(&self) {
        for (index, offset) in self.offsets.iter().enumerate() {
            let to = self.to.wrapping_add(index * self.len);
            // SAFETY: the caller's.
            unsafe { B::copy(to, self.from.wrapping_offset(*offset as isize), self.len) };
        }
    }
}

impl Walk for Scatter<'_> {
    #[inline(always)]
    unsafe fn all<B: Block>(&self) {
        for (index, offset) in self.offsets.iter().enumerate() {
            let from = self.from.wrapping_add(index * self.len);
            // SAFETY: the caller's.
            unsafe { B::copy(self.to.wrapping_offset(*offset as isize), from, self.len) };
        }
    }
}

/// Copies all blocks, the first one to `to`, in the way that is for them.
///
/// # Safety
/// Each block must be valid for reads where it is copied from, and for writes where it is copied to; `kind` must be true of them.
#[inline]
pub(super) unsafe fn copy(walk: &impl Walk, to: *mut u8, kind: Kind) {
    let Kind {
        len,
        step,
        past_caches,
    } = kind;
    // SAFETY: the caller's; each way is for the lengths that it is called for.
    unsafe {
        match len {
            _ if past_caches && are_words::<u64>(to, step | len) => walk.all::<Streamed<u64>>(),
            _ if past_caches && are_words::<u32>(to, step | len) => walk.all::<Streamed<u32>>(),
            1 => walk.all::<Exact<1>>(),
            2 => walk.all::<Exact<2>>(),
            3 => walk.all::<Twice<2>>(),
            4 => walk.all::<Exact<4>>(),
            5..8 => walk.all::<Twice<4>>(),
            8 => walk.all::<Exact<8>>(),
            9..16 => walk.all::<Twice<8>>(),
            16 => walk.all::<Exact<16>>(),
            17..32 => walk.all::<Twice<16>>(),
            32 => walk.all::<Exact<32>>(),
            33..64 => walk.all::<Twice<32>>(),
            64 => walk.all::<Exact<64>>(),
            65..=128 => walk.all::<Twice<64>>(),
            _ => walk.all::<Any>(),
        }
    }
}

/// Whether a block at `to`, and others at distances whose bits are among `steps`, consist of whole words on words' boundaries;
/// `steps` also has the bits of their length.
#[inline]
pub(super) fn are_words<W: Word>(to: *mut u8, steps: usize) -> bool {
    (to.addr() | steps).is_multiple_of(size_of::<W>())
}

/// A way to copy one block.
pub(super) trait Block {
    /// # Safety
    /// `from` must be valid for reads and `to` for writes of `len` bytes; `len` must be one that the way is for.
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize);
}

/// `N` bytes.
pub(super) struct Exact<const N: usize>;

/// `N` to 2 `N` bytes: the first and the last `N`.
pub(super) struct Twice<const N: usize>;

/// Any number of bytes.
pub(super) struct Any;

/// Any number of whole words, on a word's boundary, past the caches.
pub(super) struct Streamed<W>(PhantomData<W>);

impl<const N: usize> Block for Exact<N> {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8, _: usize) {
        // SAFETY: the caller's.
        unsafe {
            to.cast::<[u8; N]>()
                .write_unaligned(from.cast::<[u8; N]>().read_unaligned())
        };
    }
}

impl<const N: usize> Block for Twice<N> {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's; both parts are inside the block.
        unsafe {
            let first = from.cast::<[u8; N]>().read_unaligned();
            let last = from.add(len - N).cast::<[u8; N]>().read_unaligned();
            to.cast::<[u8; N]>().write_unaligned(first);
            to.add(len - N).cast::<[u8; N]>().write_unaligned(last);
        }
    }
}

impl Block for Any {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy(from, to, len) };
    }
}

impl<W: Word> Block for Streamed<W> {
    #[inline(always)]
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: the caller's, which has looked at boundaries and lengths before it chose this way.
        unsafe { stream::copy_words::<W>(from, to, len) };
    }
}
