//! Statistics of a run in addition to means: distributions of latencies, events over time, and use
//! of resources.
//!
//! Everything is counted in whole numbers, so that a run gives the same values on every machine, and takes the same memory
//! however long it is: a [`Histogram`] has classes of at most 1/64 of their values, a [`Timeline`] at most 128 samples.

mod histogram;
mod replications;
mod resource;
mod timeline;

pub use histogram::{Histogram, PERCENTILES};
pub use replications::{Estimate, estimate, mean, variation};
pub use resource::{Busy, Resource};
pub use timeline::{Interval, Timeline};

use serde::{Deserialize, Serialize};

use crate::engine::Time;

/// The statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// The beginning of the observation; what happened before is left out.
    pub from: Time,
    /// Latencies of messages, from posting to receipt, in picoseconds.
    pub latencies: Histogram,
    /// How long messages waited in send queues, from their doorbell's ringing to its being noticed.
    pub waits: Histogram,
    /// The times that the workload itself measures: of its round trips, then of each stage of its messages (the rows of Table 5.1, sends first), or of each
    /// of its channels from injection on.
    pub flows: Vec<Histogram>,
    /// Of jobs that share processors: the end of each interval, and each job's part of the first node's processor in it, in millionths.
    pub parts: Vec<(Time, Vec<u32>)>,
    /// Events over time.
    pub timeline: Timeline,
    /// Use of each instance of each resource in the observed time.
    pub busy: Busy,
    /// The length of the observation.
    pub observed: Time,
}

impl Statistics {
    /// Empty statistics; observation begins at `from`.
    pub fn new(from: Time) -> Self {
        Self {
            from,
            timeline: Timeline::new(from),
            ..Self::default()
        }
    }

    /// Counts a message of this many bytes that was received with this latency.
    pub(crate) fn message(&mut self, now: Time, latency: Time, bytes: u64) {
        if now >= self.from {
            self.latencies.add(latency);
            self.timeline.message(latency, bytes);
        }
    }

    /// Counts a message whose doorbell was noticed after this time.
    pub(crate) fn wait(&mut self, now: Time, waited: Time) {
        if now >= self.from {
            self.waits.add(waited);
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
