//! Which bytes of a span have been announced, each of them once: bytes that a peer sends are
//! accounted for by their positions in the span.

use std::ops::Range;

use smallvec::SmallVec;

/// A set of bytes, as sorted ranges with gaps between them, and a bound on the number of ranges.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    ranges: SmallVec<[Range<u64>; 1]>,
}

/// Why a range was not added.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// The range is empty, or overlaps the set.
    Overlap,
    /// There would be more separate ranges than allowed.
    Scattered,
}

impl Coverage {
    /// Adds a range that does not overlap the set, if that leaves at most `most` separate ranges.
    pub(super) fn add(&mut self, range: Range<u64>, most: usize) -> Result<(), Rejected> {
        let at = self
            .ranges
            .partition_point(|known| known.end <= range.start);
        let next = self.ranges.get(at);
        if range.is_empty() || next.is_some_and(|next| next.start < range.end) {
            return Err(Rejected::Overlap);
        }
        self.insert(at..at, range, most)
    }

    /// Adds a range, which may overlap the set, if that leaves at most `most` separate ranges.
    pub(super) fn add_again(&mut self, range: Range<u64>, most: usize) -> Result<(), Rejected> {
        if range.is_empty() {
            return Ok(());
        }
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let end = self
            .ranges
            .partition_point(|known| known.start <= range.end);
        self.insert(first..end, range, most)
    }

    /// Replaces the ranges at `at` by `range`, joined with them and with those that it touches.
    fn insert(
        &mut self,
        mut at: Range<usize>,
        mut range: Range<u64>,
        most: usize,
    ) -> Result<(), Rejected> {
        let before = at.start.checked_sub(1).and_then(|at| self.ranges.get(at));
        if before.is_some_and(|before| before.end == range.start) {
            at.start -= 1;
        }
        let behind = self.ranges.get(at.end);
        if behind.is_some_and(|behind| behind.start == range.end) {
            at.end += 1;
        }
        for known in self.ranges.get(at.clone()).unwrap_or_default() {
            range = range.start.min(known.start)..range.end.max(known.end);
        }
        if self.ranges.len() - at.len() >= most {
            return Err(Rejected::Scattered);
        }
        match self.ranges.get_mut(at.start).filter(|_| !at.is_empty()) {
            Some(first) => {
                *first = range;
                self.ranges.drain(at.start + 1..at.end);
            }
            None => self.ranges.insert(at.start, range),
        }
        Ok(())
    }

    /// Whether the set is `0..len`.
    pub(super) fn is_whole(&self, len: u64) -> bool {
        match self.ranges.as_slice() {
            [] => len == 0,
            [only] => *only == (0..len),
            _ => false,
        }
    }

    /// Bytes of memory that the set takes.
    pub(super) fn owned_bytes(&self) -> usize {
        match self.ranges.spilled() {
            true => self.ranges.capacity() * size_of::<Range<u64>>(),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain vector of flags, one per byte.
    #[test]
    fn ranges_in_any_order_are_the_bytes_that_they_cover() {
        let mut random = causeway_wire::random::SplitMix64::new(7);
        let mut below = |bound| random.below(bound);
        for round in 0..400 {
            let len = 1 + below(40);
            let (mut once, mut again) = (Coverage::default(), Coverage::default());
            let (mut known, mut ever) = (vec![false; len as usize], vec![false; len as usize]);
            for _ in 0..60 {
                let start = below(len);
                let range = start..start + 1 + below(len - start);
                let bytes = range.start as usize..range.end as usize;
                let is_new = known[bytes.clone()].iter().all(|byte| !byte);
                let added = once.add(range.clone(), usize::MAX);
                assert_eq!(added.is_ok(), is_new, "{round}: {range:?} to {once:?}");
                if is_new {
                    known[bytes.clone()].fill(true);
                }
                again.add_again(range, usize::MAX).unwrap();
                ever[bytes].fill(true);
                for (set, bytes) in [(&once, &known), (&again, &ever)] {
                    let covered: Vec<bool> = (0..len)
                        .map(|byte| set.ranges.iter().any(|range| range.contains(&byte)))
                        .collect();
                    assert_eq!(&covered, bytes, "{set:?}");
                    let apart = set.ranges.windows(2).all(|two| two[0].end < two[1].start);
                    assert!(apart, "{set:?}");
                    assert_eq!(set.is_whole(len), bytes.iter().all(|byte| *byte));
                }
            }
        }
    }

    #[test]
    fn the_number_of_ranges_is_bounded_and_no_byte_is_added_twice() {
        let mut set = Coverage::default();
        assert_eq!(set.add(0..0, 9), Err(Rejected::Overlap));
        assert_eq!(set.add(0..1, 2), Ok(()));
        assert_eq!(set.add(2..3, 2), Ok(()));
        assert_eq!(set.add(4..5, 2), Err(Rejected::Scattered));
        assert_eq!(set.add_again(4..5, 2), Err(Rejected::Scattered));
        assert_eq!(set.add(2..3, 2), Err(Rejected::Overlap));
        assert_eq!(set.add(1..2, 2), Ok(()));
        assert!(set.is_whole(3) && !set.is_whole(4));
    }
}
