//! The Python package beside the Rust client: a large file in pieces, and many small files at once against one at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::remote::PIECE_BYTES;
use serde::Deserialize;

use super::processes::ClientProcesses;
use super::sequential::write_source;
use super::setup::{Bench, Setup};
use super::worker::{Order, Part};

const PROGRAM: &str = include_str!("python.py");
const LARGE: &str = "/large";
const SMALL: &str = "/small";
/// Small files, and the bytes of each.
const FILES: u64 = 1000;
const FILE_BYTES: usize = 4096;
/// Most bytes of the large file: its pieces all cost the same.
const MOST_BYTES: u64 = 256 << 20;

/// What the program prints.
#[derive(Deserialize)]
struct Printed {
    files: u64,
    seconds: BTreeMap<String, f64>,
}

/// Measures reading with Python.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    let python = match interpreter() {
        Ok(python) => python,
        Err(reason) if bench.asked_for => return Err(reason),
        Err(reason) => {
            bench
                .benchmark
                .note(format!("python: not measured, {reason}"));
            return Ok(());
        }
    };
    let size = bench.size.min(MOST_BYTES);
    bench.benchmark.note(format!(
        "python: {}; one process reads {} MiB in pieces of {} MiB, as the Rust client does beside it into ordinary memory, and {FILES} files \
         of {FILE_BYTES} B by `cat` of all and by `cat_file` of each",
        python.display(),
        size >> 20,
        PIECE_BYTES >> 20
    ));
    let mut setup = bench.start()?;
    let source = setup.scratch.path().join("source");
    write_source(&source, size)?;
    store(&mut setup, size)?;
    let mut processes = ClientProcesses::start(&setup.cluster, 1)?;
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut add = |case, value| values.entry(case).or_default().push(value);
    for _ in 0..bench.runs {
        let rust = processes.measure(|_| Order::Read(part(size)))?;
        let printed = measure(&python, &setup, &source)?;
        let seconds = |what: &str| printed.seconds.get(what).copied().unwrap_or(f64::NAN);
        let bandwidth = |seconds: f64| size as f64 / 1e6 / seconds.max(1e-9);
        let rust_s = rust.seconds;
        add("rust", bandwidth(rust_s));
        for (case, ratio, what) in [
            ("read", "read/to-rust", "read"),
            ("readinto", "readinto/to-rust", "readinto"),
        ] {
            add(case, bandwidth(seconds(what)));
            add(ratio, rust_s / seconds(what));
        }
        let files = printed.files as f64;
        add("cat", files / seconds("cat"));
        add("cat-one", files / seconds("cat-one"));
        add("cat/to-one", seconds("cat-one") / seconds("cat"));
    }
    for (case, values) in &values {
        let metric = match *case {
            case if case.contains("/to-") => "ratio",
            case if case.starts_with("cat") => "rate_per_s",
            _ => "bandwidth_mb_s",
        };
        let bytes = match case.starts_with("cat") {
            true => FILE_BYTES as u64,
            false => PIECE_BYTES as u64,
        };
        let case = format!("python/{case}");
        bench.benchmark.ours(&case, bytes, metric, values);
    }
    Ok(())
}

/// The interpreter that has the package: `$CAUSEWAY_PYTHON`, or the one of `make test-python`.
fn interpreter() -> Outcome<PathBuf> {
    let named = std::env::var_os("CAUSEWAY_PYTHON").map(PathBuf::from);
    let made = || {
        let program = std::env::current_exe().ok()?;
        let target = program.parent()?.parent()?;
        Some(target.join("python/tests/bin/python"))
    };
    let python = named.or_else(made).unwrap_or_default();
    let doing = || format!("looking for the package in {}", python.display());
    let hint = "`make test-python` makes a virtual environment with it; $CAUSEWAY_PYTHON names another interpreter";
    let output = Command::new(&python)
        .args(["-c", "import causeway.spec"])
        .output()
        .doing(doing)
        .map_err(|failure| failure.hint(hint))?;
    match output.status.success() {
        true => Ok(python),
        false => Err(Failure::new(doing(), last_line(&output.stderr)).hint(hint)),
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end()
        .lines()
        .last()
        .unwrap_or("it printed nothing")
        .to_owned()
}

fn part(size: u64) -> Part {
    Part {
        path: LARGE.to_owned(),
        from: 0,
        to: size,
        shared: false,
    }
}

/// Stores the large file and the small ones.
fn store(setup: &mut Setup, size: u64) -> Outcome {
    setup.client.create(LARGE.as_bytes(), &Default::default())?;
    setup.client.make_directory(SMALL.as_bytes(), 0o755, None)?;
    let mut processes = ClientProcesses::start(&setup.cluster, 1)?;
    processes.measure(|_| Order::Write(part(size)))?;
    processes.measure(|_| Order::Create {
        directory: SMALL.to_owned(),
        count: FILES,
        size: FILE_BYTES,
        batch: true,
    })?;
    Ok(())
}

/// Runs the program once.
fn measure(python: &Path, setup: &Setup, source: &Path) -> Outcome<Printed> {
    let doing = || "measuring with Python".to_owned();
    let output = Command::new(python)
        .args(["-c", PROGRAM])
        .arg(setup.cluster.file())
        .arg(LARGE)
        .arg(source)
        .args([&PIECE_BYTES.to_string(), SMALL])
        .output()
        .doing(doing)?;
    if !output.status.success() {
        return Err(Failure::new(doing(), last_line(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::new(doing(), format!("what it printed: {error}")))
}
