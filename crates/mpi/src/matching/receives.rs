//! Receives that wait.
//!
//! Mostly messages come in the order in which their receives were posted: a new receive is only put behind the others of its
//! source (`recent`; those from any source have a line of their own), and a message is compared with the first of these.
//! Only if that does not match are all of them put into a hash table, once each, where a message is looked up once for each
//! kind of pattern present. Entries of the table are always older than recent ones in the same line.

use causeway_engine::lists::{Bucket, Linked, Links, List};
use causeway_engine::matcher::table::{Filed, Table};

use super::key::{ANY_SOURCE, KINDS, Key, Kind};

/// See the module's page.
#[derive(Default)]
pub(super) struct Receives {
    table: Table<Node>,
    /// How many of each kind are in the table.
    filed: [usize; KINDS as usize],
    /// By source, behind that of receives from any.
    lines: Vec<Line>,
    /// The first and the last place in the order of posting that was given to a receive.
    first: i64,
    last: i64,
}

/// The receives of one source that wait.
#[derive(Default, Clone, Copy)]
struct Line {
    /// Those that are in the table.
    filed: List,
    /// Those that are not, all of them younger.
    recent: List,
}

/// The line of receives from any source.
const ANY: usize = 0;

/// Recent receives of a line that are compared to find out whether a receive is the next to get a message.
const LOOKED_AT: usize = 16;

#[inline(always)]
fn line_of_source(source: u32) -> usize {
    source as usize + 1
}

#[inline(always)]
fn line_of(key: Key) -> usize {
    match key.kind & ANY_SOURCE {
        0 => line_of_source(key.source),
        _ => ANY,
    }
}

#[derive(Clone)]
struct Node {
    key: Key,
    /// In the order of all.
    place: i64,
    is_filed: bool,
    /// In one of the lists of [`Line`].
    links: Links,
    /// In the table.
    bucket: Links,
}

impl From<Key> for Node {
    fn from(key: Key) -> Self {
        Self {
            key,
            place: 0,
            is_filed: false,
            links: Links::default(),
            bucket: Links::default(),
        }
    }
}

impl Linked for Node {
    #[inline(always)]
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Linked<Bucket> for Node {
    #[inline(always)]
    fn links(&mut self) -> &mut Links {
        &mut self.bucket
    }
}

impl Filed for Node {
    type Key = Key;

    #[inline(always)]
    fn key(&self) -> Key {
        #[cfg(test)]
        super::key::looks::count();
        self.key
    }

    #[inline(always)]
    fn renew(&mut self, key: Key) {
        (self.key, self.is_filed) = (key, false);
    }

    #[inline(always)]
    fn behind(&self) -> Option<u32> {
        self.bucket.next()
    }

    #[inline(always)]
    fn words(key: Key) -> (u64, u64) {
        key.words()
    }
}

impl Node {
    #[inline(always)]
    fn line(&self) -> usize {
        line_of(self.key)
    }

    /// Whether a message is one of those that it waits for.
    #[inline(always)]
    fn matches(&self, peer: u32, word: u64) -> bool {
        #[cfg(test)]
        super::key::looks::count();
        self.key.matches(peer, word)
    }
}

impl Receives {
    /// The pattern of a receive, if there has been one of this number.
    pub(super) fn key(&self, receive: u32) -> Option<Key> {
        self.table.nodes.get(receive).map(|node| node.key)
    }

    #[inline(always)]
    pub(super) fn remember(&mut self, receive: u32, key: Key) {
        self.table.nodes.renew(receive, key);
        let line = line_of(key);
        if self.lines.len() <= line {
            self.add_line(line);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_line(&mut self, line: usize) {
        self.lines.resize(line + 1, Line::default());
    }

    #[inline(always)]
    pub(super) fn post(&mut self, receive: u32, key: Key) {
        self.last += 1;
        let (at, nodes) = (line_of(key), &mut self.table.nodes);
        let (Some(line), Some(node)) = (self.lines.get_mut(at), nodes.get_mut(receive)) else {
            return self.post_first(receive, key);
        };
        (node.key, node.is_filed, node.place) = (key, false, self.last);
        if let Some(before) = line.recent.append(receive, &mut node.links) {
            nodes[before].links.set_next(receive);
        }
    }

    /// The same for a number, or a line, that is new.
    #[cold]
    #[inline(never)]
    fn post_first(&mut self, receive: u32, key: Key) {
        self.remember(receive, key);
        let nodes = &mut self.table.nodes;
        nodes[receive].place = self.last;
        self.lines[line_of(key)].recent.push_back(nodes, receive);
    }

    pub(super) fn post_again(&mut self, receive: u32) {
        let line = self.table.nodes[receive].line();
        self.file(line);
        self.first -= 1;
        let node = &mut self.table.nodes[receive];
        (node.place, node.is_filed) = (self.first, true);
        self.filed[node.key.kind as usize] += 1;
        self.table.push_front(receive);
        let filed = &mut self.lines[line].filed;
        filed.push_front(&mut self.table.nodes, receive);
    }

    /// Puts the recent receives of a line into the table.
    fn file(&mut self, line: usize) {
        let Line { filed, recent } = &mut self.lines[line];
        while let Some(receive) = recent.first() {
            let nodes = &mut self.table.nodes;
            recent.remove(nodes, receive);
            filed.push_back(nodes, receive);
            nodes[receive].is_filed = true;
            self.filed[nodes[receive].key.kind as usize] += 1;
            self.table.push_back(receive);
        }
    }

    #[inline(always)]
    pub(super) fn withdraw(&mut self, receive: u32) {
        let node = &self.table.nodes[receive];
        let line = node.line();
        if node.is_filed {
            self.filed[node.key.kind as usize] -= 1;
            self.table.remove(receive);
            let filed = &mut self.lines[line].filed;
            filed.remove(&mut self.table.nodes, receive);
        } else {
            let recent = &mut self.lines[line].recent;
            recent.remove(&mut self.table.nodes, receive);
        }
    }

    /// Takes the receive out that a message belongs to.
    #[inline(always)]
    pub(super) fn arrive(&mut self, peer: u32, word: u64) -> Option<u32> {
        let line = self.lines.get(line_of_source(peer));
        if let Some(line) = line
            && let Some(first) = line.recent.first()
            && line.filed.is_empty()
            && self.table.nodes[first].matches(peer, word)
            && self.lines[ANY].is_empty()
        {
            let recent = &mut self.lines[line_of_source(peer)].recent;
            recent.remove(&mut self.table.nodes, first);
            return Some(first);
        }
        self.arrive_among_others(peer, word)
    }

    #[inline(never)]
    fn arrive_among_others(&mut self, peer: u32, word: u64) -> Option<u32> {
        let lines = [ANY, line_of_source(peer)];
        let [any, own] = lines.map(|line| self.lines.get(line).copied().unwrap_or_default());
        if own.is_empty() && any.filed.is_empty() {
            // Mostly the only receive waits, and it leaves the source open.
            let first = any.recent.first()?;
            if self.table.nodes[first].matches(peer, word) {
                let recent = &mut self.lines[ANY].recent;
                recent.remove(&mut self.table.nodes, first);
                return Some(first);
            }
        }
        let mut oldest = self.oldest_filed(peer, word);
        for line in lines {
            let first = self.lines.get(line).and_then(|line| line.recent.first());
            let Some(first) = first.filter(|first| self.is_older(*first, oldest)) else {
                continue;
            };
            if !self.table.nodes[first].matches(peer, word) {
                self.file(line);
                oldest = self.oldest_filed_or(peer, word, oldest);
            } else {
                oldest = Some(first);
            }
        }
        self.withdraw(oldest?);
        oldest
    }

    /// The peer and the word of the only messages that a receive can get, if it gets the next of them. Where many wait, this
    /// may be unknown.
    pub(super) fn is_next_for(&self, receive: u32) -> Option<(u32, u64)> {
        let key = self.table.nodes[receive].key;
        if key.kind != 0 {
            return None;
        }
        let (peer, word) = key.message();
        let mut oldest = self.oldest_filed(peer, word);
        for line in [ANY, line_of_source(peer)] {
            if let Some(first) = self.first_recent(line, peer, word)?
                && self.is_older(first, oldest)
            {
                oldest = Some(first);
            }
        }
        (oldest == Some(receive)).then_some((peer, word))
    }

    /// The oldest recent receive of a line that a message matches; `None` if too many would have to be compared.
    fn first_recent(&self, line: usize, peer: u32, word: u64) -> Option<Option<u32>> {
        let mut at = self.lines[line].recent.first();
        for _ in 0..LOOKED_AT {
            let Some(index) = at else { return Some(None) };
            let node = &self.table.nodes[index];
            if node.matches(peer, word) {
                return Some(Some(index));
            }
            at = node.links.next();
        }
        None
    }

    fn is_older(&self, receive: u32, than: Option<u32>) -> bool {
        let place = |receive: u32| self.table.nodes[receive].place;
        than.is_none_or(|than| place(receive) < place(than))
    }

    /// The oldest receive in the table that a message belongs to.
    fn oldest_filed(&self, peer: u32, word: u64) -> Option<u32> {
        let kinds = (0..KINDS).filter(|kind| self.filed[*kind as usize] > 0);
        let first = |kind: Kind| self.table.first(Key::of_message(peer, word, kind));
        let firsts = kinds.filter_map(first);
        firsts.min_by_key(|receive| self.table.nodes[*receive].place)
    }

    /// The same, or one that is older.
    fn oldest_filed_or(&self, peer: u32, word: u64, other: Option<u32>) -> Option<u32> {
        match self.oldest_filed(peer, word) {
            Some(filed) if self.is_older(filed, other) => Some(filed),
            _ => other,
        }
    }

    /// The receives that name a source, oldest first, at most so many.
    pub(super) fn of_source(&self, source: u32, most: usize) -> Vec<u32> {
        let Some(line) = self.lines.get(line_of_source(source)) else {
            return Vec::new();
        };
        let nodes = &self.table.nodes;
        let behind = |index: &u32| nodes[*index].links.next();
        [&line.filed, &line.recent]
            .into_iter()
            .flat_map(|list| std::iter::successors(list.first(), behind))
            .take(most)
            .collect()
    }
}

impl Line {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.filed.is_empty() && self.recent.is_empty()
    }
}
