//! Waiting for something that mostly comes soon, with something else to do if it does not.

use std::time::{Duration, Instant};

/// How long the caller checks for it. The time runs from the first check on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patience {
    /// No time: it is over.
    #[default]
    Over,
    /// Not checked yet.
    Fresh,
    /// Until then.
    Until(Instant),
}

impl Patience {
    /// Whether to go on checking: for `most` from the first check on. Reads the clock, unless the time is over.
    #[inline]
    pub fn lasts(&mut self, most: Duration) -> bool {
        match self {
            Self::Over => false,
            waiting => waiting.lasts_at(Instant::now(), most),
        }
    }

    fn lasts_at(&mut self, now: Instant, most: Duration) -> bool {
        match *self {
            Self::Over => return false,
            Self::Fresh => *self = Self::Until(now + most),
            Self::Until(end) if now >= end => *self = Self::Over,
            Self::Until(_) => {}
        }
        !self.is_over()
    }

    /// Whether the time is over, as the last check found.
    #[inline]
    pub fn is_over(&self) -> bool {
        *self == Self::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_runs_from_the_first_check() {
        let most = Duration::from_micros(5);
        let start = Instant::now();
        let mut patience = Patience::Fresh;
        for (after, lasts) in [(100, true), (104, true), (105, false), (101, false)] {
            let now = start + Duration::from_micros(after);
            assert_eq!(patience.lasts_at(now, most), lasts, "{after}");
            assert_eq!(patience.is_over(), !lasts);
        }
        assert!(!patience.lasts(most));
        assert!(Patience::Fresh.lasts(Duration::from_secs(3600)));
    }
}
