//! The library's part: how long a process spins for a message, and what it does if none has
//! arrived.

use crate::strategy::{Settings, Waiting};

/// How long to spin for the message that the process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinLimit {
    /// Until the message has arrived.
    Endless,
    /// For this many nanoseconds, then call the driver ([`crate::Driver::spin_expired`]).
    Nanoseconds(u64),
}

/// A process that receives.
///
/// For each message that the process waits for: spin as long as [`Self::spin_limit`] permits; if
/// the message has not arrived, call [`Self::spin_expired`] and the driver, and begin again. When
/// the message has arrived, call [`Self::received`].
#[derive(Clone, Debug)]
pub struct Waiter {
    waiting: Waiting,
    spin_ns: u64,
    blocks_again: bool,
    has_expired: bool,
}

impl Waiter {
    /// A process that does not wait yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            waiting: settings.strategy.waiting,
            spin_ns: settings.spin_ns,
            blocks_again: settings.blocks_again,
            has_expired: false,
        }
    }

    /// How long to spin from now on.
    pub fn spin_limit(&self) -> SpinLimit {
        match self.waiting {
            Waiting::Busy => SpinLimit::Endless,
            // The priority is lowered once for each message at most (§6.1.7).
            Waiting::Yield if self.has_expired => SpinLimit::Endless,
            Waiting::Block if self.has_expired && !self.blocks_again => SpinLimit::Endless,
            Waiting::Block | Waiting::Yield => SpinLimit::Nanoseconds(self.spin_ns),
        }
    }

    /// Whether the process may block when its spin has expired, so that the card must be notified
    /// before.
    pub fn blocks(&self) -> bool {
        self.waiting == Waiting::Block
    }

    /// Notes that the process has spun for its limit without the message.
    pub fn spin_expired(&mut self) {
        self.has_expired = true;
    }

    /// Notes that the message has arrived.
    pub fn received(&mut self) {
        self.has_expired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Strategy;

    fn waiter(strategy: Strategy) -> Waiter {
        with(strategy, false)
    }

    fn with(strategy: Strategy, blocks_again: bool) -> Waiter {
        Waiter::new(&Settings {
            strategy,
            spin_ns: 300,
            blocks_again,
            period_ns: 10_000,
            slice_ns: 50_000,
        })
    }

    #[test]
    fn a_busy_process_never_gives_up() {
        assert_eq!(waiter(Strategy::PB).spin_limit(), SpinLimit::Endless);
    }

    #[test]
    fn a_process_that_blocks_spins_again_when_it_was_woken_for_another_message() {
        let mut waiter = with(Strategy::SB, true);
        for _ in 0..3 {
            assert_eq!(waiter.spin_limit(), SpinLimit::Nanoseconds(300));
            waiter.spin_expired();
        }
    }

    #[test]
    fn a_process_that_blocks_once_spins_on_when_it_was_woken() {
        let mut waiter = waiter(Strategy::SB);
        waiter.spin_expired();
        assert_eq!(waiter.spin_limit(), SpinLimit::Endless);
        waiter.received();
        assert_eq!(waiter.spin_limit(), SpinLimit::Nanoseconds(300));
    }

    #[test]
    fn a_process_yields_once_for_each_message() {
        let mut waiter = waiter(Strategy::SY);
        assert_eq!(waiter.spin_limit(), SpinLimit::Nanoseconds(300));
        waiter.spin_expired();
        assert_eq!(waiter.spin_limit(), SpinLimit::Endless);
        waiter.received();
        assert_eq!(waiter.spin_limit(), SpinLimit::Nanoseconds(300));
    }
}
