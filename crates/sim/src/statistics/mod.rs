//! What is known of a run besides its means: how latencies are distributed, what happened when, and how much everything was used.
//!
//! Everything is counted in whole numbers, so that a run gives the same values on every machine, and takes the same memory
//! however long it is: a [`Histogram`] has classes of at most 1/64 of their values, a [`Timeline`] at most 128 samples.

mod histogram;
mod replications;
mod resource;
mod timeline;

pub use histogram::{Histogram, PERCENTILES};
pub use replications::{Estimate, estimate};
pub use resource::{Busy, Resource};
pub use timeline::{Interval, Timeline};

use serde::{Deserialize, Serialize};

use crate::engine::Time;

/// What is known of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// What happened before is left out.
    pub from: Time,
    /// Latencies of messages, from posting to receipt, in picoseconds.
    pub latencies: Histogram,
    /// The times that the workload itself measures: of its round trips, or of each of its channels from injection on.
    pub flows: Vec<Histogram>,
    /// What happened when.
    pub timeline: Timeline,
    /// Use of each instance of each resource in the observed time.
    pub busy: Busy,
    /// How long was observed.
    pub observed: Time,
}

impl Statistics {
    /// Nothing yet; observation begins at `from`.
    pub fn new(from: Time) -> Self {
        Self {
            from,
            timeline: Timeline::new(from),
            ..Self::default()
        }
    }

    /// A message of so many bytes was received after so long.
    pub(crate) fn message(&mut self, now: Time, latency: Time, bytes: u64) {
        if now >= self.from {
            self.latencies.add(latency);
            self.timeline.message(latency, bytes);
        }
    }

    /// The shares of the observed time that each instance of a resource was in use.
    pub fn shares(&self, resource: Resource) -> Vec<f64> {
        let observed = self.observed.max(1) as f64;
        self.busy[resource as usize]
            .iter()
            .map(|busy| (*busy as f64 / observed).min(1.0))
            .collect()
    }
}
