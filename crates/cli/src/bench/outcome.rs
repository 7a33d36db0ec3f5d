//! What a benchmark has found: rows, what was done to get them, and the three ways to show them.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::compare::findings::Gap;
use super::compare::goals::Verdict;
use crate::failure::Outcome;
use crate::machine::{COMMIT, Machine};
use crate::output::Output;
use crate::report::Page;
use crate::rows::{Row, Table, figure_text, rows_table};

/// A benchmark in progress, and its result.
pub(crate) struct Benchmark {
    /// Its name: `fs`, `messages`.
    pub(crate) name: &'static str,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// How to present it.
    pub(crate) output: Output,
    /// The figures.
    pub(crate) rows: Vec<Row>,
    /// What a reader must know about how they came about.
    pub(crate) notes: Vec<String>,
    /// What was to be reached, and whether it was; empty for benchmarks without goals.
    pub(crate) verdicts: Vec<Verdict>,
    /// Who has no figures of what, and why.
    pub(crate) gaps: Vec<Gap>,
}

impl Benchmark {
    /// Begins.
    pub(crate) fn new(name: &'static str, output: Output) -> Self {
        let machine = Machine::here();
        output.line(&machine.text());
        Self {
            name,
            machine,
            output,
            rows: Vec::new(),
            notes: Vec::new(),
            verdicts: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Adds a figure from the values of several runs.
    pub(crate) fn add(&mut self, case: &str, who: &str, size: u64, metric: &str, values: &[f64]) {
        if let Some(row) = Row::new(case, who, size, metric, values) {
            let shown = match size {
                0 => String::new(),
                size => format!(" {}", crate::units::bytes_text(size)),
            };
            self.output.line(&format!(
                "  {case}{shown} {who}: {} ({} to {})",
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
        self.add(case, "causeway", size, "ratio", &ratios);
    }

    /// Says something about how the figures came about.
    pub(crate) fn note(&mut self, text: String) {
        self.output.line(&text);
        self.notes.push(text);
    }

    /// A row's figure.
    pub(crate) fn row(&self, case: &str, who: &str, size: u64) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.case == case && row.who == who && row.size_bytes == size)
    }

    /// Prints the table or the JSON, and writes the report.
    pub(crate) fn finish(
        &self,
        html: Option<&PathBuf>,
        draw: impl FnOnce(&Self, &mut Page),
    ) -> Outcome {
        self.output.line("");
        self.output.line(&rows_table(&self.rows).text());
        self.publish(html, draw)
    }

    /// Prints the JSON, and writes the report.
    pub(crate) fn publish(
        &self,
        html: Option<&PathBuf>,
        draw: impl FnOnce(&Self, &mut Page),
    ) -> Outcome {
        if let Some(path) = html {
            self.write(path, draw)?;
            self.output.line(&format!("report: {}", path.display()));
        }
        let mut object = json!({
            "bench": self.name, "machine": self.machine, "commit": COMMIT, "rows": self.rows,
            "notes": self.notes });
        if let (false, Some(object)) = (self.verdicts.is_empty(), object.as_object_mut()) {
            object.insert("goals".to_owned(), json!(self.verdicts));
        }
        if let (false, Some(object)) = (self.gaps.is_empty(), object.as_object_mut()) {
            object.insert("gaps".to_owned(), json!(self.gaps));
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
        page.write(path)
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
