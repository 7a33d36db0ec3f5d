//! Figures of all runs, by case, participant and size, in the order in which they first occurred.

use causeway_report::rows::{Row, median};

use super::figure::Figure;
use crate::participants::{LIMIT, OURS};

/// One figure of one participant over the runs, all measured at one distance of the processors.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) case: String,
    pub(crate) participant: String,
    pub(crate) size: u64,
    pub(crate) metric: &'static str,
    /// The distance of the processors, in a word.
    pub(crate) distance: String,
    /// Number of the run, and the figure.
    values: Vec<(u32, f64)>,
}

impl Series {
    /// The figures, in the order of runs.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }

    /// Their median.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.values();
        sorted.sort_by(f64::total_cmp);
        median(&sorted)
    }

    /// The ratios of these figures to another participant's of the same runs.
    pub(crate) fn over(&self, other: &Self) -> Vec<f64> {
        let ratios = self.over_by_run(other).into_iter();
        ratios.map(|(_, ratio)| ratio).collect()
    }

    /// The same ratios with the numbers of the runs.
    pub(crate) fn over_by_run(&self, other: &Self) -> Vec<(u32, f64)> {
        let same_run = |run: u32| other.values.iter().find(|(number, _)| *number == run);
        let pairs = self.values.iter().filter_map(|(run, value)| {
            let (_, below) = same_run(*run)?;
            (*below > 0.0).then(|| (*run, value / below))
        });
        pairs.collect()
    }
}

/// Everything that was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    series: Vec<Series>,
}

impl Findings {
    /// Adds a figure of a run, measured at this distance of the processors.
    pub(crate) fn add(&mut self, run: u32, participant: &str, distance: &str, figure: Figure) {
        let same = |known: &&mut Series| {
            known.case == figure.case
                && known.participant == participant
                && known.size == figure.size
                && known.distance == distance
        };
        match self.series.iter_mut().find(same) {
            Some(known) => known.values.push((run, figure.value)),
            None => self.series.push(Series {
                case: figure.case,
                participant: participant.to_owned(),
                size: figure.size,
                metric: figure.metric,
                distance: distance.to_owned(),
                values: vec![(run, figure.value)],
            }),
        }
    }

    /// One participant's figures of a case and size.
    pub(crate) fn series(&self, case: &str, participant: &str, size: u64) -> Option<&Series> {
        let mut all = self.series.iter();
        all.find(|one| one.case == case && one.participant == participant && one.size == size)
    }

    /// One participant's figures of a case, by size.
    pub(crate) fn by_size(&self, case: &str, participant: &str) -> Vec<&Series> {
        let wanted = |one: &&Series| one.case == case && one.participant == participant;
        let mut all: Vec<&Series> = self.series.iter().filter(wanted).collect();
        all.sort_by_key(|one| one.size);
        all
    }

    /// The participants that are not limits, in the order in which their figures first occurred.
    pub(crate) fn participants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for one in &self.series {
            if one.participant != LIMIT && !names.contains(&one.participant.as_str()) {
                names.push(&one.participant);
            }
        }
        names
    }

    /// The peers' figures of a case and size.
    pub(crate) fn peers(&self, case: &str, size: u64) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |one| {
            one.case == case
                && one.size == size
                && one.participant != OURS
                && one.participant != LIMIT
        })
    }

    /// All as rows: cases in the order in which they were run, then by size.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |one: &Series| {
            let case = one.case.clone();
            let row = Row::new(case, &one.participant, one.size, one.metric, &one.values())?;
            Some(row.at(&one.distance))
        };
        let mut rows: Vec<Row> = self.series.iter().filter_map(row).collect();
        let place = |row: &Row| self.series.iter().position(|one| one.case == row.case);
        rows.sort_by_cached_key(|row| (place(row), row.size_bytes));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_need_figures_of_the_same_run() {
        let mut findings = Findings::default();
        for (run, participant, value) in [
            (0, OURS, 1.0),
            (1, OURS, 4.0),
            (1, "x-1", 2.0),
            (2, "x-1", 9.0),
        ] {
            let figure = Figure::new("rate/shm", 8, "rate_per_s", value).unwrap();
            findings.add(run, participant, "near", figure);
        }
        let ours = findings.series("rate/shm", OURS, 8).unwrap();
        let other = findings.series("rate/shm", "x-1", 8).unwrap();
        assert_eq!(ours.over(other), [2.0]);
        assert_eq!(ours.over_by_run(other), [(1, 2.0)]);
        let rows = findings.rows();
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter()
                .all(|row| row.distance.as_deref() == Some("near"))
        );
    }
}
