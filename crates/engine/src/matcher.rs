//! Which receive a message belongs to.
//!
//! The rules differ from messenger to messenger: BMI matches by peer and tag exactly ([`ByTag`]), MPI has
//! communicators and wildcards. Everything else that a conversation does is the same for all of them, so the engine
//! is generic over a [`Matcher`].
//!
//! A matcher does not own receives and messages: it knows them by number, and the engine gives the same number
//! out again only after the matcher has been told to forget it. [`table`] finds entries by what they are for.

mod by_tag;
pub mod table;

pub use by_tag::{ByTag, FromTag};

/// Matches messages with receives. Receives are matched in the order in which they were posted, messages of one
/// peer in the order in which they arrived.
pub trait Matcher: Default {
    /// What a receive asks for.
    type Pattern: Copy + std::fmt::Debug;

    /// The only peer whose messages match, if there is one: the receive fails when that peer is lost.
    fn only_peer(pattern: Self::Pattern) -> Option<u32>;

    /// A tag that messages have that match, to tell people of the receive.
    fn tag(pattern: Self::Pattern) -> u64;

    /// A receive starts to wait.
    fn post(&mut self, receive: u32, pattern: Self::Pattern);

    /// A receive is new, but does not wait, because [`Matcher::take`] has found a message for it. It may have to wait
    /// later.
    fn remember(&mut self, receive: u32, pattern: Self::Pattern);

    /// A receive that [`Matcher::arrive`] returned, or that the matcher was to [remember](Matcher::remember), waits
    /// again, before all others: its message was withdrawn.
    fn post_again(&mut self, receive: u32);

    /// A receive that waits does so no more.
    fn withdraw(&mut self, receive: u32);

    /// Takes the receive out that a message of `peer` with `tag` belongs to.
    fn arrive(&mut self, peer: u32, tag: u64) -> Option<u32>;

    /// The peer and the tag of the only messages that a receive which waits can get, if no other that waits would get them
    /// before it. A matcher that cannot tell quickly says that there are others.
    fn is_next_for(&mut self, _receive: u32) -> Option<(u32, u64)> {
        None
    }

    /// The caller waits for a message of this pattern itself, behind all receives; with `None` it does no more.
    fn await_directly(&mut self, _pattern: Option<Self::Pattern>) {}

    /// Whether a message that [`Matcher::arrive`] has found no receive for is the one that the caller waits for itself. A matcher
    /// that is not asked for such messages has none.
    fn is_awaited_directly(&self, _peer: u32, _tag: u64) -> bool {
        false
    }

    /// The receives that wait and that only `peer` can satisfy, oldest first, at most so many.
    fn receives_of(&mut self, peer: u32, most: usize) -> Vec<u32>;

    /// No receive has been found for a message: it is held until one is posted.
    fn hold(&mut self, message: u32, peer: u32, tag: u64);

    /// Likewise, for a message that is older than all that are held.
    fn hold_first(&mut self, message: u32, peer: u32, tag: u64);

    /// A message is held no more.
    fn discard(&mut self, message: u32);

    /// Takes the message out that a receive gets for which [`Matcher::post_again`] would be allowed.
    fn take_for(&mut self, receive: u32) -> Option<u32>;

    /// Takes the message out that a receive of this pattern gets.
    fn take(&mut self, pattern: Self::Pattern) -> Option<u32>;

    /// The message that [`Matcher::take`] would take, which stays (a probe).
    fn find(&mut self, pattern: Self::Pattern) -> Option<u32>;

    /// Whether a message is held.
    fn holds_messages(&self) -> bool;
}
