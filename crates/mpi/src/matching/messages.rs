//! Messages that are held until their receives are posted.
//!
//! A message is in a hash table under its context, source and tag. From the first receive on that leaves source or tag open,
//! messages are in the table under that kind of pattern, too: so a program without wildcards pays nothing for them.

use causeway_engine::lists::{Bucket, Linked, Links};
use causeway_engine::matcher::table::{Filed, Table};

use super::key::{KINDS, Key, Kind};

/// See the module's page.
#[derive(Default)]
pub(super) struct Messages {
    /// Message `m` under the pattern of kind `k` is number `KINDS * m + k`.
    table: Table<Entry>,
    /// The kinds of wildcards that messages are in the table under.
    wildcards: Vec<Kind>,
    holding: usize,
    /// The first and the last place in the order of arrival that was given to a message.
    first: i64,
    last: i64,
}

#[derive(Clone)]
struct Entry {
    key: Key,
    /// The place in the order of all held messages, or [`NOT_HELD`]. Set in the entry of kind 0
    /// only.
    place: i64,
    bucket: Links,
}

const NOT_HELD: i64 = i64::MIN;

impl From<Key> for Entry {
    fn from(key: Key) -> Self {
        Self {
            key,
            place: NOT_HELD,
            bucket: Links::default(),
        }
    }
}

impl Linked<Bucket> for Entry {
    #[inline(always)]
    fn links(&mut self) -> &mut Links {
        &mut self.bucket
    }
}

impl Filed for Entry {
    type Key = Key;

    #[inline(always)]
    fn key(&self) -> Key {
        #[cfg(test)]
        super::key::looks::count();
        self.key
    }

    #[inline(always)]
    fn renew(&mut self, key: Key) {
        self.key = key;
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

#[inline(always)]
fn number(message: u32, kind: Kind) -> u32 {
    KINDS * message + kind
}

impl Messages {
    pub(super) fn holding(&self) -> usize {
        self.holding
    }

    #[inline]
    pub(super) fn hold(&mut self, message: u32, peer: u32, word: u64) {
        self.last += 1;
        self.keep(message, peer, word, self.last, Table::push_back);
    }

    pub(super) fn hold_first(&mut self, message: u32, peer: u32, word: u64) {
        self.first -= 1;
        self.keep(message, peer, word, self.first, Table::push_front);
    }

    #[inline]
    fn keep(
        &mut self,
        message: u32,
        peer: u32,
        word: u64,
        place: i64,
        push: impl Fn(&mut Table<Entry>, u32),
    ) {
        self.holding += 1;
        for kind in std::iter::once(0).chain(self.wildcards.iter().copied()) {
            let number = number(message, kind);
            let key = Key::of_message(peer, word, kind);
            self.table.nodes.renew(number, key);
            push(&mut self.table, number);
        }
        self.table.nodes[number(message, 0)].place = place;
    }

    #[inline]
    pub(super) fn discard(&mut self, message: u32) {
        self.holding -= 1;
        self.table.nodes[number(message, 0)].place = NOT_HELD;
        for kind in std::iter::once(0).chain(self.wildcards.iter().copied()) {
            self.table.remove(number(message, kind));
        }
    }

    #[inline]
    pub(super) fn take(&mut self, key: Key) -> Option<u32> {
        let message = self.find(key)?;
        self.discard(message);
        Some(message)
    }

    #[inline]
    pub(super) fn find(&mut self, key: Key) -> Option<u32> {
        if self.holding == 0 {
            return None;
        }
        if key.kind != 0 && !self.wildcards.contains(&key.kind) {
            self.find_by(key.kind);
        }
        self.table.first(key).map(|number| number / KINDS)
    }

    /// Has messages found by patterns of this kind from now on.
    #[cold]
    fn find_by(&mut self, kind: Kind) {
        let nodes = &self.table.nodes;
        let exact = (0..nodes.len() as u32).step_by(KINDS as usize);
        let held = exact.filter(|number| nodes[*number].place != NOT_HELD);
        let mut held = Vec::from_iter(held);
        held.sort_unstable_by_key(|number| nodes[*number].place);
        for exact in held {
            let Key {
                context,
                source,
                tag,
                ..
            } = self.table.nodes[exact].key;
            let word = u64::from(context) << 32 | u64::from(tag);
            let number = exact + kind;
            let key = Key::of_message(source, word, kind);
            self.table.nodes.renew(number, key);
            self.table.push_back(number);
        }
        self.wildcards.push(kind);
    }
}
