//! Which receive a message belongs to.
//!
//! The rules differ from messenger to messenger: BMI matches by peer and tag exactly ([`ByTag`]), MPI has
//! communicators and wildcards. Everything else that a conversation does is the same for all of them, so the engine
//! is generic over a [`Matcher`].
//!
//! A matcher does not own receives and messages: it has their numbers, and the engine reuses a
//! number only after the matcher has been called to forget it. [`table`] is a hash table for
//! matchers.

mod by_tag;
pub mod table;

pub use by_tag::{ByTag, FromTag};

/// Matches messages with receives. Receives are matched in the order in which they were posted, messages of one
/// peer in the order in which they arrived.
pub trait Matcher: Default {
    /// What a receive can match.
    type Pattern: Copy + std::fmt::Debug;

    /// The only peer whose messages match, if there is one: the receive fails when that peer is lost.
    fn only_peer(pattern: Self::Pattern) -> Option<u32>;

    /// A tag of messages that match, to describe the receive in logs.
    fn tag(pattern: Self::Pattern) -> u64;

    /// A receive begins to wait.
    fn post(&mut self, receive: u32, pattern: Self::Pattern);

    /// A new receive that does not wait, because [`Matcher::take`] has found a message for it. It
    /// may have to wait later.
    fn remember(&mut self, receive: u32, pattern: Self::Pattern);

    /// A receive that [`Matcher::arrive`] returned, or that was passed to [`Matcher::remember`],
    /// waits again, before all others: its message was withdrawn.
    fn post_again(&mut self, receive: u32);

    /// A waiting receive no longer waits.
    fn withdraw(&mut self, receive: u32);

    /// Removes and returns the receive that a message of `peer` with `tag` belongs to.
    fn arrive(&mut self, peer: u32, tag: u64) -> Option<u32>;

    /// The peer and the tag of the only messages that a waiting receive can get, if no other
    /// waiting receive would get them before it. `None` if there may be another, or a matcher
    /// cannot find that out quickly.
    fn is_next_for(&mut self, _receive: u32) -> Option<(u32, u64)> {
        None
    }

    /// The caller itself waits for a message of this pattern, after all posted receives; `None`
    /// ends that.
    fn await_directly(&mut self, _pattern: Option<Self::Pattern>) {}

    /// Whether a message for which [`Matcher::arrive`] has found no receive is the one for which
    /// the caller itself waits. The default is for matchers without such waits.
    fn is_awaited_directly(&self, _peer: u32, _tag: u64) -> bool {
        false
    }

    /// The waiting receives that only `peer` can satisfy, oldest first, at most `most`.
    fn receives_of(&mut self, peer: u32, most: usize) -> Vec<u32>;

    /// Holds a message without a receive until one is posted.
    fn hold(&mut self, message: u32, peer: u32, tag: u64);

    /// Holds a message, as [`Matcher::hold`] does, that is older than all held ones.
    fn hold_first(&mut self, message: u32, peer: u32, tag: u64);

    /// A held message is dropped.
    fn discard(&mut self, message: u32);

    /// Removes and returns the message for a receive for which [`Matcher::post_again`] would be
    /// allowed.
    fn take_for(&mut self, receive: u32) -> Option<u32>;

    /// Removes and returns the message for a receive of this pattern.
    fn take(&mut self, pattern: Self::Pattern) -> Option<u32>;

    /// Returns the message that [`Matcher::take`] would, and leaves it (a probe).
    fn find(&mut self, pattern: Self::Pattern) -> Option<u32>;

    /// Whether a message is held.
    fn holds_messages(&self) -> bool;
}
