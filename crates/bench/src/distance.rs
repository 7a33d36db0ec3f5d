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

/// Where the processors were during a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Near,
    Far,
    /// They were moved meanwhile.
    Mixed,
}

/// What tells near from far in the measurements of one run of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Classes {
    least: f64,
    most: f64,
    /// The largest distance that is near, and the smallest that is far.
    gap: Option<(f64, f64)>,
}

impl Classes {
    /// Of all distances that were measured: those below the widest gap are near, all if there is none.
    pub(crate) fn of(parts: impl Iterator<Item = Distances>) -> Self {
        let mut all: Vec<f64> = parts.flat_map(|part| [part.before, part.after]).collect();
        all.sort_by(f64::total_cmp);
        let ratio = |pair: &(f64, f64)| pair.1 / pair.0;
        let neighbours = all.windows(2).filter_map(|two| match two {
            &[one, other] => Some((one, other)),
            _ => None,
        });
        Self {
            least: all.first().copied().unwrap_or_default(),
            most: all.last().copied().unwrap_or_default(),
            gap: neighbours
                .filter(|pair| ratio(pair) >= LEAST_RATIO)
                .max_by(|one, other| ratio(one).total_cmp(&ratio(other))),
        }
    }

    /// Whether there is one class only.
    pub(crate) fn is_single(&self) -> bool {
        self.gap.is_none()
    }

    /// The class of a part.
    pub(crate) fn class(&self, part: Distances) -> Class {
        let is_far = |distance| self.gap.is_some_and(|(_, far)| distance >= far);
        match (is_far(part.before), is_far(part.after)) {
            (false, false) => Class::Near,
            (true, true) => Class::Far,
            _ => Class::Mixed,
        }
    }

    /// The distances of each class, in words: `near (51 to 58 ns) and far (240 to 262 ns)`.
    pub(crate) fn text(&self) -> String {
        let range = |from: f64, to: f64| format!("{:.0} to {:.0} ns", from * 1e3, to * 1e3);
        match self.gap {
            None => range(self.least, self.most),
            Some((near, far)) => format!(
                "near ({}) and far ({})",
                range(self.least, near),
                range(far, self.most)
            ),
        }
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
        assert!(classes.is_single());
        assert!(parts.iter().all(|&part| classes.class(part) == Class::Near));
        assert_eq!(classes.text(), "51 to 85 ns");
    }

    #[test]
    fn the_widest_gap_parts_near_from_far() {
        let parts = parts(&[(0.055, 0.054), (0.26, 0.25), (0.056, 0.24), (0.24, 0.06)]);
        let classes = Classes::of(parts.iter().copied());
        let found: Vec<Class> = parts.iter().map(|&part| classes.class(part)).collect();
        let wanted = [Class::Near, Class::Far, Class::Mixed, Class::Mixed];
        assert_eq!(found, wanted);
        assert_eq!(classes.text(), "near (54 to 60 ns) and far (240 to 260 ns)");
    }

    #[test]
    fn without_a_part_there_is_one_class() {
        assert!(Classes::of(std::iter::empty()).is_single());
    }
}
