//! Matching as MPI has it (MPI 5.0 §3.5): by communicator, source and tag, where a receive may leave source and tag
//! open. Messages of one source match in the order in which they were sent, receives in the order in which they
//! were posted.
//!
//! A match costs the same however many others wait, and nothing is allocated for a message or a receive (`receives`,
//! `messages`).

mod key;
mod messages;
mod receives;

use causeway_engine::matcher::Matcher;

use key::{ANY_SOURCE, ANY_TAG, Key};
use messages::Messages;
use receives::Receives;

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

    #[inline(always)]
    fn key(self) -> Key {
        let any_tag = if self.tag.is_none() { ANY_TAG } else { 0 };
        let any_source = if self.source.is_none() { ANY_SOURCE } else { 0 };
        Key {
            context: self.context,
            source: self.source.unwrap_or(0),
            tag: self.tag.unwrap_or(0),
            kind: any_tag | any_source,
        }
    }

    /// The word that a message of this communicator and tag carries.
    pub fn word(context: u32, tag: u32) -> u64 {
        u64::from(context) << 32 | u64::from(tag)
    }
}

/// See the module's page.
#[derive(Default)]
pub struct Mpi {
    receives: Receives,
    messages: Messages,
    /// What the caller waits for itself.
    direct: Option<MpiPattern>,
}

impl Matcher for Mpi {
    type Pattern = MpiPattern;

    #[inline(always)]
    fn only_peer(pattern: MpiPattern) -> Option<u32> {
        pattern.source
    }

    #[inline(always)]
    fn tag(pattern: MpiPattern) -> u64 {
        pattern.tag.unwrap_or(0).into()
    }

    #[inline(always)]
    fn post(&mut self, receive: u32, pattern: MpiPattern) {
        self.receives.post(receive, pattern.key());
    }

    #[inline(always)]
    fn remember(&mut self, receive: u32, pattern: MpiPattern) {
        self.receives.remember(receive, pattern.key());
    }

    fn post_again(&mut self, receive: u32) {
        self.receives.post_again(receive);
    }

    fn withdraw(&mut self, receive: u32) {
        self.receives.withdraw(receive);
    }

    #[inline(always)]
    fn arrive(&mut self, peer: u32, word: u64) -> Option<u32> {
        self.receives.arrive(peer, word)
    }

    /// No receive with an open source or tag may precede it.
    fn is_next_for(&mut self, receive: u32) -> Option<(u32, u64)> {
        self.receives.is_next_for(receive)
    }

    #[inline(always)]
    fn await_directly(&mut self, pattern: Option<MpiPattern>) {
        self.direct = pattern;
    }

    #[inline(always)]
    fn is_awaited_directly(&self, peer: u32, word: u64) -> bool {
        self.direct
            .is_some_and(|pattern| pattern.matches((peer, word)))
    }

    fn receives_of(&mut self, peer: u32, most: usize) -> Vec<u32> {
        self.receives.of_source(peer, most)
    }

    fn hold(&mut self, message: u32, peer: u32, word: u64) {
        self.messages.hold(message, peer, word);
    }

    fn hold_first(&mut self, message: u32, peer: u32, word: u64) {
        self.messages.hold_first(message, peer, word);
    }

    fn discard(&mut self, message: u32) {
        self.messages.discard(message);
    }

    fn take_for(&mut self, receive: u32) -> Option<u32> {
        let key = self.receives.key(receive)?;
        self.messages.take(key)
    }

    #[inline]
    fn take(&mut self, pattern: MpiPattern) -> Option<u32> {
        self.messages.take(pattern.key())
    }

    fn find(&mut self, pattern: MpiPattern) -> Option<u32> {
        self.messages.find(pattern.key())
    }

    #[inline(always)]
    fn holds_messages(&self) -> bool {
        self.messages.holding() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::key::looks;
    use super::*;

    fn of(tag: u32) -> MpiPattern {
        MpiPattern {
            context: 1,
            source: Some(0),
            tag: Some(tag),
        }
    }

    /// How many patterns an operation examines on average: posting a receive, matching a message, holding one, taking a held one.
    /// Messages arrive and are taken in another order than that of posting. The memory has been allocated before.
    fn cost(many: u32) -> f64 {
        let mut matcher = Mpi::default();
        let order = || (0..many).map(|nth| nth * 7919 % many);
        let word = |tag| MpiPattern::word(1, tag);
        for _ in 0..2 {
            looks::taken();
            for tag in 0..many {
                matcher.post(tag, of(tag));
            }
            for tag in order() {
                assert_eq!(matcher.arrive(0, word(tag)), Some(tag));
            }
            for tag in 0..many {
                matcher.hold(tag, 0, word(tag));
            }
            for tag in order() {
                assert_eq!(matcher.take(of(tag)), Some(tag));
            }
        }
        looks::taken() as f64 / f64::from(4 * many)
    }

    #[test]
    fn ten_thousand_cost_no_more_than_twice_what_ten_do() {
        let (few, many) = (cost(10), cost(10_000));
        assert!(few > 0.0 && many <= 2.0 * few, "{few} {many}");
    }
}
