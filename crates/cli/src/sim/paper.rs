//! `causeway sim figure`, `table` and `paper`: what is run, and where the findings go.

use std::path::{Path, PathBuf};

use causeway_sim::catalogue::{self, Entry, Found, Task};
use causeway_sim::figures::Effort;
use clap::Args;
use serde_json::json;

use super::found::{self, Claim, Finding};
use super::store::{SIMULATOR, Store};
use super::{Options, page, pool};
use crate::failure::{Failure, Outcome};
use crate::machine::COMMIT;
use crate::output::Output;
use crate::progress::Progress;
use crate::rows::Row;
use crate::shutdown;

/// Where `paper` keeps finished runs while it is not through.
const UNFINISHED: &str = "causeway-paper.unfinished";

/// What figures, tables and all of them have in common.
#[derive(Debug, Args)]
struct Shown {
    #[command(flatten)]
    options: Options,
    /// Write a report with plots beside what the thesis states
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Fewer points and rounds: an impression in seconds
    #[arg(long)]
    quick: bool,
    /// Fail if something that the thesis states does not hold
    #[arg(long)]
    check: bool,
    /// Keep finished runs here, and take from here those that were finished before
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

impl Shown {
    fn effort(&self) -> Effort {
        match self.quick {
            true => Effort::Quick,
            false => Effort::Full,
        }
    }
}

/// Run figures, and hold them against what the thesis says of them
///
/// Each claim is printed with whether it holds, and the values that decided.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim figure 4.12
  causeway sim figure 5.4 5.7 --html quality.html
  causeway sim figure 2.3 --csv results
  causeway sim figure 4.13 --quick --json | jq '.verdicts[] | {claim, holds}'")]
pub(crate) struct FigureArguments {
    /// Their numbers: 4.12 (`causeway sim list` knows all)
    #[arg(required = true, value_name = "NUMBER")]
    numbers: Vec<String>,
    #[command(flatten)]
    shown: Shown,
}

/// Run tables, and hold them against what is printed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim table 5.1
  causeway sim table 5.1 5.2 --html tables.html
  causeway sim table 5.1 --json | jq -c '.rows[] | {case, who, size_bytes, median}'")]
pub(crate) struct TableArguments {
    /// Their numbers: 5.1 (`causeway sim list` knows all)
    #[arg(required = true, value_name = "NUMBER")]
    numbers: Vec<String>,
    #[command(flatten)]
    shown: Shown,
}

/// Run all figures and tables, and hold them against the thesis
///
/// Finished runs are kept in causeway-paper.unfinished, or where --results says, until everything is through:
/// when interrupted, give the same command again, and it goes on. Runs of another build or with other
/// parameters are not used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim paper --html paper.html
  causeway sim paper --quick --check
  causeway sim paper --jobs 1 --csv results --results finished --json > paper.json")]
pub(crate) struct PaperArguments {
    #[command(flatten)]
    shown: Shown,
}

/// Runs some figures.
pub(super) fn figure(arguments: &FigureArguments) -> Outcome {
    let find = |number: &String| {
        catalogue::figure(number)
            .map(Entry::Figure)
            .ok_or_else(|| unknown("figure", number))
    };
    let entries: Vec<Entry> = arguments.numbers.iter().map(find).collect::<Outcome<_>>()?;
    show("figure", &entries, &arguments.shown)
}

/// Runs some tables.
pub(super) fn table(arguments: &TableArguments) -> Outcome {
    let find = |number: &String| {
        catalogue::table(number)
            .map(Entry::Table)
            .ok_or_else(|| unknown("table", number))
    };
    let entries: Vec<Entry> = arguments.numbers.iter().map(find).collect::<Outcome<_>>()?;
    show("table", &entries, &arguments.shown)
}

/// Runs everything.
pub(super) fn everything(arguments: &PaperArguments) -> Outcome {
    let shown = &arguments.shown;
    if shown.results.is_some() {
        return show("paper", &catalogue::all(), shown);
    }
    let store = Store::open(Path::new(UNFINISHED)).map_err(|failure| {
        failure.hint("--results names a directory where finished runs can be kept")
    })?;
    let claims = run("paper", &catalogue::all(), shown, Some(&store))?;
    store.clear();
    verify(shown, &claims)
}

fn unknown(kind: &str, number: &str) -> Failure {
    let entries = catalogue::all();
    let of_kind = entries.iter().filter(|entry| entry.kind() == kind);
    let known: Vec<&str> = of_kind.map(Entry::number).collect();
    let other = entries
        .iter()
        .any(|entry| entry.kind() != kind && entry.number() == number);
    let failure = Failure::usage(
        format!("looking for {kind} {number}"),
        format!("there is none; there are {}", known.join(", ")),
    );
    match (other, kind) {
        (true, "table") => failure.hint(format!("`causeway sim figure {number}` is there")),
        (true, _) => failure.hint(format!("`causeway sim table {number}` is there")),
        (false, _) => failure.hint("`causeway sim list` says what each shows"),
    }
}

/// Runs entries, with finished runs where the user wants them.
fn show(name: &str, entries: &[Entry], shown: &Shown) -> Outcome {
    let store = shown.results.as_deref().map(Store::open).transpose()?;
    let claims = run(name, entries, shown, store.as_ref())?;
    verify(shown, &claims)
}

/// Fails if the user wants it and a claim does not hold.
fn verify(shown: &Shown, claims: &[Claim]) -> Outcome {
    let failing = claims.iter().filter(|claim| !claim.holds).count();
    if shown.check && failing > 0 {
        return Err(Failure::new(
            "holding the results against the thesis",
            format!("{failing} of {} claims fail", claims.len()),
        ));
    }
    Ok(())
}

/// Runs entries and shows what came of them.
fn run(name: &str, entries: &[Entry], shown: &Shown, store: Option<&Store>) -> Outcome<Vec<Claim>> {
    shutdown::on_signals()?;
    let output = Output::new(shown.options.json);
    let findings = find(&output, entries, shown, store)?;
    let claims: Vec<Claim> = findings.iter().flat_map(Finding::claims).collect();
    found::print(&output, &findings, &claims);
    if let Some(directory) = &shown.options.csv {
        found::write_csv(directory, &findings, &claims)?;
        output.line(&format!("values: {}", directory.display()));
    }
    if let Some(path) = &shown.html {
        page::write(path, &findings, &claims, shown.effort())?;
        output.line(&format!("report: {}", path.display()));
    }
    let rows: Vec<Row> = findings.iter().flat_map(Finding::rows).collect();
    output.object(&json!({
        "sim": name, "commit": COMMIT, "simulator": SIMULATOR, "quick": shown.quick,
        "rows": rows, "verdicts": claims }));
    Ok(claims)
}

/// Runs what has not been run before.
fn find(
    output: &Output,
    entries: &[Entry],
    shown: &Shown,
    store: Option<&Store>,
) -> Outcome<Vec<Finding>> {
    let mut tasks: Vec<(usize, String, Task)> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let name = format!("{} {}", entry.kind(), entry.number());
        let of_entry = entry.tasks(shown.effort());
        let of_entry = of_entry.map_err(|error| Failure::new(format!("planning {name}"), error))?;
        tasks.extend(of_entry.into_iter().map(|task| (place, name.clone(), task)));
    }
    let progress = Progress::steps(output, "simulating", tasks.len() as u64);
    let run = |(_, name, task): &(usize, String, Task)| -> Outcome<Found> {
        progress.step(name);
        if let Some(found) = store.and_then(|store| store.find(task)) {
            return Ok(found);
        }
        let found = task
            .run()
            .map_err(|error| Failure::new(format!("simulating {name}"), error))?;
        if let Some(store) = store {
            store.keep(task, &found)?;
        }
        Ok(found)
    };
    let found = pool::map(&tasks, shown.options.jobs(), run)?;
    progress.finish();
    let mut by_entry: Vec<Vec<Found>> = entries.iter().map(|_| Vec::new()).collect();
    for ((place, ..), found) in tasks.iter().zip(found) {
        if let Some(of_entry) = by_entry.get_mut(*place) {
            of_entry.push(found);
        }
    }
    Ok(entries
        .iter()
        .zip(by_entry)
        .map(|(entry, found)| Finding::new(entry, found.into_iter()))
        .collect())
}
