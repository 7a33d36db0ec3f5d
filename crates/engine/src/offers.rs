//! What is counted of offers: receives that senders may write into before they have announced a message
//! (`conversation::offers`).
//!
//! Whether offers pay is found out by what becomes of them. They are tried in pairs: the first may cross a message, and have its
//! sender look for the next one. After each pair in vain twice as many receives are passed by as
//! after the one before, and each one that is used takes an eighth of that back. So offers go on while one in six or fewer is in
//! vain, and otherwise die out but for two in a thousand.

use causeway_wire::bmi::Offer;

use crate::types::Tag;

/// Most receives that are passed by between two offers where all are in vain.
const MOST_PASSED_BY: u32 = 1023;

/// Offers of one connection, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// Expected messages that have come, and that have left, however they travelled.
    pub(crate) seen: u32,
    pub(crate) sent: u32,
    /// Receives of ours that are offered.
    pub(crate) out: u32,
    /// Receives that are passed by before the next is offered, and how many will be after an offer in vain.
    pub(crate) skip: u32,
    pub(crate) penalty: u32,
    /// The last offer was in vain, and the next receive is offered all the same.
    pub(crate) again: bool,
    /// Messages of ours that are being written into receives of the peer's, or are about to be.
    pub(crate) writing: u32,
    /// The last large message found an offer, or left just before one came: the next may find one that has come and was not
    /// looked at.
    pub(crate) expected: bool,
    /// Offers of the peer's that can be used, by tag.
    pub(crate) kept: Vec<(Tag, Offer)>,
}

impl Offers {
    /// The connection is another one. What offers were good for stays.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            skip: self.skip,
            penalty: self.penalty,
            ..Self::default()
        };
    }

    /// An expected message has come.
    #[inline(always)]
    pub(crate) fn arrived(&mut self) {
        self.seen = self.seen.wrapping_add(1);
    }

    /// An expected message leaves that was not written.
    #[inline(always)]
    pub(crate) fn left(&mut self, tag: Tag) {
        self.sent = self.sent.wrapping_add(1);
        if !self.kept.is_empty() {
            self.forget(tag);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self, tag: Tag) {
        self.kept.retain(|(kept, _)| *kept != tag);
    }

    /// Whether a message is being written, which later ones must not overtake.
    #[inline(always)]
    pub(crate) fn is_writing(&self) -> bool {
        self.writing > 0
    }

    /// A receive that was offered has got a message that was not written, or none.
    #[cold]
    #[inline(never)]
    pub(crate) fn was_in_vain(&mut self) {
        self.out = self.out.saturating_sub(1);
        self.again = !self.again;
        if !self.again {
            self.skip = self.penalty;
            self.penalty = (2 * self.penalty + 1).min(MOST_PASSED_BY);
        }
    }

    pub(crate) fn was_used(&mut self) {
        self.out = self.out.saturating_sub(1);
        (self.skip, self.again) = (0, false);
        self.penalty -= self.penalty.div_ceil(8);
    }

    pub(crate) fn begin_write(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.writing += 1;
    }

    /// The other side will not learn of a message that was to be written.
    pub(crate) fn give_write_up(&mut self) {
        self.sent = self.sent.wrapping_sub(1);
        self.writing = self.writing.saturating_sub(1);
    }
}
