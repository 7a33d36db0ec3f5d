//! The lock of a process's own memory: its holders, and the queue of waiting ranks.

use std::collections::VecDeque;

/// The holders of the lock of this process's own memory, and the processes that wait for it, first come first served.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The one holder excludes all others.
    is_exclusive: bool,
    /// How many processes hold it.
    holders: u32,
    /// Ranks, and whether each asks for exclusive access.
    queue: VecDeque<(u32, bool)>,
}

impl Waiting {
    pub(super) fn request(&mut self, rank: u32, exclusive: bool) {
        self.queue.push_back((rank, exclusive));
    }

    pub(super) fn release(&mut self) {
        self.holders = self.holders.saturating_sub(1);
        self.is_exclusive = false;
    }

    /// Grants the lock to the first rank in the queue, if that rank can have it now. Returns the rank.
    pub(super) fn next(&mut self) -> Option<u32> {
        let &(rank, exclusive) = self.queue.front()?;
        if self.is_exclusive || exclusive && self.holders > 0 {
            return None;
        }
        self.queue.pop_front();
        self.is_exclusive = exclusive;
        self.holders += 1;
        Some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_given_in_order() {
        let mut waiting = Waiting::default();
        for (rank, exclusive) in [(1, false), (2, false), (3, true), (4, false), (5, false)] {
            waiting.request(rank, exclusive);
        }
        assert_eq!((waiting.next(), waiting.next()), (Some(1), Some(2)));
        assert_eq!(waiting.next(), None);
        waiting.release();
        assert_eq!(waiting.next(), None);
        waiting.release();
        assert_eq!((waiting.next(), waiting.next()), (Some(3), None));
        waiting.release();
        assert_eq!((waiting.next(), waiting.next()), (Some(4), Some(5)));
        assert_eq!(waiting.next(), None);
    }
}
