//! A queue in the order of stamps, first come first served among equal ones. With all stamps
//! zero it is an ordinary queue.

use alloc::vec::Vec;

use crate::setup::Time;

/// The queue: a binary heap of bounded length.
#[derive(Debug)]
pub(crate) struct Stamped<T> {
    heap: Vec<Entry<T>>,
    pushed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry<T> {
    stamp: Time,
    number: u64,
    value: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Time, u64) {
        (self.stamp, self.number)
    }
}

impl<T: Copy> Stamped<T> {
    /// Room for `limit` entries; the owner makes sure that there are never more.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            heap: Vec::with_capacity(limit),
            pushed: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Inserts in the order of stamps; returns how many entries it passed on the way.
    pub(crate) fn push(&mut self, stamp: Time, value: T) -> u32 {
        debug_assert!(
            self.heap.len() < self.heap.capacity(),
            "queue over its limit"
        );
        let number = self.pushed;
        self.pushed += 1;
        let mut at = self.heap.len();
        self.heap.push(Entry {
            stamp,
            number,
            value,
        });
        let mut passed = 0;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].key() <= self.heap[at].key() {
                break;
            }
            self.heap.swap(parent, at);
            at = parent;
            passed += 1;
        }
        passed
    }

    /// Takes the entry with the smallest stamp.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.heap.is_empty() {
            return None;
        }
        let first = self.heap.swap_remove(0);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child].key() < self.heap[least].key() {
                    least = child;
                }
            }
            if least == at {
                return Some(first.value);
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stamps_are_first_come_first_served() {
        let mut queue = Stamped::new(8);
        for (stamp, value) in [(5, 'a'), (1, 'b'), (5, 'c'), (1, 'd'), (0, 'e')] {
            queue.push(stamp, value);
        }
        let order: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ['e', 'b', 'd', 'a', 'c']);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_queue_without_stamps_passes_no_entry() {
        let mut queue = Stamped::new(100);
        assert!((0..100).all(|value| queue.push(0, value) == 0));
        assert!((0..100).all(|value| queue.pop() == Some(value)));
    }
}
