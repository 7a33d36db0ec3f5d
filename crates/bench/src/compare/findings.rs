//! Figures of all runs, by case, participant and size, in the order in which they first came.

use causeway_report::rows::{Row, figure_text, median};
use causeway_report::table::Table;
use causeway_report::units::bytes_text;

use super::trial::{Figure, Gap};
use crate::outcome::{LIMIT, OURS};

/// One figure of one participant over the runs.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) case: String,
    pub(crate) participant: String,
    pub(crate) size: u64,
    pub(crate) metric: &'static str,
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

    /// The ratios to another's figures of the same runs.
    pub(crate) fn over(&self, other: &Self) -> Vec<f64> {
        let same_run = |run: u32| other.values.iter().find(|(number, _)| *number == run);
        let pairs = self.values.iter().filter_map(|(run, value)| {
            let (_, below) = same_run(*run)?;
            (*below > 0.0).then(|| value / below)
        });
        pairs.collect()
    }
}

/// What is shown in place of a figure that a participant lacks.
pub(crate) fn gap(gaps: &[Gap], participant: &str, case: &str) -> Option<&'static str> {
    let mut gaps = gaps.iter();
    let gap = gaps.find(|gap| gap.participant == participant && gap.trial.yields(case))?;
    Some(gap.how)
}

/// Everything that was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    series: Vec<Series>,
}

impl Findings {
    /// Adds a figure of a run.
    pub(crate) fn add(&mut self, run: u32, participant: &str, figure: Figure) {
        let same = |known: &&mut Series| {
            known.case == figure.case
                && known.participant == participant
                && known.size == figure.size
        };
        match self.series.iter_mut().find(same) {
            Some(known) => known.values.push((run, figure.value)),
            None => self.series.push(Series {
                case: figure.case,
                participant: participant.to_owned(),
                size: figure.size,
                metric: figure.metric,
                values: vec![(run, figure.value)],
            }),
        }
    }

    /// One participant's figures of a case and size.
    pub(crate) fn series(&self, case: &str, participant: &str, size: u64) -> Option<&Series> {
        let mut all = self.series.iter();
        all.find(|one| one.case == case && one.participant == participant && one.size == size)
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

    /// The rows of the report and of the JSON, by case in the order in which
    /// they were run, then by size.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .series
            .iter()
            .filter_map(|one| {
                Row::new(
                    one.case.clone(),
                    &one.participant,
                    one.size,
                    one.metric,
                    &one.values(),
                )
            })
            .collect();
        let place = |row: &Row| self.series.iter().position(|one| one.case == row.case);
        rows.sort_by_cached_key(|row| (place(row), row.size_bytes));
        rows
    }
}

/// Medians with a column for each participant; where one has none because a trial failed, the cell says so.
pub(crate) fn medians(rows: &[Row], participants: &[String], gaps: &[Gap]) -> Table {
    let mut head = vec!["case", "size"];
    head.extend(participants.iter().map(String::as_str));
    let mut table = Table::new(&head);
    table.align_right(&(1..head.len()).collect::<Vec<_>>());
    for same in rows.chunk_by(|a, b| (&a.case, a.size_bytes) == (&b.case, b.size_bytes)) {
        let Some(first) = same.first() else { continue };
        let size = match first.size_bytes {
            0 if !first.case.starts_with("latency/") => String::new(),
            size => bytes_text(size),
        };
        let mut cells = vec![first.case.clone(), size];
        cells.extend(participants.iter().map(|participant| {
            let row = same.iter().find(|row| row.participant == *participant);
            let figure = row.map(|row| figure_text(&row.metric, row.median));
            let why_not = || {
                gap(gaps, participant, &first.case)
                    .unwrap_or_default()
                    .to_owned()
            };
            figure.unwrap_or_else(why_not)
        }));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::trial::{Pattern, Trial};
    use crate::messages::effort::Effort;

    #[test]
    fn ratios_need_figures_of_the_same_run() {
        let mut findings = Findings::default();
        for (run, participant, value) in [
            (0, OURS, 1.0),
            (1, OURS, 4.0),
            (1, "x-1", 2.0),
            (2, "x-1", 9.0),
        ] {
            findings.add(
                run,
                participant,
                Figure::new("rate/shm", 8, "rate_per_s", value).unwrap(),
            );
        }
        let ours = findings.series("rate/shm", OURS, 8).unwrap();
        let other = findings.series("rate/shm", "x-1", 8).unwrap();
        assert_eq!(ours.over(other), [2.0]);
        assert_eq!(findings.rows().len(), 2);
        let table = medians(&findings.rows(), &[OURS.to_owned(), "x-1".to_owned()], &[]);
        assert_eq!(table.rows(), [["rate/shm", "8 B", "2 /s", "5 /s"]]);
    }

    #[test]
    fn a_cell_without_a_figure_says_that_its_trial_failed() {
        let trial = |pattern, method: &str| Trial {
            pattern,
            method: method.to_owned(),
            sizes: Vec::new(),
            clients: 64,
            effort: Effort { quick: true },
            processors: [0, 1],
        };
        let gaps = [
            (Pattern::Load, "tcp", "timed out"),
            (Pattern::Bandwidth, "shm", "failed"),
        ]
        .map(|(pattern, method, how)| Gap {
            participant: "x-1".to_owned(),
            trial: trial(pattern, method),
            how,
            why: String::new(),
        });
        let mut findings = Findings::default();
        let latencies = [1.0, 3.0];
        let load = |clients| Trial {
            clients,
            ..trial(Pattern::Load, "tcp")
        };
        // As many clients as there are latencies.
        for figure in Figure::of_load(&load(2), 10_000, &latencies) {
            findings.add(0, OURS, figure);
        }
        for (participant, case) in [
            (OURS, "load/tcp/64-clients/mean"),
            (OURS, "rate/shm"),
            (OURS, "rate/tcp"),
            (OURS, "ring/tcp/2-processes/hop"),
            ("x-1", "bandwidth/shm"),
        ] {
            findings.add(0, participant, Figure::new(case, 8, "ratio", 1.0).unwrap());
        }
        let participants = [OURS.to_owned(), "x-1".to_owned()];
        let table = medians(&findings.rows(), &participants, &gaps);
        let cell = |case: &str| {
            let mut rows = table.rows().iter();
            rows.find(|row| row[0] == case).unwrap()[3].clone()
        };
        assert_eq!(cell("load/tcp/64-clients/mean"), "timed out");
        assert_eq!(cell("rate/shm"), "failed");
        for case in [
            "load/tcp/2-clients/mean",
            "rate/tcp",
            "ring/tcp/2-processes/hop",
        ] {
            assert_eq!(cell(case), "", "{case}");
        }
        assert_ne!(cell("bandwidth/shm"), "failed", "what came before is shown");
    }
}
