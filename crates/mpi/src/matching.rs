//! Matching as MPI has it (MPI 5.0 §3.5): by communicator, source and tag, where a receive may leave source and tag
//! open. Messages of one source match in the order in which they were sent, receives in the order in which they
//! were posted.
//!
//! A receive waits in one of four tables, by which of source and tag it names; a message is compared with the
//! first of each and takes the receive that was posted first. A message that is held is in all four.
//! So a match without wildcards costs the same however many others wait.

use std::collections::{BTreeMap, HashMap};

use causeway_engine::matcher::Matcher;

/// The messages that a receive matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpiPattern {
    /// The communicator's context.
    pub context: u32,
    /// The peer that is the source; any if `None`.
    pub source: Option<u32>,
    /// The tag; any if `None`.
    pub tag: Option<u32>,
}

impl MpiPattern {
    fn is_of(self, peer: u32, word: u64) -> bool {
        self.context == (word >> 32) as u32
            && self.source.is_none_or(|source| source == peer)
            && self.tag.is_none_or(|tag| tag == word as u32)
    }

    /// Whether it matches a message of `peer`.
    pub fn matches(self, (peer, word): (u32, u64)) -> bool {
        self.is_of(peer, word)
    }

    /// The word that a message of this communicator and tag carries.
    pub fn word(context: u32, tag: u32) -> u64 {
        u64::from(context) << 32 | u64::from(tag)
    }
}

type Key = (u32, Option<u32>, Option<u32>);

fn key(pattern: MpiPattern) -> Key {
    (pattern.context, pattern.source, pattern.tag)
}

/// The four patterns that a message matches.
fn keys(peer: u32, word: u64) -> [Key; 4] {
    let (context, tag) = ((word >> 32) as u32, word as u32);
    [
        (context, Some(peer), Some(tag)),
        (context, None, Some(tag)),
        (context, Some(peer), None),
        (context, None, None),
    ]
}

/// By place in the order.
type Line = BTreeMap<i64, u32>;

/// See the module's page.
#[derive(Default)]
pub struct Mpi {
    receives: HashMap<Key, Line>,
    /// The pattern and the place of each receive, by number.
    patterns: Vec<Option<(MpiPattern, i64)>>,
    /// Receives that wait and name a source, by that.
    by_source: HashMap<u32, Line>,
    messages: HashMap<Key, Line>,
    /// The peer, the word and the place of each message, by number.
    held: Vec<Option<(u32, u64, i64)>>,
    holding: usize,
    first: i64,
    last: i64,
}

fn add<K: std::hash::Hash + Eq>(table: &mut HashMap<K, Line>, key: K, place: i64, index: u32) {
    table.entry(key).or_default().insert(place, index);
}

fn remove<K: std::hash::Hash + Eq>(table: &mut HashMap<K, Line>, key: K, place: i64) {
    if let Some(line) = table.get_mut(&key) {
        line.remove(&place);
        if line.is_empty() {
            table.remove(&key);
        }
    }
}

fn at<T>(table: &mut Vec<Option<T>>, index: u32) -> &mut Option<T> {
    let index = index as usize;
    if table.len() <= index {
        table.resize_with(index + 1, || None);
    }
    &mut table[index]
}

impl Mpi {
    fn behind(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn before(&mut self) -> i64 {
        self.first -= 1;
        self.first
    }

    fn wait(&mut self, receive: u32, pattern: MpiPattern, place: i64) {
        *at(&mut self.patterns, receive) = Some((pattern, place));
        add(&mut self.receives, key(pattern), place, receive);
        if let Some(source) = pattern.source {
            add(&mut self.by_source, source, place, receive);
        }
    }

    fn keep(&mut self, message: u32, peer: u32, word: u64, place: i64) {
        *at(&mut self.held, message) = Some((peer, word, place));
        self.holding += 1;
        for key in keys(peer, word) {
            add(&mut self.messages, key, place, message);
        }
    }
}

impl Matcher for Mpi {
    type Pattern = MpiPattern;

    fn only_peer(pattern: MpiPattern) -> Option<u32> {
        pattern.source
    }

    fn tag(pattern: MpiPattern) -> u64 {
        pattern.tag.unwrap_or(0).into()
    }

    fn post(&mut self, receive: u32, pattern: MpiPattern) {
        let place = self.behind();
        self.wait(receive, pattern, place);
    }

    fn remember(&mut self, receive: u32, pattern: MpiPattern) {
        *at(&mut self.patterns, receive) = Some((pattern, 0));
    }

    fn post_again(&mut self, receive: u32) {
        let place = self.before();
        if let Some((pattern, _)) = *at(&mut self.patterns, receive) {
            self.wait(receive, pattern, place);
        }
    }

    fn withdraw(&mut self, receive: u32) {
        if let Some((pattern, place)) = *at(&mut self.patterns, receive) {
            remove(&mut self.receives, key(pattern), place);
            if let Some(source) = pattern.source {
                remove(&mut self.by_source, source, place);
            }
        }
    }

    fn arrive(&mut self, peer: u32, word: u64) -> Option<u32> {
        let lines = keys(peer, word);
        let lines = lines.iter().filter_map(|key| self.receives.get(key));
        let firsts = lines.filter_map(BTreeMap::first_key_value);
        let (_, &receive) = firsts.min_by_key(|(place, _)| **place)?;
        self.withdraw(receive);
        Some(receive)
    }

    /// No receive that leaves source or tag open may stand before it.
    fn is_next_for(&mut self, receive: u32) -> Option<(u32, u64)> {
        let (pattern, _) = (*at(&mut self.patterns, receive))?;
        let (source, tag) = (pattern.source?, pattern.tag?);
        let word = MpiPattern::word(pattern.context, tag);
        let lines = keys(source, word);
        let lines = lines.iter().filter_map(|key| self.receives.get(key));
        let firsts = lines.filter_map(BTreeMap::first_key_value);
        let (_, &first) = firsts.min_by_key(|(place, _)| **place)?;
        (first == receive).then_some((source, word))
    }

    fn receives_of(&mut self, peer: u32, most: usize) -> Vec<u32> {
        let line = self.by_source.get(&peer);
        line.into_iter()
            .flat_map(BTreeMap::values)
            .copied()
            .take(most)
            .collect()
    }

    fn hold(&mut self, message: u32, peer: u32, word: u64) {
        let place = self.behind();
        self.keep(message, peer, word, place);
    }

    fn hold_first(&mut self, message: u32, peer: u32, word: u64) {
        let place = self.before();
        self.keep(message, peer, word, place);
    }

    fn discard(&mut self, message: u32) {
        if let Some((peer, word, place)) = at(&mut self.held, message).take() {
            self.holding -= 1;
            for key in keys(peer, word) {
                remove(&mut self.messages, key, place);
            }
        }
    }

    fn take_for(&mut self, receive: u32) -> Option<u32> {
        let (pattern, _) = (*at(&mut self.patterns, receive))?;
        self.take(pattern)
    }

    fn take(&mut self, pattern: MpiPattern) -> Option<u32> {
        let message = self.find(pattern)?;
        self.discard(message);
        Some(message)
    }

    fn find(&mut self, pattern: MpiPattern) -> Option<u32> {
        let line = self.messages.get(&key(pattern))?;
        line.first_key_value().map(|(_, message)| *message)
    }

    fn holds_messages(&self) -> bool {
        self.holding > 0
    }
}
