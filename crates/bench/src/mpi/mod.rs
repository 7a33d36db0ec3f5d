//! `causeway bench mpi`: one MPI program, compiled once for the standard ABI, run with our library and with MPICH's; and
//! compiled by Open MPI's own compiler, run with that.
//!
//! [`library`] is a library with its launcher, and builds the program (`mpi/*.c` of this crate),
//! [`trial`] lists the runs, [`goals`] the ratios to be reached, [`page`] is the report. As in
//! `compare`, each library runs each pattern once in a run, on the same processors, and figures are
//! compared only where the processors were as far apart.

pub(crate) mod files;
mod goals;
mod library;
mod page;
mod trial;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::shutdown::{self, ScratchDirectory};
use clap::Args;

use crate::compare::peers::INSTALL;
use crate::compare::peers::child::Failed;
use crate::compare::two_processors;
use crate::distance::{Distances, Probe};
use crate::outcome::{Benchmark, Presentation};
use crate::participants::OURS;
use crate::parts::figure::Figure;
use crate::parts::findings::Findings;
use crate::parts::repeats::{self, Plan};
use crate::sizes;
use library::{Library, Program};
use trial::{PATTERNS, Trial};

/// The largest message.
const MOST_BYTES: u64 = 64 << 20;

/// Measure an MPI program with our library, with MPICH's and with Open MPI's
///
/// Compiles one C program against the standard ABI and runs it with our library and with MPICH's alternately, each under its
/// own launcher, on the same two processors; Open MPI's own compiler builds the same sources. Measured are latency,
/// bandwidth, rate (also of 4 threads a rank), receives from any source, collective operations with 2, 4, 8 and 16 ranks,
/// one-sided access, noncontiguous datatypes, a master with its workers, LIFE, overlap, start-up, memory; results are
/// verified. Prints medians, and ratios within a run beside what is to be reached. `make mpi` builds our library, `make
/// peers` installs the others. Everything takes about an hour; `--only` and `--quick` take minutes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench mpi
  causeway bench mpi --quick --only latency,bandwidth --sizes 8,1KiB,1MiB
  causeway bench mpi --quick --only master-worker,life,one-sided,threads
  causeway bench mpi --only allreduce,bcast --ranks 4 --html mpi.html
  causeway bench mpi --json | jq '.goals[] | {goal, ratio, wanted, reached}'")]
pub(crate) struct Arguments {
    /// Patterns to run
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = PATTERNS.map(|pattern| pattern.name),
          value_parser = PATTERNS.map(|pattern| pattern.name))]
    only: Vec<String>,
    /// Numbers of ranks for collective operations
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["2", "4", "8"],
          value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,
    #[command(flatten)]
    sizes: sizes::Choice,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    presentation: Presentation,
}

/// How often an MPI benchmark runs its jobs, and with which libraries.
#[derive(Debug, Args)]
struct Jobs {
    /// How often everything is run
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// One short run: an impression, not a measurement
    #[arg(long)]
    quick: bool,
    /// Our libmpi_abi.so.1 [usual: beside this command, or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// MPICH's libmpi_abi.so.1, with ../bin/mpiexec [usual: where `make peers` puts it]
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// With our library alone
    #[arg(long, conflicts_with = "peer")]
    alone: bool,
}

impl Jobs {
    fn runs(&self) -> u32 {
        if self.quick { 1 } else { self.runs }
    }

    /// Our library and MPICH's, unless that was excluded; notes it if MPICH is not installed.
    fn libraries(&self, scratch: &Path, benchmark: &mut Benchmark) -> Outcome<Vec<Library>> {
        let mut libraries = vec![Library::ours(self.library.as_deref())?];
        if self.alone {
            benchmark.note("no other library was asked for".to_owned());
        } else if let Some(mpich) = Library::mpich(self.peer.as_deref(), scratch)? {
            libraries.push(mpich);
        } else {
            benchmark.note(format!("MPICH is not installed; `{INSTALL}` installs it"));
        }
        Ok(libraries)
    }
}

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    let processors = two_processors()?;
    let sizes = arguments.sizes.choose(MOST_BYTES)?;
    let scratch = ScratchDirectory::new(&std::env::temp_dir(), "mpi")?;
    let mut benchmark = Benchmark::new("mpi", &arguments.presentation);
    let mut libraries = arguments.jobs.libraries(scratch.path(), &mut benchmark)?;
    match open_mpi(&arguments, &scratch) {
        Ok(Some(open_mpi)) => libraries.push(open_mpi),
        Ok(None) if arguments.jobs.alone => {}
        Ok(None) => benchmark.note(format!(
            "Open MPI is not installed; `{INSTALL}` installs it"
        )),
        Err(failure) => benchmark.note(failure.to_string()),
    }
    let program = Program::build(scratch.path(), processors)?;
    let trials = trial::all(
        &arguments.only,
        &arguments.ranks,
        &sizes,
        arguments.jobs.quick,
    );
    benchmark.sizes(sizes);
    explain(&mut benchmark, processors);
    benchmark.warn(arguments.jobs.quick);
    let runs = arguments.jobs.runs();
    let names = Vec::from_iter(libraries.iter().map(|one| one.name.clone()));
    let (findings, our_failures) = measure(&mut benchmark, &names, &trials, runs, |who, trial| {
        let library = libraries.iter().find(|one| one.name == who);
        library.map(|library| program.run(library, trial, &[]))
    })?;
    benchmark.verdicts = crate::goals::verdicts(&findings, &goals::goals(&arguments.ranks));
    finish(&benchmark, &names, our_failures)
}

/// Shows the results, and fails if a trial of our library failed.
fn finish(benchmark: &Benchmark, names: &[String], our_failures: usize) -> Outcome {
    show(benchmark, names);
    benchmark.publish(page::draw)?;
    match our_failures {
        0 => Ok(()),
        failures => Err(Failure::new(
            "measuring Causeway",
            format!("{failures} trials failed; the notes say why"),
        )),
    }
}

/// Open MPI, unless other libraries were excluded or one was named.
fn open_mpi(arguments: &Arguments, scratch: &ScratchDirectory) -> Outcome<Option<Library>> {
    match arguments.jobs.alone {
        true => Ok(None),
        false => Library::open_mpi(scratch.path()),
    }
}

fn explain(benchmark: &mut Benchmark, [one, other]: [usize; 2]) {
    benchmark.note(format!(
        "ranks with an even number are bound to processor {one}, the others to {other}; start-up lasts from the \
         launcher's start until rank 0 has left MPI_Finalize; memory is what is private to a process after an \
         all-to-all exchange"
    ));
    benchmark.note(
        "the program is one binary for all libraries with the standard ABI, and another of the same sources for Open MPI. It repeats each operation for as long as the parts of a measurement \
         last; the median part counts. The root of a broadcast changes from one to the next"
            .to_owned(),
    );
}

/// Runs everything `runs` times, and repeats trials that then lack figures to be compared with:
/// `one` runs a trial of a participant, if that has it. Returns how often our runs failed, too.
fn measure(
    benchmark: &mut Benchmark,
    participants: &[String],
    trials: &[Trial],
    runs: u32,
    mut one: impl FnMut(&str, &Trial) -> Option<Result<Vec<Figure>, Failed>>,
) -> Outcome<(Findings, usize)> {
    let mut probe = Probe::new();
    let mut unable: BTreeSet<(usize, String)> = BTreeSet::new();
    let plan = Plan {
        trials: trials.iter().map(Trial::name).collect(),
        participants: participants.to_vec(),
        runs,
    };
    let output = benchmark.output;
    let parts = repeats::run(plan, &output, |progress, number, participant| {
        let failed = (number, participant.to_owned());
        let none = (Distances::UNKNOWN, Vec::new());
        let (Some(trial), false) = (trials.get(number), unable.contains(&failed)) else {
            return Ok(none);
        };
        let (distances, found) = probe.around(|| one(participant, trial));
        let Some(found) = found else {
            return Ok(none);
        };
        let figures = found.unwrap_or_else(|failure| {
            let name = trial.name();
            progress
                .print_above(|| benchmark.note(format!("{participant}, {name}: {}", failure.why)));
            unable.insert(failed);
            Vec::new()
        });
        Ok((distances, figures))
    })?;
    benchmark.parts(&parts, probe.why());
    let findings = parts.findings();
    benchmark.rows = findings.rows();
    let ours = unable.iter().filter(|(_, who)| who == OURS).count();
    Ok((findings, ours))
}

/// Prints the medians and the verdicts.
fn show(benchmark: &Benchmark, names: &[String]) {
    benchmark.output.line("");
    benchmark
        .output
        .line(&crate::compare::table::medians(&benchmark.rows, names, &[]).text());
    benchmark.show_other_rows();
    if !benchmark.verdicts.is_empty() {
        benchmark.output.line("");
        let table = crate::goals::table(&benchmark.verdicts);
        benchmark.output.line(&table.text());
    }
}
