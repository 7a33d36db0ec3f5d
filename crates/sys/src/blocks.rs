//! Copying blocks of one length at regular distances: the basic step of packing and unpacking vectors, arrays of
//! structures and parts of arrays.
//!
//! [`copy`] is the primitive; [`copy_one`] is for blocks that lie irregularly. Both are safe: they check once that everything
//! they will touch lies inside of the two spans, then copy without further checks, small blocks without a call.
//! Fetching blocks ahead of their copying was measured to gain nothing, however far ahead.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::memory::Memory;
use crate::stream::{self, Word};

/// The error of a requested part.
const OUTSIDE: &str = "a part outside of a span";

/// Bytes to copy from. Others may write them meanwhile; the copy is then any mixture of old and new
/// bytes.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    base: NonNull<u8>,
    len: usize,
    _of: PhantomData<&'a [u8]>,
}

/// Bytes to copy to.
#[derive(Debug)]
pub struct Target<'a> {
    base: NonNull<u8>,
    len: usize,
    past_caches: bool,
    _of: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            base: NonNull::from(bytes).cast(),
            len: bytes.len(),
            _of: PhantomData,
        }
    }
}

impl<'a> From<&'a Memory> for Source<'a> {
    fn from(memory: &'a Memory) -> Self {
        // SAFETY: the span is valid while `memory` lives.
        unsafe { Self::from_raw(memory.as_ptr(), memory.len()) }
    }
}

impl<'a> From<&'a mut [u8]> for Target<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self {
            len: bytes.len(),
            base: NonNull::from(bytes).cast(),
            past_caches: false,
            _of: PhantomData,
        }
    }
}

impl<'a> From<&'a Memory> for Target<'a> {
    /// # Panics
    /// If the memory is for reading only.
    fn from(memory: &'a Memory) -> Self {
        assert!(memory.is_writable(), "this memory is for reading only");
        // SAFETY: the span is valid while `memory` lives, and may be written.
        unsafe { Self::from_raw(memory.as_ptr(), memory.len()) }
    }
}

impl Source<'_> {
    /// Describes bytes that the caller names by their address.
    ///
    /// # Safety
    /// Those of `base..base + len` that are copied from must be valid for reads while the span is in use; others, such
    /// as what lies between the pieces of a datatype, need not be. No exclusive Rust reference to those may exist.
    pub const unsafe fn from_raw(base: *const u8, len: usize) -> Self {
        let base = match NonNull::new(base.cast_mut()) {
            Some(base) => base,
            None => NonNull::dangling(),
        };
        Self {
            base,
            len,
            _of: PhantomData,
        }
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes, or all if there are no more.
    #[must_use]
    pub fn first(self, len: u64) -> Self {
        Self {
            len: usize::try_from(len).map_or(self.len, |len| len.min(self.len)),
            ..self
        }
    }
}

impl Source<'_> {
    /// `len` bytes from `at` on.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[inline]
    #[must_use]
    pub fn part(self, at: usize, len: usize) -> Self {
        assert!(at <= self.len && len <= self.len - at, "{OUTSIDE}");
        // SAFETY: the part lies inside, which was just checked, and what is inside is valid, as who made the span promised.
        unsafe { Self::from_raw(self.base.as_ptr().cast_const().add(at), len) }
    }

    pub(crate) const fn as_ptr(&self) -> *const u8 {
        self.base.as_ptr().cast_const()
    }
}

impl Target<'_> {
    pub(crate) const fn as_ptr(&mut self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Describes bytes that the caller names by their address.
    ///
    /// # Safety
    /// Those of `base..base + len` that are copied to must be valid for writes while the span is in use; others need not
    /// be. No Rust reference to those may exist.
    pub const unsafe fn from_raw(base: *mut u8, len: usize) -> Self {
        let base = match NonNull::new(base) {
            Some(base) => base,
            None => NonNull::dangling(),
        };
        Self {
            base,
            len,
            past_caches: false,
            _of: PhantomData,
        }
    }

    /// Makes copies write blocks that consist of whole aligned words past the caches, and other blocks as usual. That is faster
    /// if a distant processor has read the lines last and will read them next. Before the caller announces that the blocks are
    /// written, it calls [`stream::fence`].
    #[must_use]
    pub fn past_caches(self) -> Self {
        Self {
            past_caches: true,
            ..self
        }
    }

    /// Makes the processor fetch all lines for writing, many at a time. Stores alone wait for each other: where another processor
    /// has read the lines last, copying small blocks takes half as long again without this.
    pub fn fetch_for_writing(&mut self) {
        /// Bytes of a cache line.
        #[cfg(target_arch = "x86_64")]
        const LINE: usize = 64;
        #[cfg(target_arch = "x86_64")]
        for line in (0..self.len).step_by(LINE) {
            // SAFETY: a hint, which accesses nothing; processors that do not know it ignore it.
            unsafe {
                let at = self.base.as_ptr().wrapping_add(line);
                std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
            }
        }
    }

    /// Length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `at` on.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[inline]
    pub fn part(&mut self, at: usize, len: usize) -> Target<'_> {
        assert!(at <= self.len && len <= self.len - at, "{OUTSIDE}");
        Target {
            // SAFETY: the part lies inside, which was just checked.
            base: unsafe { self.base.add(at) },
            len,
            past_caches: self.past_caches,
            _of: PhantomData,
        }
    }

    /// The first `len` bytes, or all if there are no more.
    pub fn first(&mut self, len: u64) -> Target<'_> {
        Target {
            base: self.base,
            len: usize::try_from(len).map_or(self.len, |len| len.min(self.len)),
            past_caches: self.past_caches,
            _of: PhantomData,
        }
    }
}

/// Where blocks lie in a span: the first one's place, and the distances of neighbours, all in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Place of the first block.
    pub start: usize,
    /// From one row of blocks to the next.
    pub outer: isize,
    /// From one block of a row to the next.
    pub inner: isize,
}

/// Rows of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of a block.
    pub len: usize,
    /// Rows.
    pub rows: usize,
    /// Blocks of a row.
    pub row: usize,
}

impl Steps {
    /// Whether all blocks lie inside a span of `len` bytes.
    fn are_inside(&self, blocks: &Blocks, len: usize) -> bool {
        let reach = |count: usize, step: isize| (count as i128 - 1) * step as i128;
        let (outer, inner) = (
            reach(blocks.rows, self.outer),
            reach(blocks.row, self.inner),
        );
        let first = self.start as i128 + outer.min(0) + inner.min(0);
        let last = self.start as i128 + outer.max(0) + inner.max(0);
        first >= 0 && last + blocks.len as i128 <= len as i128
    }
}

/// Copies blocks. Source and target may overlap; a block may then be copied from bytes that an earlier block has
/// written.
///
/// # Panics
/// If a block does not lie inside its span.
#[inline]
pub fn copy(to: &mut Target<'_>, at: Steps, from: Source<'_>, steps: Steps, blocks: Blocks) {
    if blocks.len == 0 || blocks.rows == 0 || blocks.row == 0 {
        return;
    }
    assert!(
        at.are_inside(&blocks, to.len) && steps.are_inside(&blocks, from.len),
        "blocks outside of a span"
    );
    // What lies between the pieces of a datatype need not be of one allocation.
    let past_caches = to.past_caches;
    let to = to.base.as_ptr().wrapping_add(at.start);
    let step = at.outer.unsigned_abs() | at.inner.unsigned_abs();
    let from = from.base.as_ptr().cast_const().wrapping_add(steps.start);
    // SAFETY: every block is inside its span, which was just checked; what is inside is valid, as who made the
    // span promised; each function is for the lengths that it is called for.
    unsafe {
        let copy_all = match blocks.len {
            len if past_caches && are_words::<u64>(to, step | len) => each::<Streamed<u64>>,
            len if past_caches && are_words::<u32>(to, step | len) => each::<Streamed<u32>>,
            1 => each::<Exact<1>>,
            2 => each::<Exact<2>>,
            3 => each::<Twice<2>>,
            4 => each::<Exact<4>>,
            5..8 => each::<Twice<4>>,
            8 => each::<Exact<8>>,
            9..16 => each::<Twice<8>>,
            16 => each::<Exact<16>>,
            17..32 => each::<Twice<16>>,
            32 => each::<Exact<32>>,
            33..64 => each::<Twice<32>>,
            64 => each::<Exact<64>>,
            65..=128 => each::<Twice<64>>,
            _ => each::<Any>,
        };
        copy_all(
            to,
            (at.outer, at.inner),
            from,
            (steps.outer, steps.inner),
            blocks,
        );
    }
}

/// Copies one block of `len` bytes, mostly a short one.
///
/// # Panics
/// If the block does not lie inside a span.
#[inline]
pub fn copy_one(to: &mut Target<'_>, at: usize, from: Source<'_>, start: usize, len: usize) {
    let is_inside = |start: usize, of: usize| start <= of && len <= of - start;
    assert!(
        is_inside(at, to.len) && is_inside(start, from.len),
        "a block outside of a span"
    );
    let past_caches = to.past_caches;
    let to = to.base.as_ptr().wrapping_add(at);
    let from = from.base.as_ptr().cast_const().wrapping_add(start);
    // SAFETY: the block is inside both spans, which was just checked; what is inside is valid, as who made the span
    // promised; each way is for the lengths that it is used for.
    unsafe {
        match len {
            _ if past_caches && are_words::<u64>(to, len) => Streamed::<u64>::copy(to, from, len),
            _ if past_caches && are_words::<u32>(to, len) => Streamed::<u32>::copy(to, from, len),
            8 => Exact::<8>::copy(to, from, len),
            4..8 => Twice::<4>::copy(to, from, len),
            9..=16 => Twice::<8>::copy(to, from, len),
            17..=32 => Twice::<16>::copy(to, from, len),
            33..=64 => Twice::<32>::copy(to, from, len),
            _ => Any::copy(to, from, len),
        }
    }
}

/// Whether a block at `to`, and others at certain distances from it, consist of whole aligned words. `steps` has the bits of
/// the distances and of the blocks' length, combined by "or".
#[inline]
fn are_words<W: Word>(to: *mut u8, steps: usize) -> bool {
    (to.addr() | steps).is_multiple_of(size_of::<W>())
}

/// A way to copy one block.
trait Block {
    /// # Safety
    /// `from` must be valid for reads and `to` for writes of `len` bytes; `len` must be one that the way is for.
    unsafe fn copy(to: *mut u8, from: *const u8, len: usize);
}

/// `N` bytes.
struct Exact<const N: usize>;

/// `N` to 2 `N` bytes: the first and the last `N`.
struct Twice<const N: usize>;

/// Any number of bytes.
struct Any;

/// Any number of whole words, on a word's boundary, past the caches.
struct Streamed<W>(PhantomData<W>);

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

/// Copies all blocks in one way.
///
/// # Safety
/// As [`Block::copy`], for each block.
unsafe fn each<B: Block>(
    to: *mut u8,
    (to_outer, to_inner): (isize, isize),
    from: *const u8,
    (from_outer, from_inner): (isize, isize),
    blocks: Blocks,
) {
    for row in 0..blocks.rows as isize {
        let to = to.wrapping_offset(row * to_outer);
        let from = from.wrapping_offset(row * from_outer);
        for block in 0..blocks.row as isize {
            let to = to.wrapping_offset(block * to_inner);
            let from = from.wrapping_offset(block * from_inner);
            // SAFETY: the caller's.
            unsafe { B::copy(to, from, blocks.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(start: usize, outer: isize, inner: isize) -> Steps {
        Steps {
            start,
            outer,
            inner,
        }
    }

    #[test]
    fn blocks_of_every_length_are_copied_whole_and_nothing_else_is() {
        let from: Vec<u8> = (0..4000u32).map(|n| (n * 7 + n / 251) as u8).collect();
        for len in 1..300 {
            let (rows, row) = (2, 3);
            let blocks = Blocks { len, rows, row };
            let (outer, inner) = (1000, 301);
            let mut to = vec![0; 6 * len];
            let packed = steps(0, 3 * len as isize, len as isize);
            let scattered = steps(3, outer, inner);
            let mut target = Target::from(&mut to[..]);
            copy(
                &mut target,
                packed,
                Source::from(&from[..]),
                scattered,
                blocks,
            );
            let places = || (0..2).flat_map(|r| (0..3).map(move |b| 3 + r * 1000 + b * 301));
            let expected: Vec<u8> = places()
                .flat_map(|at| from[at..at + len].to_vec())
                .collect();
            assert_eq!(to, expected);
            let mut back = vec![0; from.len()];
            let mut target = Target::from(&mut back[..]);
            copy(
                &mut target,
                scattered,
                Source::from(&to[..]),
                packed,
                blocks,
            );
            let mut expected = vec![0; from.len()];
            for at in places() {
                expected[at..at + len].copy_from_slice(&from[at..at + len]);
            }
            assert_eq!(back, expected, "{len}");
        }
    }

    #[test]
    fn one_block_of_any_length_is_copied_whole() {
        let from: Vec<u8> = (0..300u32).map(|n| (n * 7) as u8).collect();
        for len in 0..200 {
            let mut to = vec![0; 300];
            let mut target = Target::from(&mut to[..]);
            copy_one(&mut target, 50, Source::from(&from[..]), 9, len);
            assert_eq!(to[50..50 + len], from[9..9 + len]);
            assert!(
                to[..50]
                    .iter()
                    .chain(&to[50 + len..])
                    .all(|byte| *byte == 0)
            );
        }
        let fails = |at, start, len| {
            std::panic::catch_unwind(|| {
                let mut to = [0; 8];
                let mut target = Target::from(&mut to[..]);
                copy_one(&mut target, at, Source::from(&[0; 9][..]), start, len);
            })
            .is_err()
        };
        assert!(!fails(0, 1, 8) && !fails(8, 9, 0));
        assert!(fails(1, 1, 8) && fails(0, 2, 8) && fails(usize::MAX, 0, 2));
    }

    #[test]
    fn blocks_are_the_same_past_the_caches() {
        let from: Vec<u8> = (0..8000u32).map(|n| (n * 7 + n / 251) as u8).collect();
        let source = || Source::from(&from[..]);
        for len in (1..70).chain([120, 128, 132, 199, 256, 520]) {
            for shift in [0, 1, 4, 8, 24] {
                let blocks = Blocks {
                    len,
                    rows: 2,
                    row: 3,
                };
                let packed = steps(shift, 3 * len as isize, len as isize);
                let scattered = steps(3, 2000, 601);
                // Words, so that the boundaries are known.
                let mut there = [vec![0u64; 400], vec![0u64; 400]];
                let mut one = there.clone();
                for (past, (to, one)) in there.iter_mut().zip(&mut one).enumerate() {
                    let target = |of: &mut Vec<u64>| {
                        let (base, len) = (of.as_mut_ptr().cast(), of.len() * 8);
                        // SAFETY: the vector has as many bytes, which nothing else uses meanwhile.
                        let usual = unsafe { Target::from_raw(base, len) };
                        if past == 1 {
                            usual.past_caches()
                        } else {
                            usual
                        }
                    };
                    copy(&mut target(to), packed, source(), scattered, blocks);
                    copy_one(&mut target(one), shift, source(), 5, len);
                    stream::fence();
                }
                assert!(there[0] == there[1], "{len} {shift}");
                assert!(one[0] == one[1], "{len} {shift}");
            }
        }
    }

    #[test]
    fn steps_may_lead_backwards() {
        let from: Vec<u8> = (0..20).collect();
        let mut to = [0; 8];
        let blocks = Blocks {
            len: 2,
            rows: 2,
            row: 2,
        };
        let mut target = Target::from(&mut to[..]);
        copy(
            &mut target,
            steps(0, 4, 2),
            Source::from(&from[..]),
            steps(15, -10, -5),
            blocks,
        );
        assert_eq!(to, [15, 16, 10, 11, 5, 6, 0, 1]);
    }

    #[test]
    fn nothing_outside_of_a_span_is_touched() {
        let blocks = Blocks {
            len: 4,
            rows: 1,
            row: 3,
        };
        let fails = |at: Steps, from: Steps| {
            std::panic::catch_unwind(|| {
                let mut to = [0; 12];
                copy(
                    &mut Target::from(&mut to[..]),
                    at,
                    Source::from(&[0; 20][..]),
                    from,
                    blocks,
                );
            })
            .is_err()
        };
        assert!(!fails(steps(0, 0, 4), steps(0, 0, 8)));
        assert!(!fails(steps(0, 0, 4), steps(16, 0, -8)));
        assert!(fails(steps(1, 0, 4), steps(0, 0, 8)));
        assert!(fails(steps(0, 0, 4), steps(0, 0, 9)));
        assert!(fails(steps(0, 0, 4), steps(15, 0, -8)));
        assert!(fails(steps(0, 0, 4), steps(0, 0, isize::MAX)));
        assert!(fails(steps(usize::MAX, 0, 4), steps(0, 0, 8)));
    }
}
