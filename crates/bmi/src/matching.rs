//! Which message belongs to which: first in, first out by (peer, tag).
//!
//! One hash table serves all peers, so that a peer without traffic costs nothing here. A bucket is
//! a list in order of arrival, threaded through the entries themselves. The hash is seeded, so that
//! a peer cannot choose tags that meet in one bucket.

use std::hash::{BuildHasher, RandomState};

use crate::slab::{Bucket, Linked, List, Slab};

/// Something that waits under (peer, tag).
pub(crate) trait Keyed: Linked<Bucket> {
    /// What it waits under.
    fn key(&self) -> (u32, u64);
}

/// Entries of one slab that wait under (peer, tag).
pub(crate) struct MatchTable {
    buckets: Vec<List<Bucket>>,
    len: usize,
    seeds: (u64, u64),
}

impl Default for MatchTable {
    fn default() -> Self {
        let state = RandomState::new();
        Self {
            buckets: vec![List::default(); 64],
            len: 0,
            seeds: (state.hash_one(1u8) | 1, state.hash_one(2u8) | 1),
        }
    }
}

impl MatchTable {
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn bucket(&self, (peer, tag): (u32, u64)) -> usize {
        let mixed = (tag ^ u64::from(peer).wrapping_mul(self.seeds.0)).wrapping_mul(self.seeds.1);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.seeds.0);
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Adds an entry behind all of the same key.
    #[inline]
    pub(crate) fn push_back<T: Keyed>(&mut self, slab: &mut Slab<T>, index: u32) {
        if self.len >= 2 * self.buckets.len() {
            self.grow(slab);
        }
        self.len += 1;
        let bucket = self.bucket(slab[index].key());
        self.buckets[bucket].push_back(slab, index);
    }

    /// Adds an entry before all of the same key (one that was matched and comes back).
    pub(crate) fn push_front<T: Keyed>(&mut self, slab: &mut Slab<T>, index: u32) {
        self.push_back(slab, index);
        let bucket = self.bucket(slab[index].key());
        let mut list = self.buckets[bucket];
        for other in list.to_vec(slab) {
            if other != index {
                list.remove(slab, other);
                list.push_back(slab, other);
            }
        }
        self.buckets[bucket] = list;
    }

    /// Takes the oldest entry of a key out of the table.
    #[inline]
    pub(crate) fn pop<T: Keyed>(&mut self, slab: &mut Slab<T>, peer: u32, tag: u64) -> Option<u32> {
        let bucket = self.bucket((peer, tag));
        let mut at = self.buckets[bucket].first()?;
        loop {
            let entry = &mut slab[at];
            if entry.key() == (peer, tag) {
                self.len -= 1;
                self.buckets[bucket].remove(slab, at);
                return Some(at);
            }
            at = entry.links().next()?;
        }
    }

    /// Takes an entry that is in the table out of it.
    #[inline]
    pub(crate) fn remove<T: Keyed>(&mut self, slab: &mut Slab<T>, index: u32) {
        self.len -= 1;
        let bucket = self.bucket(slab[index].key());
        self.buckets[bucket].remove(slab, index);
    }

    #[cold]
    fn grow<T: Keyed>(&mut self, slab: &mut Slab<T>) {
        let doubled = vec![List::default(); 2 * self.buckets.len()];
        for mut list in std::mem::replace(&mut self.buckets, doubled) {
            for index in list.to_vec(slab) {
                list.remove(slab, index);
                let bucket = self.bucket(slab[index].key());
                self.buckets[bucket].push_back(slab, index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Links;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    struct Waiting {
        links: Links,
        key: (u32, u64),
    }

    impl Linked<Bucket> for Waiting {
        fn links(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    impl Keyed for Waiting {
        fn key(&self) -> (u32, u64) {
            self.key
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_queue_per_key(
            steps in prop::collection::vec((0u8..10, 0u32..3, 0u64..40), 1..800)
        ) {
            let mut table = MatchTable::default();
            let mut slab = Slab::default();
            let mut model: HashMap<(u32, u64), VecDeque<u32>> = HashMap::new();
            for (what, peer, tag) in steps {
                let queue = model.entry((peer, tag)).or_default();
                let mut add = || {
                    let links = Links::default();
                    slab.insert(Waiting { links, key: (peer, tag) })
                };
                match what {
                    0..5 => {
                        let index = add();
                        table.push_back(&mut slab, index);
                        queue.push_back(index);
                    }
                    5 => {
                        let index = add();
                        table.push_front(&mut slab, index);
                        queue.push_front(index);
                    }
                    6 => if let Some(index) = queue.pop_back() {
                        table.remove(&mut slab, index);
                        slab.remove(index);
                    },
                    _ => {
                        let popped = table.pop(&mut slab, peer, tag);
                        prop_assert_eq!(popped, queue.pop_front());
                        popped.map(|index| slab.remove(index));
                    }
                }
                prop_assert_eq!(table.is_empty(), slab.len() == 0);
            }
            for ((peer, tag), queue) in model {
                for index in queue {
                    prop_assert_eq!(table.pop(&mut slab, peer, tag), Some(index));
                }
                prop_assert_eq!(table.pop(&mut slab, peer, tag), None);
            }
        }
    }
}
