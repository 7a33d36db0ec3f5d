//! Writes what the simulator finds: rows and verdicts of all figures, entries of all tables, measures and a
//! timeline of the scenarios that are named. `make same` compares what a debug build writes with what a release
//! build does: the same input gives the same bytes, however the simulator was compiled.
//!
//! Values are written in as many digits as distinguish them from all others.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::Path;

use causeway_sim::catalogue::{self, Entry, TaskResult};
use causeway_sim::figures::{self, Effort};
use causeway_sim::scenario;
use causeway_sim::trace;
use causeway_sim::workloads::Keep;

fn main() -> Result<(), Box<dyn Error>> {
    let build = match cfg!(debug_assertions) {
        true => "debug",
        false => "release",
    };
    eprintln!("outputs of a {build} build");
    let mut out = BufWriter::new(std::io::stdout().lock());
    for entry in catalogue::all() {
        write_entry(&entry, &mut out)?;
    }
    for file in std::env::args().skip(1) {
        write_scenario(&file, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

fn write_entry(entry: &Entry, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "{} {}", entry.kind(), entry.number())?;
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    for task in entry.tasks(Effort::Quick)? {
        match task.run()? {
            TaskResult::Rows(found) => rows.extend(found),
            TaskResult::Cells(found) => cells.extend(found),
        }
    }
    for row in &rows {
        writeln!(out, "{row:?}")?;
    }
    for cell in &cells {
        writeln!(out, "{cell:?}")?;
    }
    let stated = match entry {
        Entry::Figure(about) => figures::judge(about.number, &rows),
        Entry::Table(table) => table.judge(&cells),
    };
    for verdict in stated {
        writeln!(out, "{verdict:?}")?;
    }
    Ok(())
}

fn write_scenario(file: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    // Files that a scenario names lie beside it.
    let beside = |name: &str| {
        let path = Path::new(file).with_file_name(name);
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    };
    let scenario = scenario::read(&text, file, &beside)?;
    writeln!(out, "scenario {}", scenario.name)?;
    for step in scenario.steps() {
        let (measures, record) = step.run(Keep::Slices)?;
        for measure in measures {
            writeln!(out, "{} bytes: {measure:?}", step.size_bytes)?;
        }
        trace::write(&record, out)?;
    }
    Ok(())
}
