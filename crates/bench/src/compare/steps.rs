//! Steps between neighbouring sizes: how much longer a slightly larger message takes.

use std::fmt;

use causeway_report::plots::size_name;
use causeway_report::rows::Row;
use causeway_report::units::figure_text;

use crate::outcome::Verdict;
use crate::parts::findings::{Findings, Series};

/// The largest ratio of two neighbours that does not count as a step.
const MOST: f64 = 1.5;
/// Sizes whose ratio is larger are not compared.
const FARTHEST: f64 = 2.0;
/// Up to this size, in bytes, a message's length is assumed to cost nothing.
const FREE_BYTES: u64 = 8;
/// Where every byte costs the same, time grows in proportion to size, and that is no step; this factor allows for
/// errors of measurement.
const ROOM: f64 = 1.1;

/// A step from one size to the next.
pub(crate) struct Step<'a> {
    below: &'a Series,
    above: &'a Series,
    /// How many times longer the larger message takes.
    ratio: f64,
    /// How many times longer it may take.
    most: f64,
}

/// A participant's step of latency that exceeds its bound most; none without neighbouring sizes.
pub(crate) fn largest<'a>(
    findings: &'a Findings,
    participant: &str,
    method: &str,
) -> Option<Step<'a>> {
    let by_size = findings.by_size(&format!("latency/{method}"), participant);
    let steps = by_size.windows(2).filter_map(|pair| match pair {
        [below, above] => step(below, above),
        _ => None,
    });
    steps.max_by(|a, b| (a.ratio / a.most).total_cmp(&(b.ratio / b.most)))
}

fn step<'a>(below: &'a Series, above: &'a Series) -> Option<Step<'a>> {
    let [small, large] = [below, above].map(|one| one.size.max(FREE_BYTES) as f64);
    let (ratio, larger) = (above.median() / below.median(), large / small);
    let is_step = larger <= FARTHEST && ratio.is_finite();
    is_step.then(|| Step {
        below,
        above,
        ratio,
        most: MOST.max(larger * ROOM),
    })
}

impl Step<'_> {
    /// Whether the step is within its bound.
    pub(crate) fn verdict(&self, method: &str) -> Verdict {
        let [below, above] = [self.below, self.above].map(|one| size_name(one.size as f64));
        // Both figures are of the same part, so that each run has a ratio.
        let ratios = self.above.over(self.below);
        let row = Row::new("latency", "", 0, "ratio", &ratios);
        Verdict {
            goal: format!(
                "largest step of latency between neighbouring sizes, {method}: {below} to {above}"
            ),
            wanted: format!("≤ {:.2} × the neighbour", self.most),
            ratio: self.ratio,
            min: row.as_ref().map_or(self.ratio, |row| row.min),
            max: row.as_ref().map_or(self.ratio, |row| row.max),
            runs: row.as_ref().map_or(0, |row| row.runs),
            ours: latency(self.above),
            other: latency(self.below),
            participant: self.below.participant.clone(),
            reached: self.ratio <= self.most,
        }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [below, above] = [self.below, self.above].map(|one| size_name(one.size as f64));
        write!(
            out,
            "{:.2} × from {below} ({}) to {above} ({})",
            self.ratio,
            latency(self.below),
            latency(self.above)
        )
    }
}

fn latency(series: &Series) -> String {
    figure_text(series.metric, series.median())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::figure::Figure;

    fn findings(latencies: &[(u64, f64)]) -> Findings {
        let mut findings = Findings::default();
        for &(size, latency) in latencies {
            let figure = Figure::latency("latency/shm", size, latency).unwrap();
            findings.add(0, "causeway", "near", figure);
        }
        findings
    }

    fn judged(latencies: &[(u64, f64)]) -> (String, bool) {
        let findings = findings(latencies);
        let step = largest(&findings, "causeway", "shm").unwrap();
        (step.to_string(), step.verdict("shm").reached)
    }

    #[test]
    fn a_step_is_found_where_the_size_does_not_explain_it() {
        // Given in any order.
        let latencies = [
            (16_384, 3.6),
            (8192, 0.7),
            (0, 0.1),
            (8, 0.1),
            (12_000, 0.8),
        ];
        let (text, reached) = judged(&latencies);
        assert_eq!(text, "4.50 × from 12,000 B (800 ns) to 16 KiB (3.60 µs)");
        assert!(!reached);
    }

    #[test]
    fn a_latency_that_grows_with_the_size_has_no_step() {
        let latencies = [(1 << 20, 50.0), (2 << 20, 104.0), (4 << 20, 200.0)];
        assert!(judged(&latencies).1);
        // One and a half times are allowed however close the sizes are.
        assert!(judged(&[(1024, 1.0), (1025, 1.5)]).1);
        assert!(!judged(&[(1024, 1.0), (1025, 1.51)]).1);
    }

    #[test]
    fn sizes_far_apart_are_no_neighbours() {
        let findings = findings(&[(8, 0.1), (1024, 0.2), (1 << 20, 100.0)]);
        assert!(largest(&findings, "causeway", "shm").is_none());
        assert!(largest(&findings, "other", "shm").is_none());
    }
}
