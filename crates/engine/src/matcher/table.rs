//! A hash table over numbered nodes, for matchers.
//!
//! A bucket is a list in order of arrival, threaded through the nodes themselves, so that no entry
//! needs an allocation. The hash is seeded, so that a peer cannot choose tags that collide in one
//! bucket.

use std::hash::{BuildHasher, RandomState};
use std::ops::{Index, IndexMut};

use crate::lists::{Bucket, Linked, List};

/// An entry of the table.
pub trait Filed: Linked<Bucket> + Clone + From<Self::Key> {
    /// The key of an entry.
    type Key: Copy + Eq;

    /// This entry's key.
    fn key(&self) -> Self::Key;

    /// Reuses the node for another entry with this key. The caller updates its lists.
    fn renew(&mut self, key: Self::Key);

    /// The next entry in its bucket.
    fn behind(&self) -> Option<u32>;

    /// The key as two words, for hashing.
    fn words(key: Self::Key) -> (u64, u64);
}

/// Nodes, by number of the entry.
pub struct Nodes<N>(Vec<N>);

impl<N> Index<u32> for Nodes<N> {
    type Output = N;
    #[inline(always)]
    fn index(&self, index: u32) -> &N {
        #[cfg(test)]
        accesses::count();
        &self.0[index as usize]
    }
}

impl<N> IndexMut<u32> for Nodes<N> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut N {
        #[cfg(test)]
        accesses::count();
        &mut self.0[index as usize]
    }
}

impl<N: Filed> Nodes<N> {
    /// Prepares the node of a new entry. The caller updates its lists.
    #[inline(always)]
    pub fn renew(&mut self, index: u32, key: N::Key) {
        match self.0.get_mut(index as usize) {
            Some(node) => node.renew(key),
            None => self.add(index, key),
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, index: u32, key: N::Key) {
        self.0.resize(index as usize + 1, N::from(key));
    }

    /// The node of this number, if it exists.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&N> {
        self.0.get(index as usize)
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut N> {
        #[cfg(test)]
        accesses::count();
        self.0.get_mut(index as usize)
    }

    /// How many nodes exist: one more than the largest number used.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no node exists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// See the module's page.
pub struct Table<N> {
    /// The nodes of all entries, including those that are not in the table.
    pub nodes: Nodes<N>,
    buckets: Vec<List<Bucket>>,
    len: usize,
    seeds: (u64, u64),
}

impl<N> Default for Table<N> {
    fn default() -> Self {
        let state = RandomState::new();
        Self {
            nodes: Nodes(Vec::new()),
            buckets: vec![List::default(); 64],
            len: 0,
            seeds: (state.hash_one(1u8) | 1, state.hash_one(2u8) | 1),
        }
    }
}

impl<N: Filed> Table<N> {
    #[inline]
    fn bucket(&self, key: N::Key) -> usize {
        let (one, other) = N::words(key);
        let mixed = (one ^ other.wrapping_mul(self.seeds.0)).wrapping_mul(self.seeds.1);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.seeds.0);
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Whether the table is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bucket for an entry, after making room for one more.
    #[inline]
    fn room_for(&mut self, index: u32) -> usize {
        // On average less than one entry in a bucket, so that a look-up reads two cache lines.
        if 2 * self.len >= self.buckets.len() {
            self.grow();
        }
        self.len += 1;
        self.bucket(self.nodes[index].key())
    }

    /// Adds an entry behind all others of its key.
    #[inline]
    pub fn push_back(&mut self, index: u32) {
        let bucket = self.room_for(index);
        self.buckets[bucket].push_back(&mut self.nodes, index);
    }

    /// Adds an entry before all others of its key.
    pub fn push_front(&mut self, index: u32) {
        let bucket = self.room_for(index);
        self.buckets[bucket].push_front(&mut self.nodes, index);
    }

    /// The oldest entry with this key.
    #[inline]
    pub fn first(&self, key: N::Key) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)].first()?;
        loop {
            let node = &self.nodes[at];
            if node.key() == key {
                return Some(at);
            }
            at = node.behind()?;
        }
    }

    /// Removes an entry that is in the table.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        self.len -= 1;
        let bucket = self.bucket(self.nodes[index].key());
        self.buckets[bucket].remove(&mut self.nodes, index);
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = vec![List::default(); 2 * self.buckets.len()];
        for mut list in std::mem::replace(&mut self.buckets, doubled) {
            while let Some(index) = list.first() {
                list.remove(&mut self.nodes, index);
                let bucket = self.bucket(self.nodes[index].key());
                self.buckets[bucket].push_back(&mut self.nodes, index);
            }
        }
    }
}

/// How many times this thread has accessed a node: the cost of matching, which tests count.
#[cfg(test)]
pub(crate) mod accesses {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    pub(crate) fn taken() -> u64 {
        COUNT.take()
    }
}
