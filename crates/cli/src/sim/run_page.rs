//! The report of a user's own experiment: its values as plots and as a table, and the scenario itself.

use std::path::Path;

use causeway_command::failure::Outcome;
use causeway_command::whole_file;
use causeway_report::page::{Extent, Figure, Key, Page};
use causeway_report::plots::{self, Axes, Bar, Line, Part, Point};
use causeway_report::units::number_text;
use causeway_sim::profile::units::{self, Kind};
use causeway_sim::scenario::Scenario;
use causeway_sim::statistics::Resource;

use super::experiment::{Experiment, RunRow, channel, microseconds, rows, table, value_text};
use super::page::{colour, distinct, made_with, style};

/// With more bars than this, none are drawn.
const MOST_BARS: usize = 40;
/// With more curves than this, none are drawn.
const MOST_CURVES: usize = 12;

/// Writes the report of `scenario`, whose file contains `text`.
pub(super) fn write(
    path: &Path,
    scenario: &Scenario,
    text: &str,
    experiments: &[Experiment],
) -> Outcome {
    let lead = match scenario.is_reproducible() {
        true => {
            "An experiment, simulated. The same scenario gives the same values wherever and whenever it is run."
        }
        false => {
            "An experiment, simulated with the programs' native time: values differ from run to run and from machine to \
             machine."
        }
    };
    let rows = rows(experiments);
    let mut page = Page::new(&scenario.name, lead);
    let metrics = distinct(rows.iter().map(|row| row.metric.as_str()));
    let of = |metric: &str| -> Vec<&RunRow> {
        let wanted = rows.iter().filter(|row| row.metric == metric);
        wanted.collect()
    };
    let cards = metrics.iter().map(|metric| card(metric, &of(metric)));
    page.cards(&cards.collect::<Vec<_>>());
    for metric in &metrics {
        let rows = of(metric);
        match &scenario.swept {
            Some(key) => draw_sweep(&mut page, metric, key, &rows),
            None => draw(&mut page, metric, &rows),
        }
        draw_channels(&mut page, metric, &rows);
    }
    draw_latencies(&mut page, experiments);
    if let Some(first) = experiments.first() {
        draw_intervals(&mut page, first);
        draw_shares(&mut page, first);
    }
    let swept = scenario.swept.as_deref();
    page.table("Values", ABOUT_VALUES, &table(swept, &rows));
    let channels: Vec<RunRow> = rows
        .iter()
        .filter(|row| channel(&row.case).is_some())
        .cloned()
        .collect();
    if !channels.is_empty() {
        page.table("Each channel", "", &each(&channels));
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    page.lines("The scenario", "", &lines);
    made_with(&mut page, &[]);
    whole_file::write(path, page.html().as_bytes())
}

const ABOUT_VALUES: &str = "Median, p99, smallest and largest value are those of messages, of processors, engines and links \
                            (use), or of runs. ± 95 % is the confidence interval of the mean over runs that differ in their seeds.";

/// Draws all channels, one below the other.
fn each(rows: &[RunRow]) -> causeway_report::table::Table {
    let mut table = causeway_report::table::Table::new(&["case", "what", "mean", "median", "p99"]);
    table.align_right(&[2, 3, 4]);
    for row in rows {
        let text = |value: f64| value_text(&row.metric, value);
        let case = match &row.sweep {
            Some(value) => format!("{} ({value})", row.case),
            None => row.case.clone(),
        };
        let p99 = row.p99.map(text).unwrap_or_default();
        table.row(vec![
            case,
            row.metric.clone(),
            text(row.mean),
            text(row.median),
            p99,
        ]);
    }
    table
}

/// A metric's title and unit.
fn named(metric: &str) -> (&str, &str) {
    match metric {
        "latency_us" => ("Latency", "µs"),
        "time_us" => ("Time", "µs"),
        "received_mb_s" => ("Received", "MB/s"),
        "rate_mb_s" => ("Rates", "MB/s"),
        "rate_per_s" => ("Messages", "for each second"),
        "share" => ("Use", "share of the time"),
        "slowdown" => ("Slowdown", "times the time alone"),
        "variation" => ("Coefficient of variation", "deviation over mean"),
        "jitter_share" => ("Messages that are late after the one before", "share"),
        "jitter_theta" => ("Jitter fraction θ", "θ"),
        "count" => ("Counts", "how many"),
        other => (other, other),
    }
}

/// The range of a metric's values.
fn card(metric: &str, rows: &[&RunRow]) -> (String, String, Option<bool>) {
    let values = rows.iter().map(|row| row.mean);
    let low = value_text(metric, values.clone().fold(f64::INFINITY, f64::min));
    let high = value_text(metric, values.fold(f64::NEG_INFINITY, f64::max));
    let range = match low == high {
        true => low,
        false => format!("{low} – {high}"),
    };
    let (name, _) = named(metric);
    (range, format!("{name}, values: {}", rows.len()), None)
}

fn short(value: f64) -> String {
    number_text((value * 1e4).round() / 1e4)
}

/// A mean with its confidence interval, at this position.
fn point(x: f64, row: &RunRow) -> Point {
    let half = row.ci95.unwrap_or(0.0);
    Point {
        x,
        y: row.mean,
        min: row.mean - half,
        max: row.mean + half,
    }
}

/// Curves if there are several sizes, bars otherwise.
fn draw(page: &mut Page, metric: &str, rows: &[&RunRow]) {
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
        let lines = lines(rows, |row| row.size_bytes as f64);
        let legend = lines.iter().map(Line::key).collect();
        let axes = Axes {
            x_title: "bytes of a message",
            y_title: unit,
            logarithmic_x: true,
            logarithmic_y: false,
        };
        let caption = "Means by the size of messages.";
        page.figure(&figure(caption, legend), |width| {
            plots::curves(width, &lines, &axes, plots::size_name, short)
        });
    } else {
        let shown: Vec<&&RunRow> = match rows.len() <= MOST_BARS {
            true => rows.iter().collect(),
            false => rows
                .iter()
                .filter(|row| channel(&row.case).is_none())
                .collect(),
        };
        if shown.is_empty() || shown.len() > MOST_BARS {
            return;
        }
        let bars: Vec<Bar> = shown
            .iter()
            .map(|row| Bar {
                name: row.case.clone(),
                parts: vec![Part {
                    colour: colour(0),
                    length: row.mean,
                }],
                note: value_text(metric, row.mean),
            })
            .collect();
        page.figure(&figure("", Vec::new()), |width| {
            plots::bars(width, &bars, unit, number_text)
        });
    }
}

fn lines(rows: &[&RunRow], x: impl Fn(&RunRow) -> f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        plots::add_point(&mut lines, &row.case, point(x(row), row), style);
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// The swept values as numbers, if all of them have the same unit.
fn numbers(values: &[&str]) -> Option<Vec<f64>> {
    let all = |number: &dyn Fn(&str) -> Option<f64>| -> Option<Vec<f64>> {
        values.iter().map(|value| number(value)).collect()
    };
    let quantity =
        |kind: Kind| move |text: &str| units::parse(text, kind).ok().map(|value| value as f64);
    all(&|text| text.replace('_', "").parse().ok())
        .or_else(|| all(&quantity(Kind::Size)))
        .or_else(|| all(&quantity(Kind::Rate)))
        .or_else(|| all(&quantity(Kind::Time)))
}

/// A curve for each case over the swept values; values that are no numbers are drawn at equal distances.
fn draw_sweep(page: &mut Page, metric: &str, key: &str, rows: &[&RunRow]) {
    let values = distinct(rows.iter().filter_map(|row| row.sweep.as_deref()));
    let places = numbers(&values).filter(|places| places.iter().all(|place| *place > 0.0));
    let places = places.unwrap_or_else(|| (1..=values.len()).map(|place| place as f64).collect());
    let place = |row: &RunRow| {
        let value = row.sweep.as_deref().unwrap_or_default();
        let at = values.iter().position(|known| *known == value);
        at.and_then(|at| places.get(at)).copied().unwrap_or(0.0)
    };
    let sized: Vec<RunRow> = rows
        .iter()
        .filter(|row| channel(&row.case).is_none() || rows.len() <= MOST_CURVES * values.len())
        .map(|row| match row.size_bytes {
            0 => (*row).clone(),
            bytes => RunRow {
                case: format!(
                    "{}, {}",
                    row.case,
                    causeway_report::units::bytes_text(bytes)
                ),
                ..(*row).clone()
            },
        })
        .collect();
    let mut lines = lines(&sized.iter().collect::<Vec<_>>(), place);
    if lines.len() > MOST_CURVES {
        lines.truncate(MOST_CURVES);
    }
    let (title, unit) = named(metric);
    let axes = Axes {
        x_title: key,
        y_title: unit,
        logarithmic_x: true,
        logarithmic_y: false,
    };
    let name = |x: f64| {
        let at = places.iter().position(|place| *place == x);
        at.and_then(|at| values.get(at))
            .map_or_else(|| number_text(x), |value| (*value).to_owned())
    };
    let figure = Figure {
        title,
        caption: "Means over the values of the key that is swept, with their confidence intervals where there are several runs.",
        extent: Extent::Wide,
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        plots::curves(width, &lines, &axes, name, short)
    });
}

/// The channels of each kind, side by side.
fn draw_channels(page: &mut Page, metric: &str, rows: &[&RunRow]) {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        if let (Some((kind, number)), true) = (
            channel(&row.case),
            row.sweep.is_none() || row.sweep == rows[0].sweep,
        ) {
            let place = Point::exact(number as f64, row.mean);
            plots::add_point(&mut lines, kind, place, style);
        }
    }
    if lines.iter().all(|line| line.points.len() < 3) {
        return;
    }
    let (title, unit) = named(metric);
    let title = format!("{title} of each channel");
    let axes = Axes {
        x_title: "number of the channel",
        y_title: unit,
        logarithmic_x: false,
        logarithmic_y: false,
    };
    let figure = Figure {
        title: &title,
        caption: "Channels in the order of the file.",
        extent: Extent::Wide,
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        plots::curves(width, &lines, &axes, number_text, short)
    });
}

/// Cumulative distribution of the latencies of messages.
fn draw_latencies(page: &mut Page, experiments: &[Experiment]) {
    let mut lines: Vec<Line> = Vec::new();
    for one in experiments.iter().take(MOST_CURVES) {
        let all = one.latencies.count().max(1) as f64;
        let mut seen = 0;
        for (_, to, count) in one.latencies.classes() {
            seen += count;
            let share = seen as f64 / all;
            let end = microseconds(to.min(one.latencies.range().1)).max(1e-3);
            plots::add_point(&mut lines, &one.name(), Point::exact(end, share), style);
        }
    }
    if lines.is_empty() {
        return;
    }
    let axes = Axes {
        x_title: "latency in µs, from posting to receipt, logarithmic",
        y_title: "share of messages",
        logarithmic_x: true,
        logarithmic_y: false,
    };
    let figure = Figure {
        title: "How many messages took at most how long",
        caption: "",
        extent: Extent::Wide,
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        plots::curves(width, &lines, &axes, short, short)
    });
}

/// The jobs' parts of the first node's processor.
fn draw_shares(page: &mut Page, of: &Experiment) {
    let mut lines: Vec<Line> = Vec::new();
    for (at, parts) in &of.shares {
        for (job, part) in parts.iter().enumerate().take(MOST_CURVES) {
            let place = Point::exact(microseconds(*at) / 1e6, *part);
            plots::add_point(&mut lines, &format!("job {job}"), place, style);
        }
    }
    if lines.iter().all(|line| line.points.len() < 2) {
        return;
    }
    let axes = Axes {
        x_title: "s",
        y_title: "share",
        logarithmic_x: false,
        logarithmic_y: false,
    };
    let caption = format!("Of the first run ({}), interval by interval.", of.name());
    let figure = Figure {
        title: "Jobs' shares of the first node's processor over time",
        caption: &caption,
        extent: Extent::Wide,
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        plots::curves(width, &lines, &axes, short, short)
    });
}

/// The course of events.
fn draw_intervals(page: &mut Page, of: &Experiment) {
    if of.intervals.len() < 2 {
        return;
    }
    let at = |line: usize, name: &str, value: &dyn Fn(usize) -> f64| Line {
        name: name.to_owned(),
        colour: colour(line),
        dashed: false,
        points: (0..of.intervals.len())
            .map(|place| {
                let interval = &of.intervals[place];
                let middle = microseconds(interval.from / 2 + interval.to / 2) / 1e3;
                let value = value(place);
                Point::exact(middle, value)
            })
            .collect(),
    };
    let received = |place: usize| {
        let interval = &of.intervals[place];
        interval.bytes as f64 / microseconds(interval.to - interval.from)
    };
    let latency = |place: usize| microseconds(of.intervals[place].latency);
    let used: Vec<Line> = Resource::ALL
        .into_iter()
        .enumerate()
        .map(|(line, resource)| {
            at(line, resource.name(), &|place| {
                of.intervals[place].busy[line]
            })
        })
        .collect();
    for (title, unit, lines) in [
        (
            "Received over time",
            "MB/s",
            vec![at(0, "received", &received)],
        ),
        (
            "Latency over time",
            "µs, mean",
            vec![at(1, "latency", &latency)],
        ),
        ("Use over time", "share, mean of all", used),
    ] {
        let legend: Vec<Key> = match lines.len() {
            1 => Vec::new(),
            _ => lines.iter().map(Line::key).collect(),
        };
        let axes = Axes {
            x_title: "ms",
            y_title: unit,
            logarithmic_x: false,
            logarithmic_y: false,
        };
        let caption = format!("Of the first run ({}), interval by interval.", of.name());
        let figure = Figure {
            title,
            caption: &caption,
            extent: Extent::Wide,
            legend,
        };
        page.figure(&figure, |width| {
            plots::curves(width, &lines, &axes, short, short)
        });
    }
}
