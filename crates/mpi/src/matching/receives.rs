//! Receives that wait.
//!
//! Mostly messages come in the order in which their receives were posted: a new receive is only put behind the others of
//! its source (`recent`; those of any source have a line of their own), and the first of these is looked at when a
//! message comes. Only if that does not match are they put into a queue for each of their patterns ([`Queues`]), where new ones go
//! while any waits there. If there are too many patterns, all are put into a hash table, once each, where a message is looked up once for each kind of
//! pattern present. Entries of the table are always older than others in the same line, and a line that has queues has no recent ones.

use causeway_engine::lists::{Bucket, Linked, Links, List};
use causeway_engine::matcher::table::{Filed, Nodes, Table};

use super::key::{ANY_SOURCE, KINDS, Key, Kind};
use super::queues::Queues;

/// See the module's page.
#[derive(Default)]
pub(super) struct Receives {
    table: Table<Node>,
    /// How many of each kind are in the table.
    filed: [usize; KINDS as usize],
    /// By source, behind that of receives from any.
    lines: Vec<Line>,
    /// The places of those before all others, and behind.
    first: i64,
    last: i64,
}

/// The receives of one source that wait.
#[derive(Default)]
struct Line {
    /// Those that are in the table.
    filed: List,
    /// Those that are not, all of them younger.
    recent: List,
    /// Where messages have come in another order than their receives were posted in.
    queues: Option<Box<Queues>>,
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
    list: Which,
    /// In one of the lists of [`Line`].
    links: Links,
    /// In the table.
    bucket: Links,
}

/// Which of the lists of a [`Line`] a receive waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Recent,
    Filed,
    /// The queue of this number.
    Queue(u8),
}

impl From<Key> for Node {
    fn from(key: Key) -> Self {
        Self {
            key,
            place: 0,
            list: Which::Recent,
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
        (self.key, self.list) = (key, Which::Recent);
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
        self.lines.resize_with(line + 1, Line::default);
    }

    #[inline(always)]
    pub(super) fn post(&mut self, receive: u32, key: Key) {
        self.remember(receive, key);
        self.last += 1;
        let nodes = &mut self.table.nodes;
        nodes[receive].place = self.last;
        let line = line_of(key);
        match self.lines[line].queues {
            None => self.lines[line].recent.push_back(nodes, receive),
            Some(_) => self.post_to_queue(line, receive),
        }
    }

    #[inline(never)]
    fn post_to_queue(&mut self, line: usize, receive: u32) {
        let queues = self.lines[line].queues.as_ref();
        if queues.is_none_or(|queues| queues.are_empty()) {
            // Messages may come in the order of their receives again.
            self.lines[line].queues = None;
        }
        if !self.queue(line, receive) {
            self.file(line);
            let recent = &mut self.lines[line].recent;
            recent.push_back(&mut self.table.nodes, receive);
        }
    }

    /// Puts a receive that is in no list into the queue of its pattern. `false` if there is none for it.
    fn queue(&mut self, line: usize, receive: u32) -> bool {
        let Some(queues) = &mut self.lines[line].queues else {
            return false;
        };
        let nodes = &mut self.table.nodes;
        let Some(number) = queues.of(nodes[receive].key) else {
            return false;
        };
        nodes[receive].list = Which::Queue(number);
        queues.get(number).push_back(nodes, receive);
        true
    }

    /// Puts the recent receives of a line, the first of which does not match a message, where those that match are found.
    fn separate(&mut self, line: usize) {
        let separated = &mut self.lines[line];
        if separated.filed.is_empty() && separated.queues.is_none() {
            separated.queues = Some(Box::default());
            while let Some(receive) = self.lines[line].recent.first() {
                (self.lines[line].recent).remove(&mut self.table.nodes, receive);
                if !self.queue(line, receive) {
                    // It is the oldest of those that are left.
                    let recent = &mut self.lines[line].recent;
                    recent.push_front(&mut self.table.nodes, receive);
                    break;
                }
            }
            if self.lines[line].recent.is_empty() {
                return;
            }
        }
        self.file(line);
    }

    pub(super) fn post_again(&mut self, receive: u32) {
        let line = self.table.nodes[receive].line();
        self.file(line);
        self.first -= 1;
        let node = &mut self.table.nodes[receive];
        (node.place, node.list) = (self.first, Which::Filed);
        self.filed[node.key.kind as usize] += 1;
        self.table.push_front(receive);
        let filed = &mut self.lines[line].filed;
        filed.push_front(&mut self.table.nodes, receive);
    }

    /// Puts all receives of a line into the table.
    fn file(&mut self, line: usize) {
        // Those in queues are older than recent ones.
        if let Some(mut queues) = self.lines[line].queues.take() {
            let place = |nodes: &Nodes<Node>, receive: &u32| nodes[*receive].place;
            while let Some(receive) = {
                let nodes = &self.table.nodes;
                queues.firsts().min_by_key(|receive| place(nodes, receive))
            } {
                let nodes = &mut self.table.nodes;
                if let Which::Queue(number) = nodes[receive].list {
                    queues.get(number).remove(nodes, receive);
                }
                self.file_one(line, receive);
            }
        }
        while let Some(receive) = self.lines[line].recent.first() {
            (self.lines[line].recent).remove(&mut self.table.nodes, receive);
            self.file_one(line, receive);
        }
    }

    /// Puts a receive that is in no list into the table.
    fn file_one(&mut self, line: usize, receive: u32) {
        let nodes = &mut self.table.nodes;
        self.lines[line].filed.push_back(nodes, receive);
        nodes[receive].list = Which::Filed;
        self.filed[nodes[receive].key.kind as usize] += 1;
        self.table.push_back(receive);
    }

    #[inline(always)]
    pub(super) fn withdraw(&mut self, receive: u32) {
        let node = &self.table.nodes[receive];
        let (kind, list) = (node.key.kind as usize, node.list);
        let line = &mut self.lines[node.line()];
        match list {
            Which::Recent => line.recent.remove(&mut self.table.nodes, receive),
            Which::Filed => {
                line.filed.remove(&mut self.table.nodes, receive);
                self.filed[kind] -= 1;
                self.table.remove(receive);
            }
            Which::Queue(number) => {
                if let Some(queues) = &mut line.queues {
                    let queue = queues.get(number);
                    queue.remove(&mut self.table.nodes, receive);
                }
            }
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
        if lines
            .iter()
            .all(|line| self.lines.get(*line).is_none_or(Line::is_empty))
        {
            return None;
        }
        let mut oldest = self.oldest_filed(peer, word);
        for line in lines {
            let first = self.lines.get(line).and_then(|line| line.recent.first());
            if let Some(first) = first.filter(|first| self.is_older(*first, oldest)) {
                if self.table.nodes[first].matches(peer, word) {
                    oldest = Some(first);
                    continue;
                }
                self.separate(line);
                oldest = self.oldest_filed_or(peer, word, oldest);
            }
            oldest = self.oldest_queued_or(line, (peer, word), oldest);
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
            oldest = self.oldest_queued_or(line, (peer, word), oldest);
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

    /// The oldest receive in a line's queues that a message belongs to, or this one if it is older.
    fn oldest_queued_or(
        &self,
        line: usize,
        (peer, word): (u32, u64),
        other: Option<u32>,
    ) -> Option<u32> {
        let line = self.lines.get(line);
        let Some(queues) = line.and_then(|line| line.queues.as_deref()) else {
            return other;
        };
        let firsts = queues.firsts_for(peer, word).chain(other);
        firsts.min_by_key(|receive| self.table.nodes[*receive].place)
    }

    /// The receives that name a source, oldest first, at most so many.
    pub(super) fn of_source(&self, source: u32, most: usize) -> Vec<u32> {
        let Some(line) = self.lines.get(line_of_source(source)) else {
            return Vec::new();
        };
        let nodes = &self.table.nodes;
        let behind = |index: &u32| nodes[*index].links.next();
        let from = |first| std::iter::successors(Some(first), behind).take(most);
        let queues = line.queues.iter().flat_map(|queues| queues.firsts());
        let firsts = [line.filed.first(), line.recent.first()];
        let firsts = firsts.into_iter().flatten().chain(queues);
        let mut found: Vec<u32> = firsts.flat_map(from).collect();
        found.sort_unstable_by_key(|receive| nodes[*receive].place);
        found.truncate(most);
        found
    }
}

impl Line {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        let queues = self.queues.as_ref();
        self.filed.is_empty()
            && self.recent.is_empty()
            && queues.is_none_or(|queues| queues.are_empty())
    }
}
