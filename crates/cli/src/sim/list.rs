//! `causeway sim list`: figures, tables, profiles, workloads, and the keys of scenarios.

use causeway_command::output::Output;
use causeway_report::style::{Style, paint};
use causeway_report::table::Table;
use causeway_sim::catalogue;
use causeway_sim::profile::{Profile, SHIPPED};
use causeway_sim::scenario::{WORKLOADS, is_list, keys};
use clap::Args;
use serde_json::{Value, json};

/// List figures, tables, profiles, workloads and keys of scenarios
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim list
  causeway sim list --json | jq -r '.figures[].number'")]
pub(crate) struct Arguments {
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Something that can be named, in a line.
type Line = (String, String);

pub(super) fn run(arguments: &Arguments) {
    let output = Output::new(arguments.json);
    let of_kind = |kind: &str| -> Vec<Line> {
        let entries = catalogue::all();
        let wanted = entries.iter().filter(|entry| entry.kind() == kind);
        wanted
            .map(|entry| (entry.number().to_owned(), entry.title().to_owned()))
            .collect()
    };
    let scenarios: Vec<Line> = WORKLOADS
        .iter()
        .map(|(name, what)| ((*name).to_owned(), (*what).to_owned()))
        .collect();
    let (tables, figures, profiles) = (of_kind("table"), of_kind("figure"), profiles());
    for (title, lines) in [
        ("Tables: causeway sim table NUMBER", &tables),
        ("Figures: causeway sim figure NUMBER", &figures),
        ("Profiles of hardware, for scenarios", &profiles),
        (
            "Workloads, for scenarios: causeway sim run FILE",
            &scenarios,
        ),
    ] {
        output.line(&paint(title, Style::Bold));
        let width = lines.iter().map(|line| line.0.len()).max().unwrap_or(0);
        for (name, what) in lines {
            output.line(&format!("  {name:width$}  {what}"));
        }
        output.line("");
    }
    print_keys(&output);
    let objects = |key: &str, text: &str, lines: &[Line]| -> Value {
        lines
            .iter()
            .map(|(name, what)| json!({ key: name, text: what }))
            .collect()
    };
    output.object(&json!({
        "tables": objects("number", "title", &tables),
        "figures": objects("number", "title", &figures),
        "profiles": objects("name", "summary", &profiles),
        "scenarios": objects("workload", "what", &scenarios),
        "keys": keys().map(|key| json!({
            "table": key.table, "of": key.of, "key": key.name, "allowed": key.allowed,
            "default": (!key.default.is_empty()).then_some(key.default) })).collect::<Value>(),
    }));
}

/// Prints all keys of scenarios.
fn print_keys(output: &Output) {
    output.line(&paint(
        "Keys of scenarios; examples/*.toml show them in use",
        Style::Bold,
    ));
    let mut table = Table::new(&["key", "of", "what may be written", "if left out"]);
    let mut last = "";
    for key in keys() {
        if key.table != last {
            let head = match is_list(key.table) {
                true => format!("[[{}]]", key.table),
                false => format!("[{}]", key.table),
            };
            table.row(vec![head]);
            last = key.table;
        }
        let default = match key.default {
            "" => "must be there",
            default => default,
        };
        let cells = [key.name, key.of, key.allowed, default];
        table.row(cells.map(str::to_owned).to_vec());
    }
    output.line(&table.text());
    output.line(
        "Times are written \"5 us\" (ps, ns, us, ms, s), sizes \"4 KiB\" (B, KiB, MiB, GiB), rates \"8 MB/s\" \
         (B/s, kB/s, MB/s, GB/s, Mbit/s, Gbit/s).",
    );
}

fn profiles() -> Vec<Line> {
    SHIPPED
        .iter()
        .map(|(name, text)| {
            // Those that are shipped are read in a test; one that could not be would still be named.
            let summary = Profile::parse(text, name).map(|profile| profile.summary);
            ((*name).to_owned(), summary.unwrap_or_default())
        })
        .collect()
}
