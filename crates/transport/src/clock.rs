//! The time as a method knows it: the latest one that its caller has passed in.

use std::time::Instant;

/// The latest time that a caller has passed in. It never goes backwards, even if the caller's does.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    /// Updates the time; returns the later of `now` and the latest known time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        let now = self.0.map_or(now, |latest| latest.max(now));
        self.0 = Some(now);
        now
    }

    /// The latest time that was passed in.
    ///
    /// # Panics
    /// If there was none. A method's first peer, and with it everything that takes time, begins
    /// with a call that passes the time.
    pub(crate) fn now(&self) -> Instant {
        self.0.expect("no call has brought the time yet")
    }

    /// The latest time that was passed in, if there was one.
    pub(crate) fn known(&self) -> Option<Instant> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_never_goes_backwards() {
        let mut clock = Clock::default();
        assert_eq!(clock.known(), None);
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        assert_eq!(clock.advance(later), later);
        assert_eq!(clock.advance(start), later);
        assert_eq!(clock.now(), later);
    }
}
