//! How long peers may let this side wait: time in which the instance was driven.
//!
//! While this process computes, or is stopped, what a peer has sent lies unread. Such time is not
//! the peer's: however long a driver stays away, one step of the patience passes. The driver
//! therefore looks every step while anything is waited for, also when it sleeps.

use std::time::{Duration, Instant};

/// Steps of the whole patience.
pub(crate) const STEPS: u64 = 8;

/// So that a patience of nothing is some.
const SHORTEST_STEP: Duration = Duration::from_millis(1);

/// The patience of an instance, and the time that has passed.
#[derive(Debug)]
pub(crate) struct Patience {
    whole: Duration,
    step: Duration,
    /// When the driver last reported the time.
    seen: Instant,
    /// What has passed of the present step.
    part: Duration,
    /// Steps that have passed.
    steps: u64,
}

impl Patience {
    pub(crate) fn new(whole: Duration, now: Instant) -> Self {
        Self {
            whole,
            step: (whole / STEPS as u32).max(SHORTEST_STEP),
            seen: now,
            part: Duration::ZERO,
            steps: 0,
        }
    }

    /// The whole patience.
    pub(crate) fn whole(&self) -> Duration {
        self.whole
    }

    /// Steps that have passed.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// The driver reports the time. Returns whether a step has passed.
    pub(crate) fn pass(&mut self, now: Instant) -> bool {
        self.part += now.saturating_duration_since(self.seen).min(self.step);
        self.seen = self.seen.max(now);
        let has_passed = self.part >= self.step;
        if has_passed {
            self.part -= self.step;
            self.steps += 1;
        }
        has_passed
    }

    /// When the present step ends.
    pub(crate) fn step_ends(&self) -> Option<Instant> {
        self.seen.checked_add(self.step - self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_away_is_one_step_at_most() {
        let mut now = Instant::now();
        let mut patience = Patience::new(Duration::from_millis(800), now);
        let mut after = |ms, patience: &mut Patience| {
            now += Duration::from_millis(ms);
            patience.pass(now)
        };
        assert!(!after(99, &mut patience));
        assert!(after(1, &mut patience));
        assert!(after(3_600_000, &mut patience));
        assert!(!after(60, &mut patience) && after(60, &mut patience));
        assert_eq!(patience.steps(), 3);
        let left = patience.step_ends().unwrap() - now;
        assert_eq!(left, Duration::from_millis(80));
    }

    #[test]
    fn any_patience_has_steps() {
        let now = Instant::now();
        for whole in [Duration::ZERO, Duration::MAX] {
            let mut patience = Patience::new(whole, now);
            for ms in 0..100 {
                patience.pass(now + Duration::from_millis(ms));
            }
            assert_eq!(patience.steps() > 0, whole.is_zero());
        }
    }
}
