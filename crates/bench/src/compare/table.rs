//! Medians side by side, a column for each participant.

use causeway_report::rows::Row;
use causeway_report::table::Table;
use causeway_report::units::{figure_text, size_text};

use super::trial::Gap;

/// Text in place of a figure that a participant lacks.
pub(crate) fn gap(gaps: &[Gap], participant: &str, case: &str) -> Option<&'static str> {
    let mut gaps = gaps.iter();
    let gap = gaps.find(|gap| gap.participant == participant && gap.trial.yields(case))?;
    Some(gap.how)
}

/// Medians with a column for each participant; where a participant has none because a trial failed,
/// the cell shows that.
pub(crate) fn medians(rows: &[Row], participants: &[String], gaps: &[Gap]) -> Table {
    let mut head = vec!["case", "size"];
    head.extend(participants.iter().map(String::as_str));
    let mut table = Table::new(&head);
    table.align_right(&(1..head.len()).collect::<Vec<_>>());
    for same in rows.chunk_by(|a, b| (&a.case, a.size_bytes) == (&b.case, b.size_bytes)) {
        let Some(first) = same.first() else { continue };
        let size = match first.size_bytes {
            0 if !first.case.starts_with("latency/") => String::new(),
            size => size_text(size),
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
    use crate::participants::OURS;
    use crate::parts::figure::Figure;
    use crate::parts::findings::Findings;

    #[test]
    fn each_participant_has_a_column() {
        let mut findings = Findings::default();
        for (participant, value) in [(OURS, 2.0), ("x-1", 5.0)] {
            let figure = Figure::new("rate/shm", 1000, "rate_per_s", value).unwrap();
            findings.add(0, participant, "near", figure);
        }
        let table = medians(&findings.rows(), &[OURS.to_owned(), "x-1".to_owned()], &[]);
        assert_eq!(table.rows(), [["rate/shm", "1,000 B", "2 /s", "5 /s"]]);
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
            findings.add(0, OURS, "near", figure);
        }
        for (participant, case) in [
            (OURS, "load/tcp/64-clients/mean"),
            (OURS, "rate/shm"),
            (OURS, "rate/tcp"),
            (OURS, "ring/tcp/2-processes/hop"),
            ("x-1", "bandwidth/shm"),
        ] {
            let figure = Figure::new(case, 8, "ratio", 1.0).unwrap();
            findings.add(0, participant, "near", figure);
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
