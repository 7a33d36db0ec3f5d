//! Waits and measurements inside a call: the only place in this crate that reads the clock.
//!
//! While such a call lasts, its caller cannot pass in the present time. There are few: a method
//! that is dropped lets accepted packets leave first, and revoking memory waits for the peer that
//! is writing it at this moment.

use std::time::{Duration, Instant};

/// A wait that has just begun, with its limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocking {
    until: Instant,
}

impl Blocking {
    /// Begins a wait of at most `limit`.
    pub(crate) fn at_most(limit: Duration) -> Self {
        Self {
            until: Instant::now() + limit,
        }
    }

    /// Whether the limit has passed.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.until
    }
}

/// Measures a part of one call, such as a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// A stopwatch that runs from now on.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since it was started.
    pub(crate) fn read(self) -> Duration {
        self.0.elapsed()
    }
}

/// Runs a function that may block; returns how long it took.
pub(crate) fn measure(block: impl FnOnce()) -> Duration {
    let stopwatch = Stopwatch::start();
    block();
    stopwatch.read()
}
