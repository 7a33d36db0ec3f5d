//! The accounts of offers: receives into which senders may write before they have announced a
//! message (`conversation::offers`).
//!
//! An offer saves time if the receiver is busy with something else when the message comes: the sender writes at once, instead of announcing
//! the message and waiting until the receiver polls. If the receiver polls all the time, it replies to an announcement just as fast, and the
//! offer costs both sides more than the announcement. The receiver therefore watches some of its receives ([`Watch`]), and makes
//! offers while it finds that their messages had to wait for its next poll.
//!
//! Senders use some offers and not others, and the receiver counts both. It makes offers in pairs,
//! because the first of a pair may cross a message that is on its way, which makes that sender look
//! for the second. After each unused pair, the receiver makes no offer for a number of receives
//! that doubles from one unused pair to the next; each used offer shortens that pause by an eighth.
//! In effect, offers go on while at most one in six is unused; otherwise they become rare, two for
//! every thousand receives.
//!
//! What offers gain is in `docs/shm-engine.md`. Where both sides poll, the constants below cost nothing: with each of them a quarter and four times as
//! large (the limit of polls up to 255, the pause 255, the compared operations 2), 16 KiB take 1.94 to 1.98 µs one way, 64 KiB 8.65 to 8.81, and
//! windows of them move 16.0 to 17.5 GB/s (an EPYC of the fourth generation, far; `bench messages`, the median of two runs each; one of
//! 12.3 GB/s, at 16 KiB with 80 µs, is taken for a disturbance).

use std::time::{Duration, Instant};

use causeway_wire::bmi::Offer;

use crate::types::Tag;

/// A receiver whose last poll was at least this long ago counts as busy with something else.
/// Posting a window of 64 receives takes less time than that. Where a sender has to wait for less,
/// an offer gains little: it costs both sides half a microsecond, and the sender alone copies what
/// the receiver could help to copy.
const BUSY_AFTER: Duration = Duration::from_micros(20);

/// One in this many receives with room for a large message is watched: each poll meanwhile reads
/// the clock twice. A receive that is the only one from its peer counts as this many.
const WATCHED: u16 = 4096;
const ONLY: u16 = 512;

/// A watched receive whose message has not come after this many polls, none of them late, belongs
/// to a process that polls.
const MOST_POLLS: u8 = 64;

/// Most receives without an offer between two offers, where no offer is ever used.
const MOST_PASSED_BY: u32 = 1023;

/// The offers of one connection, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// Expected messages that have arrived, and that have left, in whatever way they travelled.
    pub(crate) seen: u32,
    pub(crate) sent: u32,
    /// Receives on this side that are offered.
    pub(crate) out: u32,
    /// How many receives are passed over before the next offer, and how many will be after an
    /// unused offer.
    pub(crate) skip: u32,
    pub(crate) penalty: u32,
    /// The last offer was not used, and the next receive is offered nevertheless.
    pub(crate) offer_next: bool,
    /// Messages of this side that are being written into the peer's receives, or are about to be.
    pub(crate) writing: u32,
    /// The last large message found an offer, or left just before one arrived: an offer for the
    /// next may have arrived unseen.
    pub(crate) expected: bool,
    /// Offers from the peer that can be used, by tag.
    pub(crate) usable: Vec<(Tag, Offer)>,
}

impl Offers {
    /// Resets the accounts for another connection. The pause between offers is kept.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            skip: self.skip,
            penalty: self.penalty,
            ..Self::default()
        };
    }

    /// An expected message has arrived.
    #[inline(always)]
    pub(crate) fn arrived(&mut self) {
        self.seen = self.seen.wrapping_add(1);
    }

    /// An expected message leaves without having been written into an offered receive.
    #[inline(always)]
    pub(crate) fn left(&mut self, tag: Tag) {
        self.sent = self.sent.wrapping_add(1);
        if !self.usable.is_empty() {
            self.forget(tag);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self, tag: Tag) {
        self.usable.retain(|(other, _)| *other != tag);
    }

    /// Whether a message is being written, which later ones must not overtake.
    #[inline(always)]
    pub(crate) fn is_writing(&self) -> bool {
        self.writing > 0
    }

    /// A receive that was offered got a message that was not written into it, or none.
    #[cold]
    #[inline(never)]
    pub(crate) fn was_unused(&mut self) {
        self.out = self.out.saturating_sub(1);
        self.offer_next = !self.offer_next;
        if !self.offer_next {
            self.skip = self.penalty;
            self.penalty = (2 * self.penalty + 1).min(MOST_PASSED_BY);
        }
    }

    pub(crate) fn was_used(&mut self) {
        self.out = self.out.saturating_sub(1);
        (self.skip, self.offer_next) = (0, false);
        self.penalty -= self.penalty.div_ceil(8);
    }

    pub(crate) fn begin_write(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.writing += 1;
    }

    /// A message that was to be written leaves the accounts: the other side will not be notified of
    /// it.
    pub(crate) fn abandon_write(&mut self) {
        self.sent = self.sent.wrapping_sub(1);
        self.writing = self.writing.saturating_sub(1);
    }
}

/// Finds out whether this process is busy elsewhere when large messages for its receives arrive.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The watched receive, by key.
    receive: Option<u64>,
    /// When the process last ended a poll, or posted the receive.
    polled: Option<Instant>,
    /// How long after that the last poll began.
    late_by: Duration,
    /// Polls that were not late.
    polls: u8,
    /// Receives until the next one is watched.
    countdown: u16,
    /// The last result.
    is_busy: bool,
}

impl Watch {
    /// Whether receives are to be offered.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether [`Watch::poll`] is to be called before each poll.
    #[inline(always)]
    pub(crate) fn wants_time(&self) -> bool {
        self.receive.is_some()
    }

    /// Whether a receive is watched, and no time was passed in yet.
    pub(crate) fn begins(&self) -> bool {
        self.receive.is_some() && self.polled.is_none()
    }

    /// Counts a receive. Returns whether to watch it.
    ///
    /// The message of a receive that is the only one from its peer is found soon; other receives
    /// are watched longer, and more rarely.
    #[inline(always)]
    pub(crate) fn count(&mut self, is_only: bool) -> bool {
        self.countdown = self
            .countdown
            .saturating_sub(if is_only { ONLY } else { 1 });
        self.countdown == 0 && self.receive.is_none()
    }

    /// Begins to watch a receive.
    pub(crate) fn begin(&mut self, receive: u64) {
        *self = Self {
            receive: Some(receive),
            countdown: WATCHED,
            is_busy: self.is_busy,
            ..Self::default()
        };
    }

    /// Reports the time at which a poll begins or ends, or the receive was posted. Returns the
    /// watched receive.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<u64> {
        let before = self.polled.replace(now).unwrap_or(now);
        self.late_by = now.saturating_duration_since(before);
        if self.late_by < BUSY_AFTER {
            self.polls += 1;
            if self.polls == MOST_POLLS {
                self.receive = None;
                self.is_busy = false;
            }
        }
        self.receive
    }

    /// Stops watching without a result.
    pub(crate) fn end(&mut self) {
        self.receive = None;
    }

    /// A poll has found the large message of a receive, which may be the watched one.
    pub(crate) fn found(&mut self, receive: u64) {
        if self.receive == Some(receive) {
            self.receive = None;
            self.is_busy = self.late_by >= BUSY_AFTER;
        }
    }

    #[cfg(test)]
    pub(crate) fn assume_busy(&mut self) {
        (self.is_busy, self.countdown) = (true, u16::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Watches the next receive; after each of these times, in microseconds, the process polls, and the last poll finds the message.
    fn watch(watch: &mut Watch, after: &[u64]) -> bool {
        watch.begin(1);
        let mut now = Instant::now();
        watch.poll(now);
        for microseconds in after {
            if !watch.wants_time() {
                break;
            }
            now += Duration::from_micros(*microseconds);
            watch.poll(now);
        }
        watch.found(1);
        watch.is_busy()
    }

    #[test]
    fn who_polls_late_is_away() {
        let mut away = Watch::default();
        assert!(!watch(&mut away, &[1]));
        assert!(watch(&mut away, &[50]));
        assert!(!watch(&mut away, &[50, 1]));
        assert!(watch(&mut away, &[1, 1, 50]));
        assert!(watch(&mut away, &[50; 300]));
        assert!(!watch(&mut away, &[1; 300]));
    }

    #[test]
    fn only_the_message_of_the_receive_that_is_watched_counts() {
        let mut away = Watch::default();
        away.begin(1);
        let now = Instant::now();
        away.poll(now);
        away.poll(now + 2 * BUSY_AFTER);
        away.found(2);
        assert!(away.wants_time() && !away.is_busy());
        away.end();
        away.found(1);
        assert!(!away.wants_time() && !away.is_busy());
    }

    #[test]
    fn one_of_some_receives_is_watched() {
        for (is_only, one_in) in [(true, WATCHED / ONLY), (false, WATCHED)] {
            let mut away = Watch::default();
            let watched = (0..10 * u64::from(WATCHED)).filter(|receive| {
                let is_due = away.count(is_only);
                if is_due {
                    away.begin(*receive);
                    away.end();
                }
                is_due
            });
            assert_eq!(watched.count(), 10 * usize::from(WATCHED / one_in));
        }
    }
}
