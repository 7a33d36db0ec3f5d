//! How often the ring of a streaming sender is read.
//!
//! A receiver that has caught up with the sender takes away the cache line that the sender is about
//! to write, each time that it looks at the ring. Where a line takes long from one processor to the
//! other, both then wait for lines most of the time. So once a receiver has found few packets
//! several times, and has sent nothing in between, it skips the ring in some polls, in which the
//! sender writes the next packets. If the times passed with the polls show that the caller polls
//! only now and then, no poll skips the ring. (On an EPYC of the fifth generation, with 220 ns for
//! a line: 8 B 93 -> 79 ns, 64 B 114 -> 89 ns, 1,000 B 340 -> 245 ns.) If the receiver finds a
//! single packet after such a pause, the sender does not stream: packets that arrive one by one
//! must not wait.
//!
//! On an EPYC of the fourth generation (`bench messages`, MB/s; a line takes 33 ns near and 170 ns far) there is little to gain: with skipped polls 8 B
//! 185, 64 B 1,436 and 1,000 B 6,957 near, without them 170, 1,389 and 6,420; far 100, 571 and 1,876, without them 106, 561 and 1,898. There the
//! constants below are measured, too: where none is stated, 8 B are within 10 % and larger packets within 5 % of that, which is the scatter.
//!
//! This does not decide how to wait, which the caller's policy does: the thread goes on polling,
//! and each poll checks everything else.

use std::time::Instant;

/// Looks in a row with few packets before polls skip the ring, and how many packets are few. (1 and 8 looks: 8 B 175 and 187 MB/s near. 2 packets:
/// 1,000 B 6,534 MB/s near.)
const LOOKS: u8 = 2;
const FEW: usize = 8;
/// If this many packets were found, fewer polls are skipped the next time. (64, near: 8 B 178, 1,000 B 6,809 MB/s.)
const MANY: usize = 16;
/// Polls that skip the ring after a look: at first, at least, and at most. (At first 4: 8 B 178 near, 103 far. At least 16: 183 and 107. At most 120:
/// 186 and 105.)
const FIRST_SKIP: u8 = 16;
const MIN_SKIP: u8 = 4;
const MAX_SKIP: u8 = 32;
/// Looks without a pause after a pause has ended with a single packet. (0: 8 B 185 near, 108 far. These streams hardly need it: packets that arrive one
/// by one do.)
const WITHOUT: u8 = 64;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Looks in a row that have found few packets.
    looks: u8,
    /// Looks before polls may skip the ring again.
    without: u8,
    /// Polls that skip the ring after a look, and how many of them are left.
    polls: u8,
    left: u8,
    /// Packets that were taken one in each poll since the ring was last empty.
    one_by_one: usize,
    /// The time of the poll that last read the ring, as passed by the caller: callers that only poll read the clock once
    /// for several polls.
    at: Option<Instant>,
}

impl Pace {
    /// A look has found `packets` packets, and none after them. `streams`: nothing was sent since
    /// the look before.
    #[inline]
    pub(super) fn caught_up(&mut self, packets: usize, streams: bool) {
        if streams {
            self.look(packets);
        } else if self.looks > 0 || self.polls > 0 {
            *self = Self::default();
        }
    }

    /// A packet was taken, and the next poll checks whether another has arrived.
    #[inline]
    pub(super) fn took_one(&mut self) {
        self.one_by_one += 1;
    }

    /// Packets that were taken in this way since the ring was last empty.
    #[inline]
    pub(super) fn one_by_one(&self) -> usize {
        self.one_by_one
    }

    /// The ring is empty. Packets that were taken one by one count as one look.
    #[inline]
    pub(super) fn found_none(&mut self, now: Instant, streams: bool) {
        let packets = std::mem::take(&mut self.one_by_one);
        if packets > 0 {
            self.caught_up(packets, streams);
            self.at = Some(now);
        }
    }

    /// Notes the time of the poll in which the look was made.
    #[inline]
    pub(super) fn looked(&mut self, now: Instant) {
        self.at = Some(now);
    }

    /// Has the next poll look at the ring.
    pub(super) fn end_pause(&mut self) {
        self.left = 0;
    }

    fn look(&mut self, packets: usize) {
        if self.without > 0 {
            self.without -= 1;
        } else if self.polls > 0 && packets == 1 {
            *self = Self {
                without: WITHOUT,
                ..Self::default()
            };
        } else if packets >= MANY {
            self.polls = if self.polls > MIN_SKIP {
                self.polls / 2
            } else {
                0
            };
            self.looks = 0;
        } else if packets < FEW {
            self.looks = (self.looks + 1).min(LOOKS);
            if self.looks == LOOKS {
                self.polls = match self.polls {
                    0 => FIRST_SKIP,
                    polls => (2 * polls).min(MAX_SKIP),
                };
            }
        }
        self.left = self.polls;
    }

    /// Whether the poll at this time skips the ring.
    #[inline]
    pub(super) fn skips_poll(&mut self, now: Instant) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.at != Some(now) {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Polls that skip the ring before the next one reads it.
    fn pause(pace: &mut Pace) -> usize {
        let now = Instant::now();
        pace.looked(now);
        std::iter::from_fn(|| pace.skips_poll(now).then_some(())).count()
    }

    #[test]
    fn a_caller_that_polls_rarely_reads_the_ring_each_time() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        for _ in 0..100 {
            pace.caught_up(3, true);
            pace.looked(now);
            now += Duration::from_millis(1);
            assert!(!pace.skips_poll(now));
        }
    }

    #[test]
    fn a_reply_ends_a_pause_in_every_state() {
        for packets in [3, 3 * MANY] {
            let mut pace = Pace::default();
            for _ in 0..3 {
                pace.caught_up(3, true);
            }
            pace.caught_up(packets, true);
            pace.caught_up(3, false);
            assert_eq!(pause(&mut pace), 0);
        }
    }

    #[test]
    fn behind_a_stream_polls_are_let_pass_until_packets_gather() {
        let mut pace = Pace::default();
        let mut pauses = Vec::new();
        for packets in [2, 1, 3, 2, 2, 2, 12, 12, 20, 20, 20, 20] {
            pace.caught_up(packets, true);
            pauses.push(pause(&mut pace));
        }
        assert_eq!(pauses, [0, 16, 32, 32, 32, 32, 32, 32, 16, 8, 4, 0]);
    }

    #[test]
    fn single_packets_hardly_ever_wait() {
        let mut pace = Pace::default();
        let paused = (0..1000).filter(|_| {
            pace.caught_up(1, true);
            pause(&mut pace) > 0
        });
        assert!(paused.count() < 20);
    }

    #[test]
    fn packets_that_are_taken_one_by_one_count_together() {
        let mut pace = Pace::default();
        let now = Instant::now();
        let mut pauses = Vec::new();
        for packets in [2, 1, 3, 20, 20, 20] {
            (0..packets).for_each(|_| pace.took_one());
            pace.found_none(now, true);
            pauses.push(pause(&mut pace));
            // Polls that find none again are no looks.
            pace.found_none(now, true);
            assert_eq!(pause(&mut pace), 0);
        }
        assert_eq!(pauses, [0, 16, 32, 16, 8, 4]);
    }

    #[test]
    fn a_receiver_that_replies_looks_at_every_poll() {
        let mut pace = Pace::default();
        for look in 0..1000 {
            pace.caught_up(1 + look % 5, look % 2 == 0);
            assert_eq!(pause(&mut pace), 0);
        }
    }
}
