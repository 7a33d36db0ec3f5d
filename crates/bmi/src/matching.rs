//! Which message belongs to which receive: first in, first out by (peer, tag).
//!
//! One hash table serves all peers, so that a peer without traffic costs nothing here. A bucket is
//! a list in order of arrival. The hash is seeded, so that a peer cannot choose tags that meet in
//! one bucket.

use std::hash::{BuildHasher, RandomState};

use crate::slab::{Linked, Links, List, Slab};

/// Values waiting under (peer, tag).
pub(crate) struct MatchTable {
    nodes: Slab<Node>,
    buckets: Vec<List>,
    seeds: (u64, u64),
}

struct Node {
    links: Links,
    peer: u32,
    value: u32,
    tag: u64,
}

impl Linked for Node {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Default for MatchTable {
    fn default() -> Self {
        let state = RandomState::new();
        Self {
            nodes: Slab::default(),
            buckets: vec![List::default(); 64],
            seeds: (state.hash_one(1u8) | 1, state.hash_one(2u8) | 1),
        }
    }
}

impl MatchTable {
    #[inline]
    fn bucket(&self, peer: u32, tag: u64) -> usize {
        let mixed = (tag ^ u64::from(peer).wrapping_mul(self.seeds.0)).wrapping_mul(self.seeds.1);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.seeds.0);
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Adds a value behind all of the same key; answers its node.
    #[inline]
    pub(crate) fn push_back(&mut self, peer: u32, tag: u64, value: u32) -> u32 {
        if self.nodes.len() >= 2 * self.buckets.len() {
            self.grow();
        }
        let bucket = self.bucket(peer, tag);
        let node = self.nodes.insert(Node {
            links: Links::default(),
            peer,
            value,
            tag,
        });
        self.buckets[bucket].push_back(&mut self.nodes, node);
        node
    }

    /// Adds a value before all of the same key (one that was matched and comes back).
    pub(crate) fn push_front(&mut self, peer: u32, tag: u64, value: u32) -> u32 {
        let node = self.push_back(peer, tag, value);
        let bucket = self.bucket(peer, tag);
        let mut list = self.buckets[bucket];
        for other in list.to_vec(&mut self.nodes) {
            if other != node {
                list.remove(&mut self.nodes, other);
                list.push_back(&mut self.nodes, other);
            }
        }
        self.buckets[bucket] = list;
        node
    }

    /// Takes the oldest value of a key.
    #[inline]
    pub(crate) fn pop(&mut self, peer: u32, tag: u64) -> Option<u32> {
        let bucket = self.bucket(peer, tag);
        let mut at = self.buckets[bucket].first()?;
        loop {
            let node = &mut self.nodes[at];
            if node.tag == tag && node.peer == peer {
                let value = node.value;
                self.buckets[bucket].remove(&mut self.nodes, at);
                self.nodes.discard(at);
                return Some(value);
            }
            at = node.links().next()?;
        }
    }

    /// Takes the value of a node.
    #[inline]
    pub(crate) fn remove(&mut self, node: u32) -> Option<u32> {
        let (peer, tag) = self.nodes.get(node).map(|node| (node.peer, node.tag))?;
        let bucket = self.bucket(peer, tag);
        self.buckets[bucket].remove(&mut self.nodes, node);
        self.nodes.remove(node).map(|node| node.value)
    }

    fn grow(&mut self) {
        let doubled = vec![List::default(); 2 * self.buckets.len()];
        for list in std::mem::replace(&mut self.buckets, doubled) {
            for node in list.to_vec(&mut self.nodes) {
                let bucket = self.bucket(self.nodes[node].peer, self.nodes[node].tag);
                self.buckets[bucket].push_back(&mut self.nodes, node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};

    proptest! {
        #[test]
        fn behaves_as_a_queue_per_key(
            steps in prop::collection::vec((0u8..10, 0u32..3, 0u64..40), 1..800)
        ) {
            let mut table = MatchTable::default();
            let mut model: HashMap<(u32, u64), VecDeque<(u32, u32)>> = HashMap::new();
            for (value, (what, peer, tag)) in steps.into_iter().enumerate() {
                let queue = model.entry((peer, tag)).or_default();
                let value = value as u32;
                match what {
                    0..5 => queue.push_back((value, table.push_back(peer, tag, value))),
                    5 => queue.push_front((value, table.push_front(peer, tag, value))),
                    6 => if let Some((value, node)) = queue.pop_back() {
                        prop_assert_eq!(table.remove(node), Some(value));
                    },
                    _ => prop_assert_eq!(
                        table.pop(peer, tag),
                        queue.pop_front().map(|(value, _)| value)
                    ),
                }
            }
            for ((peer, tag), queue) in model {
                for (value, _) in queue {
                    prop_assert_eq!(table.pop(peer, tag), Some(value));
                }
                prop_assert_eq!(table.pop(peer, tag), None);
            }
        }
    }
}
