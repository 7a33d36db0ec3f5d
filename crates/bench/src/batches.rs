//! Times of equal parts of a measurement.

use std::time::Instant;

/// The median part, times the number of parts, is the time reported: a part in which another process
/// took the processor away does not count for all.
pub(crate) struct Batches {
    parts: Vec<f64>,
    rounds: u64,
    every: u64,
    done: u64,
    since: Instant,
}

impl Batches {
    /// Most parts of a measurement.
    const PARTS: u64 = 40;

    /// Begins.
    pub(crate) fn start(rounds: u64) -> Self {
        Self {
            parts: Vec::with_capacity(Self::PARTS as usize + 1),
            rounds,
            every: rounds.div_ceil(Self::PARTS).max(1),
            done: 0,
            since: Instant::now(),
        }
    }

    /// Counts a round.
    #[inline]
    pub(crate) fn round(&mut self) {
        self.done += 1;
        if self.done == self.every {
            let now = Instant::now();
            self.parts
                .push(now.duration_since(self.since).as_secs_f64());
            self.since = now;
            self.done = 0;
        }
    }

    /// Seconds for all rounds, from the median part.
    pub(crate) fn seconds(mut self) -> f64 {
        self.parts.sort_by(f64::total_cmp);
        causeway_report::rows::median(&self.parts) / self.every as f64 * self.rounds as f64
    }
}
