//! Results: compared with the thesis, and as rows and files.

use std::fmt::Write as _;
use std::path::Path;

use causeway_command::failure::{Doing, Outcome};
use causeway_command::output::Output;
use causeway_command::whole_file;
use causeway_report::rows::Row;
use causeway_report::style::{Style, paint};
use causeway_sim::catalogue::{Entry, Found, Table};
use causeway_sim::figures::table::{Cell, alternatives};
use causeway_sim::figures::{self, About, Row as Point, Verdict};
use serde::Serialize;

/// The participant of simulated values.
const OURS: &str = "causeway";
/// The participant of printed values.
const PAPER: &str = "paper";

/// A statement of the thesis, and whether it holds here.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Claim {
    /// The figure or table, as `figure 4.12`.
    pub(super) of: String,
    /// The statement of the thesis.
    pub(super) claim: String,
    /// Whether it holds in the simulation.
    pub(super) holds: bool,
    /// The values that decided.
    pub(super) evidence: String,
    /// Why it is known not to hold, if it does not.
    pub(super) open: Option<&'static str>,
}

impl Claim {
    fn new(of: &str, number: &str, verdict: Verdict) -> Self {
        let open = figures::open::why(number, &verdict.claim);
        let mut evidence = verdict.full_evidence();
        if let (false, Some(why)) = (verdict.holds, open) {
            let _ = write!(evidence, "; open: {why}");
        }
        Self {
            of: of.to_owned(),
            evidence,
            open,
            claim: verdict.claim,
            holds: verdict.holds,
        }
    }
}

/// A figure or table with its results.
pub(super) enum Finding {
    /// A figure: all its points.
    Figure(About, Vec<Point>),
    /// A table: all its cells.
    Table(&'static Table, Vec<Cell>),
}

impl Finding {
    /// Combines the results of an entry's tasks, in their order.
    pub(super) fn new(entry: &Entry, found: impl Iterator<Item = Found>) -> Self {
        let (mut rows, mut cells) = (Vec::new(), Vec::new());
        for found in found {
            match found {
                Found::Rows(more) => rows.extend(more),
                Found::Cells(more) => cells.extend(more),
            }
        }
        match entry {
            Entry::Figure(about) => Self::Figure(*about, rows),
            Entry::Table(table) => Self::Table(table, cells),
        }
    }

    /// `figure 4.12`, `table 5.1`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Figure(about, _) => format!("figure {}", about.number),
            Self::Table(table, _) => format!("table {}", table.number),
        }
    }

    /// The title.
    pub(super) fn title(&self) -> &'static str {
        match self {
            Self::Figure(about, _) => about.title,
            Self::Table(table, _) => table.title,
        }
    }

    /// The thesis's statements about it. A table has one: that each printed value is met.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let of = self.name();
        match self {
            Self::Figure(about, rows) => figures::judge(about.number, rows)
                .into_iter()
                .map(|verdict| Claim::new(&of, about.number, verdict))
                .collect(),
            Self::Table(table, cells) => std::iter::once(table_verdict(table, cells))
                .chain(table.judge(cells))
                .map(|verdict| Claim::new(&of, table.number, verdict))
                .collect(),
        }
    }

    /// The rows of `--json`.
    pub(super) fn rows(&self) -> Vec<Row> {
        match self {
            Self::Table(table, cells) => {
                let rows = cells.iter().flat_map(|cell| cell_rows(table, cell));
                rows.collect()
            }
            Self::Figure(about, points) => points
                .iter()
                .filter_map(|point| {
                    let (series, x) = (slug(&point.series), point.x);
                    let case = format!("figure-{}/{series}/{x}", about.number);
                    let metric = metric(about, &point.series);
                    Row::new(case, OURS, 0, metric, &[point.value])
                })
                .collect(),
        }
    }

    /// The values for a spreadsheet.
    fn csv(&self) -> String {
        let mut text = String::new();
        match self {
            Self::Figure(about, points) => {
                line(&mut text, &["series", about.x, about.y]);
                for point in points {
                    let (x, value) = (point.x.to_string(), point.value.to_string());
                    line(&mut text, &[&point.series, &x, &value]);
                }
            }
            Self::Table(table, cells) => {
                let unit = match table.unit.name {
                    "µs" => "us",
                    other => other,
                };
                let [ours, paper] = ["causeway", "paper"].map(|name| format!("{name}_{unit}"));
                line(&mut text, &["case", "size_bytes", &ours, &paper, "agrees"]);
                for cell in cells {
                    let paper = cell.paper.map(|value| value.to_string());
                    let agrees = match (&paper, table.agrees(cell)) {
                        (None, _) => "",
                        (_, true) => "yes",
                        (_, false) => "no",
                    };
                    let (size, ours) = (cell.size_bytes.to_string(), cell.causeway.to_string());
                    let paper = paper.unwrap_or_default();
                    line(&mut text, &[&cell.case, &size, &ours, &paper, agrees]);
                }
            }
        }
        text
    }
}

/// The metric of a figure's series.
pub(super) fn metric(about: &About, series: &str) -> &'static str {
    let is_share = |text: &str| text.contains('%');
    match about.y {
        _ if series.ends_with("latency") || series.starts_with("wait ") => "latency_us",
        _ if is_share(series) => "percent",
        y if y.starts_with("jitter fraction") => "jitter_theta",
        y if is_share(y) => "percent",
        _ => "latency_us",
    }
}

/// How close a table's values have to be.
pub(super) fn within(table: &Table) -> String {
    let part = table.tolerance * 100.0;
    match table.unit.slack {
        0.0 => format!("{part:.0} %"),
        slack => format!("{part:.0} % or {slack:.0} {}", table.unit.name),
    }
}

fn table_verdict(table: &Table, cells: &[Cell]) -> Verdict {
    let printed: Vec<&Cell> = cells.iter().filter(|cell| cell.paper.is_some()).collect();
    let missed: Vec<&&Cell> = printed.iter().filter(|cell| !table.agrees(cell)).collect();
    let (all, met) = (printed.len(), printed.len() - missed.len());
    let unit = table.unit.name;
    let mut evidence = format!("{met} of {all}");
    for (place, cell) in missed.iter().take(8).enumerate() {
        let before = if place == 0 { "; not " } else { ", " };
        let paper = cell.paper.unwrap_or(f64::NAN);
        let Cell { case, causeway, .. } = cell;
        let size = match cell.size_bytes {
            0 => String::new(),
            bytes => format!(" at {bytes} B"),
        };
        let _ = write!(
            evidence,
            "{before}{case}{size} ({causeway:.1} for {paper} {unit})"
        );
    }
    for told in alternatives(cells) {
        let _ = write!(evidence, "; {told}");
    }
    Verdict {
        claim: format!("each printed value is met within {}", within(table)),
        holds: missed.is_empty() && all > 0,
        evidence,
        alternatives: Vec::new(),
    }
}

fn cell_rows(table: &Table, cell: &Cell) -> Vec<Row> {
    let values = [(OURS, Some(cell.causeway)), (PAPER, cell.paper)];
    values
        .into_iter()
        .filter_map(|(participant, value)| {
            let size = u64::from(cell.size_bytes);
            let metric = match cell.case.ends_with("/variation") {
                true => "ratio",
                false => table.unit.metric,
            };
            let case = cell.case.to_lowercase();
            Row::new(case, participant, size, metric, &[value?])
        })
        .collect()
}

/// A series as a part of a case: `Door+O+DMAQ u28` is `door+o+dmaq-u28`.
pub(super) fn slug(series: &str) -> String {
    let mut slug = String::new();
    for c in series.to_lowercase().chars() {
        match c {
            ' ' | '/' | ':' => slug.push('-'),
            c => slug.push(c),
        }
    }
    slug
}

/// Adds a line of comma-separated fields (RFC 4180).
pub(super) fn line(text: &mut String, fields: &[&str]) {
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            let _ = write!(text, "\"{}\"", field.replace('"', "\"\""));
        } else {
            text.push_str(field);
        }
    }
    text.push_str("\r\n");
}

/// Writes each figure and table, and all verdicts, as files into a directory.
pub(super) fn write_csv(directory: &Path, findings: &[Finding], claims: &[Claim]) -> Outcome {
    std::fs::create_dir_all(directory)
        .doing(|| format!("making the directory {}", directory.display()))?;
    for finding in findings {
        let name = finding.name().replace(' ', "-");
        let path = directory.join(format!("{name}.csv"));
        whole_file::write(&path, finding.csv().as_bytes())?;
    }
    let mut text = String::new();
    line(&mut text, &["of", "claim", "holds", "evidence", "open"]);
    for one in claims {
        let holds = if one.holds { "yes" } else { "no" };
        line(
            &mut text,
            &[
                &one.of,
                &one.claim,
                holds,
                &one.evidence,
                one.open.unwrap_or_default(),
            ],
        );
    }
    whole_file::write(&directory.join("verdicts.csv"), text.as_bytes())
}

/// Prints the claims, and how many of them hold.
pub(super) fn print(output: &Output, findings: &[Finding], claims: &[Claim]) {
    for finding in findings {
        let name = finding.name();
        output.line(&paint(&format!("{name}: {}", finding.title()), Style::Bold));
        for one in claims.iter().filter(|one| one.of == name) {
            let mark = match (one.holds, one.open) {
                (true, _) => paint("holds", Style::Green),
                (false, Some(_)) => paint("open ", Style::Yellow),
                (false, None) => paint("FAILS", Style::Red),
            };
            output.line(&format!("  {mark}  {}", one.claim));
            output.line(&format!("         {}", one.evidence));
        }
    }
    let held = claims.iter().filter(|one| one.holds).count();
    let open = claims.iter().filter(|one| !one.holds && one.open.is_some());
    let (open, all) = (open.count(), claims.len());
    output.line(&format!("{held} of {all} claims hold, {open} are open"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_need_quotes_get_them() {
        let mut text = String::new();
        line(&mut text, &["(C1,NI1)", "say \"x\"", "plain"]);
        assert_eq!(text, "\"(C1,NI1)\",\"say \"\"x\"\"\",plain\r\n");
    }

    #[test]
    fn series_become_parts_of_cases() {
        assert_eq!(slug("Door+O+DMAQ u28"), "door+o+dmaq-u28");
        assert_eq!(slug("QoSVIA 2 MB/s"), "qosvia-2-mb-s");
    }

    #[test]
    fn a_table_is_met_only_by_all_its_printed_cells() {
        let table = causeway_sim::catalogue::table("5.1").unwrap();
        let cell = |paper, causeway| Cell {
            case: "svia/send/0".to_owned(),
            size_bytes: 4,
            paper,
            causeway,
        };
        let claim = |cells: &[Cell]| table_verdict(table, cells);
        assert!(claim(&[cell(Some(100.0), 109.0), cell(None, 7.0)]).holds);
        let missed = claim(&[cell(Some(100.0), 111.0), cell(Some(3.0), 4.9)]);
        assert!(
            !missed.holds && missed.evidence.contains("1 of 2"),
            "{missed:?}"
        );
        assert!(!claim(&[]).holds);
    }
}
