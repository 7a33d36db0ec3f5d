//! A queue in the order of stamps, first come first served among equal ones. With all stamps
//! zero it is an ordinary queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::setup::Time;

/// The queue, of bounded length.
#[derive(Debug)]
pub(crate) enum Stamped<T> {
    /// All stamps are zero.
    Plain(VecDeque<T>),
    /// A binary heap.
    Heap(Heap<T>),
}

/// Entries in the order of a binary heap.
#[derive(Debug)]
pub(crate) struct Heap<T> {
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
    /// Room for `limit` entries; the owner makes sure that there are never more. Without `stamps` all of them are zero.
    pub(crate) fn new(limit: usize, stamps: bool) -> Self {
        match stamps {
            true => Self::Heap(Heap {
                heap: Vec::with_capacity(limit),
                pushed: 0,
            }),
            false => Self::Plain(VecDeque::with_capacity(limit)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(queue) => queue.is_empty(),
            Self::Heap(heap) => heap.heap.is_empty(),
        }
    }

    /// Inserts in the order of stamps; returns how many entries it passed on the way.
    pub(crate) fn push(&mut self, stamp: Time, value: T) -> u32 {
        match self {
            Self::Plain(queue) => {
                assert!(
                    queue.len() < queue.capacity(),
                    "a queue has more entries than it was made for"
                );
                assert_eq!(stamp, 0, "a queue without stamps got a stamp");
                queue.push_back(value);
                0
            }
            Self::Heap(heap) => heap.push(stamp, value),
        }
    }

    /// Takes the entry with the smallest stamp.
    pub(crate) fn pop(&mut self) -> Option<T> {
        match self {
            Self::Plain(queue) => queue.pop_front(),
            Self::Heap(heap) => heap.pop(),
        }
    }
}

impl<T: Copy> Heap<T> {
    fn push(&mut self, stamp: Time, value: T) -> u32 {
        assert!(
            self.heap.len() < self.heap.capacity(),
            "a queue has more entries than it was made for"
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

    fn pop(&mut self) -> Option<T> {
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
        let mut queue = Stamped::new(8, true);
        for (stamp, value) in [(5, 'a'), (1, 'b'), (5, 'c'), (1, 'd'), (0, 'e')] {
            queue.push(stamp, value);
        }
        let order: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ['e', 'b', 'd', 'a', 'c']);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_queue_without_stamps_overtakes_no_other() {
        for stamps in [false, true] {
            let mut queue = Stamped::new(100, stamps);
            assert!((0..100).all(|value| queue.push(0, value) == 0));
            assert!((0..100).all(|value| queue.pop() == Some(value)));
            assert!(queue.is_empty());
        }
    }
}
