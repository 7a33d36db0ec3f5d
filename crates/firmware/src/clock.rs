//! VirtualClock (Zhang; thesis §5.3.3): stamps that order messages as if each channel had its slots in
//! time-division multiplexing.

use crate::settings::BestEffort;
use crate::setup::{SECOND, Time};

/// The stamp of a message without a reserved or guaranteed rate.
pub(crate) const NEVER: Time = Time::MAX / 2;

/// The clock of one direction of a reserved channel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// `Vtick`: time between two messages of the size that was reserved for; 0: best effort.
    tick: Time,
    message_bytes: u32,
    /// `auxVC`.
    reading: Time,
}

/// Time that `bytes` take at `rate` bytes per second.
pub(crate) fn time_of(bytes: u64, rate: u64) -> Time {
    let time = u128::from(bytes) * u128::from(SECOND) / u128::from(rate.max(1));
    time.min(NEVER.into()) as Time
}

impl Clock {
    pub(crate) fn reserved(rate: u64, message_bytes: u32) -> Self {
        Self {
            tick: time_of(message_bytes.into(), rate).max(1),
            message_bytes,
            reading: 0,
        }
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.tick > 0
    }

    /// The stamp of a message whose doorbell, or first frame, is noticed now.
    pub(crate) fn stamp(&mut self, now: Time) -> Time {
        self.reading = self.reading.max(now).saturating_add(self.tick).min(NEVER);
        self.reading
    }

    /// Charges the channel for the bytes by which a message exceeds the reservation.
    pub(crate) fn charge_excess(&mut self, bytes: u32) {
        let excess = bytes.saturating_sub(self.message_bytes);
        if self.is_reserved() && excess > 0 {
            let more = u128::from(self.tick) * u128::from(excess) / u128::from(self.message_bytes);
            let more = more.min(NEVER.into()) as Time;
            self.reading = self.reading.saturating_add(more).min(NEVER);
        }
    }
}

/// The clock that all best-effort channels share. It runs at the rate of their guaranteed share.
///
/// A rate-based discipline charges a channel later for idle time that it used. Best effort has no
/// reservation to exceed and is not charged: its clock never runs more than `in_progress` messages ahead, so that after
/// the reserved channels have been silent, best effort is back at its share at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedClock {
    tick: Time,
    horizon: Time,
    reading: Time,
}

impl SharedClock {
    pub(crate) fn new(settings: &BestEffort) -> Self {
        let tick = match settings.rate {
            0 => NEVER,
            rate => time_of(settings.message_bytes.into(), rate).max(1),
        };
        Self {
            tick,
            horizon: tick.saturating_mul(settings.in_progress.into()).min(NEVER),
            reading: 0,
        }
    }

    /// The stamp of a message that begins now.
    pub(crate) fn stamp(&mut self, now: Time) -> Time {
        if self.tick == NEVER {
            return NEVER;
        }
        let ahead = self.reading.max(now).saturating_add(self.tick);
        self.reading = ahead.min(now.saturating_add(self.horizon)).min(NEVER);
        self.reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn stamps_of_a_busy_channel_differ_by_a_tick() {
        let mut clock = Clock::reserved(2 * MB, 4000);
        let tick = SECOND / 500;
        assert_eq!(clock.stamp(100), 100 + tick);
        assert_eq!(clock.stamp(200), 100 + 2 * tick);
        let late = 10 * tick;
        assert_eq!(clock.stamp(late), late + tick, "no credit for silence");
    }

    #[test]
    fn a_message_longer_than_reserved_is_paid_for() {
        let mut clock = Clock::reserved(2 * MB, 4000);
        let first = clock.stamp(0);
        clock.charge_excess(6000);
        assert_eq!(clock.stamp(0), first + SECOND / 500 / 2 * 3);
        clock.charge_excess(100);
        assert_eq!(clock.stamp(0), first + SECOND / 500 / 2 * 5);
    }

    #[test]
    fn best_effort_does_not_pay_for_idle_time() {
        let mut clock = SharedClock::new(&BestEffort {
            rate: MB,
            message_bytes: 1000,
            in_progress: 4,
        });
        let tick = SECOND / 1000;
        let last = (0..1000).map(|now| clock.stamp(now)).last();
        assert_eq!(last, Some(999 + 4 * tick));
        let mut thesis = SharedClock::new(&BestEffort {
            rate: 0,
            ..BestEffort::default()
        });
        assert_eq!(thesis.stamp(5), NEVER);
    }

    #[test]
    fn stamps_never_go_back() {
        let mut clock = SharedClock::new(&BestEffort::default());
        let mut last = 0;
        for step in 0..1000_u64 {
            let stamp = clock.stamp(step * step % 977 + step * 1000);
            assert!(stamp >= last);
            last = stamp;
        }
    }
}
