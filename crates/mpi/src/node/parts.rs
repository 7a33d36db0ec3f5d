//! The parts of an operation's memory.

use std::ops::Range;

/// Where the parts of memory lie that belong to each rank.
#[derive(Debug, Clone)]
pub(crate) enum Parts {
    /// One behind the other, of so many bytes.
    Even(usize),
    /// One behind the other, up to these bounds.
    Bounds(Vec<usize>),
    /// At these places.
    Places(Vec<Range<usize>>),
    /// Any rank's part is all of the memory, of so many bytes.
    All(usize),
}

impl Parts {
    pub(crate) fn range(&self, rank: u32) -> Range<usize> {
        let rank = rank as usize;
        match self {
            Self::Even(len) => rank * len..(rank + 1) * len,
            Self::Bounds(bounds) => {
                let start = if rank == 0 { 0 } else { bounds[rank - 1] };
                start..bounds[rank]
            }
            Self::Places(places) => places[rank].clone(),
            Self::All(len) => 0..*len,
        }
    }

    pub(super) fn longest(&self, ranks: u32) -> usize {
        match self {
            Self::Even(len) | Self::All(len) => *len,
            Self::Bounds(_) | Self::Places(_) => {
                let lengths = (0..ranks).map(|rank| self.range(rank).len());
                lengths.max().unwrap_or(0)
            }
        }
    }

    /// What a phase moves of a rank's part.
    pub(super) fn piece(&self, rank: u32, done: usize, step: usize) -> Range<usize> {
        let Range { start, end } = self.range(rank);
        (start + done).min(end)..(start + done + step).min(end)
    }
}
