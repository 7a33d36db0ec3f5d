//! The report of `causeway bench compare`.

use causeway_report::page::{Extent, Figure, Page};
use causeway_report::plots::{self, Line, Range};
use causeway_report::rows::Row;
use causeway_report::units::number_text;

use super::table;
use super::trial::Gap;
use crate::goals;
use crate::outcome::Benchmark;
use crate::participants::{LIMIT, OURS};
use crate::sizes;

/// The colour of limits.
const GREY: usize = 6;
/// Colours of participants, in their order; Causeway's first.
const COLOURS: [usize; 10] = [0, 1, 2, 3, 4, 8, 9, 7, 5, 10];

/// Fills the report.
pub(super) fn draw(benchmark: &Benchmark, page: &mut Page) {
    let drawing = Drawing::new(benchmark);
    page.cards(&goals::cards(&benchmark.verdicts));
    for method in ["shm", "tcp"] {
        drawing.lines(
            page,
            &format!("latency/{method}"),
            method,
            "One-way latency",
            Extent::Wide,
            "Half of a round trip between two processes, each bound to a processor of its own. Dashed: \
             what the machine allows at best. Whiskers: all runs. The leftmost messages are empty.",
        );
        drawing.lines(
            page,
            &format!("latency/{method}/p99"),
            method,
            "99th percentile of one-way latency",
            Extent::Wide,
            "Of round trips whose times are taken one by one, halved. Dashed: the median that the machine allows at \
             best.",
        );
        drawing.lines(
            page,
            &format!("bandwidth/{method}"),
            method,
            "Bandwidth",
            Extent::Half,
            "Acknowledged windows of 4 to 64 messages. memalloc: buffers that the message layer \
             allocated. Dashed: copying inside one process; two that copy half each can pass it.",
        );
        drawing.lines(
            page,
            &format!("rate/{method}"),
            method,
            "Message rate",
            Extent::Half,
            "Small messages of the same windows, counted instead of weighed.",
        );
    }
    drawing.loads(page);
    drawing.rings(page);
    drawing.idle(page);
    drawing.waits(page);
    let participants: Vec<String> = drawing.with_limit().map(str::to_owned).collect();
    page.table(
        "Side by side",
        "Medians of the runs. Figures of one case were measured while the two processors were as far apart; the rows say \
         how far.",
        &table::medians(&benchmark.rows, &participants, &benchmark.gaps),
    );
    goals::draw(benchmark, page);
}

struct Drawing<'a> {
    rows: &'a [Row],
    /// Participants that are no limits, in order.
    participants: Vec<&'a str>,
    gaps: &'a [Gap],
}

impl<'a> Drawing<'a> {
    fn new(benchmark: &'a Benchmark) -> Self {
        let mut participants: Vec<&str> = benchmark
            .rows
            .iter()
            .map(|row| row.participant.as_str())
            .collect();
        participants.extend(benchmark.gaps.iter().map(|gap| gap.participant.as_str()));
        participants.retain(|participant| *participant != LIMIT);
        participants.sort_by_key(|participant| (*participant != OURS, participant.to_owned()));
        participants.dedup();
        Self {
            rows: &benchmark.rows,
            participants,
            gaps: &benchmark.gaps,
        }
    }

    /// Participants in their order, then the limits.
    fn with_limit(&self) -> impl Iterator<Item = &'a str> {
        self.participants.iter().copied().chain([LIMIT])
    }

    /// The participants that a plot lacks because a trial failed, as an addition to its caption.
    fn absent(&self, case: &str, is_there: impl Fn(&str) -> bool) -> String {
        let absent = self
            .participants
            .iter()
            .filter(|participant| !is_there(participant));
        let words = absent.filter_map(|participant| {
            let how = table::gap(self.gaps, participant, case)?;
            Some(format!(" {participant} {how}."))
        });
        words.collect()
    }

    fn colour(&self, participant: &str) -> usize {
        let place = self
            .participants
            .iter()
            .position(|known| *known == participant);
        place.map_or(GREY, |place| {
            COLOURS.get(place % COLOURS.len()).copied().unwrap_or(GREY)
        })
    }

    /// Figures by size, a line for each participant.
    fn lines(
        &self,
        page: &mut Page,
        case: &str,
        method: &str,
        title: &str,
        extent: Extent,
        caption: &str,
    ) {
        let mut lines: Vec<Line> = Vec::new();
        let mut metric = "";
        for row in self.rows {
            let Some(name) = line_name(row, case, method) else {
                continue;
            };
            metric = &row.metric;
            let place = sizes::place(row.size_bytes);
            let point = row.point_at(place);
            plots::add_point(&mut lines, &name, point, |_| {
                let colour = match name.contains("memalloc") {
                    true => 5,
                    false => self.colour(&row.participant),
                };
                (colour, row.participant == LIMIT)
            });
        }
        if lines.is_empty() {
            return;
        }
        // Ours is drawn last, above the others, and named first.
        lines.sort_by_key(|line| line.name.starts_with(OURS));
        let legend = lines.iter().rev().map(Line::key);
        let has = |participant: &str| lines.iter().any(|line| line.name == participant);
        let figure = Figure {
            title: &format!("{title}, {method}"),
            caption: &format!("{caption}{}", self.absent(case, has)),
            extent,
            legend: legend.collect(),
        };
        page.figure(&figure, |width| {
            let name = |value: f64| tick_text(metric, value);
            let axis = match metric {
                "latency_us" => "one way, logarithmic",
                "rate_per_s" => "messages a second, logarithmic",
                _ => "bytes a second, logarithmic",
            };
            let axes = ("bytes of a message", axis);
            plots::by_size(width, &lines, axes, sizes::place_name, name)
        });
    }

    /// Fastest, mean and slowest client of a server.
    fn loads(&self, page: &mut Page) {
        let is_mean = |row: &&Row| row.case.starts_with("load/") && row.case.ends_with("/mean");
        let mut cases: Vec<(&str, u64)> = Vec::new();
        for row in self.rows.iter().filter(is_mean) {
            let case = (row.case.trim_end_matches("/mean"), row.size_bytes);
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        for (case, size) in cases {
            let figure = |participant: &str, which: &str| {
                let case = format!("{case}/{which}");
                let mut rows = self.rows.iter();
                rows.find(|row| {
                    row.case == case && row.participant == participant && row.size_bytes == size
                })
                .map(|row| row.median)
            };
            let ranges: Vec<Range> = self
                .participants
                .iter()
                .filter_map(|participant| {
                    Some(Range {
                        name: (*participant).to_owned(),
                        colour: self.colour(participant),
                        low: figure(participant, "min")?,
                        middle: figure(participant, "mean")?,
                        high: figure(participant, "max")?,
                    })
                })
                .collect();
            let mut words = case.split('/').skip(1);
            let (method, clients) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let absent = self.absent(case, |participant| figure(participant, "mean").is_some());
            self.ranges(
                page,
                &ranges,
                &format!("{}, {} KB replies, {method}", clients.replace('-', " "), size / 1000),
                &format!(
                    "From a request to its reply: the fastest client, the mean, the slowest. One server \
                     has one processor, all clients have the other.{absent}"
                ),
            );
        }
    }

    fn rings(&self, page: &mut Page) {
        for method in ["shm", "tcp"] {
            for (which, title, caption) in [
                (
                    "hop",
                    "A hop in a ring",
                    "Rings of 2, 4 and 8 processes on two processors.",
                ),
                (
                    "cpu-of-a-hop",
                    "Processor time of a hop",
                    "What all processes of the ring used together, for each hop.",
                ),
            ] {
                let prefix = format!("ring/{method}/");
                let mut ranges: Vec<Range> = Vec::new();
                let mut absent = String::new();
                for processes in super::trial::RINGS {
                    let case = format!("{prefix}{processes}-processes/{which}");
                    let has = |participant: &str| {
                        let mut rows = self.rows.iter();
                        rows.any(|row| row.case == case && row.participant == participant)
                    };
                    absent = self.absent(&case, has);
                    for row in self.rows.iter().filter(|row| row.case == case) {
                        ranges.push(Range {
                            name: format!("{} · {processes}", row.participant),
                            colour: self.colour(&row.participant),
                            low: row.min,
                            middle: row.median,
                            high: row.max,
                        });
                    }
                }
                let caption = format!("{caption}{absent}");
                self.ranges(page, &ranges, &format!("{title}, {method}"), &caption);
            }
        }
    }

    fn idle(&self, page: &mut Page) {
        let ranges: Vec<Range> = self
            .rows
            .iter()
            .filter(|row| row.case.starts_with("idle/"))
            .map(|row| {
                let name = row.case.trim_start_matches("idle/");
                Range {
                    name: name
                        .replace("/", ", ")
                        .replace("-peers", " idle")
                        .replace('-', " "),
                    colour: if row.case.ends_with("active") { 1 } else { 0 },
                    low: row.min,
                    middle: row.median,
                    high: row.max,
                }
            })
            .collect();
        self.ranges(
            page,
            &ranges,
            "8 bytes one way beside other peers",
            "One of the two has so many other peers connected, idle, or each sending once a millisecond.",
        );
    }

    /// Messages that find their receiver asleep, at work, or without a processor.
    fn waits(&self, page: &mut Page) {
        for (pattern, which, title, caption) in [
            (
                "pause",
                "",
                "8 bytes after a pause",
                "One way, median. Before it sends, each side sleeps for 1 ms, while the other one waits for it.",
            ),
            (
                "pause",
                "/cpu-of-a-message",
                "Processor time of a message after a pause",
                "What both sides used together, for each message.",
            ),
            (
                "computing",
                "",
                "8 bytes to a receiver that computes",
                "One way, median. Before it replies, the receiver computes for 50 µs, which count for neither way.",
            ),
            (
                "contention",
                "/mean",
                "8 bytes beside processes that compute",
                "One way, mean. A process that computes runs on each of the two processors.",
            ),
            (
                "contention",
                "/p99",
                "8 bytes beside processes that compute: 99th percentile",
                "One way.",
            ),
        ] {
            for method in ["shm", "tcp"] {
                let case = format!("{pattern}/{method}{which}");
                let limit = format!("{pattern}/futex-wake");
                let is_wanted = |row: &&Row| {
                    row.case == case || (row.case == limit && method == "shm" && which.is_empty())
                };
                let rows: Vec<&Row> = self.rows.iter().filter(is_wanted).collect();
                let ranges: Vec<Range> = rows
                    .iter()
                    .map(|row| Range {
                        name: match row.participant.as_str() {
                            LIMIT => "a bare futex".to_owned(),
                            participant => participant.to_owned(),
                        },
                        colour: self.colour(&row.participant),
                        low: row.min,
                        middle: row.median,
                        high: row.max,
                    })
                    .collect();
                let has = |participant: &str| rows.iter().any(|row| row.participant == participant);
                let caption = format!("{caption}{}", self.absent(&case, has));
                self.ranges(page, &ranges, &format!("{title}, {method}"), &caption);
            }
        }
    }

    fn ranges(&self, page: &mut Page, ranges: &[Range], title: &str, caption: &str) {
        if ranges.is_empty() {
            return;
        }
        let figure = Figure {
            title,
            caption,
            extent: Extent::Half,
            legend: Vec::new(),
        };
        page.figure(&figure, |width| {
            plots::ranges(width, ranges, "microseconds, logarithmic", |value| {
                tick_text("latency_us", value)
            })
        });
    }
}

/// The name of the line that a row belongs to, if it belongs to a plot.
fn line_name(row: &Row, case: &str, method: &str) -> Option<String> {
    if row.participant == LIMIT {
        let wanted = match (case.split('/').next(), method) {
            (Some("latency"), "shm") => "latency/cache-line",
            (Some("latency"), _) => "latency/bare-tcp-polling",
            (Some("bandwidth"), "shm") => "bandwidth/memcpy",
            _ => return None,
        };
        return (row.case == wanted).then(|| wanted.rsplit('/').next().unwrap_or("").to_owned());
    }
    let rest = row.case.strip_prefix(case)?;
    match rest {
        "" => Some(row.participant.clone()),
        "/shared-buffers" => Some(format!("{}, memalloc", row.participant)),
        _ => None,
    }
}

/// A figure with its unit, short enough for an axis.
fn tick_text(metric: &str, value: f64) -> String {
    if metric == "rate_per_s" {
        return number_text(value);
    }
    plots::tick_text(metric, value)
}
