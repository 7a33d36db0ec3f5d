//! The library's part: how long a process spins for a message, and what it does when none has come.

use crate::strategy::{Settings, Waiting};

/// How long to spin for the message that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until it has come.
    Endless,
    /// For so many nanoseconds, then call the driver ([`crate::Driver::gave_up`]).
    Nanoseconds(u64),
}

/// A process that receives.
///
/// For each message that the process waits for: spin as long as [`Self::patience`] says; if the message has not come, note it
/// with [`Self::gave_up`] and call the driver; go on at the beginning. When the message has come, say so with
/// [`Self::received`].
#[derive(Clone, Debug)]
pub struct Waiter {
    waiting: Waiting,
    spin_ns: u64,
    blocks_again: bool,
    has_given_up: bool,
}

impl Waiter {
    /// A process that waits for nothing yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            waiting: settings.strategy.waiting,
            spin_ns: settings.spin_ns,
            blocks_again: settings.blocks_again,
            has_given_up: false,
        }
    }

    /// How long to spin from now on.
    pub fn patience(&self) -> Patience {
        match self.waiting {
            Waiting::Busy => Patience::Endless,
            // The priority is not lowered twice for the same message (§6.1.7).
            Waiting::Yield if self.has_given_up => Patience::Endless,
            Waiting::Block if self.has_given_up && !self.blocks_again => Patience::Endless,
            Waiting::Block | Waiting::Yield => Patience::Nanoseconds(self.spin_ns),
        }
    }

    /// Whether giving up may end in blocking, so that the card must know before.
    pub fn blocks(&self) -> bool {
        self.waiting == Waiting::Block
    }

    /// The message has not come while the process has spun.
    pub fn gave_up(&mut self) {
        self.has_given_up = true;
    }

    /// The message has come.
    pub fn received(&mut self) {
        self.has_given_up = false;
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
        assert_eq!(waiter(Strategy::PB).patience(), Patience::Endless);
    }

    #[test]
    fn a_process_that_blocks_spins_again_when_it_was_woken_for_another_message() {
        let mut waiter = with(Strategy::SB, true);
        for _ in 0..3 {
            assert_eq!(waiter.patience(), Patience::Nanoseconds(300));
            waiter.gave_up();
        }
    }

    #[test]
    fn a_process_that_blocks_once_spins_on_when_it_was_woken() {
        let mut waiter = waiter(Strategy::SB);
        waiter.gave_up();
        assert_eq!(waiter.patience(), Patience::Endless);
        waiter.received();
        assert_eq!(waiter.patience(), Patience::Nanoseconds(300));
    }

    #[test]
    fn a_process_yields_once_for_each_message() {
        let mut waiter = waiter(Strategy::SY);
        assert_eq!(waiter.patience(), Patience::Nanoseconds(300));
        waiter.gave_up();
        assert_eq!(waiter.patience(), Patience::Endless);
        waiter.received();
        assert_eq!(waiter.patience(), Patience::Nanoseconds(300));
    }
}
