//! How values are distributed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Percentiles that results show, with their names.
pub const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Classes of each power of two, as a power of two: a class is at most 1/64 of its values wide.
const CLASS_BITS: u32 = 6;

/// Counts of values in classes that grow with the values.
///
/// Least, largest and mean value are exact; other quantiles are within 1/128 of the true one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: BTreeMap<u16, u64>,
    count: u64,
    sum: u128,
    least: u64,
    largest: u64,
}

/// The class of a value.
fn class(value: u64) -> u16 {
    let width = value
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(CLASS_BITS);
    ((u64::from(width) << CLASS_BITS) + (value >> width)) as u16
}

/// The values of a class: from the first up to, but not including, the second.
fn values(class: u16) -> (u64, u64) {
    let class = u64::from(class);
    let width = (class >> CLASS_BITS).saturating_sub(1);
    let first = (class - (width << CLASS_BITS)) << width;
    (first, first.saturating_add(1 << width))
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        *self.counts.entry(class(value)).or_insert(0) += 1;
        self.least = match self.count {
            0 => value,
            _ => self.least.min(value),
        };
        self.largest = self.largest.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Counts all values of another one too.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        for (class, count) in &other.counts {
            *self.counts.entry(*class).or_insert(0) += count;
        }
        self.least = match self.count {
            0 => other.least,
            _ => self.least.min(other.least),
        };
        self.largest = self.largest.max(other.largest);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest and the largest value; 0 without any.
    pub fn range(&self) -> (u64, u64) {
        (self.least, self.largest)
    }

    /// The mean; 0 without any.
    pub fn mean(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// The value that this share of all values does not exceed: the middle of its class, limited to the values counted; 0 without any.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        if wanted == self.count {
            return self.largest;
        }
        let mut seen = 0;
        for (&class, count) in &self.counts {
            seen += count;
            if seen >= wanted {
                let (first, end) = values(class);
                return (first + (end - first) / 2).clamp(self.least, self.largest);
            }
        }
        self.largest
    }

    /// The classes that have values: the first value, the first value after the class, and the
    /// number of values.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().map(|(&class, &count)| {
            let (first, end) = values(class);
            (first, end, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::random::Random;

    #[test]
    fn classes_are_narrow_and_cover_everything() {
        let mut random = Random::new(3);
        for _ in 0..10_000 {
            let value = random.number() >> random.below(64);
            let (first, end) = values(class(value));
            assert!((first..=end).contains(&value), "{value}: {first} {end}");
            assert!(end - first <= 1 + value / 64, "{value}: {first} {end}");
        }
        for value in [0, 1, 63, 64, 65, 127, 128, u64::MAX] {
            let (first, end) = values(class(value));
            assert!(first <= value && value <= end, "{value}: {first} {end}");
        }
        assert!((0..4_000).all(|class| values(class).1 == values(class + 1).0 || class > 3_700));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut random = Random::new(5);
        let mut histogram = Histogram::default();
        let mut all: Vec<u64> = (0..5_000).map(|_| random.exponential(1_000_000)).collect();
        let (some, others) = all.split_at(2_000);
        let mut second = Histogram::default();
        some.iter().for_each(|value| histogram.add(*value));
        others.iter().for_each(|value| second.add(*value));
        histogram.merge(&second);
        all.sort_unstable();
        assert_eq!(histogram.range(), (all[0], all[4_999]));
        assert_eq!(histogram.count(), 5_000);
        let mean = all.iter().sum::<u64>() as f64 / 5_000.0;
        assert!((histogram.mean() - mean).abs() < 1e-6);
        for (name, share) in PERCENTILES {
            let exact = all[(share * 5_000.0).ceil() as usize - 1];
            let found = histogram.quantile(share);
            assert!(
                found.abs_diff(exact) <= exact / 100,
                "{name}: {found} {exact}"
            );
        }
        assert_eq!(histogram.quantile(0.0), histogram.quantile(1e-9));
        assert_eq!(histogram.quantile(1.0), all[4_999]);
        assert_eq!(Histogram::default().quantile(0.5), 0);
        assert_eq!(
            histogram.classes().map(|(.., count)| count).sum::<u64>(),
            5_000
        );
    }
}
