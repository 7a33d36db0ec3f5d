//! Claims: which part of a split copy the initiator copies, and which the helper.
//!
//! The unclaimed units of a transfer are an interval. The initiator of the transfer claims units
//! from its front, the helper from its back, each by one compare-and-exchange of the word that
//! holds both ends; neither side touches units that the other has claimed. The initiator keeps its
//! own count of finished units; the helper adds what it has finished to a second word. The transfer
//! is complete when no unit is unclaimed and that word has reached what the helper claimed.
//!
//! Each side first claims from its own half, so that memory that is used again stays in the caches
//! of one processor, and steals from the other's half only when its own is used up. A steal claims
//! at most half of the unclaimed units, so that both sides end at about the same time.
//!
//! A helper may also send units in a piece through its ring. Before it does, it counts them as
//! finished, and separately how many units it has sent in pieces: the initiator, which counts those
//! of the pieces that have arrived, waits for as many.
//!
//! A peer that writes invalid values here harms only its own transfer: the initiator checks the
//! words against its own claims, the helper checks its claims against its exports.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use causeway_sys::word::Word;
use causeway_wire::shm::split_copy::{Claims, Done, FAILED};

/// The fewest units of a steal from the other's half: a system call must take less time than the
/// copying that it saves.
pub(super) const LEAST_STEAL: u32 = 16;

/// How many compare-and-exchanges of the helper may fail before it gives up the claim.
const TRIES: usize = 4;

/// The shared words of one transfer.
pub(super) struct Share<'a, W> {
    /// The packed [`Claims`].
    pub(super) claims: &'a W,
    /// What the helper has finished: the packed [`Done`], and [`FAILED`].
    pub(super) done: &'a W,
}

/// The initiator's state of its transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Initiated {
    /// Units of the transfer.
    units: u32,
    /// The claims as the initiator last read them.
    seen: Claims,
    /// Units of the pieces that have arrived.
    received: u32,
}

/// The shared words hold values that no correct helper writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidClaims;

/// The part of a transfer from which a side may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// All unclaimed units, as the other side has no time to help.
    All,
    /// Its own half.
    OwnHalf,
    /// All unclaimed units, as [`portion`] divides them.
    Anywhere,
}

/// The state of the helper's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HelperState {
    /// The helper has claimed something.
    pub(super) any: bool,
    /// It has finished all that it claimed.
    pub(super) finished: bool,
    /// It failed to copy a part.
    pub(super) failed: bool,
}

/// How many units a side claims at once, of `left` unclaimed ones, `own` of them in its half: at
/// most `most`.
pub(super) fn portion(own: u32, left: u32, most: u32, from: From) -> u32 {
    let wanted = match from {
        From::All => left,
        _ if own > 0 => own,
        From::OwnHalf => 0,
        From::Anywhere => (left / 2).max(LEAST_STEAL),
    };
    wanted.min(left).min(most)
}

/// The first unit of the helper's half.
fn middle(units: u32) -> u32 {
    units.div_ceil(2)
}

impl<W: Word> Share<'_, W> {
    /// Shares a transfer of `units`, called by the initiator once the description is written.
    pub(super) fn open(&self, units: u32) -> Initiated {
        let seen = Claims {
            front: 0,
            back: units,
        };
        self.done.store(0, Relaxed);
        self.claims.store(seen.pack(), Release);
        Initiated {
            units,
            seen,
            received: 0,
        }
    }

    /// Claims at most `most` units for the initiator. Returns which; an empty range if there are
    /// none.
    pub(super) fn claim_front(
        &self,
        initiated: &mut Initiated,
        most: u32,
        from: From,
    ) -> Result<Range<u32>, InvalidClaims> {
        loop {
            let word = self.refresh(initiated)?;
            let Claims { front, back } = initiated.seen;
            let own = middle(initiated.units).min(back).saturating_sub(front);
            let take = portion(own, back - front, most, from);
            let end = front + take;
            if take == 0 {
                return Ok(front..front);
            }
            if self.claims.replace(word, claims(end, back), AcqRel) {
                initiated.seen.front = end;
                return Ok(front..end);
            }
            // Only a claim of the helper can have come in between, and each claims at least one
            // unit.
            self.refresh(initiated)?;
            if initiated.seen.back == back {
                return Err(InvalidClaims);
            }
        }
    }

    /// Claims all unclaimed units for the initiator.
    pub(super) fn close(&self, initiated: &mut Initiated) -> Result<(), InvalidClaims> {
        while initiated.seen.left() > 0 {
            let left = initiated.seen.left();
            self.claim_front(initiated, left, From::Anywhere)?;
        }
        Ok(())
    }

    /// Reads the claims and checks them against those of the initiator.
    pub(super) fn refresh(&self, initiated: &mut Initiated) -> Result<u64, InvalidClaims> {
        let word = self.claims.load(Acquire);
        let seen = Claims::unpack(word).map_err(|_| InvalidClaims)?;
        if seen.front != initiated.seen.front || seen.back > initiated.seen.back {
            return Err(InvalidClaims);
        }
        initiated.seen = seen;
        Ok(word)
    }

    /// The state of the helper's part.
    pub(super) fn helper_state(&self, initiated: &Initiated) -> Result<HelperState, InvalidClaims> {
        let word = self.done.load(Acquire);
        let done = Done::unpack(word);
        let claimed = initiated.claimed_back();
        let too_many = initiated.is_all_claimed() && done.units > claimed;
        if too_many || initiated.received > done.in_pieces {
            return Err(InvalidClaims);
        }
        Ok(HelperState {
            any: claimed > 0,
            finished: done.units >= claimed && initiated.received == done.in_pieces,
            failed: word & FAILED != 0,
        })
    }

    /// Whether the helper may still access the initiator's memory.
    pub(super) fn is_touched(&self, initiated: &Initiated) -> bool {
        let done = Done::unpack(self.done.load(Acquire));
        !initiated.is_all_claimed() || done.units < initiated.claimed_back()
    }

    /// Whether there are units that the helper could claim.
    pub(super) fn has_unclaimed(&self) -> bool {
        let claims = Claims::unpack(self.claims.load(Acquire));
        !self.has_failed() && claims.is_ok_and(|claims| claims.left() > 0)
    }

    /// Whether a part could not be copied: the initiator then copies all of it again.
    fn has_failed(&self) -> bool {
        self.done.load(Relaxed) & FAILED != 0
    }

    /// Claims for the helper at most `most` of `units` units, or of as many as there turn out to
    /// be. The claim is for the present transfer, whichever transfer's description the helper read
    /// before: it reads the description again.
    pub(super) fn claim_back(&self, units: u32, most: u32, from: From) -> Option<Range<u32>> {
        for _ in 0..TRIES {
            if self.has_failed() {
                return None;
            }
            let word = self.claims.load(Acquire);
            let Claims { front, back } = Claims::unpack(word).ok()?;
            let own = back.saturating_sub(middle(units).max(front));
            let take = portion(own, back - front, most, from);
            if take == 0 {
                return None;
            }
            let start = back - take;
            if self.claims.replace(word, claims(front, start), AcqRel) {
                return Some(start..back);
            }
        }
        None
    }

    /// Adds `units`, which the helper had claimed, to what it has finished.
    pub(super) fn finish_back(&self, units: u32, copied: bool) {
        if !copied {
            self.done.fetch_or(FAILED, Relaxed);
        }
        self.done.fetch_add(units.into(), Release);
    }

    /// Counts `units`, which the helper had claimed, before it sends them in a piece.
    pub(super) fn count_piece(&self, units: u32) {
        let in_pieces = units;
        let sent = Done { units, in_pieces };
        self.done.fetch_add(sent.pack(), Release);
    }
}

/// Whether the helper has to ring the initiator's doorbell. Called when it has finished a part,
/// after a full fence. The initiator sets the word, issues a full fence, and reads the finished
/// units before it sleeps.
pub(super) fn must_ring<W: Word>(wants_ring: &W) -> bool {
    if wants_ring.load(Relaxed) == 0 {
        return false;
    }
    wants_ring.store(0, Relaxed);
    true
}

impl Initiated {
    /// The units that the initiator has claimed.
    #[cfg(test)]
    pub(super) fn claimed_front(&self) -> Range<u32> {
        0..self.seen.front
    }

    /// Units that the helper has claimed, as the initiator last read them.
    fn claimed_back(&self) -> u32 {
        self.units - self.seen.back
    }

    /// Whether everything that the initiator has not claimed has arrived.
    pub(super) fn is_received(&self) -> bool {
        self.received == self.units - self.seen.front
    }

    /// Notes that a piece with these units has arrived.
    pub(super) fn receive(&mut self, units: &Range<u32>) -> Result<(), InvalidClaims> {
        let is_helpers = self.seen.front <= units.start && units.end <= self.units;
        let count = units.end.saturating_sub(units.start);
        let most = (self.units - self.seen.front).saturating_sub(self.received);
        if !is_helpers || count == 0 || count > most {
            return Err(InvalidClaims);
        }
        self.received += count;
        Ok(())
    }

    /// Whether no unit is unclaimed any more.
    pub(super) fn is_all_claimed(&self) -> bool {
        self.seen.left() == 0
    }
}

fn claims(front: u32, back: u32) -> u64 {
    Claims { front, back }.pack()
}
