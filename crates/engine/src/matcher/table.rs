//! A hash table over numbered nodes, for matchers.
//!
//! A bucket is a list in order of arrival, threaded through the nodes themselves, so that nothing is allocated for an
//! entry. The hash is seeded, so that a peer cannot choose tags that meet in one bucket.

use std::hash::{BuildHasher, RandomState};
use std::ops::{Index, IndexMut};

use crate::lists::{Bucket, Linked, List};

/// What is known of an entry.
pub trait Filed: Linked<Bucket> + Clone + From<Self::Key> {
    /// What it is found by.
    type Key: Copy + Eq;

    /// What this one is found by.
    fn key(&self) -> Self::Key;

    /// Its number belongs to another entry from now on. Its lists are left to the caller.
    fn renew(&mut self, key: Self::Key);

    /// The next one in its bucket.
    fn behind(&self) -> Option<u32>;

    /// The key as two words, to be mixed.
    fn words(key: Self::Key) -> (u64, u64);
}

/// By the number of the entry.
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
    /// The node of a new entry. Its lists are left to the caller.
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

    /// The node of this number, if there has been one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&N> {
        self.0.get(index as usize)
    }

    /// How many numbers have a node, up to the largest one that was used.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// See the module's page.
pub struct Table<N> {
    /// The nodes of all entries, also of those that are not in the table.
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

    /// Whether no entry is in it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The list that an entry belongs into, after making room for one more.
    #[inline]
    fn room_for(&mut self, index: u32) -> usize {
        // Mostly one entry in a bucket, so that a look-up reads two cache lines.
        if 2 * self.len >= self.buckets.len() {
            self.grow();
        }
        self.len += 1;
        self.bucket(self.nodes[index].key())
    }

    /// Adds an entry behind all of the same key.
    #[inline]
    pub fn push_back(&mut self, index: u32) {
        let bucket = self.room_for(index);
        self.buckets[bucket].push_back(&mut self.nodes, index);
    }

    /// Adds an entry before all of the same key.
    pub fn push_front(&mut self, index: u32) {
        let bucket = self.room_for(index);
        self.buckets[bucket].push_front(&mut self.nodes, index);
    }

    /// The oldest entry of a key.
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

    /// Takes an entry out that is in the table.
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

/// How often this thread has looked at a node: the cost of matching, as tests count it.
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
