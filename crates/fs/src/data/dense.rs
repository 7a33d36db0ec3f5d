//! How far a datafile has no holes: blocks that were all written, from the front on.
//!
//! A block in front of that place which has no sum was written and is lost, with the page of sums that stands beside
//! it; one behind may be a hole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most spans behind the first hole that are remembered until it is filled; what is forgotten only counts as less.
const MAX_BEHIND: usize = 64;

/// The written blocks of one datafile.
#[derive(Debug, Default)]
pub(super) struct Dense {
    /// Blocks from the front on, for readers.
    end: AtomicU64,
    /// Spans of written blocks behind, ascending and apart: writers of one file overtake each other.
    behind: Mutex<Vec<(u64, u64)>>,
}

impl Dense {
    /// So many blocks were written from the front on.
    pub(super) fn new(end: u64) -> Self {
        Self {
            end: AtomicU64::new(end),
            behind: Mutex::default(),
        }
    }

    /// Blocks below this were all written. To be asked before their sums are read.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Notes that blocks were written, with their sums.
    pub(super) fn note(&self, first: u64, end: u64) {
        if end <= self.end() {
            return;
        }
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let at = behind.partition_point(|(start, _)| *start < first);
        behind.insert(at, (first, end));
        behind.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        let mut front = self.end();
        while let Some(&(start, end)) = behind.first()
            && start <= front
        {
            front = front.max(end);
            behind.remove(0);
        }
        behind.truncate(MAX_BEHIND);
        self.end.store(front, Ordering::Release);
    }

    /// Notes that the datafile has no more than so many blocks. Nobody writes meanwhile.
    pub(super) fn cut(&self, blocks: u64) {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.retain_mut(|(start, end)| {
            *end = (*end).min(blocks);
            *start < *end
        });
        self.end.fetch_min(blocks, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_what_was_written_from_the_front(
            steps in prop::collection::vec((0u64..60, 1u64..9, any::<bool>()), 0..200)
        ) {
            let (dense, mut written) = (Dense::default(), [false; 80]);
            for (first, len, cut) in steps {
                if cut && len == 1 {
                    dense.cut(first);
                    written[first as usize..].fill(false);
                } else {
                    dense.note(first, first + len);
                    written[first as usize..(first + len) as usize].fill(true);
                }
                let holes = written.iter().position(|written| !written);
                prop_assert_eq!(dense.end(), holes.unwrap_or(80) as u64);
            }
        }
    }

    #[test]
    fn what_is_forgotten_counts_as_less() {
        let dense = Dense::default();
        (1..100).for_each(|i| dense.note(2 * i, 2 * i + 1));
        for i in 0..100 {
            dense.note(2 * i + 1, 2 * i + 2);
        }
        dense.note(0, 1);
        assert!((2 * MAX_BEHIND as u64..=200).contains(&dense.end()));
    }
}
