//! Receives that wait, in a queue for each of their patterns.
//!
//! Where threads of a process receive from one source by a tag each, messages come in another order than their receives were posted in. With a
//! queue for each pattern, a message looks at the first receive of each, and no receive goes into the hash table.

use causeway_engine::lists::List;

use super::key::Key;

/// Most patterns of a line that have queues. Where there are more, looking into the hash table takes less time than looking at all queues.
const MOST: usize = 16;

/// See the module's page.
#[derive(Default)]
pub(super) struct Queues {
    queues: [Queue; MOST],
    used: usize,
}

/// The receives of one pattern, in the order in which they were posted.
#[derive(Default)]
pub(super) struct Queue {
    key: Key,
    pub(super) waiting: List,
}

impl Queues {
    /// The number of the pattern's queue, which may be one that nothing waits in; `None` if there are too many patterns.
    pub(super) fn of(&mut self, key: Key) -> Option<u8> {
        let used = &self.queues[..self.used];
        let own = used.iter().position(|queue| queue.has(key));
        if let Some(own) = own {
            return Some(own as u8);
        }
        let free = used.iter().position(|queue| queue.waiting.is_empty());
        let free = free.unwrap_or(self.used);
        self.queues.get_mut(free)?.key = key;
        self.used = self.used.max(free + 1);
        Some(free as u8)
    }

    /// The queue of this number.
    pub(super) fn get(&mut self, number: u8) -> &mut List {
        &mut self.queues[usize::from(number)].waiting
    }

    /// The first receives of all queues.
    pub(super) fn firsts(&self) -> impl Iterator<Item = u32> {
        let used = self.queues[..self.used].iter();
        used.filter_map(|queue| queue.waiting.first())
    }

    /// The first receives of the queues whose patterns a message matches.
    pub(super) fn firsts_for(&self, peer: u32, word: u64) -> impl Iterator<Item = u32> {
        let used = self.queues[..self.used].iter();
        used.filter_map(move |queue| {
            let first = queue.waiting.first()?;
            #[cfg(test)]
            super::key::looks::count();
            queue.key.matches(peer, word).then_some(first)
        })
    }

    /// Whether no receive waits.
    pub(super) fn are_empty(&self) -> bool {
        self.firsts().next().is_none()
    }
}

impl Queue {
    fn has(&self, key: Key) -> bool {
        #[cfg(test)]
        super::key::looks::count();
        self.key == key
    }
}
