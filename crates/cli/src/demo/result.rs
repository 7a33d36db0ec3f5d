//! The results of a demonstration.

use std::time::Duration;

use causeway_report::machine::Machine;

use super::phase::Phase;
use super::sampler::History;
use super::worker::Fault;

/// Differences that are shown; further ones are only counted.
pub(crate) const SHOWN: usize = 20;

/// Everything that the report and the summary are made from.
pub(crate) struct Findings {
    pub(crate) machine: Machine,
    pub(crate) source: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) directories: u64,
    pub(crate) servers: usize,
    pub(crate) clients: usize,
    pub(crate) durability: &'static str,
    pub(crate) storage: String,
    pub(crate) timeout: Duration,
    pub(crate) origin_ns: u64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) histories: Vec<History>,
    pub(crate) victim: String,
    pub(crate) killed_ns: Option<u64>,
    pub(crate) restarted_ns: Option<u64>,
    pub(crate) answered_ns: Option<u64>,
    /// Files compared, and how many of them differ or are missing.
    pub(crate) compared: u64,
    pub(crate) differing: u64,
    pub(crate) differences: Vec<String>,
}

impl Findings {
    /// Counts a difference, and stores the first ones.
    pub(crate) fn add_difference(&mut self, text: String) {
        self.differing += 1;
        if self.differences.len() < SHOWN {
            self.differences.push(text);
        }
    }

    /// Every error that a client reported, with the phase's and the worker's number.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (usize, usize, &Fault)> {
        self.phases.iter().enumerate().flat_map(|(phase, one)| {
            one.faults
                .iter()
                .map(move |(worker, fault)| (phase, *worker, fault))
        })
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self, ns: u64) -> f64 {
        ns.saturating_sub(self.origin_ns) as f64 / 1e9
    }
}
