//! `causeway sim list`: figures, tables, profiles, designs and workloads.

use causeway_sim::catalogue;
use causeway_sim::profile::{Profile, SHIPPED};
use causeway_sim::scenario::WORKLOADS;
use clap::Args;
use serde_json::{Value, json};

use crate::output::{Output, Style, paint};

/// Say which figures, tables, profiles and workloads there are
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
    }));
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
