//! The demonstration's summary: rows, tables, the course of the failure, the JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use causeway_command::output::Output;
use causeway_report::histogram::Histogram;
use causeway_report::machine::COMMIT;
use causeway_report::rows::Row;
use causeway_report::style::{Style, paint};
use causeway_report::table::Table;
use causeway_report::units::{bytes_text, count_text, duration_text, rate_text};
use serde_json::json;

use super::result::Findings;

/// The rows of the JSON and of the end of the report.
pub(super) fn rows(result: &Findings) -> Vec<Row> {
    let mut rows = Vec::new();
    for phase in &result.phases {
        let seconds = phase.time().as_secs_f64().max(1e-9);
        let case = phase.name.replace(' ', "-");
        let figures = [
            (
                "bandwidth",
                "bandwidth_mb_s",
                phase.bytes() as f64 / 1e6 / seconds,
            ),
            ("files", "rate_per_s", phase.items as f64 / seconds),
            ("time", "seconds", seconds),
        ];
        for (what, metric, value) in figures {
            rows.extend(Row::new(
                format!("{what}/{case}"),
                "causeway",
                0,
                metric,
                &[value],
            ));
        }
    }
    for (name, histogram) in latencies(result) {
        rows.push(Row {
            case: format!("latency/{}", name.replace(' ', "-")),
            participant: "causeway".to_owned(),
            size_bytes: 0,
            metric: "latency_us".to_owned(),
            median: histogram.quantile_us(0.5),
            min: histogram.quantile_us(0.0),
            max: histogram.max_us(),
            runs: usize::try_from(histogram.count()).unwrap_or(usize::MAX),
            distance: None,
        });
    }
    rows
}

/// Latencies of all phases together, by operation.
pub(super) fn latencies(result: &Findings) -> BTreeMap<&str, Histogram> {
    let mut all: BTreeMap<&str, Histogram> = BTreeMap::new();
    for (name, histogram) in result.phases.iter().flat_map(|phase| &phase.latencies) {
        all.entry(name).or_default().merge(histogram);
    }
    all
}

/// The phases as a table.
pub(super) fn phases_table(result: &Findings) -> Table {
    let mut table = Table::new(&[
        "phase",
        "processes",
        "files",
        "written",
        "read",
        "time",
        "throughput",
        "files/s",
        "errors",
    ]);
    table.align_right(&[1, 2, 3, 4, 5, 6, 7, 8]);
    for (index, phase) in result.phases.iter().enumerate() {
        let rate = phase.items as f64 / phase.time().as_secs_f64().max(1e-9);
        table.row(vec![
            format!("{} {}", index + 1, phase.name),
            phase.processes.to_string(),
            count_text(phase.items),
            bytes_text(phase.written),
            bytes_text(phase.read),
            duration_text(phase.time()),
            rate_text(phase.bytes(), phase.time()),
            count_text(rate as u64),
            count_text(phase.faults.len() as u64),
        ]);
    }
    table
}

/// The course of the failure, a sentence for each event.
pub(super) fn failure_events(result: &Findings) -> Vec<String> {
    let at = |ns: Option<u64>| {
        ns.map_or_else(
            || "?".to_owned(),
            |ns| format!("{:.1} s", result.seconds(ns)),
        )
    };
    let mut lines = vec![format!(
        "{}: {} is killed with SIGKILL",
        at(result.killed_ns),
        result.victim
    )];
    let longest = result
        .faults()
        .map(|(_, _, fault)| fault.to_ns - fault.from_ns)
        .max();
    let count = result.faults().count();
    match longest {
        None => lines.push("no client needed that server while it was away".to_owned()),
        Some(longest) => {
            let named = result
                .faults()
                .filter(|(_, _, fault)| fault.text.contains(&result.victim))
                .count();
            lines.push(format!(
                "clients get {count} errors, {named} of them name {}; the longest wait for one was {}, \
                 the time-out is {}",
                result.victim,
                duration_text(Duration::from_nanos(longest)),
                duration_text(result.timeout)
            ));
        }
    }
    lines.push(format!(
        "{}: {} is started again",
        at(result.restarted_ns),
        result.victim
    ));
    lines.push(format!(
        "{}: it replies; every file that had met an error is read or stored again",
        at(result.answered_ns)
    ));
    lines
}

/// Prints the summary, or the one object of `--json`.
pub(super) fn summarize(result: &Findings, report: &Path, output: &Output) {
    output.line("");
    output.line(&phases_table(result).text());
    output.line("");
    for line in failure_events(result) {
        output.line(&line);
    }
    if let Some((_, _, fault)) = result.faults().next() {
        output.line(&format!("an error as clients see it: {}", fault.text));
    }
    output.line("");
    for difference in &result.differences {
        output.line(&paint(difference, Style::Red));
    }
    let verdict = match result.differing {
        0 => paint("all alike", Style::Green),
        count => paint(&format!("{} DIFFER", count_text(count)), Style::Red),
    };
    output.line(&format!(
        "{} comparisons: {verdict}",
        count_text(result.compared)
    ));
    output.line(&format!("report: {}", report.display()));
    let faults: Vec<_> = result
        .faults()
        .map(|(phase, worker, fault)| {
            json!({ "phase": result.phases.get(phase).map(|phase| phase.name), "client": worker,
                    "text": fault.text, "at_s": result.seconds(fault.to_ns),
                    "waited_s": (fault.to_ns - fault.from_ns) as f64 / 1e9 })
        })
        .collect();
    output.object(&json!({
        "bench": "demo", "machine": result.machine, "commit": COMMIT, "rows": rows(result),
        "ok": result.differing == 0, "source": result.source, "files": result.files,
        "bytes": result.bytes, "compared": result.compared, "differing": result.differing,
        "differences": result.differences, "victim": result.victim,
        "killed_s": result.killed_ns.map(|ns| result.seconds(ns)),
        "restarted_s": result.restarted_ns.map(|ns| result.seconds(ns)),
        "answered_s": result.answered_ns.map(|ns| result.seconds(ns)),
        "timeout_s": result.timeout.as_secs_f64(), "faults": faults,
        "report": report.display().to_string() }));
}
