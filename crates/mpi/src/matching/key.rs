//! Patterns, as keys of table entries.

/// Which of source and tag are open: a bit for each.
pub(super) type Kind = u32;

pub(super) const ANY_TAG: Kind = 1;
pub(super) const ANY_SOURCE: Kind = 2;
/// How many kinds of patterns there are.
pub(super) const KINDS: Kind = 4;

/// A pattern as the key of entries. An open field is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Key {
    // In this order, the fields are the two words that are hashed.
    pub(super) tag: u32,
    pub(super) context: u32,
    pub(super) kind: Kind,
    pub(super) source: u32,
}

impl Key {
    /// The pattern of this kind that a message matches.
    #[inline(always)]
    pub(super) fn of_message(peer: u32, word: u64, kind: Kind) -> Self {
        Self {
            context: (word >> 32) as u32,
            source: if kind & ANY_SOURCE == 0 { peer } else { 0 },
            tag: if kind & ANY_TAG == 0 { word as u32 } else { 0 },
            kind,
        }
    }

    /// Whether a message matches the pattern. Most patterns leave nothing open.
    #[inline(always)]
    pub(super) fn matches(self, peer: u32, word: u64) -> bool {
        self.words() == (word, u64::from(peer) << 32)
            || self.kind != 0 && self == Self::of_message(peer, word, self.kind)
    }

    /// The only messages that a pattern of kind 0 matches: their peer and word.
    pub(super) fn message(self) -> (u32, u64) {
        let word = u64::from(self.context) << 32 | u64::from(self.tag);
        (self.source, word)
    }

    #[inline(always)]
    pub(super) fn words(self) -> (u64, u64) {
        let (_, one) = self.message();
        let other = u64::from(self.source) << 32 | u64::from(self.kind);
        (one, other)
    }
}

/// How often this thread has compared the pattern of an entry: the cost of matching, as tests count it.
#[cfg(test)]
pub(super) mod looks {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(in super::super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    pub(in super::super) fn taken() -> u64 {
        COUNT.take()
    }
}
