//! The mount, through which programs use the file system, beside a pass-through FUSE file system and the local one beneath that.
//!
//! What is done is what IOR and mdtest do: files of each process's own, written and read in blocks of 1 MiB, pages read at random, and many
//! empty files made, looked at and removed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::workers::Pool;

use super::mounts::{Assignment, Source};
use super::processes::Programs;
use super::setup::Bench;
use super::system_calls::Order;
use super::work::Report;
use crate::task::Task;

/// Numbers of processes.
const PROCESSES: [usize; 2] = [1, 2];
/// The most pages that each process reads at random.
const MOST_PAGES: u64 = 1 << 18;
/// The fewest bytes of a process's file.
const LEAST_BYTES: u64 = 1 << 20;
/// How long mounting may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the processes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Mount,
    PassThrough,
    Local,
}

/// What was measured, and the unit of its figures.
type Pattern = (&'static str, &'static str);

/// The values of all runs by pattern, number of processes and place.
type Values = BTreeMap<(Pattern, usize, Place), Vec<f64>>;

/// Measures them. Where nothing can be mounted and this was not asked for by name, that is noted.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    let setup = bench.start()?;
    let scratch = setup.scratch.path();
    let places = [
        (Place::Mount, scratch.join("mount")),
        (Place::PassThrough, scratch.join("pass-through")),
        (Place::Local, scratch.join("local")),
    ];
    for (_, directory) in &places {
        std::fs::create_dir(directory).doing(|| format!("making {}", directory.display()))?;
    }
    let [(_, mount), (_, pass_through), (_, local)] = &places;
    let config = setup.cluster.file().to_owned();
    let mounts = [
        (Source::Causeway(config), mount),
        (Source::Directory(local.clone()), pass_through),
    ];
    let served = match serve(mounts) {
        Err(failure) if !bench.asked_for => {
            bench
                .benchmark
                .note(format!("the mount is left out: {failure}"));
            return Ok(());
        }
        served => served?,
    };
    bench.benchmark.note(
        "mount: processes use it by system calls; the limits are a FUSE file system whose every request is one system call on a \
         directory of the same storage, and that directory itself"
            .to_owned(),
    );
    let mut values = Values::new();
    for processes in PROCESSES {
        let mut programs = Programs::start(processes)?;
        for round in 0..bench.runs {
            // Who is first alternates between runs.
            let mut places = places.clone();
            places.rotate_left(round as usize % 3);
            for (place, directory) in &places {
                measure(bench, &mut programs, (*place, directory), &mut values)?;
            }
        }
    }
    show(bench, &values);
    drop(served);
    Ok(())
}

/// Starts the processes that serve mounts, and waits until these are there.
fn serve(mounts: [(Source, &PathBuf); 2]) -> Outcome<Pool<Report>> {
    let mut pool = Pool::default();
    for (source, at) in mounts {
        pool.start(&Task::Mount(Assignment {
            source,
            at: at.clone(),
        }))?;
    }
    pool.gather(PATIENCE, "mounting")
        .map_err(|failure: Failure| {
            failure.hint(
                "mounts need /dev/fuse, and root or the package fuse3; leave them out with --only",
            )
        })?;
    Ok(pool)
}

/// Measures all patterns once in a directory.
fn measure(
    bench: &Bench,
    programs: &mut Programs,
    (place, directory): (Place, &Path),
    values: &mut Values,
) -> Outcome {
    let processes = programs.len();
    let at = |number: usize| directory.join(format!("names-{number}"));
    let count = (bench.files / processes as u64).max(1);
    let path = |number: usize| directory.join(format!("file-{number}"));
    let size = (bench.size / processes as u64).max(LEAST_BYTES);
    let pages = (size / 4096).min(MOST_PAGES);
    let mut add = |pattern: Pattern, value: f64| {
        let key = (pattern, processes, place);
        values.entry(key).or_default().push(value);
    };
    let names = [
        (
            "create",
            programs.measure(|number| Order::Create {
                directory: at(number),
                count,
            })?,
        ),
        (
            "stat",
            programs.measure(|number| Order::Stat {
                directory: at(number),
                count,
            })?,
        ),
        (
            "unlink",
            programs.measure(|number| Order::Unlink {
                directory: at(number),
                count,
            })?,
        ),
    ];
    for (what, took) in names {
        add((what, "rate_per_s"), took.rate());
    }
    for number in 0..processes {
        let directory = at(number);
        std::fs::remove_dir(&directory).doing(|| format!("removing {}", directory.display()))?;
    }
    let moved = [
        (
            "write",
            programs.measure(|number| Order::Write {
                path: path(number),
                size,
            })?,
        ),
        (
            "read",
            programs.measure(|number| Order::Read {
                path: path(number),
                size,
            })?,
        ),
    ];
    for (what, took) in moved {
        add(
            (what, "bandwidth_mb_s"),
            took.megabytes(size * processes as u64),
        );
    }
    let anywhere = |number| Order::ReadAnywhere {
        path: path(number),
        size,
        count: pages,
    };
    let took = programs.measure(anywhere)?;
    add(("read-pages", "rate_per_s"), took.rate());
    programs.measure(|number| Order::Compare {
        path: path(number),
        size,
    })?;
    Ok(())
}

fn show(bench: &mut Bench, values: &Values) {
    for ((pattern, processes, place), ours) in values {
        if *place != Place::Mount {
            continue;
        }
        let (what, metric) = *pattern;
        let case = format!("mount/{what}/{processes}-processes");
        bench.benchmark.ours(&case, 0, metric, ours);
        for (limit, name) in [
            (Place::PassThrough, "pass-through"),
            (Place::Local, "local"),
        ] {
            if let Some(theirs) = values.get(&(*pattern, *processes, limit)) {
                bench
                    .benchmark
                    .limit(&format!("{case}/{name}"), 0, metric, theirs);
                bench
                    .benchmark
                    .ratio(&format!("{case}/to-{name}"), 0, ours, theirs);
            }
        }
    }
}
