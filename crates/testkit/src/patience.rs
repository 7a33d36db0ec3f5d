//! Bounded waiting: every loop that waits for another process or thread has a limit, and names the awaited event when it fails.

use std::time::{Duration, Instant};

/// Far above anything that a healthy machine needs, however loaded; a wait that is longer is a
/// hang.
pub const GENEROUS: Duration = Duration::from_secs(60);

/// A loop's patience: call [`Patience::spend`] once per round.
#[derive(Debug)]
pub struct Patience {
    awaited: String,
    until: Instant,
    rounds: u32,
}

impl Patience {
    /// Waits for `awaited`, a sentence such as `the packet arrives`, for [`GENEROUS`] time.
    pub fn new(awaited: impl Into<String>) -> Self {
        Self::with_limit(awaited, GENEROUS)
    }

    /// Waits for `awaited` no longer than `limit`.
    pub fn with_limit(awaited: impl Into<String>, limit: Duration) -> Self {
        Self {
            awaited: awaited.into(),
            until: Instant::now() + limit,
            rounds: 0,
        }
    }

    /// Spends one round of the loop; lets other threads run now and then.
    ///
    /// # Panics
    /// When the time is up, naming the awaited event.
    #[track_caller]
    pub fn spend(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(64) {
            std::thread::yield_now();
        }
        assert!(
            Instant::now() < self.until,
            "waited in vain: {}",
            self.awaited
        );
    }

    /// How long there is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Calls `attempt` until it returns something, sleeping a little in between.
///
/// # Panics
/// When [`GENEROUS`] time is up, naming the awaited event.
#[track_caller]
pub fn eventually<T>(awaited: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut patience = Patience::new(awaited);
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        patience.spend();
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventually_returns_what_the_attempt_returns() {
        let mut attempts = 0;
        let result = eventually("the third attempt", || {
            attempts += 1;
            (attempts == 3).then_some("here")
        });
        assert_eq!((result, attempts), ("here", 3));
    }

    #[test]
    #[should_panic(expected = "waited in vain: rain in the desert")]
    fn patience_ends() {
        let mut patience = Patience::with_limit("rain in the desert", Duration::ZERO);
        patience.spend();
    }
}
