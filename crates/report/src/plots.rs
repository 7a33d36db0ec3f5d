//! The kinds of plots that reports have.

use crate::histogram::Histogram;
use crate::page::Key;
use crate::svg::{Anchor, Area, Board, CHARACTER, Scale, round_up, x_axis, y_axis};
use crate::units::{count_text, figure_text, microseconds_text, number_text, size_text};

/// A stretch of time with a name.
#[derive(Debug, Clone)]
pub struct Band {
    /// Its name.
    pub name: String,
    /// Its beginning, in seconds.
    pub from: f64,
    /// Its end, in seconds.
    pub to: f64,
}

/// A moment with a name.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// When it is, in seconds.
    pub at: f64,
}

/// A figure over time.
#[derive(Debug, Clone)]
pub struct Series {
    /// Number of its colour.
    pub colour: usize,
    /// Seconds and value.
    pub points: Vec<(f64, f64)>,
}

/// Figures over time, with bands for phases and marks for events.
pub fn over_time(
    width: f64,
    y_title: &str,
    series: &[Series],
    bands: &[Band],
    marks: &[Mark],
) -> String {
    let top = 42.0 + label_rows(marks) as f64 * 15.0;
    let (mut board, area) = board(width, (52.0, 10.0), top, 210.0);
    let points = || series.iter().flat_map(|one| &one.points);
    let end = points()
        .map(|point| point.0)
        .chain(bands.iter().map(|band| band.to))
        .fold(0.0, f64::max);
    let x = Scale::linear(0.0, end, area.left, area.right);
    let largest = points().map(|point| point.1).fold(0.0, f64::max);
    let y = Scale::linear(0.0, round_up(largest), area.bottom, area.top);
    for (index, band) in bands.iter().enumerate() {
        draw_band(&mut board, area, &x, band, index);
    }
    y_axis(&mut board, area, &y, y_title, number_text);
    for one in series {
        let points: Vec<(f64, f64)> = one
            .points
            .iter()
            .map(|&(time, figure)| (x.place(time), y.place(figure)))
            .collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            continue;
        };
        let mut outline = vec![(first.0, area.bottom)];
        outline.extend(&points);
        outline.push((last.0, area.bottom));
        board.shape(&format!("area f{}", one.colour), &outline);
        board.path(&format!("line s{}", one.colour), &points);
    }
    draw_marks(&mut board, area, &x, marks);
    time_axis(&mut board, width, area, &x);
    board.finish()
}

/// A board of this width, and the area on it for figures of this height: between margins to the
/// left and the right, below `top`, and above the horizontal axis with its labels.
fn board(width: f64, (left, right): (f64, f64), top: f64, height: f64) -> (Board, Area) {
    let area = Area {
        left,
        right: width - right,
        top,
        bottom: top + height,
    };
    (Board::new(width, area.bottom + 42.0), area)
}

/// The axis of a plot over time.
fn time_axis(board: &mut Board, width: f64, area: Area, x: &Scale) {
    let ticks = x.ticks((width / 90.0) as usize);
    x_axis(
        board,
        area,
        x,
        &ticks,
        "seconds since the start",
        number_text,
    );
}

/// Upright lines at some places of an axis.
fn upright_grid(board: &mut Board, area: Area, x: &Scale, ticks: &[f64]) {
    for &tick in ticks {
        board.line("grid", x.place(tick), area.top, x.place(tick), area.bottom);
    }
}

fn label_rows(marks: &[Mark]) -> usize {
    marks.len().min(3)
}

fn draw_band(board: &mut Board, area: Area, x: &Scale, band: &Band, index: usize) {
    let (from, to) = (x.place(band.from), x.place(band.to));
    if index.is_multiple_of(2) {
        board.rectangle(
            "band",
            from,
            area.top - 18.0,
            to - from,
            area.bottom - area.top + 18.0,
            &band.name,
        );
    }
    let number = format!("{}", index + 1);
    let full = format!("{number} {}", band.name);
    let middle = f64::midpoint(from, to);
    let fits = |text: &str| text.chars().count() as f64 * CHARACTER <= to - from;
    if fits(&full) {
        board.text("soft", middle, area.top - 5.0, Anchor::Middle, &full);
    } else if fits(&number) {
        board.text("soft", middle, area.top - 5.0, Anchor::Middle, &number);
    }
}

fn draw_marks(board: &mut Board, area: Area, x: &Scale, marks: &[Mark]) {
    let rows = label_rows(marks).max(1);
    for (index, mark) in marks.iter().enumerate() {
        let place = x.place(mark.at);
        let y = 30.0 + (index % rows) as f64 * 15.0;
        board.line("mark", place, y + 3.0, place, area.bottom);
        let width = mark.name.chars().count() as f64 * CHARACTER;
        let anchor = if place + width > area.right {
            Anchor::End
        } else {
            Anchor::Start
        };
        board.text("", place, y, anchor, &mark.name);
    }
}

/// One histogram below the other on a common logarithmic time axis, with median and 99th percentile.
pub fn latencies(width: f64, rows: &[(String, usize, &Histogram)]) -> String {
    const ROW: f64 = 62.0;
    let (mut board, area) = board(width, (8.0, 8.0), 12.0, rows.len() as f64 * ROW);
    let buckets = || rows.iter().flat_map(|row| row.2.buckets());
    let low = buckets()
        .map(|bucket| bucket.0)
        .fold(f64::MAX, f64::min)
        .min(1e6);
    let high = buckets().map(|bucket| bucket.1).fold(low * 10.0, f64::max);
    let x = Scale::logarithmic(low, high, area.left, area.right);
    upright_grid(&mut board, area, &x, &x.ticks(8));
    for (index, (name, colour, histogram)) in rows.iter().enumerate() {
        let base = area.top + (index as f64 + 1.0) * ROW;
        let largest = histogram
            .buckets()
            .map(|bucket| bucket.2)
            .max()
            .unwrap_or(1) as f64;
        for (from, to, count) in histogram.buckets() {
            // The square root keeps rare slow operations visible beside many fast ones.
            let tall = (count as f64 / largest).sqrt() * (ROW - 24.0);
            let (left, right) = (x.place(from), x.place(to));
            let title = format!(
                "{name}: {} operations took {} to {}",
                count_text(count),
                microseconds_text(from),
                microseconds_text(to)
            );
            let class = format!("f{colour}");
            board.rectangle(
                &class,
                left,
                base - tall,
                (right - left - 0.5).max(0.8),
                tall,
                &title,
            );
        }
        board.line("axis", area.left, base, area.right, base);
        board.text("strong", area.left, base - ROW + 16.0, Anchor::Start, name);
        let summary = format!(
            "{}×, median {}, p99 {}",
            count_text(histogram.count()),
            microseconds_text(histogram.quantile_us(0.5)),
            microseconds_text(histogram.quantile_us(0.99))
        );
        board.text("soft", area.right, base - ROW + 16.0, Anchor::End, &summary);
    }
    let ticks = x.ticks((width / 60.0) as usize);
    x_axis(
        &mut board,
        area,
        &x,
        &ticks,
        "time of one operation",
        |tick| {
            let text = microseconds_text(tick);
            text.replace(".00", "").replace(".0", "")
        },
    );
    board.finish()
}

/// A part of a bar.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Number of its colour.
    pub colour: usize,
    /// Its length, in the unit of the axis.
    pub length: f64,
}

/// A bar made of parts.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// From the left.
    pub parts: Vec<Part>,
    /// Text at its end.
    pub note: String,
}

/// Horizontal bars on a common scale that starts at 0.
pub fn bars(width: f64, bars: &[Bar], axis: &str, name: impl Fn(f64) -> String) -> String {
    const ROW: f64 = 44.0;
    let (mut board, area) = board(width, (8.0, 14.0), 8.0, bars.len() as f64 * ROW);
    let length = |bar: &Bar| bar.parts.iter().map(|part| part.length).sum::<f64>();
    let largest = bars.iter().map(length).fold(0.0, f64::max);
    let x = Scale::linear(0.0, round_up(largest), area.left, area.right);
    let ticks = x.ticks(5);
    upright_grid(&mut board, area, &x, &ticks);
    for (index, bar) in bars.iter().enumerate() {
        let top = area.top + index as f64 * ROW;
        board.text("strong", area.left, top + 14.0, Anchor::Start, &bar.name);
        board.text("soft", area.right, top + 14.0, Anchor::End, &bar.note);
        let mut from = 0.0;
        for &Part { colour, length } in &bar.parts {
            let (left, right) = (x.place(from), x.place(from + length));
            let class = format!("f{colour}");
            board.rectangle(&class, left, top + 20.0, right - left, 16.0, &name(length));
            from += length;
        }
    }
    x_axis(&mut board, area, &x, &ticks, axis, &name);
    board.finish()
}

/// A share of a whole.
#[derive(Debug, Clone)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Its figure, in the same unit as the others'.
    pub figure: f64,
    /// Text beside it.
    pub note: String,
}

/// Shares of a whole: one bar, with each part's name, share and figure below it.
pub fn shares(width: f64, parts: &[Share]) -> String {
    // If there is little width, the figure is below the name.
    let narrow = width < 500.0;
    let row = if narrow { 38.0 } else { 22.0 };
    let height = 40.0 + parts.len() as f64 * row + 6.0;
    let whole: f64 = parts.iter().map(|part| part.figure).sum::<f64>().max(1e-12);
    let (left, right) = (4.0, width - 4.0);
    let mut board = Board::new(width, height);
    let mut from = left;
    for (index, part) in parts.iter().enumerate() {
        let Share {
            name,
            colour,
            figure,
            note,
        } = part;
        let share = figure / whole;
        let len = share * (right - left);
        let class = format!("f{colour}");
        board.rectangle(&class, from, 4.0, len, 26.0, name);
        from += len;
        let y = 54.0 + index as f64 * row;
        board.rectangle(&class, left, y - 11.0, 12.0, 12.0, "");
        board.text("", left + 20.0, y, Anchor::Start, name);
        if narrow {
            board.text("soft", left + 20.0, y + 16.0, Anchor::Start, note);
        } else {
            board.text("soft", right - 62.0, y, Anchor::End, note);
        }
        board.text(
            "strong",
            right,
            y,
            Anchor::End,
            &format!("{:.1} %", share * 100.0),
        );
    }
    board.finish()
}

/// A figure at a place on the horizontal axis, with its range.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The place: a size in bytes, a number of clients, or what else the axis shows.
    pub x: f64,
    /// The median or mean.
    pub y: f64,
    /// The smallest figure.
    pub min: f64,
    /// The largest figure.
    pub max: f64,
}

impl Point {
    /// One without a range.
    pub fn exact(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            min: y,
            max: y,
        }
    }
}

/// A line of a plot by size.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Dashed, as limits are.
    pub dashed: bool,
    /// From the left.
    pub points: Vec<Point>,
}

impl Line {
    /// Its entry in a legend.
    pub fn key(&self) -> Key {
        Key {
            colour: self.colour,
            dashed: self.dashed,
            text: self.name.clone(),
        }
    }
}

/// Adds a point to the line of this name. The first point makes the line, with the colour and
/// dashes that `style` returns for the number of lines.
pub fn add_point(
    lines: &mut Vec<Line>,
    name: &str,
    point: Point,
    style: impl FnOnce(usize) -> (usize, bool),
) {
    match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => {
            let (colour, dashed) = style(lines.len());
            lines.push(Line {
                name: name.to_owned(),
                colour,
                dashed,
                points: vec![point],
            });
        }
    }
}

/// Figures by size (or by number of clients) on logarithmic axes, with the runs' range as whiskers. Titles and names of
/// ticks are of the horizontal axis first.
pub fn by_size(
    width: f64,
    lines: &[Line],
    (x_title, y_title): (&str, &str),
    x_name: impl Fn(f64) -> String,
    y_name: impl Fn(f64) -> String,
) -> String {
    let axes = Axes {
        x_title,
        y_title,
        logarithmic_x: true,
        logarithmic_y: true,
    };
    // An axis of powers has no zero.
    let mut lines = lines.to_vec();
    for point in lines.iter_mut().flat_map(|line| &mut line.points) {
        point.x = point.x.max(1.0);
    }
    curves(width, &lines, &axes, x_name, y_name)
}

/// The axes of curves.
#[derive(Debug, Clone, Copy)]
pub struct Axes<'a> {
    /// The horizontal axis, with its unit.
    pub x_title: &'a str,
    /// The vertical axis, with its unit.
    pub y_title: &'a str,
    /// Equal ratios to the right take equal room.
    pub logarithmic_x: bool,
    /// Equal ratios upwards take equal room.
    pub logarithmic_y: bool,
}

/// Up to this number of places on the horizontal axis are all marked; if there are more, only powers of two or
/// round numbers are.
const FEW_PLACES: usize = 14;

fn is_power_of_two(place: &f64) -> bool {
    *place >= 1.0 && place.log2().fract() == 0.0
}

/// Curves of figures, with their ranges as whiskers.
pub fn curves(
    width: f64,
    lines: &[Line],
    axes: &Axes<'_>,
    x_name: impl Fn(f64) -> String,
    y_name: impl Fn(f64) -> String,
) -> String {
    let (mut board, area) = board(width, (76.0, 16.0), 26.0, 262.0);
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut places: Vec<f64> = points().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (first, last) = (
        places.first().copied().unwrap_or(1.0),
        places.last().copied().unwrap_or(10.0),
    );
    let scale = match axes.logarithmic_x {
        true => Scale::logarithmic,
        false => Scale::linear,
    };
    let x = scale(first, last, area.left + 8.0, area.right - 8.0);
    let low = points()
        .map(|point| point.min)
        .filter(|low| *low > 0.0)
        .fold(f64::MAX, f64::min)
        .min(1e12);
    let high = points().map(|point| point.max).fold(0.0, f64::max);
    let y = match axes.logarithmic_y {
        true => Scale::logarithmic(low / 1.3, high * 1.3, area.bottom, area.top),
        false => Scale::linear(0.0, round_up(high), area.bottom, area.top),
    };
    y_axis(&mut board, area, &y, axes.y_title, &y_name);
    for line in lines {
        let dashed = if line.dashed { " dashed" } else { "" };
        let class = format!("line s{}{dashed}", line.colour);
        let drawn: Vec<(f64, f64)> = line
            .points
            .iter()
            .map(|point| (x.place(point.x), y.place(point.y)))
            .collect();
        board.path(&class, &drawn);
        for (point, &(px, py)) in line.points.iter().zip(&drawn) {
            let &Point { min, max, .. } = point;
            let stroke = format!("s{}", line.colour);
            let mut title = format!("{}, {}: {}", line.name, x_name(point.x), y_name(point.y));
            if min < max {
                board.line(&stroke, px, y.place(min), px, y.place(max));
                title.push_str(&format!(" ({} to {})", y_name(min), y_name(max)));
            }
            board.dot(&format!("f{}", line.colour), px, py, &title);
        }
    }
    let round: Vec<f64> = match axes.logarithmic_x {
        true if places.len() <= FEW_PLACES => places,
        true => places.into_iter().filter(is_power_of_two).collect(),
        false => Vec::new(),
    };
    let ticks = match round.len() {
        0 | 1 => x.ticks((width / 70.0) as usize),
        count => {
            let step = count.div_ceil(FEW_PLACES);
            round.into_iter().step_by(step).collect()
        }
    };
    x_axis(&mut board, area, &x, &ticks, axes.x_title, x_name);
    board.finish()
}

/// A range with a middle: runs around their median, clients around their mean.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its name.
    pub name: String,
    /// Number of its colour.
    pub colour: usize,
    /// Its lower end.
    pub low: f64,
    /// The median or mean.
    pub middle: f64,
    /// Its upper end.
    pub high: f64,
}

/// Ranges below each other on a common logarithmic scale.
pub fn ranges(width: f64, ranges: &[Range], axis: &str, name: impl Fn(f64) -> String) -> String {
    const ROW: f64 = 38.0;
    let (mut board, area) = board(width, (10.0, 14.0), 8.0, ranges.len() as f64 * ROW);
    let low = ranges.iter().map(|range| range.low);
    let low = low
        .filter(|low| *low > 0.0)
        .fold(f64::MAX, f64::min)
        .min(1e12);
    let high = ranges.iter().map(|range| range.high).fold(low, f64::max);
    let x = Scale::logarithmic(low / 1.2, high * 1.2, area.left, area.right);
    let ticks = x.ticks(8);
    upright_grid(&mut board, area, &x, &ticks);
    for (index, range) in ranges.iter().enumerate() {
        let top = area.top + index as f64 * ROW;
        let (from, to) = (x.place(range.low), x.place(range.high));
        let middle = name(range.middle);
        let title = format!(
            "{}: {middle} ({} to {})",
            range.name,
            name(range.low),
            name(range.high)
        );
        board.text("", area.left, top + 14.0, Anchor::Start, &range.name);
        board.text("strong", area.right, top + 14.0, Anchor::End, &middle);
        let fill = format!("f{}", range.colour);
        board.line("grid", area.left, top + 23.5, area.right, top + 23.5);
        board.rectangle(&fill, from, top + 22.0, (to - from).max(1.0), 3.0, &title);
        board.dot(&fill, x.place(range.middle), top + 23.5, &title);
    }
    x_axis(&mut board, area, &x, &ticks, axis, &name);
    board.finish()
}

/// A row of a time plan.
#[derive(Debug, Clone)]
pub struct Row {
    /// The process of the row.
    pub name: String,
    /// Colour, from, to (seconds), and a text to show when pointed at.
    pub spans: Vec<(usize, f64, f64, String)>,
}

/// The course of events, one row for each process.
pub fn schedule(width: f64, from: f64, to: f64, rows: &[Row], marks: &[Mark]) -> String {
    const ROW: f64 = 38.0;
    let top = 22.0 + label_rows(marks) as f64 * 15.0;
    let (mut board, area) = board(width, (8.0, 10.0), top, rows.len() as f64 * ROW);
    let x = Scale::linear(from, to, area.left, area.right);
    for (index, row) in rows.iter().enumerate() {
        let y = area.top + index as f64 * ROW;
        board.text("strong", area.left, y + 12.0, Anchor::Start, &row.name);
        board.rectangle(
            "band",
            area.left,
            y + 17.0,
            area.right - area.left,
            14.0,
            "",
        );
        for (colour, from, to, title) in &row.spans {
            let (left, right) = (x.place(*from), x.place(*to));
            let class = format!("f{colour}");
            board.rectangle(&class, left, y + 17.0, (right - left).max(1.0), 14.0, title);
        }
    }
    draw_marks(&mut board, area, &x, marks);
    time_axis(&mut board, width, area, &x);
    board.finish()
}

/// Bytes in powers of 1000, for linear axes: `200 kB`.
pub fn decimal_bytes(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes if bytes >= 1e6 => (bytes / 1e6, "MB"),
        bytes if bytes >= 1e3 => (bytes / 1e3, "kB"),
        bytes => (bytes, "B"),
    };
    format!("{} {unit}", number_text(value))
}

/// A figure with its unit, short enough for an axis.
pub fn tick_text(metric: &str, value: f64) -> String {
    let text = figure_text(metric, value);
    text.replace(".00", "").replace(".0 ", " ")
}

/// A size for an axis, exactly: `64 KiB`, `8 B`, `12,345 B`.
pub fn size_name(bytes: f64) -> String {
    size_text(bytes as u64).replace(".00", "").replace(".0", "")
}
