//! By peer and tag, both exactly (BMI's rule).
//!
//! Mostly messages arrive in the order in which their receives were posted: a new receive is only
//! appended to the others of its peer (`recent`), and a message is compared with the first of
//! these. If it does not match, all of them are moved to a hash table, once each, so that no order
//! of tags costs more than a look-up in the table. Receives in the table are always older than
//! recent ones.
//!
//! One hash table serves all peers, so that a peer without traffic takes no memory here.

use super::Matcher;
use super::table::{Filed, Table};
use crate::lists::{Bucket, Linked, Links, List};

/// Recent receives that are compared to find out whether one of them is the first of its tag.
const LOOKED_AT: usize = 16;

/// A pattern: the messages of one peer with one tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FromTag {
    /// The peer's number.
    pub peer: u32,
    /// The tag.
    pub tag: u64,
}

/// See the module's page.
#[derive(Default)]
pub struct ByTag {
    receives: Table<Node>,
    /// By number of the peer.
    peers: Vec<Waiting>,
    messages: Table<Node>,
}

/// The waiting receives of one peer.
#[derive(Default, Clone)]
struct Waiting {
    /// Those in the table.
    filed: List,
    /// The others, all of them younger.
    recent: List,
}

/// What waits for a peer and a tag: half a cache line.
#[derive(Clone)]
#[repr(align(32))]
struct Node {
    tag: u64,
    peer: u32,
    is_filed: bool,
    /// Links in one of the lists of [`Waiting`].
    links: Links,
    /// Links in a bucket of the table.
    bucket: Links,
}

impl From<FromTag> for Node {
    fn from(key: FromTag) -> Self {
        Self {
            tag: key.tag,
            peer: key.peer,
            is_filed: false,
            links: Links::default(),
            bucket: Links::default(),
        }
    }
}

impl Linked for Node {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Linked<Bucket> for Node {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.bucket
    }
}

impl Filed for Node {
    type Key = FromTag;

    #[inline(always)]
    fn key(&self) -> FromTag {
        FromTag {
            peer: self.peer,
            tag: self.tag,
        }
    }

    #[inline(always)]
    fn renew(&mut self, key: FromTag) {
        (self.tag, self.peer, self.is_filed) = (key.tag, key.peer, false);
    }

    #[inline(always)]
    fn behind(&self) -> Option<u32> {
        self.bucket.next()
    }

    #[inline(always)]
    fn words(key: FromTag) -> (u64, u64) {
        (key.tag, key.peer.into())
    }
}

impl ByTag {
    /// Moves the recent receives of a peer to the table.
    fn file(&mut self, peer: u32) {
        let waiting = &mut self.peers[peer as usize];
        while let Some(receive) = waiting.recent.first() {
            let nodes = &mut self.receives.nodes;
            waiting.recent.remove(nodes, receive);
            waiting.filed.push_back(nodes, receive);
            nodes[receive].is_filed = true;
            self.receives.push_back(receive);
        }
    }

    #[inline(never)]
    fn arrive_filed(&mut self, key: FromTag) -> Option<u32> {
        let mut found = self.receives.first(key);
        if found.is_none() {
            let recent = &mut self.peers[key.peer as usize].recent;
            let first = recent.first()?;
            if self.receives.nodes[first].tag == key.tag {
                recent.remove(&mut self.receives.nodes, first);
                return Some(first);
            }
            self.file(key.peer);
            found = self.receives.first(key);
        }
        let receive = found?;
        self.remove_filed(receive);
        Some(receive)
    }

    /// Whether a recent receive is the first with its key among them. `false` if a few of them do
    /// not suffice to find out.
    fn is_first_recent(&self, receive: u32, key: FromTag) -> bool {
        let nodes = &self.receives.nodes;
        let first = self.peers[key.peer as usize].recent.first();
        let behind = |index: &u32| nodes[*index].links.next();
        let mut few = std::iter::successors(first, behind).take(LOOKED_AT);
        few.find(|index| nodes[*index].tag == key.tag) == Some(receive)
    }

    fn remove_filed(&mut self, receive: u32) {
        let peer = self.receives.nodes[receive].peer as usize;
        self.receives.remove(receive);
        let filed = &mut self.peers[peer].filed;
        filed.remove(&mut self.receives.nodes, receive);
    }

    /// Posts a receive of a number, or from a peer, that is new.
    #[cold]
    #[inline(never)]
    fn post_first(&mut self, receive: u32, pattern: FromTag) {
        self.remember(receive, pattern);
        let waiting = &mut self.peers[pattern.peer as usize];
        waiting.recent.push_back(&mut self.receives.nodes, receive);
    }

    #[cold]
    #[inline(never)]
    fn add_peer(&mut self, peer: u32) {
        self.peers.resize(peer as usize + 1, Waiting::default());
    }
}

impl Matcher for ByTag {
    type Pattern = FromTag;

    #[inline(always)]
    fn only_peer(pattern: FromTag) -> Option<u32> {
        Some(pattern.peer)
    }

    #[inline(always)]
    fn tag(pattern: FromTag) -> u64 {
        pattern.tag
    }

    #[inline(always)]
    fn post(&mut self, receive: u32, pattern: FromTag) {
        let nodes = &mut self.receives.nodes;
        let waiting = self.peers.get_mut(pattern.peer as usize);
        let (Some(waiting), Some(node)) = (waiting, nodes.get_mut(receive)) else {
            return self.post_first(receive, pattern);
        };
        node.renew(pattern);
        if let Some(before) = waiting.recent.append(receive, &mut node.links) {
            nodes[before].links.set_next(receive);
        }
    }

    #[inline(always)]
    fn remember(&mut self, receive: u32, pattern: FromTag) {
        self.receives.nodes.renew(receive, pattern);
        if self.peers.len() <= pattern.peer as usize {
            self.add_peer(pattern.peer);
        }
    }

    fn post_again(&mut self, receive: u32) {
        let peer = self.receives.nodes[receive].peer;
        self.file(peer);
        self.receives.nodes[receive].is_filed = true;
        self.receives.push_front(receive);
        let filed = &mut self.peers[peer as usize].filed;
        filed.push_front(&mut self.receives.nodes, receive);
    }

    fn withdraw(&mut self, receive: u32) {
        let node = &self.receives.nodes[receive];
        if node.is_filed {
            return self.remove_filed(receive);
        }
        let recent = &mut self.peers[node.peer as usize].recent;
        recent.remove(&mut self.receives.nodes, receive);
    }

    #[inline(always)]
    fn arrive(&mut self, peer: u32, tag: u64) -> Option<u32> {
        let waiting = self.peers.get_mut(peer as usize)?;
        match waiting.recent.first() {
            Some(first) if waiting.filed.is_empty() && self.receives.nodes[first].tag == tag => {
                waiting.recent.remove(&mut self.receives.nodes, first);
                Some(first)
            }
            _ => self.arrive_filed(FromTag { peer, tag }),
        }
    }

    fn is_next_for(&mut self, receive: u32) -> Option<(u32, u64)> {
        let node = &self.receives.nodes[receive];
        let (key, is_filed) = (node.key(), node.is_filed);
        let filed = self.receives.first(key);
        let is_next = match is_filed {
            true => filed == Some(receive),
            false => filed.is_none() && self.is_first_recent(receive, key),
        };
        is_next.then_some((key.peer, key.tag))
    }

    fn receives_of(&mut self, peer: u32, most: usize) -> Vec<u32> {
        let Some(waiting) = self.peers.get(peer as usize) else {
            return Vec::new();
        };
        let nodes = &self.receives.nodes;
        let behind = |index: &u32| nodes[*index].links.next();
        [&waiting.filed, &waiting.recent]
            .into_iter()
            .flat_map(|list| std::iter::successors(list.first(), behind))
            .take(most)
            .collect()
    }

    fn hold(&mut self, message: u32, peer: u32, tag: u64) {
        self.messages.nodes.renew(message, FromTag { peer, tag });
        self.messages.push_back(message);
    }

    fn hold_first(&mut self, message: u32, peer: u32, tag: u64) {
        self.messages.nodes.renew(message, FromTag { peer, tag });
        self.messages.push_front(message);
    }

    fn discard(&mut self, message: u32) {
        self.messages.remove(message);
    }

    fn take_for(&mut self, receive: u32) -> Option<u32> {
        self.take(self.receives.nodes[receive].key())
    }

    fn take(&mut self, pattern: FromTag) -> Option<u32> {
        let message = self.messages.first(pattern)?;
        self.messages.remove(message);
        Some(message)
    }

    fn find(&mut self, pattern: FromTag) -> Option<u32> {
        self.messages.first(pattern)
    }

    #[inline(always)]
    fn holds_messages(&self) -> bool {
        !self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::accesses;
    use super::*;
    use proptest::prelude::*;

    /// What was posted or held, in order.
    #[derive(Default)]
    struct Model(Vec<(u32, FromTag)>);

    impl Model {
        fn find(&self, key: FromTag) -> Option<u32> {
            let mut all = self.0.iter();
            all.find(|(_, other)| *other == key)
                .map(|(index, _)| *index)
        }

        fn remove(&mut self, index: u32) {
            self.0.retain(|(other, _)| *other != index);
        }
    }

    /// How many nodes an operation accesses on average: posting a receive, matching a message, holding one, taking a held one.
    /// Messages arrive and are taken in another order than that of posting. The memory has been allocated before.
    fn cost(many: u32) -> f64 {
        let mut matcher = ByTag::default();
        let order = || (0..many).map(|nth| nth * 7919 % many);
        for _ in 0..2 {
            accesses::taken();
            for tag in 0..many {
                let (peer, number) = (0, tag.into());
                matcher.post(tag, FromTag { peer, tag: number });
            }
            for tag in order() {
                assert_eq!(matcher.arrive(0, tag.into()), Some(tag));
            }
            for tag in 0..many {
                matcher.hold(tag, 0, tag.into());
            }
            for tag in order() {
                let key = FromTag {
                    peer: 0,
                    tag: tag.into(),
                };
                assert_eq!(matcher.take(key), Some(tag));
            }
        }
        accesses::taken() as f64 / f64::from(4 * many)
    }

    #[test]
    fn ten_thousand_cost_no_more_than_twice_what_ten_do() {
        let (few, many) = (cost(10), cost(10_000));
        assert!(few > 0.0 && many <= 2.0 * few, "{few} {many}");
    }

    proptest! {
        /// A few peers and tags, so that most keys have several entries; numbers are used again.
        #[test]
        fn behaves_as_lists_do(
            steps in prop::collection::vec((0u8..10, 0u32..3, 0u64..40, 0usize..300), 1..1500),
        ) {
            let mut matcher = ByTag::default();
            let (mut receives, mut messages) = (Model::default(), Model::default());
            let mut free: Vec<u32> = (0..1500).collect();
            // The receive that was matched last.
            let mut last = None;
            for (what, peer, tag, nth) in steps {
                let key = FromTag { peer, tag };
                match what {
                    0..3 => {
                        let index = free.pop().unwrap();
                        matcher.post(index, key);
                        receives.0.push((index, key));
                    }
                    3..5 => {
                        let found = matcher.arrive(peer, tag);
                        prop_assert_eq!(found, receives.find(key));
                        free.extend(last.take().map(|(index, _)| index));
                        if let Some(index) = found {
                            receives.remove(index);
                            last = Some((index, key));
                        }
                    }
                    5 => if let Some((index, key)) = last.take() {
                        let held = messages.find(key);
                        prop_assert_eq!(matcher.take_for(index), held);
                        match held {
                            Some(message) => {
                                messages.remove(message);
                                free.extend([index, message]);
                            }
                            None => {
                                matcher.post_again(index);
                                receives.0.insert(0, (index, key));
                            }
                        }
                    },
                    6 => if !receives.0.is_empty() {
                        let (index, _) = receives.0.remove(nth % receives.0.len());
                        matcher.withdraw(index);
                        free.push(index);
                    },
                    7 => {
                        let index = free.pop().unwrap();
                        if nth % 4 == 0 {
                            matcher.hold_first(index, peer, tag);
                            messages.0.insert(0, (index, key));
                        } else {
                            matcher.hold(index, peer, tag);
                            messages.0.push((index, key));
                        }
                    }
                    8 => {
                        prop_assert_eq!(matcher.find(key), messages.find(key));
                        let found = matcher.take(key);
                        prop_assert_eq!(found, messages.find(key));
                        if let Some(index) = found {
                            messages.remove(index);
                            free.push(index);
                        }
                    }
                    _ => if !messages.0.is_empty() {
                        let (index, _) = messages.0.remove(nth % messages.0.len());
                        matcher.discard(index);
                        free.push(index);
                    },
                }
                for (index, key) in &receives.0 {
                    if let Some(next) = matcher.is_next_for(*index) {
                        prop_assert_eq!(next, (key.peer, key.tag));
                        prop_assert_eq!(receives.find(*key), Some(*index));
                    }
                }
                prop_assert_eq!(matcher.holds_messages(), !messages.0.is_empty());
                let mine = receives.0.iter().filter(|(_, key)| key.peer == peer);
                let mut mine: Vec<_> = mine.map(|(index, _)| *index).collect();
                let mut listed = matcher.receives_of(peer, usize::MAX);
                mine.sort_unstable();
                listed.sort_unstable();
                prop_assert_eq!(listed, mine);
            }
        }
    }
}
