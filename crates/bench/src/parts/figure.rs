//! A measured figure of one part.

use serde::Serialize;

use crate::messages::effort::RATE_BYTES;

/// A measured figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// The case, as in a row: `latency/shm`.
    pub(crate) case: String,
    #[serde(rename = "size_bytes")]
    pub(crate) size: u64,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

impl Figure {
    /// A figure; `None` if the value is not a positive number.
    pub(crate) fn new(
        case: impl Into<String>,
        size: u64,
        metric: &'static str,
        value: f64,
    ) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then(|| Self {
            case: case.into(),
            size,
            metric,
            value,
        })
    }

    /// A one-way time; `None` if the value is not a positive number.
    pub(crate) fn latency(case: impl Into<String>, size: u64, microseconds: f64) -> Option<Self> {
        Self::new(case, size, "latency_us", microseconds)
    }

    /// The figures of a stream of `rate` messages a second: its bandwidth, and of small ones the rate.
    pub(crate) fn of_stream(case: &str, method: &str, size: u64, rate: f64) -> Vec<Self> {
        let bandwidth = Self::new(case, size, "bandwidth_mb_s", rate * size as f64 / 1e6);
        let counts = size <= RATE_BYTES && !case.contains("shared-buffers");
        let rate = counts
            .then(|| Self::new(format!("rate/{method}"), size, "rate_per_s", rate))
            .flatten();
        bandwidth.into_iter().chain(rate).collect()
    }
}
