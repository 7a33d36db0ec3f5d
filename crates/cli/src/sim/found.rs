//! Results: compared with the thesis, and as rows and files.

use std::fmt::Write as _;
use std::path::Path;

use causeway_command::failure::{Doing, Outcome};
use causeway_command::output::Output;
use causeway_command::whole_file;
use causeway_report::rows::Row;
use causeway_report::style::{Style, paint};
use causeway_sim::catalogue::{Entry, Table, TaskResult};
use causeway_sim::figures::table::{Cell, alternatives};
use causeway_sim::figures::{self, About, Row as Point, Verdict};
use serde::Serialize;

/// The participant of simulated values.
const OURS: &str = "causeway";
/// The participant of printed values.
const PAPER: &str = "paper";

/// A value of a figure or table, as `--json` has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ValueRow {
    /// The value; its median, minimum and maximum are those of runs, and all the same if there is only one value.
    #[serde(flatten)]
    row: Row,
    /// The mean of the runs' values, of several runs. It is what claims are judged by.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    /// `mean` if the only value is a mean over messages or rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    statistic: Option<&'static str>,
}

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
    pub(super) fn new(entry: &Entry, found: impl Iterator<Item = TaskResult>) -> Self {
        let (mut rows, mut cells) = (Vec::new(), Vec::new());
        for found in found {
            match found {
                TaskResult::Rows(more) => rows.extend(more),
                TaskResult::Cells(more) => cells.extend(more),
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
    pub(super) fn rows(&self) -> Vec<ValueRow> {
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
                    Some(ValueRow {
                        row: Row::new(case, OURS, 0, metric, &[point.value])?,
                        mean: None,
                        statistic: (metric == "latency_us").then_some("mean"),
                    })
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
                let has_jobs = table.slowdown(0.0).is_some();
                let slowdowns = ["causeway_slowdown", "paper_slowdown"];
                let mut head = vec!["case", "size_bytes", &ours, &paper, "agrees"];
                head.extend(slowdowns.iter().filter(|_| has_jobs));
                line(&mut text, &head);
                for cell in cells {
                    let paper = cell.paper.map(|value| value.to_string());
                    let agrees = match (&paper, table.agrees(cell)) {
                        (None, _) => "",
                        (_, true) => "yes",
                        (_, false) => "no",
                    };
                    let (size, ours) = (cell.size_bytes.to_string(), cell.causeway.to_string());
                    let paper = paper.unwrap_or_default();
                    let slowdowns = [Some(cell.causeway), cell.paper].map(|time| {
                        let slowdown = time.filter(|_| !is_variation(cell));
                        let slowdown = slowdown.and_then(|time| table.slowdown(time));
                        slowdown.map(|value| value.to_string()).unwrap_or_default()
                    });
                    let mut fields = vec![&*cell.case, &size, &ours, &paper, agrees];
                    fields.extend(slowdowns.iter().map(String::as_str).filter(|_| has_jobs));
                    line(&mut text, &fields);
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

/// Whether the cell's value is a coefficient of variation, not one in the table's unit.
pub(super) fn is_variation(cell: &Cell) -> bool {
    cell.case.ends_with("/variation")
}

fn cell_rows(table: &Table, cell: &Cell) -> Vec<ValueRow> {
    let size = u64::from(cell.size_bytes);
    let metric = match is_variation(cell) {
        true => "ratio",
        false => table.unit.metric,
    };
    let case = cell.case.to_lowercase();
    let row =
        |participant: &str, values: &[f64]| Row::new(&*case, participant, size, metric, values);
    let single = [cell.causeway];
    let (values, statistic): (&[f64], _) = match cell.values.is_empty() {
        true => (&single, Some("mean")),
        false => (&cell.values, None),
    };
    let ours = row(OURS, values).map(|row| ValueRow {
        row,
        mean: (values.len() > 1).then_some(cell.causeway),
        statistic,
    });
    let paper = cell.paper.and_then(|printed| row(PAPER, &[printed]));
    let paper = paper.map(|row| ValueRow {
        row,
        mean: None,
        statistic: None,
    });
    let mut rows: Vec<ValueRow> = ours.into_iter().chain(paper).collect();
    if metric != "ratio" {
        let slowdowns: Vec<ValueRow> = rows
            .iter()
            .filter_map(|row| row.slowdown(|time| table.slowdown(time)))
            .collect();
        rows.extend(slowdowns);
    }
    rows
}

impl ValueRow {
    /// The row of the slowdowns that `of` computes from times.
    fn slowdown(&self, of: impl Fn(f64) -> Option<f64>) -> Option<Self> {
        Some(Self {
            row: Row {
                case: format!("{}/slowdown", self.row.case),
                metric: "slowdown".to_owned(),
                median: of(self.row.median)?,
                min: of(self.row.min)?,
                max: of(self.row.max)?,
                ..self.row.clone()
            },
            mean: self.mean.and_then(of),
            statistic: self.statistic,
        })
    }
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
    use serde_json::Value;

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
    fn a_cell_has_the_values_of_its_runs_or_says_that_it_is_a_mean() {
        let table = causeway_sim::catalogue::table("6.4").unwrap();
        let rows = |values: &[f64]| {
            let cell = Cell {
                case: "PB/workload-1".to_owned(),
                size_bytes: 0,
                paper: Some(130.0),
                causeway: 4.0,
                values: values.to_vec(),
            };
            let rows = cell_rows(table, &cell);
            let json = rows.iter().map(|row| serde_json::to_value(row).unwrap());
            json.collect::<Vec<_>>()
        };
        let runs = rows(&[1.0, 2.0, 9.0]);
        let field = |name: &str| runs[0][name].as_f64();
        let found = ["min", "median", "max", "mean", "runs"].map(field);
        assert_eq!(found, [1.0, 2.0, 9.0, 4.0, 3.0].map(Some));
        assert!(runs[0].get("statistic").is_none() && runs[1].get("mean").is_none());
        assert_eq!(rows(&[])[0]["statistic"], "mean");
        assert!(rows(&[4.0])[0].get("statistic").is_none());
        let of_jobs: Vec<&Value> = runs
            .iter()
            .filter(|row| row["metric"] == "slowdown")
            .collect();
        assert_eq!(of_jobs.len(), 2);
        assert_eq!(of_jobs[0]["case"], "pb/workload-1/slowdown");
        assert_eq!(of_jobs[0]["mean"].as_f64(), Some(4.0 / 25.0));
        assert_eq!(of_jobs[1]["median"].as_f64(), Some(130.0 / 25.0));
    }

    #[test]
    fn a_table_is_met_only_by_all_its_printed_cells() {
        let table = causeway_sim::catalogue::table("5.1").unwrap();
        let cell = |paper, causeway| Cell {
            case: "svia/send/0".to_owned(),
            size_bytes: 4,
            paper,
            causeway,
            values: Vec::new(),
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
