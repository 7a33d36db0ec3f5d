//! A benchmark's result: rows, how they came about, and the three ways to show them.

use std::path::{Path, PathBuf};

use causeway_command::failure::Outcome;
use causeway_command::output::Output;
use causeway_command::whole_file;
use causeway_report::machine::{COMMIT, Machine};
use causeway_report::page::Page;
use causeway_report::rows::{Row, rows_table};
use causeway_report::table::Table;
use causeway_report::units::figure_text;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::compare::trial::Gap;
use crate::participants::{LIMIT, OURS};
use crate::parts::Parts;
use crate::sizes::Sizes;

/// The title of rows that are compared with nothing.
const OTHER_ROWS: &str = "Measured while the distance of the two processors was another one, or changed: compared with nothing";

/// How a benchmark shows its results.
#[derive(Debug, Clone, Args)]
pub(crate) struct Presentation {
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Write a report with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A goal and its outcome.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Verdict {
    /// The measured quantity.
    pub(crate) goal: String,
    /// The bound of the ratio.
    pub(crate) wanted: String,
    /// The median of the runs' ratios.
    pub(crate) ratio: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) runs: usize,
    /// Our figure and the other one, as text.
    pub(crate) ours: String,
    pub(crate) other: String,
    /// The participant that the other figure is of.
    #[serde(rename = "who")]
    pub(crate) participant: String,
    pub(crate) reached: bool,
}

/// A benchmark in progress, and its result.
pub(crate) struct Benchmark {
    /// The benchmark's name: `fs`, `messages`.
    pub(crate) name: &'static str,
    /// The machine that it ran on.
    pub(crate) machine: Machine,
    /// How to present it.
    pub(crate) output: Output,
    /// The report's file, if one is wanted.
    html: Option<PathBuf>,
    /// The figures.
    pub(crate) rows: Vec<Row>,
    /// Figures that are compared with nothing, because the processors were at another distance while they were measured.
    other_rows: Vec<Row>,
    /// How far apart the processors were, in JSON; null if that was not measured.
    distances: serde_json::Value,
    /// The seed of the sizes, if they were drawn.
    seed: Option<u64>,
    /// Notes on how the figures were obtained.
    pub(crate) notes: Vec<String>,
    /// The verdicts on the goals; empty for benchmarks without goals.
    pub(crate) verdicts: Vec<Verdict>,
    /// Trials that participants did not complete, and why.
    pub(crate) gaps: Vec<Gap>,
}

impl Benchmark {
    /// Begins a benchmark.
    pub(crate) fn new(name: &'static str, presentation: &Presentation) -> Self {
        let machine = Machine::here();
        let output = Output::new(presentation.json);
        output.line(&machine.text());
        Self {
            name,
            machine,
            output,
            html: presentation.html.clone(),
            rows: Vec::new(),
            other_rows: Vec::new(),
            distances: serde_json::Value::Null,
            seed: None,
            notes: Vec::new(),
            verdicts: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Adds a figure of Causeway's from the values of several runs.
    pub(crate) fn ours(&mut self, case: &str, size: u64, metric: &str, values: &[f64]) {
        self.add(case, OURS, size, metric, values);
    }

    /// Adds a limit of the machine.
    pub(crate) fn limit(&mut self, case: &str, size: u64, metric: &str, values: &[f64]) {
        self.add(case, LIMIT, size, metric, values);
    }

    fn add(&mut self, case: &str, participant: &str, size: u64, metric: &str, values: &[f64]) {
        if let Some(row) = Row::new(case, participant, size, metric, values) {
            let shown = match size {
                0 => String::new(),
                size => format!(" {}", causeway_report::units::bytes_text(size)),
            };
            self.output.line(&format!(
                "  {case}{shown} {participant}: {} ({} to {})",
                figure_text(metric, row.median),
                figure_text(metric, row.min),
                figure_text(metric, row.max)
            ));
            self.rows.push(row);
        }
    }

    /// Adds the ratios of two figures of the same runs.
    pub(crate) fn ratio(&mut self, case: &str, size: u64, upper: &[f64], lower: &[f64]) {
        let ratios: Vec<f64> = upper
            .iter()
            .zip(lower)
            .filter(|(_, lower)| **lower > 0.0)
            .map(|(u, l)| u / l)
            .collect();
        self.ours(case, size, "ratio", &ratios);
    }

    /// Notes which sizes are measured, if they were drawn.
    pub(crate) fn sizes(&mut self, sizes: Sizes) {
        self.seed = sizes.seed;
        if let Some(note) = sizes.note() {
            self.note(note);
        }
    }

    /// Notes circumstances that make ratios unreliable.
    pub(crate) fn warn(&mut self, quick: bool) {
        let load: f64 = self.machine.load.parse().unwrap_or(0.0);
        if load > 1.0 {
            self.note(format!(
                "other processes used the processors when this began (load {load}): ratios, and goals that \
                 seem reached or missed, may be theirs; measure again on a quiet machine"
            ));
        }
        if quick {
            self.note("one quick run: an impression, not a measurement".to_owned());
        }
    }

    /// Notes how far apart the processors were, and adds the figures that are compared with
    /// nothing. `why` is the reason why a distance is unknown.
    pub(crate) fn parts(&mut self, parts: &Parts, why: Option<&str>) {
        for note in parts.notes(why) {
            self.note(note);
        }
        self.distances = parts.json();
        self.other_rows = parts.other_rows();
    }

    /// Prints the figures that are compared with nothing.
    pub(crate) fn show_other_rows(&self) {
        if !self.other_rows.is_empty() {
            self.output.line("");
            self.output.line(OTHER_ROWS);
            self.output.line(&rows_table(&self.other_rows).text());
        }
    }

    /// Notes something about how the figures were obtained.
    pub(crate) fn note(&mut self, text: String) {
        self.output.line(&text);
        self.notes.push(text);
    }

    /// Prints the table or the JSON, and writes the report.
    pub(crate) fn finish(&self, draw: impl FnOnce(&Self, &mut Page)) -> Outcome {
        self.output.line("");
        self.output.line(&rows_table(&self.rows).text());
        self.show_other_rows();
        self.publish(draw)
    }

    /// Prints the JSON, and writes the report.
    pub(crate) fn publish(&self, draw: impl FnOnce(&Self, &mut Page)) -> Outcome {
        if let Some(path) = &self.html {
            self.write(path, draw)?;
            self.output.line(&format!("report: {}", path.display()));
        }
        let mut object = json!({
            "bench": self.name, "machine": self.machine, "commit": COMMIT, "rows": self.rows,
            "notes": self.notes });
        if let Some(seed) = self.seed {
            object["seed"] = json!(seed);
        }
        if !self.distances.is_null() {
            object["distances"] = self.distances.clone();
            object["other_rows"] = json!(self.other_rows);
        }
        if !self.verdicts.is_empty() {
            object["goals"] = json!(self.verdicts);
        }
        if !self.gaps.is_empty() {
            object["gaps"] = json!(self.gaps);
        }
        self.output.object(&object);
        Ok(())
    }

    fn write(&self, path: &Path, draw: impl FnOnce(&Self, &mut Page)) -> Outcome {
        let title = format!("causeway bench {}", self.name);
        let lead = "Medians of several runs; limits of this machine were measured between them, so \
                    that both saw the same machine at the same time. The ratios are what counts.";
        let mut page = Page::new(&title, lead);
        draw(self, &mut page);
        if !self.notes.is_empty() {
            page.lines("How it was measured", "", &self.notes);
        }
        page.machine(&self.machine, &[]);
        page.table(
            "Rows",
            "The same rows as in --json.",
            &rows_table(&self.rows),
        );
        if !self.other_rows.is_empty() {
            let caption = format!("{OTHER_ROWS}. In --json they are `other_rows`.");
            let table = rows_table(&self.other_rows);
            page.table("Rows measured elsewhere", &caption, &table);
        }
        whole_file::write(path, page.html().as_bytes())
    }

    /// The rows of some cases, as a table.
    pub(crate) fn table_of(&self, wanted: impl Fn(&Row) -> bool) -> Table {
        let rows: Vec<Row> = self
            .rows
            .iter()
            .filter(|row| wanted(row))
            .cloned()
            .collect();
        rows_table(&rows)
    }
}
