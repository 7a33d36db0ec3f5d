//! The parts of an operation's memory.

use std::ops::Range;

/// Places in memory. Not beside their number in a value that is passed on and on: to move those of a few ranks several times takes longer than to allocate them once.
pub type Places = Vec<Range<usize>>;

/// Where the parts of memory lie that belong to each rank.
#[derive(Debug, Clone)]
pub(crate) enum Parts {
    /// One behind the other, of so many bytes.
    Even(usize),
    /// One behind the other, up to these bounds.
    Bounds(Vec<usize>),
    /// At these places.
    Places(Places),
    /// Any rank's part is all of the memory, of so many bytes.
    All(usize),
}

impl Parts {
    #[inline]
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
