//! The report of `causeway bench mpi`.

use causeway_report::page::Page;
use causeway_report::plots::{self, Line};

use crate::compare::table;
use crate::goals;
use crate::messages::page::by_size;
use crate::outcome::Benchmark;
use crate::sizes;

/// Fills the report: a plot for each case that has several sizes, then all side by side.
pub(super) fn draw(benchmark: &Benchmark, page: &mut Page) {
    page.cards(&goals::cards(&benchmark.verdicts));
    let mut cases: Vec<(&str, &str)> = Vec::new();
    for row in &benchmark.rows {
        if !cases.contains(&(&row.case, &row.metric)) {
            cases.push((&row.case, &row.metric));
        }
    }
    for (case, metric) in cases {
        let lines = lines(benchmark, case);
        if lines.iter().any(|line| line.points.len() > 1) {
            let caption = "Whiskers: all runs.";
            by_size(page, &lines, metric, case, "logarithmic", caption);
        }
    }
    let names = participants(benchmark);
    page.table(
        "Side by side",
        "Medians of the runs.",
        &table::medians(&benchmark.rows, &names, &[]),
    );
    goals::draw(benchmark, page);
}

fn participants(benchmark: &Benchmark) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in &benchmark.rows {
        if !names.contains(&row.participant) {
            names.push(row.participant.clone());
        }
    }
    names
}

/// A line for each library.
fn lines(benchmark: &Benchmark, case: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in benchmark.rows.iter().filter(|row| row.case == case) {
        let place = sizes::place(row.size_bytes);
        let point = row.point_at(place);
        let style = |lines: usize| (lines % 8, false);
        plots::add_point(&mut lines, &row.participant, point, style);
    }
    lines
}
