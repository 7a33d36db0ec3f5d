//! `causeway sim run`: an experiment of the user's own.

use std::path::{Path, PathBuf};

use causeway_sim::scenario::{self, Measure, Scenario, Step, What};
use causeway_sim::trace;
use causeway_sim::workloads::Keep;
use clap::Args;
use serde_json::json;

use super::found::line;
use super::store::SIMULATOR;
use super::{Options, pool};
use crate::failure::{Doing, Failure, Outcome};
use crate::machine::COMMIT;
use crate::output::Output;
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
  causeway sim run scenario.toml --trace timeline.json    # open it at ui.perfetto.dev
  causeway sim run scenario.toml --json | jq '.rows[] | {case, size_bytes, median}'")]
pub(crate) struct Arguments {
    /// The scenario's file
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Write a timeline of the first size, for Perfetto
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    shutdown::on_signals()?;
    let output = Output::new(arguments.options.json);
    let scenario = read(&arguments.file)?;
    if arguments.trace.is_some() && matches!(scenario.what, What::Program(_)) {
        return Err(
            Failure::usage("reading --trace", "programs on substrates have no timeline")
                .hint("workloads on cards have one"),
        );
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
    if let Some(path) = &arguments.trace {
        output.line(&format!("timeline: {}", path.display()));
    }
    output.object(&json!({
        "sim": "run", "scenario": scenario.name, "commit": COMMIT, "simulator": SIMULATOR,
        "rows": rows }));
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

fn read(path: &Path) -> Outcome<Scenario> {
    let name = path.display().to_string();
    let what = || format!("reading the scenario {name}");
    let text = text_of(path).map_err(|why| Failure::usage(what(), why))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let open = |file: &str| text_of(&beside.join(file));
    scenario::read(&text, &name, &open).map_err(|error| {
        Failure::usage("reading the scenario", error)
            .hint("`causeway sim list` names profiles and workloads")
    })
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

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["case", "size", "what", "value"]);
    table.align_right(&[1, 3]);
    for row in rows {
        let size = match row.size_bytes {
            0 => String::new(),
            bytes => crate::units::bytes_text(bytes),
        };
        let value = match row.metric.as_str() {
            "latency_us" | "time_us" => figure_text("latency_us", row.median),
            "received_mb_s" => figure_text("bandwidth_mb_s", row.median),
            "count" => crate::units::count_text(row.median as u64),
            _ => format!("{:.4}", row.median),
        };
        table.row(vec![row.case.clone(), size, row.metric.clone(), value]);
    }
    table
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
