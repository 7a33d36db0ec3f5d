//! The time as a method knows it: what its caller says.

use std::time::Instant;

/// The latest time that a caller has given. It never goes backwards, even if the caller's does.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Clock(Option<Instant>);

impl Clock {
    /// Takes the caller's time; returns the later of it and the latest known time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        let now = self.0.map_or(now, |latest| latest.max(now));
        self.0 = Some(now);
        now
    }

    /// The latest time that was given.
    ///
    /// # Panics
    /// If none was. A method's first peer, and with it all that takes time, begins with a call that brings the time.
    pub(crate) fn now(&self) -> Instant {
        self.0.expect("no call has brought the time yet")
    }

    /// The latest time that was given, if one was.
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
