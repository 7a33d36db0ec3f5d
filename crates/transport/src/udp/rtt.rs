//! How long a round trip takes, and when to stop waiting for a reply (RFC 6298).

use std::time::Duration;

use super::Time;

/// A lower timeout would mostly measure how often the peer polls.
pub(super) const LEAST_TIMEOUT: Duration = Duration::from_millis(10);

/// With a higher timeout, a network that works again would be noticed too late.
pub(super) const MOST_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout before the first sample.
const FIRST_TIMEOUT: Duration = Duration::from_millis(100);

/// The most doublings of the timeout; `MOST_TIMEOUT` is reached first.
const MOST_DOUBLINGS: u32 = 10;

/// A datagram that is late by this fraction of a round trip, while a later one has arrived, is lost
/// (RFC 9002, 6.1.2).
const LATE_NUMERATOR: u32 = 9;
const LATE_DENOMINATOR: u32 = 8;

/// An estimate of the round trip.
#[derive(Debug, Clone, Default)]
pub(super) struct Rtt {
    smoothed: Option<Time>,
    variation: Duration,
    latest: Duration,
    least: Duration,
}

impl Rtt {
    /// Adds a sample, of which the peer took `delay` before it replied.
    pub(super) fn sample(&mut self, whole: Duration, delay: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(whole);
            self.variation = whole / 2;
            self.latest = whole;
            self.least = whole;
            return;
        };
        self.least = self.least.min(whole);
        // The peer's claim must not make the round trip shorter than the shortest that was seen.
        let sample = match whole.checked_sub(delay) {
            Some(less) if less >= self.least => less,
            _ => whole,
        };
        self.latest = sample;
        self.variation = (3 * self.variation + smoothed.abs_diff(sample)) / 4;
        self.smoothed = Some((7 * smoothed + sample) / 8);
    }

    /// The estimate, once there is one.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// How long to wait for an acknowledgement after `doublings` waits that timed out.
    pub(super) fn timeout(&self, doublings: u32) -> Duration {
        let once = match self.smoothed {
            Some(smoothed) => (smoothed + 4 * self.variation).max(LEAST_TIMEOUT),
            None => FIRST_TIMEOUT,
        };
        (once * (1 << doublings.min(MOST_DOUBLINGS))).min(MOST_TIMEOUT)
    }

    /// How long a datagram may be overtaken before it counts as lost.
    pub(super) fn overtaken_for(&self) -> Duration {
        let trip = self.smoothed.unwrap_or(FIRST_TIMEOUT).max(self.latest);
        (trip * LATE_NUMERATOR / LATE_DENOMINATOR).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_estimate_follows_the_samples() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(0), FIRST_TIMEOUT);
        rtt.sample(ms(80), ms(0));
        assert_eq!(rtt.smoothed(), Some(ms(80)));
        assert_eq!(rtt.timeout(0), ms(80 + 4 * 40));
        for _ in 0..100 {
            rtt.sample(ms(40), ms(0));
        }
        let smoothed = rtt.smoothed().unwrap();
        assert!(smoothed >= ms(40) && smoothed < ms(41), "{smoothed:?}");
        assert!(rtt.timeout(0) < ms(45));
    }

    #[test]
    fn the_timeout_doubles_and_is_bounded() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_micros(20), ms(0));
        assert_eq!(rtt.timeout(0), LEAST_TIMEOUT);
        assert_eq!(rtt.timeout(2), 4 * LEAST_TIMEOUT);
        assert_eq!(rtt.timeout(u32::MAX), MOST_TIMEOUT);
        rtt.sample(Duration::from_secs(50), ms(0));
        assert_eq!(rtt.timeout(0), MOST_TIMEOUT);
    }

    #[test]
    fn a_claimed_delay_does_not_make_the_trip_impossibly_short() {
        let mut rtt = Rtt::default();
        rtt.sample(ms(10), ms(0));
        for _ in 0..100 {
            rtt.sample(ms(12), ms(1000));
        }
        assert!(rtt.smoothed().unwrap() >= ms(10));
        for _ in 0..100 {
            rtt.sample(ms(30), ms(20));
        }
        assert!(rtt.smoothed().unwrap() < ms(11));
    }
}
