//! `causeway sim run`: an experiment of the user's own.

use std::path::{Path, PathBuf};

use causeway_sim::scenario::{self, Measure, Scenario, Step};
use causeway_sim::trace;
use causeway_sim::workloads::Keep;
use clap::Args;
use serde_json::json;

use super::found::line;
use super::store::SIMULATOR;
use super::{Options, pool, run_page};
use crate::failure::{Doing, Failure, Outcome};
use crate::machine::COMMIT;
use crate::output::{Output, warn};
use crate::progress::Progress;
use crate::rows::{Row, Table, figure_text};
use crate::{shutdown, whole_file};

/// Larger files are no scenarios, profiles or traces.
const LARGEST_FILE: u64 = 64 << 20;

/// Run an experiment of your own
///
/// A scenario names hardware (a profile that comes with the simulator, or a file), the card's program,
/// a workload, sizes and a seed; examples/interfaces.toml is one. Whatever is unknown, has no meaning or
/// cannot be is refused with its line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway sim run examples/interfaces.toml
  causeway sim run examples/uplink.toml --html uplink.html
  causeway sim run scenario.toml --trace timeline.json    # open it at ui.perfetto.dev
  causeway sim run scenario.toml --json | jq '.rows[] | {case, size_bytes, median}'")]
pub(crate) struct Arguments {
    /// The scenario's file
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Write a timeline of the first size, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    shutdown::on_signals()?;
    let output = Output::new(arguments.options.json);
    let (scenario, text) = read(&arguments.file)?;
    if !scenario.is_reproducible() {
        warn("native time is charged: values differ from run to run, and from machine to machine");
    }
    let steps: Vec<(usize, Step<'_>)> = scenario.steps().into_iter().enumerate().collect();
    let progress = Progress::steps(&output, "simulating", steps.len() as u64);
    let work = |(place, step): &(usize, Step<'_>)| -> Outcome<Vec<Measure>> {
        progress.step(&crate::units::bytes_text(u64::from(step.size_bytes)));
        let traced = arguments.trace.as_ref().filter(|_| *place == 0);
        let keep = match traced {
            Some(_) => Keep::Slices,
            None => Keep::Sums,
        };
        let (measures, record) = step
            .run(keep)
            .map_err(|error| Failure::new(format!("simulating {}", scenario.name), error))?;
        if let (Some(path), Some(record)) = (traced, record) {
            whole_file::write_with(path, |mut out| trace::write(&record, &mut out))?;
        }
        Ok(measures)
    };
    let measures = pool::map(&steps, arguments.options.jobs(), work)?.concat();
    progress.finish();
    let rows: Vec<Row> = measures.iter().filter_map(row).collect();
    output.line(&table(&rows).text());
    if let Some(directory) = &arguments.options.csv {
        write_csv(directory, &arguments.file, &measures)?;
    }
    if let Some(path) = &arguments.html {
        run_page::write(path, &scenario, &text, &rows)?;
        output.line(&format!("report: {}", path.display()));
    }
    if let Some(path) = &arguments.trace {
        output.line(&format!("timeline: {}", path.display()));
    }
    output.object(&json!({
        "sim": "run", "scenario": scenario.name, "commit": COMMIT, "simulator": SIMULATOR,
        "reproducible": scenario.is_reproducible(), "rows": rows }));
    Ok(())
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

/// Reads a scenario, and answers its text too.
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

fn row(measure: &Measure) -> Option<Row> {
    let Measure {
        case,
        size_bytes,
        metric,
        value,
    } = measure;
    Row::new(
        case.clone(),
        "causeway",
        u64::from(*size_bytes),
        metric,
        &[*value],
    )
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["case", "size", "what", "value"]);
    table.align_right(&[1, 3]);
    for row in rows {
        let size = match row.size_bytes {
            0 => String::new(),
            bytes => crate::units::bytes_text(bytes),
        };
        let value = value_text(&row.metric, row.median);
        table.row(vec![row.case.clone(), size, row.metric.clone(), value]);
    }
    table
}

/// A value with its unit.
pub(super) fn value_text(metric: &str, value: f64) -> String {
    match metric {
        "latency_us" | "time_us" => figure_text("latency_us", value),
        "received_mb_s" => figure_text("bandwidth_mb_s", value),
        "count" => crate::units::count_text(value as u64),
        _ => format!("{value:.4}"),
    }
}

fn write_csv(directory: &Path, scenario: &Path, measures: &[Measure]) -> Outcome {
    std::fs::create_dir_all(directory)
        .doing(|| format!("making the directory {}", directory.display()))?;
    let mut text = String::new();
    line(&mut text, &["case", "size_bytes", "metric", "value"]);
    for one in measures {
        let (size, value) = (one.size_bytes.to_string(), one.value.to_string());
        line(&mut text, &[&one.case, &size, one.metric, &value]);
    }
    let stem = scenario.file_stem().unwrap_or(scenario.as_os_str());
    let path = directory.join(Path::new(stem).with_extension("csv"));
    whole_file::write(&path, text.as_bytes())
}
