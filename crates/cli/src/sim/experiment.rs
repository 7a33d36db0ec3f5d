//! Results of a scenario's runs: combined over replications, as rows, as JSON and for spreadsheets.

use causeway_report::table::Table;
use causeway_report::units::figure_text;
use causeway_sim::engine::{MICROSECOND, Time};
use causeway_sim::scenario::{Measure, Step, Summary, summarize};
use causeway_sim::statistics::{Histogram, Interval, PERCENTILES, Resource, Statistics};
use serde::Serialize;
use serde_json::{Value, json};

/// With more channels of a kind than this, the terminal shows their sum and their differences.
const MOST_CHANNELS: usize = 8;

/// The runs of one size and one value of the key that is swept.
pub(super) struct Experiment {
    /// The value of the swept key, as written.
    pub(super) value: Option<String>,
    /// Bytes of a message; 0 where the workload decides.
    pub(super) size_bytes: u32,
    /// The measurements, over all replications.
    pub(super) summaries: Vec<Summary>,
    /// Latencies of all messages of all replications.
    pub(super) latencies: Histogram,
    /// Events of the first replication over time.
    pub(super) intervals: Vec<Interval>,
    /// Jobs' parts of the first node's processor over time, of the first replication: the end of each interval, and from 0 to 1 for each job.
    pub(super) shares: Vec<(Time, Vec<f64>)>,
}

impl Experiment {
    /// Combines the runs that differ only in their seeds; `found` is in the order of the steps.
    pub(super) fn group(
        steps: &[Step<'_>],
        found: Vec<(Vec<Measure>, Option<Box<Statistics>>)>,
    ) -> Vec<Self> {
        let mut experiments = Vec::new();
        let mut measures: Vec<Vec<Measure>> = Vec::new();
        let mut latencies = Histogram::default();
        let (mut intervals, mut shares) = (Vec::new(), Vec::new());
        for (place, (step, (measured, statistics))) in steps.iter().zip(found).enumerate() {
            if let Some(statistics) = statistics {
                latencies.merge(&statistics.latencies);
                if step.replication == 0 {
                    intervals = statistics.timeline.intervals().collect();
                    let parts = statistics.parts.iter().map(|(at, parts)| {
                        let parts = parts.iter().map(|part| f64::from(*part) / 1e6);
                        (*at, parts.collect())
                    });
                    shares = parts.collect();
                }
            }
            measures.push(measured);
            let is_last = steps
                .get(place + 1)
                .is_none_or(|next| next.replication == 0);
            if is_last {
                experiments.push(Self {
                    value: step.value.map(str::to_owned),
                    size_bytes: step.size_bytes,
                    summaries: summarize(&std::mem::take(&mut measures)),
                    latencies: std::mem::take(&mut latencies),
                    intervals: std::mem::take(&mut intervals),
                    shares: std::mem::take(&mut shares),
                });
            }
        }
        experiments
    }

    /// The experiment's name among others.
    pub(super) fn name(&self) -> String {
        let size = (self.size_bytes > 0)
            .then(|| causeway_report::units::bytes_text(u64::from(self.size_bytes)));
        let parts: Vec<String> = self.value.clone().into_iter().chain(size).collect();
        match parts.is_empty() {
            true => "all messages".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// A value in the JSON: the fields that rows of all benchmarks have, and more.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RunRow {
    /// The value of the swept key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sweep: Option<String>,
    pub(super) case: String,
    #[serde(rename = "who")]
    pub(super) participant: &'static str,
    pub(super) size_bytes: u64,
    pub(super) metric: String,
    /// Of messages, instances (of a processor, an engine, a link) or runs: their median, smallest
    /// and largest value, and their number.
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) count: u64,
    /// The mean of the runs' means.
    pub(super) mean: f64,
    /// Half the width of the 95 % confidence interval around it, of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<f64>,
    /// The 99th percentile, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p999: Option<f64>,
    /// The number of runs that differ in their seeds only.
    pub(super) runs: usize,
}

/// All rows, in the order of the runs.
pub(super) fn rows(experiments: &[Experiment]) -> Vec<RunRow> {
    let of_one = |one: &Experiment| -> Vec<RunRow> {
        let rows = one.summaries.iter().map(|summary| row(one, summary));
        rows.collect()
    };
    experiments.iter().flat_map(of_one).collect()
}

fn row(of: &Experiment, summary: &Summary) -> RunRow {
    let percentile = |place: usize| summary.percentiles.map(|values| values[place]);
    RunRow {
        sweep: of.value.clone(),
        case: summary.case.clone(),
        participant: "causeway",
        size_bytes: u64::from(summary.size_bytes),
        metric: summary.metric.clone(),
        median: summary.median,
        min: summary.min,
        max: summary.max,
        count: summary.count,
        mean: summary.estimate.mean,
        ci95: summary.estimate.half_width,
        p90: percentile(1),
        p99: percentile(2),
        p999: percentile(3),
        runs: summary.runs,
    }
}

/// The number of a channel among those of its kind, as in `qosvia/video/3`; `None` for values over all.
pub(super) fn channel(case: &str) -> Option<(&str, usize)> {
    let (kind, number) = case.rsplit_once('/')?;
    let is_kind = ["constant", "video", "best-effort"]
        .iter()
        .any(|name| kind.ends_with(name));
    number
        .parse()
        .ok()
        .filter(|_| is_kind)
        .map(|number| (kind, number))
}

/// The rows as the terminal shows them.
pub(super) fn table(swept: Option<&str>, rows: &[RunRow]) -> Table {
    let mut head: Vec<&str> = swept.into_iter().collect();
    head.extend([
        "case", "size", "what", "mean", "± 95 %", "median", "p99", "min", "max",
    ]);
    let mut table = Table::new(&head);
    let first = usize::from(swept.is_some());
    table.align_right(&[1, 3, 4, 5, 6, 7, 8].map(|column| first + column));
    let channels = |kind: &str, of: &RunRow| {
        let same = rows
            .iter()
            .filter(|row| row.metric == of.metric && row.sweep == of.sweep);
        same.filter(|row| channel(&row.case).is_some_and(|(other, _)| other == kind))
            .count()
    };
    for row in rows {
        if channel(&row.case).is_some_and(|(kind, _)| channels(kind, row) > MOST_CHANNELS) {
            continue;
        }
        let size = match row.size_bytes {
            0 => String::new(),
            bytes => causeway_report::units::bytes_text(bytes),
        };
        let text = |value: f64| value_text(&row.metric, value);
        let several = |value: f64| match row.count > 1 {
            true => text(value),
            false => String::new(),
        };
        let mut cells: Vec<String> = swept
            .map(|_| row.sweep.clone().unwrap_or_default())
            .into_iter()
            .collect();
        cells.extend([
            row.case.clone(),
            size,
            row.metric.clone(),
            text(row.mean),
            row.ci95.map(text).unwrap_or_default(),
            several(row.median),
            row.p99.map(text).unwrap_or_default(),
            several(row.min),
            several(row.max),
        ]);
        table.row(cells);
    }
    table
}

/// A value with its unit.
pub(super) fn value_text(metric: &str, value: f64) -> String {
    match metric {
        "latency_us" | "time_us" => figure_text("latency_us", value),
        "received_mb_s" | "rate_mb_s" => figure_text("bandwidth_mb_s", value),
        "rate_per_s" => figure_text("rate_per_s", value),
        "count" => causeway_report::units::count_text(value as u64),
        "share" => figure_text("cpu_share", value),
        _ => format!("{value:.4}"),
    }
}

pub(super) fn microseconds(time: Time) -> f64 {
    time as f64 / MICROSECOND as f64
}

/// The distribution of latencies and the events over time, as JSON.
pub(super) fn observed(one: &Experiment) -> Value {
    let classes: Vec<Value> = one
        .latencies
        .classes()
        .map(|(from, to, count)| json!([microseconds(from), microseconds(to), count]))
        .collect();
    let intervals: Vec<Value> = one
        .intervals
        .iter()
        .map(|interval| {
            let mut shares = serde_json::Map::new();
            for (resource, share) in Resource::ALL.iter().zip(interval.busy) {
                shares.insert(resource.name().to_owned(), json!(share));
            }
            json!({
                "from_us": microseconds(interval.from), "to_us": microseconds(interval.to),
                "messages": interval.messages, "bytes": interval.bytes,
                "latency_us": microseconds(interval.latency), "use": shares })
        })
        .collect();
    let mut observed = json!({
        "sweep": one.value, "size_bytes": one.size_bytes,
        "latency_classes_us": classes, "intervals": intervals });
    if !one.shares.is_empty() {
        let shares = one.shares.iter();
        let shares: Vec<Value> = shares
            .map(|(at, parts)| json!([microseconds(*at), parts]))
            .collect();
        observed["shares"] = json!(shares);
    }
    observed
}

/// The same values for spreadsheets.
pub(super) mod csv {
    use super::super::found::line;
    use super::{Experiment, PERCENTILES, Resource, microseconds, rows};

    /// Adds a line with the value of the key that is swept before it.
    fn add(text: &mut String, swept: Option<&str>, value: Option<&str>, fields: &[String]) {
        let first = swept.map(|_| value.unwrap_or_default());
        let fields = fields.iter().map(String::as_str);
        line(text, &first.into_iter().chain(fields).collect::<Vec<_>>());
    }

    fn head(swept: Option<&str>, fields: &[&str]) -> String {
        let mut text = String::new();
        let all: Vec<&str> = swept.into_iter().chain(fields.iter().copied()).collect();
        line(&mut text, &all);
        text
    }

    /// All values.
    pub(in super::super) fn values(swept: Option<&str>, experiments: &[Experiment]) -> String {
        let mut fields = vec!["case", "size_bytes", "metric", "mean", "ci95", "min", "max"];
        fields.extend(PERCENTILES.map(|(name, _)| name));
        fields.extend(["count", "runs"]);
        let mut text = head(swept, &fields);
        for row in rows(experiments) {
            let optional =
                |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let fields = [
                row.case.clone(),
                row.size_bytes.to_string(),
                row.metric.clone(),
                row.mean.to_string(),
                optional(row.ci95),
                row.min.to_string(),
                row.max.to_string(),
                row.median.to_string(),
                optional(row.p90),
                optional(row.p99),
                optional(row.p999),
                row.count.to_string(),
                row.runs.to_string(),
            ];
            add(&mut text, swept, row.sweep.as_deref(), &fields);
        }
        text
    }

    /// Classes of latencies, and the number of messages in each.
    pub(in super::super) fn latencies(swept: Option<&str>, experiments: &[Experiment]) -> String {
        let mut text = head(swept, &["size_bytes", "from_us", "to_us", "messages"]);
        for one in experiments {
            for (from, to, count) in one.latencies.classes() {
                let fields = [
                    one.size_bytes.to_string(),
                    microseconds(from).to_string(),
                    microseconds(to).to_string(),
                    count.to_string(),
                ];
                add(&mut text, swept, one.value.as_deref(), &fields);
            }
        }
        text
    }

    /// The course of events.
    pub(in super::super) fn intervals(swept: Option<&str>, experiments: &[Experiment]) -> String {
        let mut fields = vec![
            "size_bytes",
            "from_us",
            "to_us",
            "messages",
            "bytes",
            "latency_us",
        ];
        fields.extend(Resource::ALL.map(Resource::name));
        let mut text = head(swept, &fields);
        for one in experiments {
            for interval in &one.intervals {
                let mut fields = vec![
                    one.size_bytes.to_string(),
                    microseconds(interval.from).to_string(),
                    microseconds(interval.to).to_string(),
                    interval.messages.to_string(),
                    interval.bytes.to_string(),
                    microseconds(interval.latency).to_string(),
                ];
                fields.extend(interval.busy.map(|share| share.to_string()));
                add(&mut text, swept, one.value.as_deref(), &fields);
            }
        }
        text
    }
}
