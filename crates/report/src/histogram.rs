//! Latencies in buckets of equal ratio: small, mergeable between processes, good to a few percent.

use serde::{Deserialize, Serialize};

/// Buckets for each doubling.
const PER_OCTAVE: f64 = 8.0;
/// Lower end of the first bucket, in microseconds.
const FIRST_US: f64 = 0.05;
/// Number of buckets: up to about 15 minutes.
const BUCKETS: usize = 280;

/// How many operations took how long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Counts by bucket; as long as the highest bucket that is used.
    counts: Vec<u64>,
    count: u64,
    max_us: f64,
}

impl Histogram {
    /// Adds one operation.
    pub fn add(&mut self, microseconds: f64) {
        let position = (microseconds / FIRST_US).max(1.0).log2() * PER_OCTAVE;
        let bucket = (position as usize).min(BUCKETS - 1);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.max_us = self.max_us.max(microseconds);
    }

    /// Adds another histogram's operations.
    pub fn merge(&mut self, other: &Self) {
        let len = self.counts.len().max(other.counts.len()).min(BUCKETS);
        self.counts.resize(len, 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.max_us
    }

    /// The time below which this share of operations (0 to 1) stayed, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                // The bucket's middle, but never more than the longest time measured.
                return bucket_start_us(bucket as f64 + 0.5).min(self.max_us);
            }
        }
        self.max_us
    }

    /// Buckets that are used: lower end, upper end (both microseconds) and count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| {
                (
                    bucket_start_us(bucket as f64),
                    bucket_start_us(bucket as f64 + 1.0),
                    *count,
                )
            })
    }
}

fn bucket_start_us(bucket: f64) -> f64 {
    FIRST_US * (bucket / PER_OCTAVE).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close_and_merging_adds() {
        let mut low = Histogram::default();
        let mut high = Histogram::default();
        for value in 1..=1000 {
            low.add(f64::from(value));
            high.add(f64::from(value) + 1000.0);
        }
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.1;
        assert!(
            near(low.quantile_us(0.5), 500.0),
            "{}",
            low.quantile_us(0.5)
        );
        assert!(near(low.quantile_us(0.99), 990.0));
        low.merge(&high);
        assert_eq!(low.count(), 2000);
        assert!(near(low.quantile_us(0.5), 1000.0));
        assert_eq!(low.max_us(), 2000.0);
        assert_eq!(low.buckets().map(|(_, _, count)| count).sum::<u64>(), 2000);
    }

    #[test]
    fn extremes_stay_in_range() {
        let mut histogram = Histogram::default();
        for value in [0.0, f64::MAX, 1e-9, 1e12] {
            histogram.add(value);
        }
        assert_eq!(histogram.count(), 4);
        assert_eq!(Histogram::default().quantile_us(0.5), 0.0);
    }
}
