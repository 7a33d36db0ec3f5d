//! The demonstration's report.

use std::collections::BTreeMap;
use std::path::Path;

use causeway_command::failure::Outcome;
use causeway_command::whole_file;
use causeway_report::page::{Extent, Figure, Key, Page};
use causeway_report::plots::{self, Band, Bar, Mark, Part, Series, Share};
use causeway_report::rows::rows_table;
use causeway_report::table::Table;
use causeway_report::units::{bytes_text, count_text, duration_text, microseconds_text, rate_text};

use super::phase::Phase;
use super::result::Findings;
use super::summary::{failure_events, latencies, phases_table, rows};
use super::worker::SLOT_NS;

/// Errors that the report shows verbatim.
const SHOWN_FAULTS: usize = 12;

/// Writes the report.
pub(crate) fn write(result: &Findings, path: &Path) -> Outcome {
    let mut page = Page::new(
        "Causeway: a tree stored, lost a server, and verified",
        &lead(result),
    );
    page.cards(&cards(result));
    throughput(&mut page, result);
    failure(&mut page, result);
    operations(&mut page, result);
    servers(&mut page, result);
    stages(&mut page, result);
    page.table(
        "Phases",
        "Each phase is run by processes of its own; nothing is cached between them on the client's \
         side. `written` and `read` count bytes that clients moved.",
        &phases_table(result),
    );
    page.lines("What happened to the server", "", &failure_events(result));
    messages(&mut page, result);
    if !result.differences.is_empty() {
        page.lines("Differences", "", &result.differences);
    }
    page.machine(
        &result.machine,
        &[
            ("tree", result.source.clone()),
            (
                "servers",
                format!(
                    "1 metadata server, {} I/O servers, each a process",
                    result.servers
                ),
            ),
            (
                "clients",
                format!("{} processes in each phase", result.clients),
            ),
            ("storage", result.storage.clone()),
            ("durability", result.durability.to_owned()),
            ("time-out of an operation", duration_text(result.timeout)),
        ],
    );
    page.table(
        "Rows",
        "The same rows as in --json.",
        &rows_table(&rows(result)),
    );
    whole_file::write(path, page.html().as_bytes())
}

fn lead(result: &Findings) -> String {
    format!(
        "{} files and links, {} in {} directories ({}), stored by {} client processes on {} I/O \
         servers, read back by others, read once more while {} was killed and came back, and \
         compared with the source by SHA-256 every time.",
        count_text(result.files),
        bytes_text(result.bytes),
        count_text(result.directories),
        result.source,
        result.clients,
        result.servers,
        result.victim
    )
}

fn cards(result: &Findings) -> Vec<(String, String, Option<bool>)> {
    let mut cards = vec![(
        match result.differing {
            0 => "all alike".to_owned(),
            count => format!("{} differ", count_text(count)),
        },
        format!(
            "{} comparisons with the source",
            count_text(result.compared)
        ),
        Some(result.differing == 0),
    )];
    for phase in result
        .phases
        .iter()
        .filter(|phase| matches!(phase.name, "store" | "read back"))
    {
        let rate = phase.items as f64 / phase.time().as_secs_f64().max(1e-9);
        cards.push((
            rate_text(phase.bytes(), phase.time()),
            format!("{}: {} files/s", phase.name, count_text(rate as u64)),
            None,
        ));
    }
    let away = match (result.killed_ns, result.answered_ns) {
        (Some(killed), Some(answered)) => (answered - killed) as f64 / 1e9,
        _ => 0.0,
    };
    cards.push((
        format!("{away:.1} s"),
        format!("{} was away", result.victim),
        None,
    ));
    let longest = result
        .faults()
        .map(|(_, _, fault)| fault.to_ns - fault.from_ns)
        .max();
    let longest = longest.map_or(0.0, |ns| ns as f64 / 1e9);
    cards.push((
        format!("{} errors", result.faults().count()),
        format!(
            "longest wait {longest:.1} s, time-out {}",
            duration_text(result.timeout)
        ),
        None,
    ));
    let total: f64 = result
        .phases
        .iter()
        .map(|phase| phase.time().as_secs_f64())
        .sum();
    cards.push((format!("{total:.0} s"), "all phases".to_owned(), None));
    cards
}

fn bands(result: &Findings) -> Vec<Band> {
    let band = |phase: &Phase| Band {
        name: phase.name.to_owned(),
        from: result.seconds(phase.from_ns),
        to: result.seconds(phase.to_ns),
    };
    result.phases.iter().map(band).collect()
}

fn marks(result: &Findings) -> Vec<Mark> {
    let victim = &result.victim;
    [
        (result.killed_ns, format!("{victim} killed")),
        (result.answered_ns, format!("{victim} replies again")),
    ]
    .into_iter()
    .filter_map(|(ns, name)| {
        ns.map(|ns| Mark {
            name,
            at: result.seconds(ns),
        })
    })
    .collect()
}

fn throughput(page: &mut Page, result: &Findings) {
    let mut slots: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for slot in result
        .phases
        .iter()
        .flat_map(|phase| &phase.slots)
        .flatten()
    {
        let sum = slots.entry(*slot.0).or_default();
        sum.0 += slot.1.0;
        sum.1 += slot.1.1;
    }
    let end = result.phases.last().map_or(0, |phase| phase.to_ns);
    let (first, last) = (result.origin_ns / SLOT_NS, end / SLOT_NS);
    // On long runs several slots become one point: more than about 300 points cannot be
    // distinguished.
    let group = (last.saturating_sub(first) / 300).max(1);
    let mut read = Vec::new();
    let mut written = Vec::new();
    let mut slot = first;
    while slot <= last {
        let (mut r, mut w) = (0, 0);
        for (_, sum) in slots.range(slot..slot + group) {
            r += sum.0;
            w += sum.1;
        }
        let seconds = (group * SLOT_NS) as f64 / 1e9;
        let at = result.seconds(slot * SLOT_NS) + seconds / 2.0;
        read.push((at, r as f64 / 1e6 / seconds));
        written.push((at, w as f64 / 1e6 / seconds));
        slot += group;
    }
    let series = [
        Series {
            colour: 0,
            points: read,
        },
        Series {
            colour: 1,
            points: written,
        },
    ];
    let (bands, marks) = (bands(result), marks(result));
    let figure = Figure {
        title: "Throughput over time",
        caption: "All client processes together. Bands are the phases, numbered as in the table \
                  below; many small files move few bytes, whatever their number.",
        extent: Extent::Wide,
        legend: vec![
            Key::solid(0, "read by clients"),
            Key::solid(1, "written by clients"),
        ],
    };
    page.figure(&figure, |width| {
        plots::over_time(width, "MB/s", &series, &bands, &marks)
    });
}

fn failure(page: &mut Page, result: &Findings) {
    let Some((number, phase)) = result.phases.iter().enumerate().find(|(_, phase)| {
        result
            .killed_ns
            .is_some_and(|at| (phase.from_ns..=phase.to_ns).contains(&at))
    }) else {
        return;
    };
    let end = result.seconds(phase.to_ns);
    let from = result.seconds(phase.from_ns);
    let killed = result.killed_ns.map_or(from, |ns| result.seconds(ns));
    let answered = result.answered_ns.map_or(end, |ns| result.seconds(ns));
    let mut rows = vec![plots::Row {
        name: format!("server {}", result.victim),
        spans: vec![
            (2, from, killed, "it replies".to_owned()),
            (7, killed, answered, "it is away".to_owned()),
            (2, answered, end, "it replies".to_owned()),
        ],
    }];
    for (worker, slots) in phase.slots.iter().enumerate() {
        let length = SLOT_NS as f64 / 1e9;
        let mut spans: Vec<(usize, f64, f64, String)> = Vec::new();
        for (slot, sum) in slots {
            let at = result.seconds(slot * SLOT_NS);
            let (left, right) = (at.max(from), (at + length).min(end));
            match spans.last_mut() {
                Some(last) if left - last.2 < length / 2.0 => last.2 = right,
                _ => spans.push((
                    2,
                    left,
                    right,
                    format!("moved {} and more", bytes_text(sum.0 + sum.1)),
                )),
            }
        }
        for (_, _, fault) in result
            .faults()
            .filter(|fault| fault.0 == number && fault.1 == worker)
        {
            let (left, right) = (result.seconds(fault.from_ns), result.seconds(fault.to_ns));
            spans.push((7, left, right, fault.text.clone()));
        }
        rows.push(plots::Row {
            name: format!("client {}", worker + 1),
            spans,
        });
    }
    let marks = marks(result);
    let figure = Figure {
        title: "The failure, process by process",
        caption: "Green: the server replies, the client moves data. Red: the server is away, the \
                  client waits for it and gets an error that names it. Grey: small files, which \
                  live with the metadata, or waiting.",
        extent: Extent::Wide,
        legend: vec![
            Key::solid(2, "working"),
            Key::solid(7, "away, or waiting for an error"),
        ],
    };
    page.figure(&figure, |width| {
        plots::schedule(width, from, end, &rows, &marks)
    });
}

fn operations(page: &mut Page, result: &Findings) {
    let latencies = latencies(result);
    let order = [
        "create",
        "write",
        "open",
        "read",
        "set attributes",
        "stat",
        "symlink",
    ];
    let rows: Vec<_> = order
        .iter()
        .enumerate()
        .filter_map(|(colour, name)| {
            latencies
                .get(*name)
                .map(|histogram| ((*name).to_owned(), colour, histogram))
        })
        .collect();
    let figure = Figure {
        title: "How long operations took",
        caption: "All phases, successful operations, logarithmic time. Heights are square roots, so \
                  that rare slow operations stay visible. `create` carries the content of files up \
                  to 16 KiB, `open` brings it back; `read` and `write` move up to 4 MiB. Operations \
                  that waited for the killed server to return are the ones at the far right.",
        extent: Extent::Tall,
        legend: Vec::new(),
    };
    page.figure(&figure, |width| plots::latencies(width, &rows));
}

fn servers(page: &mut Page, result: &Findings) {
    let bars: Vec<Bar> = result
        .histories
        .iter()
        .map(|history| Bar {
            name: format!(
                "{}{}",
                history.name,
                if history.name == result.victim {
                    " (killed once)"
                } else {
                    ""
                }
            ),
            parts: vec![
                Part {
                    colour: 1,
                    length: history.written as f64,
                },
                Part {
                    colour: 0,
                    length: history.read as f64,
                },
            ],
            note: format!(
                "{} written, {} read",
                bytes_text(history.written),
                bytes_text(history.read)
            ),
        })
        .collect();
    let figure = Figure {
        title: "Bytes by server",
        caption: "What each I/O server moved to and from its storage, as it counts itself, looked at \
                  every 0.2 s; what the killed server did in its last moment is not counted. Files \
                  up to 16 KiB are not here: they live with the metadata.",
        extent: Extent::Half,
        legend: vec![Key::solid(1, "written"), Key::solid(0, "read")],
    };
    page.figure(&figure, |width| {
        plots::bars(width, &bars, "bytes", plots::decimal_bytes)
    });
}

/// Stages of storing, in the order in which they happen, with their meaning.
const STAGES: [(&str, &str); 10] = [
    (
        "hash the source",
        "SHA-256 of the source (the demonstration's own)",
    ),
    ("create", "create the file (content of small ones along)"),
    ("read the source", "read the source into the buffer"),
    ("write: plan", "write: distribute bytes over servers"),
    ("write: messages", "write: request, waiting, reply"),
    ("write: copy", "write: copy to the server"),
    ("write: storage", "write: store in the datafile"),
    ("write: size", "write: note the file's size"),
    ("set attributes", "set times"),
    ("symlink", "make symbolic links"),
];

fn stages(page: &mut Page, result: &Findings) {
    let Some(store) = result.phases.iter().find(|phase| phase.name == "store") else {
        return;
    };
    let mut parts = Vec::new();
    for (colour, (name, text)) in STAGES.iter().enumerate() {
        if let Some((us, count)) = store.stages.get(*name) {
            let each = microseconds_text(us / (*count).max(1) as f64);
            parts.push(Share {
                name: (*text).to_owned(),
                colour,
                figure: *us,
                note: format!("{each} each"),
            });
        }
    }
    for (name, (us, count)) in &store.stages {
        if !STAGES.iter().any(|(known, _)| known == name) {
            let each = microseconds_text(us / (*count).max(1) as f64);
            parts.push(Share {
                name: name.to_string(),
                colour: STAGES.len(),
                figure: *us,
                note: format!("{each} each"),
            });
        }
    }
    let figure = Figure {
        title: "Where the time of storing goes",
        caption: "Shares of the client processes' time in the first phase, stage by stage, with the \
                  mean time of one pass through the stage.",
        extent: Extent::Half,
        legend: Vec::new(),
    };
    page.figure(&figure, |width| plots::shares(width, &parts));
}

fn messages(page: &mut Page, result: &Findings) {
    let lines: Vec<String> = result
        .faults()
        .take(SHOWN_FAULTS)
        .map(|(_, worker, fault)| {
            format!(
                "{:.1} s, client {}, after {:.1} s: {}",
                result.seconds(fault.to_ns),
                worker + 1,
                (fault.to_ns - fault.from_ns) as f64 / 1e9,
                fault.text
            )
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    let more = result.faults().count() - lines.len();
    let caption = match more {
        0 => String::new(),
        more => format!("and {more} more"),
    };
    page.lines("Errors as clients saw them", &caption, &lines);
    let mut table = Table::new(&["operation", "count", "median", "p90", "p99", "longest"]);
    table.align_right(&[1, 2, 3, 4, 5]);
    for (name, histogram) in latencies(result) {
        table.row(vec![
            name.to_owned(),
            count_text(histogram.count()),
            microseconds_text(histogram.quantile_us(0.5)),
            microseconds_text(histogram.quantile_us(0.9)),
            microseconds_text(histogram.quantile_us(0.99)),
            microseconds_text(histogram.max_us()),
        ]);
    }
    page.table("Operations", "", &table);
}
