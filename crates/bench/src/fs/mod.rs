//! `causeway bench fs`: the file system, with the machine's limits beside it.
//!
//! [`setup`] is shared by all measurements, [`worker`] is one client process, [`system_calls`] one
//! that uses a directory, [`mounts`] one that serves a mount, [`processes`] all of a measurement,
//! [`content`] the data that is written, [`limits`] the rates of `dd`; then one module for each group
//! of measurements.

mod content;
mod idle;
mod limits;
mod mount;
pub(crate) mod mounts;
mod names;
mod page;
mod pass_through;
mod processes;
mod python;
mod sequential;
mod setup;
pub(crate) mod system_calls;
mod tiles;
mod tree;
mod work;
pub(crate) mod worker;

use std::path::{Path, PathBuf};

use causeway_command::cluster::require_space;
use causeway_command::failure::{Failure, Outcome};
use causeway_command::shutdown;
use causeway_report::units::parse_bytes;
use clap::Args;

use crate::outcome::{Benchmark, Presentation};
use crate::spinners::Spinners;
use setup::Bench;

/// Where memory can be used as storage.
const MEMORY: &str = "/dev/shm";

/// Measure the file system: large and small files, tiles, trees, the mount, Python, idle clients
///
/// Starts file systems of its own with four I/O servers, each a process, measures them with several
/// client processes that begin at one moment, verifies all data, and measures between the runs what
/// dd reaches on the same storage.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench fs
  causeway bench fs --quick
  causeway bench fs --only sequential --clients 1,2,4 --size 4GiB --runs 5
  causeway bench fs --only mount,tree --tree ~/src/linux --disk /mnt/nvme
  causeway bench fs --dir /mnt/nvme --html fs.html --json > fs.json")]
pub(crate) struct Arguments {
    /// Numbers of client processes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["1", "2", "4", "8"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: Vec<u16>,
    /// Bytes of the large file
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    size: u64,
    /// Files that are made in one run of each measurement of names
    #[arg(long, value_name = "N", default_value_t = 16_000,
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    files: u64,
    /// Widths of a tile, in elements of 32 bytes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["1", "4", "16", "64"],
          value_parser = clap::value_parser!(u64).range(1..=65536))]
    tile_widths: Vec<u64>,
    /// Where storage is made [default: /dev/shm if it is there and large enough]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where storage is made for measurements on disk
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// The tree of files that is copied [default: files of this machine, from /usr]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measure only these
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = GROUPS)]
    only: Vec<String>,
    /// Keep idle processors from sleeping, with threads that give way to all others: a virtual machine's may
    /// come back late, which is what slow runs between fast ones are
    #[arg(long)]
    awake: bool,
    /// Small sizes and few files: an impression, not a measurement
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    presentation: Presentation,
}

/// Groups of measurements.
const GROUPS: [&str; 9] = [
    "sequential",
    "names",
    "small",
    "commit",
    "tiles",
    "tree",
    "mount",
    "python",
    "idle",
];

/// Measures one of them.
type Group = fn(&mut Bench) -> Outcome;

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    let benchmark = Benchmark::new("fs", &arguments.presentation);
    let quick = arguments.quick;
    let size = if quick {
        arguments.size.min(32 << 20)
    } else {
        arguments.size
    };
    if size < 1 << 20 {
        return Err(Failure::usage(
            "reading --size",
            "less than 1 MiB is too little to measure transfers",
        ));
    }
    let mut bench = Bench {
        storage: choose_storage(arguments.dir.as_deref(), size)?,
        disk: arguments.disk.clone().unwrap_or_else(std::env::temp_dir),
        tree: arguments.tree.clone(),
        tree_files: if quick { 300 } else { 6000 },
        asked_for: false,
        clients: arguments
            .clients
            .iter()
            .map(|count| usize::from(*count))
            .collect(),
        size,
        files: if quick {
            arguments.files.min(400)
        } else {
            arguments.files
        },
        tile_widths: arguments.tile_widths.clone(),
        runs: arguments.runs,
        idle_clients: if quick { 50 } else { 1000 },
        many_clients: if quick { 160 } else { 10_000 },
        benchmark,
    };
    bench.introduce(quick)?;
    let _awake = arguments.awake.then(Spinners::giving_way).transpose()?;
    if arguments.awake {
        bench.benchmark.note(
            "--awake: a thread of the lowest priority keeps each processor from sleeping"
                .to_owned(),
        );
    }
    let wanted =
        |group: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == group);
    let groups: [(&str, Group); 9] = [
        ("sequential", sequential::run),
        ("names", names::run),
        ("small", names::small_files),
        ("commit", names::commits),
        ("tiles", tiles::run),
        ("tree", tree::run),
        ("mount", mount::run),
        ("python", python::run),
        ("idle", idle::run),
    ];
    for (group, measure) in groups {
        if wanted(group) {
            bench.asked_for = !arguments.only.is_empty();
            bench.benchmark.output.line(&format!("{group}:"));
            measure(&mut bench)?;
        }
    }
    bench.benchmark.finish(page::draw)
}

fn choose_storage(given: Option<&Path>, size: u64) -> Outcome<PathBuf> {
    // The source of dd, its copy, and Causeway's file, which may still be on its way out.
    let needed = size.saturating_mul(4).saturating_add(512 << 20);
    let hint = "choose another place with --dir, or a smaller --size";
    let memory = Path::new(MEMORY);
    match given {
        Some(path) => require_space(path, needed)
            .map(|()| path.to_owned())
            .map_err(|failure| failure.hint(hint)),
        None if require_space(memory, needed).is_ok() => Ok(memory.to_owned()),
        None => Ok(std::env::temp_dir()),
    }
}
