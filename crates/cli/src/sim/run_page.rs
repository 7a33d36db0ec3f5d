//! The report of a user's own experiment: its values as plots and as a table, and the scenario itself.

use std::path::Path;

use causeway_sim::scenario::Scenario;

use super::page::{colour, distinct, made_with, style};
use super::scenario::{table, value_text};
use crate::failure::Outcome;
use crate::report::Page;
use crate::report::page::{Extent, Figure};
use crate::report::plots::{self, Axes, Bar, Line};
use crate::report::svg::plain;
use crate::rows::Row;

/// More bars than this are no picture.
const MOST_BARS: usize = 40;

/// Writes the report of `scenario`, whose file says `text`.
pub(super) fn write(path: &Path, scenario: &Scenario, text: &str, rows: &[Row]) -> Outcome {
    let lead = match scenario.is_reproducible() {
        true => {
            "An experiment, simulated. The same scenario gives the same values wherever and whenever it is run."
        }
        false => {
            "An experiment, simulated with the programs' native time: values differ from run to run and from machine to \
             machine."
        }
    };
    let mut page = Page::new(&scenario.name, lead);
    let metrics = distinct(rows.iter().map(|row| row.metric.as_str()));
    let of = |metric: &str| -> Vec<&Row> {
        let wanted = rows.iter().filter(|row| row.metric == metric);
        wanted.collect()
    };
    let cards = metrics.iter().map(|metric| card(metric, &of(metric)));
    page.cards(&cards.collect::<Vec<_>>());
    for metric in &metrics {
        draw(&mut page, metric, &of(metric));
    }
    page.table("All values", "", &table(rows));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    page.lines("The scenario", "", &lines);
    made_with(&mut page, &[]);
    page.write(path)
}

/// What a metric is called, and its unit.
fn named(metric: &str) -> (&str, &str) {
    match metric {
        "latency_us" => ("Latency", "µs"),
        "time_us" => ("Time", "µs"),
        "received_mb_s" => ("Received", "MB/s"),
        "jitter_share" => ("Messages that are late after the one before", "share"),
        "jitter_theta" => ("Jitter fraction θ", "θ"),
        "count" => ("Counts", "how many"),
        other => (other, other),
    }
}

/// The range of a metric's values.
fn card(metric: &str, rows: &[&Row]) -> (String, String, Option<bool>) {
    let values = rows.iter().map(|row| row.median);
    let low = value_text(metric, values.clone().fold(f64::INFINITY, f64::min));
    let high = value_text(metric, values.fold(f64::NEG_INFINITY, f64::max));
    let range = match low == high {
        true => low,
        false => format!("{low} – {high}"),
    };
    let (name, _) = named(metric);
    (range, format!("{name}, values: {}", rows.len()), None)
}

/// Curves where there are several sizes, bars otherwise.
fn draw(page: &mut Page, metric: &str, rows: &[&Row]) {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (title, unit) = named(metric);
    let figure = |caption, legend| Figure {
        title,
        caption,
        extent: Extent::Wide,
        legend,
    };
    if sizes.len() > 1 && sizes.first() != Some(&0) {
        let lines = lines(rows);
        let legend = lines.iter().map(Line::key).collect();
        let axes = Axes {
            x_title: "bytes of a message",
            y_title: unit,
            logarithmic_x: true,
            logarithmic_y: false,
        };
        page.figure(&figure("By the size of messages.", legend), |width| {
            plots::curves(width, &lines, &axes, plots::size_name, |value| {
                plain((value * 1e4).round() / 1e4)
            })
        });
    } else if rows.len() <= MOST_BARS {
        let bars: Vec<Bar> = rows
            .iter()
            .map(|row| Bar {
                name: row.case.clone(),
                parts: vec![(colour(0), row.median)],
                note: value_text(metric, row.median),
            })
            .collect();
        page.figure(&figure("", Vec::new()), |width| {
            plots::bars(width, &bars, unit, plain)
        });
    }
}

fn lines(rows: &[&Row]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (x, value) = (row.size_bytes as f64, row.median);
        plots::add_point(&mut lines, &row.case, (x, value, value, value), style);
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}
