//! The report: each figure beside the thesis's statements about it, each table with its deviations.

use std::path::Path;

use causeway_command::failure::Outcome;
use causeway_command::whole_file;
use causeway_report::machine::{COMMIT, VERSION};
use causeway_report::page::{Claim, Key, Page, Panel};
use causeway_report::plots::{self, Axes, Bar, Line, Part, Share};
use causeway_report::table::Table;
use causeway_report::units::{count_text, microseconds_text, number_text};
use causeway_sim::catalogue::Table as PaperTable;
use causeway_sim::figures::table::{Cell, RECEIVE_ROWS, SEND_ROWS};
use causeway_sim::figures::{self, About, Effort, Row as Point};
use causeway_sim::substrates::{Combination, munet};

use super::found::{self, Finding};
use super::store::SIMULATOR;

/// Colours of curves and parts, in their order.
const COLOURS: [usize; 11] = [0, 1, 2, 3, 4, 8, 9, 7, 5, 10, 6];
/// The ratio of the largest value to the smallest from which an axis is logarithmic.
const WIDE_RANGE: f64 = 40.0;

/// Writes the report.
pub(super) fn write(
    path: &Path,
    findings: &[Finding],
    claims: &[found::Claim],
    effort: Effort,
) -> Outcome {
    let lead = "Nagar's thesis, simulated: each figure and table beside what the text states or prints, and whether \
                it is so here. Curves are simulated; the thesis prints no values for most of them, and what its \
                text says of their order, crossings and knees stands beside them with the values that decided.";
    let mut page = Page::new("The thesis, simulated", lead);
    page.cards(&cards(findings, claims));
    for finding in findings {
        let name = finding.name();
        let of: Vec<Claim<'_>> = claims
            .iter()
            .filter(|one| one.of == name)
            .map(|one| Claim {
                claim: &one.claim,
                holds: one.holds,
                evidence: &one.evidence,
            })
            .collect();
        match finding {
            Finding::Figure(about, points) => draw_figure(&mut page, about, points, &of),
            Finding::Table(table, cells) => draw_table(&mut page, table, cells, &of),
        }
    }
    page.table(
        "At a glance",
        "How many of the thesis's statements hold.",
        &glance(findings, claims),
    );
    let effort = match effort {
        Effort::Quick => "quick: fewer points and rounds",
        Effort::Full => "every point",
    };
    made_with(&mut page, &[("effort", effort)]);
    whole_file::write(path, page.html().as_bytes())
}

/// Adds the programs and parameters of the report.
pub(super) fn made_with(page: &mut Page, more: &[(&str, &str)]) {
    let mut made = Table::new(&["what", "value"]);
    let program = format!("causeway {VERSION}, commit {COMMIT}");
    let first = [("program", program.as_str()), ("simulator", SIMULATOR)];
    for (what, value) in first.iter().chain(more) {
        made.row(vec![(*what).to_owned(), (*value).to_owned()]);
    }
    page.table(
        "What this was made with",
        "The same program makes the same report of the same values, wherever and whenever it runs.",
        &made,
    );
}

fn held(claims: &[found::Claim], wanted: impl Fn(&found::Claim) -> bool) -> (usize, usize) {
    let wanted: Vec<&found::Claim> = claims.iter().filter(|one| wanted(one)).collect();
    (wanted.iter().filter(|one| one.holds).count(), wanted.len())
}

fn cards(findings: &[Finding], claims: &[found::Claim]) -> Vec<(String, String, Option<bool>)> {
    let mut cards = Vec::new();
    let (holding, all) = held(claims, |one| one.of.starts_with("figure"));
    if all > 0 {
        let text = "statements about figures hold".to_owned();
        cards.push((format!("{holding} of {all}"), text, Some(holding == all)));
    }
    for finding in findings {
        if let Finding::Table(table, cells) = finding {
            let printed = cells.iter().filter(|cell| cell.paper.is_some());
            let all = printed.clone().count();
            let met = printed.filter(|cell| table.agrees(cell)).count();
            cards.push((
                format!("{met} of {all}"),
                format!(
                    "values of table {} within {}",
                    table.number,
                    found::within(table)
                ),
                Some(met == all),
            ));
        }
    }
    cards
}

fn glance(findings: &[Finding], claims: &[found::Claim]) -> Table {
    let mut table = Table::new(&["of", "what it shows", "hold", "of all"]);
    table.align_right(&[2, 3]);
    for finding in findings {
        let name = finding.name();
        let (holding, all) = held(claims, |one| one.of == name);
        table.row(vec![
            name,
            finding.title().to_owned(),
            match holding == all {
                true => holding.to_string(),
                false => format!("✗ {holding}"),
            },
            all.to_string(),
        ]);
    }
    table
}

fn draw_figure(page: &mut Page, about: &About, points: &[Point], claims: &[Claim<'_>]) {
    let has_total = points.iter().any(|point| point.series.ends_with(" total"));
    let panels = match (about.x, has_total) {
        ("stage", _) => stages(points),
        (x, _) if x.starts_with("substrate") => substrates(points),
        (_, true) => accounts(about, points),
        _ => curves(about, points),
    };
    let title = format!("Figure {}: {}", about.number, about.title);
    page.judged_figure(&title, claims, &panels);
}

/// The names without repetition, in the order in which they first occur.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

pub(super) fn colour(place: usize) -> usize {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(0)
}

/// Colour of a curve, and whether it is dashed: curves beyond the last colour are.
pub(super) fn style(place: usize) -> (usize, bool) {
    (colour(place), place >= COLOURS.len())
}

/// Splits `(C1,NI1) am_poll`.
fn parts(point: &Point) -> (&str, &str) {
    point.series.split_once(' ').unwrap_or((&point.series, ""))
}

/// A drawing without a title.
fn panel<'a>(legend: Vec<Key>, draw: impl Fn(f64) -> String + 'a) -> Panel<'a> {
    Panel {
        title: String::new(),
        legend,
        draw: Box::new(draw),
    }
}

/// A message's way: the shares of its stages.
fn stages(points: &[Point]) -> Vec<Panel<'_>> {
    let names = distinct(points.iter().map(|point| parts(point).0));
    let of = move |name: &'_ str| -> Vec<&Point> {
        let wanted = points.iter().filter(|point| parts(point).0 == name);
        wanted.collect()
    };
    names
        .into_iter()
        .map(|name| -> Panel<'_> {
            let of = of(name);
            let (totals, stages): (Vec<&Point>, Vec<&Point>) = of
                .into_iter()
                .partition(|point| parts(point).1.starts_with("total"));
            let sum = totals
                .iter()
                .map(|point| format!("{} {}", point.series, microseconds_text(point.value)));
            let sum: Vec<String> = sum.collect();
            let shares: Vec<Share> = stages
                .iter()
                .filter(|point| point.value > 0.0)
                .enumerate()
                .map(|(place, point)| {
                    let stage = parts(point).1.to_owned();
                    Share {
                        name: stage,
                        colour: colour(place),
                        figure: point.value,
                        note: microseconds_text(point.value),
                    }
                })
                .collect();
            Panel {
                title: sum.join("; "),
                legend: Vec::new(),
                draw: Box::new(move |width| plots::shares(width, &shares)),
            }
        })
        .collect()
}

/// A bar for each program on each substrate.
fn substrates(points: &[Point]) -> Vec<Panel<'_>> {
    let programs = distinct(points.iter().map(|point| point.series.as_str()));
    let bars: Vec<Bar> = programs
        .iter()
        .enumerate()
        .flat_map(|(place, program)| {
            points
                .iter()
                .filter(move |point| point.series == **program)
                .map(move |point| {
                    let substrate = Combination::FOUR.get(point.x as usize);
                    let substrate = substrate.map_or("", |one| one.name());
                    Bar {
                        name: format!("{program} on {substrate}"),
                        parts: vec![Part {
                            colour: colour(place),
                            length: point.value,
                        }],
                        note: microseconds_text(point.value),
                    }
                })
        })
        .collect();
    let draw = move |width| plots::bars(width, &bars, "µs there and back", number_text);
    vec![panel(Vec::new(), draw)]
}

/// How programs spend their time: a bar for each substrate and place, of parts.
fn accounts<'a>(about: &'a About, points: &'a [Point]) -> Vec<Panel<'a>> {
    let kinds = distinct(points.iter().map(|point| parts(point).1));
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| *kind != "total").collect();
    let mut places: Vec<f64> = points.iter().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let names = distinct(points.iter().map(|point| parts(point).0));
    let value = |name: &str, kind: &str, x: f64| {
        let found = points
            .iter()
            .find(|point| point.x == x && parts(point) == (name, kind));
        found.map(|point| point.value)
    };
    let mut bars = Vec::new();
    for x in places {
        for name in &names {
            let Some(total) = value(name, "total", x) else {
                continue;
            };
            let lengths = kinds.iter().enumerate().filter_map(|(place, kind)| {
                let milliseconds = value(name, kind, x)? / 1e3;
                Some(Part {
                    colour: colour(place),
                    length: milliseconds,
                })
            });
            // Text after a comma explains the axis.
            let (unit, _) = about.x.split_once(',').unwrap_or((about.x, ""));
            bars.push(Bar {
                name: format!("{name}, {} {unit}", count_text(x as u64)),
                parts: lengths.collect(),
                note: format!("{:.1} ms", total / 1e3),
            });
        }
    }
    let legend = kinds.iter().enumerate();
    let legend = legend.map(|(place, kind)| Key::solid(colour(place), *kind));
    let draw = move |width| plots::bars(width, &bars, "ms of a process's time", number_text);
    vec![panel(legend.collect(), draw)]
}

/// Curves, with a panel for each unit.
fn curves<'a>(about: &'a About, points: &'a [Point]) -> Vec<Panel<'a>> {
    let metrics = distinct(
        points
            .iter()
            .map(|point| found::metric(about, &point.series)),
    );
    metrics
        .into_iter()
        .map(|metric| -> Panel<'a> {
            let of = points
                .iter()
                .filter(|point| found::metric(about, &point.series) == metric)
                .filter(|point| !figures::is_alternative(&point.series))
                .filter(|point| point.value.is_finite());
            let mut lines: Vec<Line> = Vec::new();
            for point in of {
                let place = plots::Point::exact(point.x, point.value);
                plots::add_point(&mut lines, &point.series, place, style);
            }
            for line in &mut lines {
                line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
            }
            let legend = lines.iter().map(Line::key).collect();
            let draw = move |width| draw_curves(width, about, metric, &lines);
            panel(legend, draw)
        })
        .collect()
}

fn draw_curves(width: f64, about: &About, metric: &str, lines: &[Line]) -> String {
    let range = |of: fn(&plots::Point) -> f64| {
        let values = lines.iter().flat_map(|line| &line.points).map(of);
        let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        low > 0.0 && high > low * WIDE_RANGE
    };
    let logarithmic_x = range(|point| point.x) || about.x.contains("VIs");
    let logarithmic_y = metric == "latency_us" && range(|point| point.y);
    let unit = match metric {
        "latency_us" => "µs",
        "percent" => "%",
        _ => "jitter fraction θ",
    };
    let y_title = match logarithmic_y {
        true => format!("{unit}, logarithmic"),
        false => unit.to_owned(),
    };
    let axes = Axes {
        x_title: about.x,
        y_title: &y_title,
        logarithmic_x,
        logarithmic_y,
    };
    plots::curves(width, lines, &axes, number_text, |value| {
        number_text((value * 1e4).round() / 1e4)
    })
}

/// The name of a table's row.
fn row_name(case: &str) -> String {
    let mut parts = case.split('/');
    let (program, side) = (parts.next(), parts.next());
    let row = parts.next().and_then(|row| row.parse::<usize>().ok());
    let name = |names: &[&str]| row.and_then(|row| names.get(row).map(|name| (*name).to_owned()));
    let of_side = match side {
        Some(side) if side.starts_with("endpoints") => name(&munet::ROWS),
        Some("send") => name(&SEND_ROWS),
        Some("recv") => name(&RECEIVE_ROWS),
        _ => None,
    };
    match (program, of_side) {
        (Some(_), Some(name)) => format!("{case}: {name}"),
        _ => case.to_owned(),
    }
}

fn draw_table(page: &mut Page, paper: &PaperTable, cells: &[Cell], claims: &[Claim<'_>]) {
    let mut sizes: Vec<u32> = cells.iter().map(|cell| cell.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec![paper.unit.name.to_owned()];
    for size in &sizes {
        head.push(match size {
            0 => "simulated".to_owned(),
            bytes => plots::size_name(f64::from(*bytes)),
        });
        head.push("printed".to_owned());
        head.push("difference".to_owned());
    }
    if paper.slowdown(0.0).is_some() {
        head.extend(["slowdown", "printed"].map(str::to_owned));
    }
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new(&head);
    table.align_right(&(1..head.len()).collect::<Vec<_>>());
    for case in distinct(cells.iter().map(|cell| cell.case.as_str())) {
        let mut row = vec![row_name(case)];
        for size in &sizes {
            let cell = cells
                .iter()
                .find(|cell| cell.case == case && cell.size_bytes == *size);
            row.extend(cell.map_or_else(Default::default, |cell| entry(paper, cell)));
            let of_jobs = cell.filter(|cell| !found::is_variation(cell));
            let times = of_jobs.map(|cell| [Some(cell.causeway), cell.paper]);
            let slowdowns = times.into_iter().flatten().flatten();
            let slowdowns = slowdowns.filter_map(|time| paper.slowdown(time));
            row.extend(slowdowns.map(|slowdown| format!("{slowdown:.1}")));
        }
        table.row(row);
    }
    let caption = "For each size: simulated, printed, and how far the one is from the other; ✗ marks those that are too far.";
    let title = format!("Table {}: {}", paper.number, paper.title);
    page.judged_table(&title, caption, &table, claims);
}

/// Simulated, printed, difference.
fn entry(paper: &PaperTable, cell: &Cell) -> [String; 3] {
    let ours = match cell.causeway.abs() < 2.0 && paper.unit.slack == 0.0 {
        // The values are coefficients of variation.
        true => format!("{:.2}", cell.causeway),
        false => format!("{:.1}", cell.causeway),
    };
    match cell.paper {
        None => [ours, "–".to_owned(), String::new()],
        Some(printed) => {
            let mark = if paper.agrees(cell) { "" } else { " ✗" };
            let difference = cell.causeway - printed;
            [
                ours,
                number_text(printed),
                format!("{difference:+.1}{mark}"),
            ]
        }
    }
}
