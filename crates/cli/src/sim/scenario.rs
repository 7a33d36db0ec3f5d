//! `causeway sim run`: an experiment of the user's own.

use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::{Output, warn};
use causeway_command::progress::Progress;
use causeway_command::{shutdown, whole_file};
use causeway_report::machine::COMMIT;
use causeway_sim::scenario::{self, Measure, Scenario, Step};
use causeway_sim::statistics::Statistics;
use causeway_sim::trace;
use causeway_sim::workloads::Keep;
use clap::Args;
use serde_json::json;

use super::experiment::{Experiment, csv, observed, rows, table};
use super::options::Options;
use super::store::{SIMULATOR, Store};
use super::{pool, run_page};

/// A larger file is refused as a scenario, profile or trace.
const LARGEST_FILE: u64 = 64 << 20;

/// Run an experiment of your own
///
/// A scenario names hardware (a profile that comes with the simulator, or a file), the card's program,
/// a workload, sizes and a seed; examples/interfaces.toml is one. Whatever is unknown, has no meaning or
/// cannot be is refused with its line. Finished runs of a scenario that has several (sizes, values of a
/// sweep, replications) are kept in NAME.unfinished, or where --results says, until all are through: when
/// interrupted, run the same command again to continue.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim run examples/interfaces.toml
  causeway sim run examples/sweep.toml --html sweep.html
  causeway sim run scenario.toml --trace timeline.json    # open it at ui.perfetto.dev
  causeway sim run scenario.toml --json | jq '.rows[] | {case, size_bytes, mean, p99}'")]
pub(crate) struct Arguments {
    /// The scenario's file
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Write a timeline of the first run, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep finished runs here, and take from here those that were finished before
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// The results of a run.
type ScenarioResult = (Vec<Measure>, Option<Box<Statistics>>);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    shutdown::on_signals()?;
    let output = Output::new(arguments.options.json);
    let (scenario, text) = read(&arguments.file)?;
    if !scenario.is_reproducible() {
        warn("native time is charged: values differ from run to run, and from machine to machine");
    }
    if arguments.trace.is_some() && !scenario.has_timeline() {
        let why = "jobs have no timeline: --trace is for workloads of messages";
        return Err(Failure::usage(scenario.name, why));
    }
    let steps = scenario.steps();
    let store = store(arguments, &scenario, steps.len())?;
    let found = find(arguments, &output, &scenario, &steps, store.as_ref());
    if let (Err(_), Some(store), None) = (&found, &store, &arguments.results) {
        store.close();
    }
    let found = found?;
    let experiments = Experiment::group(&steps, found);
    let rows = rows(&experiments);
    output.line(&table(scenario.swept.as_deref(), &rows).text());
    if let Some(directory) = &arguments.options.csv {
        write_csv(directory, &arguments.file, &scenario, &experiments)?;
    }
    if let Some(path) = &arguments.html {
        run_page::write(path, &scenario, &text, &experiments)?;
        output.line(&format!("report: {}", path.display()));
    }
    if let Some(path) = &arguments.trace {
        output.line(&format!("timeline: {}", path.display()));
    }
    output.object(&json!({
        "sim": "run", "scenario": scenario.name, "commit": COMMIT, "simulator": SIMULATOR,
        "reproducible": scenario.is_reproducible(), "sweep": scenario.swept, "rows": rows,
        "observed": experiments.iter().map(observed).collect::<Vec<_>>() }));
    if let (Some(store), None) = (store, &arguments.results) {
        store.clear();
    }
    Ok(())
}

/// The directory of finished runs: the one that the user has named, or one beside the scenario if
/// there are several runs. Runs with native time are never kept, since they differ each time.
fn store(arguments: &Arguments, scenario: &Scenario, steps: usize) -> Outcome<Option<Store>> {
    if !scenario.is_reproducible() {
        return Ok(None);
    }
    if let Some(directory) = &arguments.results {
        return Store::open(directory).map(Some);
    }
    let directory = named_after(&arguments.file, "unfinished");
    match steps {
        // A single run cannot be resumed, and a user who cannot write here can still run it.
        0 | 1 => Ok(None),
        _ => Ok(Store::open(&directory).ok()),
    }
}

/// The scenario's name with another ending.
fn named_after(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or(file.as_os_str()).to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// Runs those that the store does not have.
fn find(
    arguments: &Arguments,
    output: &Output,
    scenario: &Scenario,
    steps: &[Step<'_>],
    store: Option<&Store>,
) -> Outcome<Vec<ScenarioResult>> {
    let numbered: Vec<(usize, &Step<'_>)> = steps.iter().enumerate().collect();
    let progress = Progress::steps(output, "simulating", steps.len() as u64);
    let work = |(place, step): &(usize, &Step<'_>)| -> Outcome<ScenarioResult> {
        progress.step(&name(step));
        let traced = arguments.trace.as_ref().filter(|_| *place == 0);
        let keep = match traced {
            Some(_) => Keep::Slices,
            None => Keep::Statistics,
        };
        let known = store
            .filter(|_| traced.is_none())
            .map(|store| store.find_run(step))
            .transpose()?;
        if let Some(found) = known.flatten() {
            return Ok(found);
        }
        let (measures, mut record) = step
            .run(keep)
            .map_err(|error| Failure::new(format!("simulating {}", scenario.name), error))?;
        if let Some(path) = traced {
            whole_file::write_with(path, |mut out| trace::write(&record, &mut out))?;
        }
        let found = (measures, record.statistics.take());
        if let Some(store) = store {
            store.keep_run(step, &found)?;
        }
        Ok(found)
    };
    let found = pool::map(&numbered, arguments.options.jobs(), work)?;
    progress.finish();
    Ok(found)
}

/// A run's name in progress and errors.
fn name(step: &Step<'_>) -> String {
    let mut parts: Vec<String> = step.value.map(str::to_owned).into_iter().collect();
    if step.size_bytes > 0 {
        parts.push(causeway_report::units::bytes_text(u64::from(
            step.size_bytes,
        )));
    }
    if step.replication > 0 {
        parts.push(format!("run {}", step.replication + 1));
    }
    parts.join(", ")
}

/// Reads a file whose text is expected to be small.
fn text_of(path: &Path) -> Result<String, String> {
    let known = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !known.is_file() {
        return Err("it is no file".to_owned());
    }
    if known.len() > LARGEST_FILE {
        return Err(format!("it is larger than {LARGEST_FILE} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Reads a scenario, and returns its text too.
fn read(path: &Path) -> Outcome<(Scenario, String)> {
    let name = path.display().to_string();
    let what = || format!("reading the scenario {name}");
    let text = text_of(path).map_err(|why| Failure::usage(what(), why))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let open = |file: &str| text_of(&beside.join(file));
    let scenario = scenario::read(&text, &name, &open).map_err(|error| {
        Failure::usage("reading the scenario", error)
            .hint("`causeway sim list` names profiles, workloads and all keys")
    })?;
    Ok((scenario, text))
}

/// Writes the values, the distribution of latencies, and the events over time.
fn write_csv(
    directory: &Path,
    file: &Path,
    scenario: &Scenario,
    experiments: &[Experiment],
) -> Outcome {
    std::fs::create_dir_all(directory)
        .doing(|| format!("making the directory {}", directory.display()))?;
    let swept = scenario.swept.as_deref();
    for (end, text) in [
        ("csv", csv::values(swept, experiments)),
        ("latencies.csv", csv::latencies(swept, experiments)),
        ("intervals.csv", csv::intervals(swept, experiments)),
    ] {
        let path = directory.join(named_after(file, end));
        whole_file::write(&path, text.as_bytes())?;
    }
    Ok(())
}
