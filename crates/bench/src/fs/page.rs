//! The plots of `causeway bench fs`.

use causeway_report::page::{Extent, Figure, Key, Page};
use causeway_report::plots::{self, Bar, Line, Part, size_name};
use causeway_report::rows::Row;
use causeway_report::units::{bytes_text, figure_text, number_text};

use crate::outcome::Benchmark;
use crate::participants::LIMIT;

/// Fills the report.
pub(crate) fn draw(benchmark: &Benchmark, page: &mut Page) {
    page.cards(&cards(benchmark));
    sequential(benchmark, page);
    names(benchmark, page, "one-dir", "Names in one directory");
    names(
        benchmark,
        page,
        "many-dirs",
        "Names in a directory for each client",
    );
    small_files(benchmark, page);
    tiles(benchmark, page);
    commits(benchmark, page);
    with_limits(
        benchmark,
        page,
        "tree/",
        (
            "A tree of small files",
            "Files per second, durability synced, storage on disk. `put`, `get` and `rm -r` of `causeway fs` beside `cp -r` (with `sync`, \
             where the tree is stored) and `rm -r` on the same disk.",
        ),
    );
    with_limits(
        benchmark,
        page,
        "mount/",
        (
            "Through the mount",
            "Each beside a FUSE file system whose every request is one system call on a directory of the same storage, and that \
             directory itself.",
        ),
    );
    page.table(
        "Ratios",
        "From the same runs, so that a slow moment of the machine hits both.",
        &benchmark.table_of(|row| row.metric == "ratio"),
    );
}

fn cards(benchmark: &Benchmark) -> Vec<(String, String, Option<bool>)> {
    let wanted = [
        (
            "sequential/write/shared-buffers/1-clients",
            "write, 1 client",
        ),
        (
            "sequential/write/shared-buffers/1-clients/to-dd",
            "of dd's writing",
        ),
        ("sequential/read/shared-buffers/1-clients", "read, 1 client"),
        (
            "sequential/read/shared-buffers/1-clients/to-dd",
            "of dd's reading",
        ),
        ("create/one-dir/1-clients", "creates, 1 client"),
        ("create/one-dir/4-clients", "creates, 4 clients"),
        (
            "create-synced/group-commit/one/8-clients",
            "creates, synced, 8 clients",
        ),
        (
            "create-synced/group-commit/batch/8-clients/to-commit-each",
            "of a commit for each, batches",
        ),
        ("idle-server/1000-clients", "server with 1,000 idle clients"),
    ];
    let card = |(case, label): &(&str, &str)| {
        let row = benchmark.rows.iter().find(|row| row.case == *case)?;
        Some(row.card(label))
    };
    wanted.iter().filter_map(card).collect()
}

fn short(metric: &str) -> impl Fn(f64) -> String {
    move |value| match metric {
        "bandwidth_mb_s" if value == 0.0 => "0".to_owned(),
        _ => plots::tick_text(metric, value),
    }
}

fn sequential(benchmark: &Benchmark, page: &mut Page) {
    for (what, verb) in [("write", "Writing"), ("read", "Reading")] {
        let prefix = format!("sequential/{what}/");
        let rows: Vec<&Row> = benchmark
            .rows
            .iter()
            .filter(|row| row.case.starts_with(&prefix) && row.metric == "bandwidth_mb_s")
            .collect();
        let bars: Vec<Bar> = rows
            .iter()
            .map(|row| {
                let limit = row.participant == LIMIT;
                Bar {
                    name: in_words(row.case.strip_prefix(&prefix).unwrap_or(&row.case)),
                    parts: vec![Part {
                        colour: if limit { 6 } else { 0 },
                        length: row.median,
                    }],
                    note: figure_text(&row.metric, row.median),
                }
            })
            .collect();
        if bars.is_empty() {
            continue;
        }
        let size = rows.first().map_or(0, |row| row.size_bytes);
        let title = format!("{verb} one file of {}", bytes_text(size));
        let figure = Figure {
            title: &title,
            caption: "Medians. `dd` moves the same bytes with 4 MiB blocks on the same storage, \
                      between our runs.",
            extent: Extent::Half,
            legend: vec![Key::solid(0, "causeway"), Key::solid(6, "dd (the limit)")],
        };
        page.figure(&figure, |width| {
            plots::bars(width, &bars, "bytes per second", short("bandwidth_mb_s"))
        });
    }
}

/// A line for each operation, by number of clients.
fn by_clients(benchmark: &Benchmark, name_of: impl Fn(&Row) -> Option<(String, f64)>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in benchmark
        .rows
        .iter()
        .filter(|row| row.metric == "rate_per_s")
    {
        let Some((name, clients)) = name_of(row) else {
            continue;
        };
        let point = row.point_at(clients);
        plots::add_point(&mut lines, &name, point, |lines| (lines % 8, false));
    }
    lines
}

/// The end of a case as words: `shared buffers, 1 client`.
fn in_words(case: &str) -> String {
    let words: Vec<String> = case
        .split('/')
        .map(|part| match part {
            "1-clients" => "1 client".to_owned(),
            "1-processes" => "1 process".to_owned(),
            part => part.replace('-', " "),
        })
        .collect();
    words.join(", ")
}

/// The number in `4-clients`.
fn clients_of(text: &str) -> Option<f64> {
    text.strip_suffix("-clients")?.parse().ok()
}

/// A figure by the number of clients, or by a size, which `x_title` names.
fn by_size(
    page: &mut Page,
    lines: &[Line],
    (title, caption): (&str, &str),
    x_title: &str,
    x_name: impl Fn(f64) -> String,
    y_name: impl Fn(f64) -> String,
) {
    if lines.is_empty() {
        return;
    }
    let figure = Figure {
        title,
        caption,
        extent: Extent::Half,
        legend: lines.iter().map(Line::key).collect(),
    };
    page.figure(&figure, |width| {
        let axes = (x_title, "per second, logarithmic");
        plots::by_size(width, lines, axes, &x_name, &y_name)
    });
}

fn rates(page: &mut Page, lines: &[Line], title: &str, caption: &str) {
    let clients = |count: f64| format!("{count:.0}");
    by_size(
        page,
        lines,
        (title, caption),
        "client processes",
        clients,
        number_text,
    );
}

fn names(benchmark: &Benchmark, page: &mut Page, place: &str, title: &str) {
    let lines = by_clients(benchmark, |row| {
        let parts: Vec<&str> = row.case.split('/').collect();
        match parts.as_slice() {
            [operation, there, clients] if *there == place => {
                Some(((*operation).to_owned(), clients_of(clients)?))
            }
            _ => None,
        }
    });
    rates(
        page,
        &lines,
        title,
        "Operations of all client processes together, relaxed durability. `list` counts entries with \
         attributes; `create-batch` keeps many requests of a client in flight.",
    );
}

fn small_files(benchmark: &Benchmark, page: &mut Page) {
    let lines = by_clients(benchmark, |row| {
        let parts: Vec<&str> = row.case.split('/').collect();
        match parts.as_slice() {
            ["small-files", what, clients] => {
                let size = size_name(row.size_bytes as f64);
                Some((format!("{what} {size}"), clients_of(clients)?))
            }
            _ => None,
        }
    });
    rates(
        page,
        &lines,
        "Small files",
        "Files per second. Writing makes the file with its content in one request; reading opens it \
         and compares the content.",
    );
}

fn commits(benchmark: &Benchmark, page: &mut Page) {
    let bars: Vec<Bar> = benchmark
        .rows
        .iter()
        .filter(|row| row.case.starts_with("create-synced/") && row.metric == "rate_per_s")
        .map(|row| Bar {
            name: in_words(row.case.trim_start_matches("create-synced/")),
            parts: vec![Part {
                colour: 2,
                length: row.median,
            }],
            note: figure_text(&row.metric, row.median),
        })
        .collect();
    if bars.is_empty() {
        return;
    }
    let figure = Figure {
        title: "Creates that survive power loss",
        caption: "Durability synced, storage on disk: what waits at the same time shares one \
                  commit, against a commit for each create.",
        extent: Extent::Wide,
        legend: Vec::new(),
    };
    page.figure(&figure, |width| {
        plots::bars(width, &bars, "creates per second", number_text)
    });
}

/// Our figures and the limits beside them, a figure for each unit.
fn with_limits(
    benchmark: &Benchmark,
    page: &mut Page,
    prefix: &str,
    (title, caption): (&str, &str),
) {
    for metric in ["rate_per_s", "bandwidth_mb_s"] {
        let rows = benchmark.rows.iter();
        let bars: Vec<Bar> = rows
            .filter(|row| row.case.starts_with(prefix) && row.metric == metric)
            .map(|row| Bar {
                name: in_words(row.case.trim_start_matches(prefix)),
                parts: vec![Part {
                    colour: if row.participant == LIMIT { 6 } else { 0 },
                    length: row.median,
                }],
                note: figure_text(metric, row.median),
            })
            .collect();
        if bars.is_empty() {
            continue;
        }
        let figure = Figure {
            title,
            caption,
            extent: Extent::Half,
            legend: vec![Key::solid(0, "causeway"), Key::solid(6, "limits")],
        };
        let unit = match metric {
            "rate_per_s" => "per second",
            _ => "bytes per second",
        };
        page.figure(&figure, |width| {
            plots::bars(width, &bars, unit, short(metric))
        });
    }
}

fn tiles(benchmark: &Benchmark, page: &mut Page) {
    let mut lines: Vec<Line> = Vec::new();
    for row in benchmark
        .rows
        .iter()
        .filter(|row| row.metric == "bandwidth_mb_s")
    {
        let Some(name) = row.case.strip_prefix("tiles/") else {
            continue;
        };
        let point = row.point_at(row.size_bytes as f64);
        let name = name.replace('/', ", ");
        let style = |lines: usize| (lines % 8, name.ends_with("each"));
        plots::add_point(&mut lines, &name, point, style);
    }
    by_size(
        page,
        &lines,
        (
            "Tiles of a two-dimensional array",
            "All tiles together, by the bytes of one row of a tile, which is one fragment of the file. Solid: \
             all rows in one list. Dashed: one request for each row.",
        ),
        "bytes of a fragment",
        size_name,
        short("bandwidth_mb_s"),
    );
}
