//! Copying blocks of one length at regular distances: the basic step of packing and unpacking vectors, arrays of
//! structures and parts of arrays.
//!
//! [`copy`] is the primitive; [`gather`] and [`scatter`] are for blocks of one length at any places, and [`copy_one`] for those of any
//! length. All are safe: they check once that everything
//! they will touch lies inside of the two spans, then copy without further checks, blocks of up to some hundred bytes without a call (`ways`).
//! Fetching blocks ahead of their copying was measured to gain nothing, however far ahead.

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use crate::memory::Memory;

mod ways;

use ways::{Any, Block, Exact, Gather, Rows, Scatter, Streamed, Twice, are_words};

/// The error of a requested part.
const OUTSIDE: &str = "a part outside of a span";
/// The error of blocks.
const BLOCKS_OUTSIDE: &str = "blocks outside of a span";

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
        // SAFETY: the part lies inside, which was just checked, and what is inside is valid by the contract of `from_raw`.
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

    /// Has blocks of whole words that lie on words' boundaries written past the caches, and others as usual. It is faster where
    /// another processor, which is far, has read the lines last and will read them next. Before the caller says that they are
    /// written, it calls [`fence`](crate::stream::fence).
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
        "{BLOCKS_OUTSIDE}"
    );
    let rows = Rows {
        // What lies between the pieces of a datatype need not be of one allocation.
        to: to.base.as_ptr().wrapping_add(at.start),
        to_steps: (at.outer, at.inner),
        from: from.base.as_ptr().cast_const().wrapping_add(steps.start),
        from_steps: (steps.outer, steps.inner),
        rows: blocks.rows,
        row: blocks.row,
        len: blocks.len,
    };
    let kind = ways::Kind {
        len: blocks.len,
        step: at.outer.unsigned_abs() | at.inner.unsigned_abs(),
        past_caches: to.past_caches,
    };
    // SAFETY: every block is inside its span, which was just checked; what is inside is valid by the contract of `from_raw`.
    unsafe { ways::copy(&rows, rows.to, kind) };
}

/// Where blocks lie, in bytes from a common place. Their bounds are found once, so that copying them checks nothing for each block:
/// this took longer than the copies of short ones.
#[derive(Debug)]
pub struct Offsets {
    all: Box<[i64]>,
    least: i64,
    most: i64,
}

impl FromIterator<i64> for Offsets {
    fn from_iter<I: IntoIterator<Item = i64>>(offsets: I) -> Self {
        let all: Box<[i64]> = offsets.into_iter().collect();
        Self {
            least: all.iter().copied().min().unwrap_or(0),
            most: all.iter().copied().max().unwrap_or(0),
            all,
        }
    }
}

impl Deref for Offsets {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        &self.all
    }
}

impl Offsets {
    /// Blocks of `len` bytes at those with these `indices`, from the place `base` of a span on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn blocks(&self, indices: Range<usize>, base: i64, len: usize) -> Listed<'_> {
        Listed {
            len,
            base,
            offsets: &self.all[indices],
            bounds: (self.least, self.most),
        }
    }
}

/// Blocks of one length, each at a place of its own: some of [`Offsets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Bytes of a block.
    len: usize,
    /// The place in the span that offsets count from, in bytes.
    base: i64,
    /// Where the blocks lie, in bytes from there.
    offsets: &'a [i64],
    /// The least and the greatest of these and all other offsets.
    bounds: (i64, i64),
}

impl Listed<'_> {
    /// Whether blocks at all of the offsets lie inside a span of `len` bytes.
    fn are_inside(&self, len: usize) -> bool {
        let (least, most) = self.bounds;
        let place = |offset: i64| i128::from(self.base) + i128::from(offset);
        place(least) >= 0 && place(most) + self.len as i128 <= len as i128
    }

    /// Whether they fit one behind the other into a span of `len` bytes, from `at` on.
    fn fit(&self, at: usize, len: usize) -> bool {
        let bytes = self.len.checked_mul(self.offsets.len());
        bytes.is_some_and(|bytes| at <= len && bytes <= len - at)
    }
}

/// Copies blocks from their places to one behind the other, from `at` on. Source and target may overlap as in [`copy`].
///
/// # Panics
/// If a block does not lie inside its span, be it one of those that are not copied.
pub fn gather(to: &mut Target<'_>, at: usize, from: Source<'_>, blocks: Listed<'_>) {
    if blocks.len == 0 || blocks.offsets.is_empty() {
        return;
    }
    let are_inside = blocks.fit(at, to.len) && blocks.are_inside(from.len);
    assert!(are_inside, "{BLOCKS_OUTSIDE}");
    let gather = Gather {
        to: to.base.as_ptr().wrapping_add(at),
        from: (from.base.as_ptr().cast_const()).wrapping_offset(blocks.base as isize),
        offsets: blocks.offsets,
        len: blocks.len,
    };
    let kind = ways::Kind {
        len: blocks.len,
        step: blocks.len,
        past_caches: to.past_caches,
    };
    // SAFETY: as in `copy`.
    unsafe { ways::copy(&gather, gather.to, kind) };
}

/// Copies blocks that lie one behind the other, from `start` on, to their places. Source and target may overlap as in [`copy`].
///
/// # Panics
/// If a block does not lie inside its span, be it one of those that are not copied.
pub fn scatter(to: &mut Target<'_>, from: Source<'_>, start: usize, blocks: Listed<'_>) {
    if blocks.len == 0 || blocks.offsets.is_empty() {
        return;
    }
    let are_inside = blocks.are_inside(to.len) && blocks.fit(start, from.len);
    assert!(are_inside, "{BLOCKS_OUTSIDE}");
    let scatter = Scatter {
        to: to.base.as_ptr().wrapping_offset(blocks.base as isize),
        from: from.base.as_ptr().cast_const().wrapping_add(start),
        offsets: blocks.offsets,
        len: blocks.len,
    };
    let kind = ways::Kind {
        len: blocks.len,
        step: 0,
        // Which boundaries the blocks lie on is not known.
        past_caches: false,
    };
    // SAFETY: as in `copy`.
    unsafe { ways::copy(&scatter, scatter.to, kind) };
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
    // SAFETY: the block is inside both spans, which was just checked; what is inside is valid by the contract of `from_raw`; each way is
    // for the lengths that it is used for.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream;

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
    fn listed_blocks_of_every_length_are_gathered_and_scattered_whole() {
        let from: Vec<u8> = (0..9000u32).map(|n| (n * 7 + n / 251) as u8).collect();
        let offsets = [1400, 0, 700, 4000, 4800, -690];
        for len in (1..300).chain([500, 512, 513, 600, 680]) {
            let listed = Offsets::from_iter(offsets);
            let blocks = listed.blocks(0..6, 697, len);
            let places = offsets.map(|offset| (697 + offset) as usize);
            let expected = places.map(|at| from[at..at + len].to_vec()).concat();
            for past_caches in [false, true] {
                let mut to = vec![0; 6 * len + 7];
                let target = Target::from(&mut to[..]);
                let mut target = match past_caches {
                    true => target.past_caches(),
                    false => target,
                };
                gather(&mut target, 5, Source::from(&from[..]), blocks);
                stream::fence();
                assert_eq!(to[5..to.len() - 2], expected, "{len}");
                assert!(to[..5].iter().chain(&to[to.len() - 2..]).all(|b| *b == 0));
                let mut back = vec![0; from.len()];
                let mut target = Target::from(&mut back[..]);
                scatter(&mut target, Source::from(&to[..]), 5, blocks);
                let mut scattered = vec![0; from.len()];
                for at in places {
                    scattered[at..at + len].copy_from_slice(&from[at..at + len]);
                }
                assert!(back == scattered, "{len}");
            }
        }
    }

    #[test]
    fn listed_blocks_outside_of_a_span_are_refused() {
        let fails = |base, offsets: &[i64], at| {
            std::panic::catch_unwind(|| {
                let (mut to, from, mut back) = ([0; 12], [0; 20], [0; 20]);
                let mut target = Target::from(&mut to[..]);
                let len = 4;
                let listed = offsets.iter().copied().collect::<Offsets>();
                let blocks = listed.blocks(0..offsets.len(), base, len);
                gather(&mut target, at, Source::from(&from[..]), blocks);
                let mut target = Target::from(&mut back[..]);
                scatter(&mut target, Source::from(&to[..]), at, blocks);
            })
            .is_err()
        };
        assert!(!fails(0, &[16, 0, 8], 0) && !fails(4, &[12, -4], 4));
        assert!(!fails(i64::MAX, &[], 99));
        assert!(fails(0, &[17], 0) && fails(0, &[-1], 0) && fails(0, &[0; 3], 1));
        assert!(fails(0, &[0; 4], 0) && fails(0, &[0], usize::MAX));
        assert!(fails(i64::MAX, &[i64::MAX], 0) && fails(i64::MIN, &[i64::MIN], 0));
    }

    #[test]
    fn some_of_listed_blocks_are_copied() {
        let listed = Offsets::from_iter([8, 0, 16, 4]);
        let from: Vec<u8> = (0..20).collect();
        let mut to = [0; 8];
        let some = listed.blocks(1..3, 0, 4);
        gather(
            &mut Target::from(&mut to[..]),
            0,
            Source::from(&from[..]),
            some,
        );
        assert_eq!(to, [0, 1, 2, 3, 16, 17, 18, 19]);
        let all = 0..listed.len();
        let few = std::panic::catch_unwind(|| {
            let (mut to, from) = ([0; 20], [0; 19]);
            let some = listed.blocks(0..2, 0, 4);
            gather(
                &mut Target::from(&mut to[..]),
                0,
                Source::from(&from[..]),
                some,
            );
        });
        assert!(all == (0..4) && few.is_err());
    }

    /// A long block that overlaps its own target is copied as if by way of other memory.
    #[test]
    fn blocks_that_overlap_their_targets_are_copied_whole() {
        for (start, at) in [(0, 10), (10, 0), (0, 3), (70, 0)] {
            for len in [40, 64, 100, 200, 400] {
                let mut bytes: Vec<u8> = (0..500u32).map(|n| (n * 7 + n / 251) as u8).collect();
                let expected = bytes[start..start + len].to_vec();
                let (base, all) = (bytes.as_mut_ptr(), bytes.len());
                // SAFETY: the vector has as many bytes, which nothing else uses meanwhile.
                let (from, mut to) =
                    unsafe { (Source::from_raw(base, all), Target::from_raw(base, all)) };
                let one = Blocks {
                    len,
                    rows: 1,
                    row: 1,
                };
                copy(&mut to, steps(at, 0, 0), from, steps(start, 0, 0), one);
                assert_eq!(bytes[at..at + len], expected, "{start} {at} {len}");
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
