//! `causeway sim figure`, `table` and `paper`: their runs, and where their results are written.

use std::path::{Path, PathBuf};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::Output;
use causeway_command::progress::Progress;
use causeway_command::{shutdown, whole_file};
use causeway_report::machine::COMMIT;
use causeway_sim::catalogue::{self, Entry, Task, TaskResult};
use causeway_sim::figures::Effort;
use causeway_sim::trace;
use clap::Args;
use serde_json::json;

use super::found::{self, Claim, Finding, ValueRow};
use super::options::Options;
use super::store::{SIMULATOR, Store};
use super::{page, pool};

/// Where `paper` keeps finished runs until all are finished.
const UNFINISHED: &str = "causeway-paper.unfinished";

/// Options that figures, tables and whole chapters have in common.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    options: Options,
    /// Write a report with plots beside the values of the thesis
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Fewer points and rounds: an impression in seconds
    #[arg(long)]
    quick: bool,
    /// Fail if something that the thesis states does not hold and is not known to be open, or is open no more
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

/// Some figures or tables.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Their numbers (`causeway sim list` lists all)
    #[arg(required = true, value_name = "NUMBER")]
    numbers: Vec<String>,
    /// Write a timeline of one run, for Perfetto (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Which of the runs the timeline is of, from 1 [default: the first]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    trace_run: Option<u32>,
    #[command(flatten)]
    shown: Shown,
}

/// All figures and tables, or those of some chapters.
#[derive(Debug, Args)]
pub(crate) struct Chapters {
    /// Only those of this chapter; may be given several times
    #[arg(long = "chapter", value_name = "N")]
    chapters: Vec<u32>,
    #[command(flatten)]
    shown: Shown,
}

/// Runs some figures.
pub(super) fn figure(figures: &Named) -> Outcome {
    let find = |number: &str| catalogue::figure(number).map(Entry::Figure);
    named("figure", figures, find)
}

/// Runs some tables.
pub(super) fn table(tables: &Named) -> Outcome {
    let find = |number: &str| catalogue::table(number).map(Entry::Table);
    named("table", tables, find)
}

/// Runs the entries of one kind that the user names.
fn named(kind: &str, named: &Named, find: impl Fn(&str) -> Option<Entry>) -> Outcome {
    let entries = named.numbers.iter();
    let entries: Vec<Entry> = entries
        .map(|number| find(number).ok_or_else(|| unknown(kind, number)))
        .collect::<Outcome<_>>()?;
    let tasks = tasks(&entries, named.shown.effort())?;
    let traced = named.trace.as_ref().map(|path| -> Outcome<_> {
        let run = named.trace_run.unwrap_or(1);
        let found = usize::try_from(run).ok().and_then(|run| tasks.get(run - 1));
        let (_, name, task) = found.ok_or_else(|| {
            Failure::usage(
                format!("reading --trace-run {run}"),
                format!("there are runs 1 to {}", tasks.len()),
            )
        })?;
        Ok((path.as_path(), name.as_str(), task))
    });
    let traced = traced.transpose()?;
    shutdown::on_signals()?;
    let store = named
        .shown
        .results
        .as_deref()
        .map(Store::open)
        .transpose()?;
    if let Some((path, name, task)) = traced {
        trace_one(&Output::new(named.shown.options.json), path, name, task)?;
    }
    let claims = run(kind, &entries, &tasks, &named.shown, store.as_ref())?;
    verify(&named.shown, &claims)
}

/// Runs a task once more, and writes its timeline.
fn trace_one(output: &Output, path: &Path, name: &str, task: &Task) -> Outcome {
    let traced = task
        .traced()
        .map_err(|error| Failure::new(format!("simulating {name}"), error))?;
    whole_file::write_with(path, |mut out| trace::write(&traced.record, &mut out))?;
    output.line(&format!(
        "timeline of {name}, {}: {}",
        traced.of,
        path.display()
    ));
    Ok(())
}

/// Runs all figures and tables, or those of the chapters that the user names.
pub(super) fn chapters(Chapters { chapters, shown }: &Chapters) -> Outcome {
    let mut entries = catalogue::all();
    if let Some(none) = chapters
        .iter()
        .find(|chapter| entries.iter().all(|entry| entry.chapter() != **chapter))
    {
        return Err(Failure::usage(
            format!("looking for chapter {none}"),
            "there are no figures and tables of it",
        )
        .hint("`causeway sim list` names all figures and tables"));
    }
    if !chapters.is_empty() {
        entries.retain(|entry| chapters.contains(&entry.chapter()));
    }
    let directory = shown.results.as_deref().unwrap_or(Path::new(UNFINISHED));
    let store = Store::open(directory).map_err(|failure| {
        failure.hint("--results names a directory where finished runs can be kept")
    })?;
    shutdown::on_signals()?;
    let tasks = tasks(&entries, shown.effort())?;
    let claims = run("paper", &entries, &tasks, shown, Some(&store))?;
    if shown.results.is_none() {
        store.clear();
    }
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
        (false, _) => failure.hint("`causeway sim list` describes each"),
    }
}

/// With --check, fails if a claim does not hold that is not listed as open, or if one holds that is. With few points and
/// rounds an open claim may seem to hold.
fn verify(shown: &Shown, claims: &[Claim]) -> Outcome {
    if !shown.check {
        return Ok(());
    }
    let unexpected: Vec<String> = claims
        .iter()
        .filter_map(|claim| match (claim.holds, claim.open) {
            (false, None) => Some(format!("{}: {} fails", claim.of, claim.claim)),
            (true, Some(_)) if !shown.quick => Some(format!(
                "{}: {} holds, and is listed as open",
                claim.of, claim.claim
            )),
            _ => None,
        })
        .collect();
    if unexpected.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        "comparing the results with the thesis",
        format!(
            "{} of {} claims are not as expected: {}",
            unexpected.len(),
            claims.len(),
            unexpected.join("; ")
        ),
    ))
}

/// A run, with the index of its entry and that entry's name.
type Run = (usize, String, Task);

/// All runs of some entries.
fn tasks(entries: &[Entry], effort: Effort) -> Outcome<Vec<Run>> {
    let mut tasks = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let name = format!("{} {}", entry.kind(), entry.number());
        let of_entry = entry.tasks(effort);
        let of_entry = of_entry.map_err(|error| Failure::new(format!("planning {name}"), error))?;
        tasks.extend(of_entry.into_iter().map(|task| (place, name.clone(), task)));
    }
    Ok(tasks)
}

/// Runs entries and shows the results.
fn run(
    name: &str,
    entries: &[Entry],
    tasks: &[Run],
    shown: &Shown,
    store: Option<&Store>,
) -> Outcome<Vec<Claim>> {
    let output = Output::new(shown.options.json);
    let findings = find(&output, entries, tasks, shown, store)?;
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
    let rows: Vec<ValueRow> = findings.iter().flat_map(Finding::rows).collect();
    output.object(&json!({
        "sim": name, "commit": COMMIT, "simulator": SIMULATOR, "quick": shown.quick,
        "rows": rows, "verdicts": claims }));
    Ok(claims)
}

/// Runs those that the store does not have.
fn find(
    output: &Output,
    entries: &[Entry],
    tasks: &[Run],
    shown: &Shown,
    store: Option<&Store>,
) -> Outcome<Vec<Finding>> {
    let progress = Progress::steps(output, "simulating", tasks.len() as u64);
    let run = |(_, name, task): &Run| -> Outcome<TaskResult> {
        progress.step(name);
        let known = store.map(|store| store.find(task)).transpose()?;
        if let Some(found) = known.flatten() {
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
    let found = pool::map(tasks, shown.options.jobs(), run)?;
    progress.finish();
    let mut by_entry: Vec<Vec<TaskResult>> = entries.iter().map(|_| Vec::new()).collect();
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
