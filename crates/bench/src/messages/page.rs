//! The plots of `causeway bench messages`.

use causeway_report::page::{Extent, Figure, Page};
use causeway_report::plots::{self, Line, tick_text};
use causeway_report::rows::Row;

use crate::outcome::Benchmark;
use crate::participants::OURS;
use crate::sizes;

/// Fills the report.
pub(crate) fn draw(benchmark: &Benchmark, page: &mut Page) {
    page.cards(&cards(benchmark));
    let latency = lines(benchmark, "latency_us", "latency/");
    by_size(
        page,
        &latency,
        "latency_us",
        "One-way latency",
        "one way, logarithmic",
        "Half of a round trip between two processes, each on a processor of its own. Dashed: what \
         the machine allows at best. Whiskers: all runs. p99: the 99th percentile of round trips, halved. The leftmost \
         messages are empty.",
    );
    let bandwidth = lines(benchmark, "bandwidth_mb_s", "bandwidth/");
    by_size(
        page,
        &bandwidth,
        "bandwidth_mb_s",
        "Bandwidth",
        "per second, logarithmic",
        "Windows of up to 64 messages, each window acknowledged. `shared-buffers` come from the \
         message layer's own allocation. Copying memory inside one process is the limit; two \
         processes that copy a half each can pass it.",
    );
    let rate = lines(benchmark, "rate_per_s", "rate/");
    by_size(
        page,
        &rate,
        "rate_per_s",
        "Message rate",
        "messages per second",
        "Small messages of the same windows, counted instead of weighed.",
    );
    page.table(
        "Ratios to the limits",
        "Of figures that were measured while the two processors were as far apart: the first one of a run with the first \
         one of the limit, and so on. Below 1 is better for latencies, above 1 for bandwidths.",
        &benchmark.table_of(|row| row.metric == "ratio"),
    );
}

fn cards(benchmark: &Benchmark) -> Vec<(String, String, Option<bool>)> {
    let wanted = [
        ("latency/shm", 8, "one way, 8 B, shm"),
        ("latency/shm/to-limit", 8, "of a bounced cache line"),
        ("latency/tcp", 8, "one way, 8 B, tcp"),
        ("latency/tcp/to-limit", 8, "of a bare polling socket"),
        ("bandwidth/shm", 65_536, "64 KiB, shm"),
        ("rate/shm", 8, "8 B, shm"),
    ];
    let card = |(case, size, label): &(&str, u64, &str)| {
        let is_wanted =
            |row: &&Row| row.case == *case && row.participant == OURS && row.size_bytes == *size;
        Some(benchmark.rows.iter().find(is_wanted)?.card(label))
    };
    wanted.iter().filter_map(card).collect()
}

/// A line for each case of a metric.
fn lines(benchmark: &Benchmark, metric: &str, prefix: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in benchmark.rows.iter().filter(|row| row.metric == metric) {
        let Some(name) = row.case.strip_prefix(prefix) else {
            continue;
        };
        let place = sizes::place(row.size_bytes);
        let point = row.point_at(place);
        let is_known =
            |line: &Line| line.name == name && line.points.iter().any(|known| known.x == point.x);
        if !lines.iter().any(is_known) {
            let style = |lines: usize| (lines % 8, row.participant != OURS);
            plots::add_point(&mut lines, name, point, style);
        }
    }
    lines
}

/// A plot of lines by the size of messages, if there are any.
pub(crate) fn by_size(
    page: &mut Page,
    lines: &[Line],
    metric: &str,
    title: &str,
    axis: &str,
    caption: &str,
) {
    if lines.is_empty() {
        return;
    }
    let figure = Figure {
        title,
        caption,
        extent: if metric == "latency_us" {
            Extent::Wide
        } else {
            Extent::Half
        },
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        let name = |value: f64| tick_text(metric, value);
        plots::by_size(
            width,
            lines,
            ("bytes of a message", axis),
            sizes::place_name,
            name,
        )
    });
}
