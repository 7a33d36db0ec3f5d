//! `causeway bench mpi-io`: access of ranks to one file on the parallel file system, beside files of the operating system with
//! our library and with MPICH's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_command::cluster::{Cluster, Spec, free_space, require_space};
use causeway_command::failure::Outcome;
use causeway_command::shutdown::{self, ScratchDirectory};
use causeway_fs::config::Durability;
use clap::Args;

use super::library::{Library, Program};
use super::trial::Trial;
use super::{Jobs, finish, measure};
use crate::compare::two_processors;
use crate::goals::Bound::{AtLeast, AtMost};
use crate::goals::{Against, Goal, Over};
use crate::outcome::{Benchmark, Presentation};

/// Bytes of an element of a tile.
const ELEMENT: u64 = 32;
/// Rows of a tile.
const ROWS: u64 = 1024;
/// Ranks that open a file together, and alone.
const OPENERS: [u32; 2] = [1, 8];
/// Our library with files of the operating system, as a participant.
const LOCAL: &str = "local-files";
/// Where memory can be used as storage.
const MEMORY: &str = "/dev/shm";
/// Parts that can be left out.
const PATTERNS: [&str; 3] = ["tile", "nested", "open"];

/// Measure access of MPI's ranks to one file
///
/// Starts a file system of its own, each server a process, and runs an MPI program whose ranks write and read one file, each for
/// itself and all together: tiles of a two-dimensional array of elements of 32 bytes, as mpi-tile-io has them; cells of a cube, as BT-IO
/// has them (64 × 64 × 64 elements of 40 bytes); and opening. The same program accesses a file of the operating system, on the same
/// storage, with our library and with MPICH's. All data are verified. Goals compare with the faster of these two.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench mpi-io
  causeway bench mpi-io --quick
  causeway bench mpi-io --only tile --ranks 2,4 --tile-widths 16,1024
  causeway bench mpi-io --dir /mnt/nvme --html mpi-io.html
  causeway bench mpi-io --json | jq '.goals[] | {goal, ratio, wanted, reached}'")]
pub(crate) struct Arguments {
    /// Patterns to run
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = PATTERNS, value_parser = PATTERNS)]
    only: Vec<String>,
    /// Numbers of ranks that own tiles; cells are owned by as many as have a whole square root
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["4"],
          value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,
    /// Widths of a tile, in elements of 32 bytes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["1", "16", "128", "1024"],
          value_parser = clap::value_parser!(u64).range(1..=16384))]
    tile_widths: Vec<u64>,
    /// I/O servers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Where storage is made [default: /dev/shm if it is there, else the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    presentation: Presentation,
}

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    let processors = two_processors()?;
    let mut benchmark = Benchmark::new("mpi-io", &arguments.presentation);
    let storage = arguments.dir.clone().unwrap_or_else(usual_place);
    let trials = trials(&arguments);
    require_space(&storage, 3 * largest(&trials))?;
    let scratch = ScratchDirectory::new(&storage, "mpi-io")?;
    let mut libraries = arguments.jobs.libraries(scratch.path(), &mut benchmark)?;
    let mut local = Library::ours(arguments.jobs.library.as_deref())?;
    local.name = LOCAL.to_owned();
    libraries.insert(1, local);
    let program = Program::build(scratch.path(), processors)?;
    let cluster = Cluster::start(&Spec {
        directory: scratch.path().join("storage"),
        servers: arguments.servers.into(),
        durability: Durability::Relaxed,
        tcp: false,
        timeout: Some(Duration::from_secs(30)),
        checksums: true,
        environment: Vec::new(),
    })?;
    explain(&mut benchmark, &arguments, &storage)?;
    let runs = arguments.jobs.runs();
    let names = Vec::from_iter(libraries.iter().map(|one| one.name.clone()));
    let (findings, our_failures) = measure(&mut benchmark, &names, &trials, runs, |who, trial| {
        let (number, library) = libraries
            .iter()
            .enumerate()
            .find(|(_, one)| one.name == who)?;
        let file = match number {
            0 => "causeway:/bench".to_owned(),
            _ => scratch.path().join("bench").display().to_string(),
        };
        let environment = [
            ("BENCH_FILE", file),
            ("CAUSEWAY_CONFIG", cluster.file().display().to_string()),
        ];
        Some(program.run(library, trial, &environment))
    })?;
    benchmark.verdicts = crate::goals::verdicts(&findings, &goals(&trials));
    finish(&benchmark, &names, our_failures)
}

fn usual_place() -> PathBuf {
    let memory = Path::new(MEMORY);
    match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    }
}

fn explain(benchmark: &mut Benchmark, arguments: &Arguments, storage: &Path) -> Outcome {
    let (_, memory) = free_space(storage)?;
    let kind = if memory { "memory (tmpfs)" } else { "a disk" };
    benchmark.note(format!(
        "storage: {}, which is {kind}: {} I/O servers and a metadata server, each a process; `{LOCAL}` and MPICH's files lie on the same \
         storage. Files have checksums on the parallel file system alone",
        storage.display(),
        arguments.servers,
    ));
    benchmark.note(format!(
        "tile: each rank has {ROWS} rows, sizes are those of a row; nested: 64 × 64 × 64 elements of 40 bytes, sizes are those of a row of a \
         cell. A file that is there is written, and read, again and again; a round ends with the last rank, and the median counts"
    ));
    benchmark.warn(arguments.jobs.quick);
    Ok(())
}

fn trials(arguments: &Arguments) -> Vec<Trial> {
    let is_chosen = |pattern: &str| arguments.only.iter().any(|name| name == pattern);
    let milliseconds = if arguments.jobs.quick { 10 } else { 200 };
    let trial = |pattern: &'static str, ranks: u32, sizes: Vec<u64>| Trial {
        pattern,
        ranks,
        sizes,
        milliseconds,
    };
    let mut trials = Vec::new();
    for ranks in &arguments.ranks {
        if is_chosen(PATTERNS[0]) {
            let sizes = arguments.tile_widths.iter().map(|width| width * ELEMENT);
            trials.push(trial(PATTERNS[0], *ranks, sizes.collect()));
        }
        // The numbers of ranks that divide the edge of the cube.
        if is_chosen(PATTERNS[1]) && [1, 4, 16, 64].contains(ranks) {
            trials.push(trial(PATTERNS[1], *ranks, vec![0]));
        }
    }
    if is_chosen(PATTERNS[2]) {
        trials.extend(OPENERS.map(|ranks| trial(PATTERNS[2], ranks, vec![0])));
    }
    trials
}

/// Bytes of the largest file.
fn largest(trials: &[Trial]) -> u64 {
    let bytes = trials.iter().flat_map(|trial| {
        let sizes = trial.sizes.iter();
        sizes.map(|size| size.saturating_mul(ROWS).saturating_mul(trial.ranks.into()))
    });
    bytes.max().unwrap_or(0).max(16 << 20)
}

fn goals(trials: &[Trial]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for trial in trials.iter().filter(|trial| trial.pattern != PATTERNS[2]) {
        for what in [
            "write/independent",
            "write/collective",
            "read/independent",
            "read/collective",
        ] {
            let case = format!("{}/{what}/{}-ranks", trial.pattern, trial.ranks);
            let goal = format!("{} by {} ranks, {what}", trial.pattern, trial.ranks);
            goals.push(Goal::over(goal, case, Over::Every(0), AtLeast(1.0)));
        }
    }
    let [one, many] = OPENERS.map(|ranks| format!("open/{ranks}-ranks"));
    let open = Goal::new("opening by 8 ranks", many, 0, AtMost(2.0));
    goals.push(open.against(Against::Ourselves(one, "one rank")));
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn trials_of(line: &[&str]) -> Vec<(&'static str, u32, Vec<u64>)> {
        let line = Line::parse_from(line);
        let found = trials(&line.arguments).into_iter();
        found
            .map(|trial| (trial.pattern, trial.ranks, trial.sizes))
            .collect()
    }

    #[test]
    fn patterns_have_their_ranks_and_sizes() {
        let found = trials_of(&["", "--ranks", "2,4", "--tile-widths", "1,16"]);
        let wanted = [
            ("tile", 2, vec![32, 512]),
            ("tile", 4, vec![32, 512]),
            ("nested", 4, vec![0]),
            ("open", 1, vec![0]),
            ("open", 8, vec![0]),
        ];
        assert_eq!(found, wanted);
        assert_eq!(trials_of(&["", "--only", "open"]).len(), 2);
    }
}
