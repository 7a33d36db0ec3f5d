//! How far apart the two processors are, as a bounced cache line shows it.
//!
//! A hypervisor may move virtual processors between cores that share a cache and cores that do not, many times in an
//! hour. What was measured at one distance says nothing beside what was measured at another, so each part of a
//! measurement is labelled by the distance before and after it.

use causeway_command::failure::Outcome;

use crate::messages::effort::Effort;
use crate::messages::pair::Pair;

/// Neighbouring distances, in the order of size, that differ by more belong to different classes. Samples of one class
/// differ by a few per cent, those of cores with and without a common cache by a factor of three to five.
const LEAST_RATIO: f64 = 1.5;

/// Measures the distance by two processes of its own, which sleep in between.
pub(crate) struct Probe {
    pair: Pair,
}

impl Probe {
    /// Starts the two processes.
    pub(crate) fn start() -> Outcome<Self> {
        // 20,000 bounces: some milliseconds.
        let pair = Pair::start(Effort { quick: true })?;
        Ok(Self { pair })
    }

    /// Microseconds one way of a cache line, now.
    pub(crate) fn measure(&mut self) -> Outcome<f64> {
        self.pair.cache_line()
    }
}

/// The distances before and after a part of a measurement, in microseconds one way of a cache line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Distances {
    pub(crate) before: f64,
    pub(crate) after: f64,
}

/// The distances at which a benchmark was run, in classes without a wide gap: mostly one, or near and far. A
/// measurement of the distance that something disturbed is a class of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classes {
    /// The smallest and the largest distance of each class, in increasing order.
    ranges: Vec<(f64, f64)>,
}

impl Classes {
    /// Of all distances that were measured.
    pub(crate) fn of(parts: impl Iterator<Item = Distances>) -> Self {
        let mut all: Vec<f64> = parts.flat_map(|part| [part.before, part.after]).collect();
        all.sort_by(f64::total_cmp);
        let mut ranges: Vec<(f64, f64)> = Vec::new();
        for distance in all {
            match ranges.last_mut() {
                Some((_, most)) if distance < *most * LEAST_RATIO => *most = distance,
                _ => ranges.push((distance, distance)),
            }
        }
        Self { ranges }
    }

    /// Number of classes.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The class of a part; none if the processors were moved meanwhile.
    pub(crate) fn class(&self, part: Distances) -> Option<usize> {
        let class = |distance: f64| self.ranges.iter().position(|(_, most)| distance <= *most);
        class(part.before).filter(|&before| class(part.after) == Some(before))
    }

    /// A class in words: `near (51 to 58 ns)`, `far (240 to 262 ns)`.
    pub(crate) fn text(&self, class: usize) -> String {
        let (least, most) = self.ranges.get(class).copied().unwrap_or_default();
        let name = if class == 0 { "near" } else { "far" };
        format!("{name} ({:.0} to {:.0} ns)", least * 1e3, most * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(distances: &[(f64, f64)]) -> Vec<Distances> {
        let part = |&(before, after): &(f64, f64)| Distances { before, after };
        distances.iter().map(part).collect()
    }

    #[test]
    fn distances_that_differ_little_are_one_class() {
        let parts = parts(&[(0.051, 0.055), (0.060, 0.058), (0.070, 0.085)]);
        let classes = Classes::of(parts.iter().copied());
        assert_eq!(classes.len(), 1);
        assert!(parts.iter().all(|&part| classes.class(part) == Some(0)));
        assert_eq!(classes.text(0), "near (51 to 85 ns)");
    }

    #[test]
    fn wide_gaps_part_near_from_far() {
        let parts = parts(&[(0.055, 0.054), (0.26, 0.25), (0.056, 0.24), (0.24, 0.06)]);
        let classes = Classes::of(parts.iter().copied());
        let found: Vec<_> = parts.iter().map(|&part| classes.class(part)).collect();
        assert_eq!(found, [Some(0), Some(1), None, None]);
        assert_eq!(classes.text(0), "near (54 to 60 ns)");
        assert_eq!(classes.text(1), "far (240 to 260 ns)");
    }

    #[test]
    fn a_disturbed_measurement_does_not_hide_near_and_far() {
        let parts = parts(&[(0.055, 0.054), (0.26, 0.25), (0.055, 9.0)]);
        let classes = Classes::of(parts.iter().copied());
        let found: Vec<_> = parts.iter().map(|&part| classes.class(part)).collect();
        assert_eq!(found, [Some(0), Some(1), None]);
    }

    #[test]
    fn without_a_part_there_is_no_class() {
        assert_eq!(Classes::of(std::iter::empty()).len(), 0);
    }
}
