//! Parallel programs on the substrates of chapter 2.

use super::measure::{Measure, Parts, of_statistics};
use super::network;
use crate::am::AmError;
use crate::am::port::Function;
use crate::engine::microseconds;
use crate::node::Record;
use crate::profile::{FileError, Section};
use crate::programs::Program;
use crate::programs::fft::Fft;
use crate::programs::is::IntegerSort;
use crate::programs::matmul::Matmul;
use crate::programs::ping::Ping;
use crate::programs::replay::Replay;
use crate::programs::trace::Trace;
use crate::substrates::{
    Clocking, Combination, Costs, Links, Outcome, Setup, SimError, run, timeline,
};
use crate::workloads::Keep;

/// A program and its platform.
#[derive(Clone, Debug)]
pub struct ProgramSetup {
    /// Substrate, costs and processes.
    pub setup: Setup,
    /// The program.
    pub program: Runnable,
}

/// A program.
#[derive(Clone, Debug)]
pub enum Runnable {
    /// A request and a reply, or a block there and back.
    Ping(Ping),
    /// A Fourier transform of this many points. The program's tables are shared by the processes of a thread.
    Fft(usize),
    /// A product of matrices.
    Matmul(Matmul),
    /// A sort of integers.
    Sort(IntegerSort),
    /// A program that was recorded.
    Replay(Replay),
}

#[derive(Clone, Copy)]
enum Name {
    Ping,
    Fft,
    Matmul,
    Sort,
    Replay,
}

const NAMES: &[(&str, Name)] = &[
    ("ping", Name::Ping),
    ("fft", Name::Fft),
    ("matmul", Name::Matmul),
    ("is", Name::Sort),
    ("replay", Name::Replay),
];

const SUBSTRATES: &[(&str, Combination)] = &[
    ("(C1,NI1)", Combination::C1Ni1),
    ("(C1,NI2)", Combination::C1Ni2),
    ("(C2,NI3)", Combination::C2Ni3),
    ("(C3,NI3)", Combination::C3Ni3),
];

/// Whether time is native.
const TIMES: &[(&str, bool)] = &[("model", false), ("native", true)];
/// Limits of the ratio of the simulated machine's time to that of the machine that simulates.
const LEAST_SCALE: f64 = 0.1;
const LARGEST_SCALE: f64 = 1e6;

/// Most processes of a program.
const MOST_PROCESSES: u64 = 4_096;

/// Reads the workload's section of kind `program`. `open` reads a file that is named beside the scenario.
pub(super) fn read(
    root: &mut Section<'_>,
    workload: &mut Section<'_>,
    costs: Costs,
    open: &dyn Fn(&str) -> Result<String, String>,
) -> Result<ProgramSetup, FileError> {
    let name = workload.own_word("program", NAMES)?;
    let combination = workload.own_word("substrate", SUBSTRATES)?.value;
    let processes = workload.own_count("processes", 1, MOST_PROCESSES)?;
    let ranks = processes.value as u32;
    let mut setup = Setup::new(combination, costs, ranks);
    let scale = match name.value {
        Name::Replay => {
            // The time of a recorded program has been measured already.
            workload.word_or("time", &TIMES[..1], false)?;
            scale(workload)?
        }
        _ => {
            setup.clocking = clocking(workload, costs.hardware.host_clock)?;
            1.0
        }
    };
    let most = u64::from(ranks);
    let usual = setup.processes_per_host.into();
    setup.processes_per_host = workload.count_or("processes_per_host", 1, most, usual)? as u32;
    let mut links = Links::new(&setup.costs);
    if network::read_links(root, &mut links, setup.hosts())? {
        setup.network = Some(Box::new(links));
    }
    let program = match name.value {
        Name::Ping => {
            let iterations = workload.own_count("iterations", 1, 1_000_000)?.value;
            let bytes = workload.count_or("block", 4, 1 << 16, 0)?;
            Runnable::Ping(Ping { iterations, bytes })
        }
        Name::Fft => {
            let points = workload.own_count("points", 4, 1 << 22)?;
            Runnable::Fft(points.value as usize)
        }
        Name::Matmul => Runnable::Matmul(Matmul {
            size: workload.own_count("rows", 1, 4_096)?.value as usize,
        }),
        Name::Sort => Runnable::Sort(IntegerSort {
            keys: workload.own_count("keys", 1, 1 << 24)?.value as usize,
            buckets: workload.own_count("buckets", 1, 1 << 20)?.value as usize,
        }),
        Name::Replay => {
            let file = workload.text("file")?;
            let text = open(&file.value)
                .and_then(|text| Trace::parse(&text).map_err(|error| error.to_string()));
            let trace = text.map_err(|why| {
                workload.error(&file.span, format!("reading {}: {why}", file.value))
            })?;
            Runnable::Replay(Replay::new(trace, &costs, scale))
        }
    };
    // The program itself refuses sizes and numbers of processes that it cannot run with.
    let refused = match &program {
        Runnable::Ping(program) => program.begin(0, ranks).err(),
        Runnable::Fft(points) => Fft::new(*points)
            .and_then(|program| program.begin(0, ranks))
            .err(),
        Runnable::Matmul(program) => program.begin(0, ranks).err(),
        Runnable::Sort(program) => program.begin(0, ranks).err(),
        Runnable::Replay(program) => program.begin(0, ranks).err(),
    };
    match refused {
        Some(AmError::WrongResult(why)) => Err(workload.error(&processes.span, why)),
        Some(error) => Err(workload.error(&processes.span, error.to_string())),
        None => Ok(ProgramSetup { setup, program }),
    }
}

impl Runnable {
    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "ping",
            Self::Fft(_) => "fft",
            Self::Matmul(_) => "matmul",
            Self::Sort(_) => "is",
            Self::Replay(_) => "replay",
        }
    }

    /// Runs the program on every process.
    pub fn run(&self, setup: &Setup) -> Result<Outcome<()>, SimError> {
        Ok(match self {
            Self::Ping(program) => run(setup, program)?.without_outputs(),
            Self::Fft(points) => {
                let program = Fft::new(*points);
                let program = program.map_err(|error| SimError::Program { rank: 0, error })?;
                run(setup, &program)?.without_outputs()
            }
            Self::Matmul(program) => run(setup, program)?.without_outputs(),
            Self::Sort(program) => run(setup, program)?.without_outputs(),
            Self::Replay(program) => run(setup, program)?.without_outputs(),
        })
    }
}

impl ProgramSetup {
    /// Runs the program: returns its time, the average account of the processes' time, and notes.
    pub(crate) fn run(&self, keep: Keep) -> Result<(Vec<Measure>, Record), SimError> {
        let setup = Setup {
            keeps_journeys: keep == Keep::Slices,
            keeps_statistics: keep != Keep::Sums,
            ..self.setup.clone()
        };
        let mut outcome = self.program.run(&setup)?;
        let mut measures = self.measures(&outcome);
        let mut record = match keep {
            Keep::Slices => timeline::record(&outcome.journeys, setup.processes_per_host),
            Keep::Sums | Keep::Statistics => Record::default(),
        };
        record.statistics = outcome.statistics.take();
        if let Some(statistics) = &record.statistics {
            let (combination, name) = (self.setup.combination.name(), self.program.name());
            measures.extend(of_statistics(
                &format!("{combination}/{name}"),
                0,
                statistics,
            ));
        }
        Ok((measures, record))
    }

    fn measures(&self, outcome: &Outcome<()>) -> Vec<Measure> {
        let (combination, name) = (self.setup.combination.name(), self.program.name());
        let case = |what: &str| format!("{combination}/{name}/{what}");
        let time = |what: &str, value| Measure::one(case(what), 0, "time_us", microseconds(value));
        let count = (outcome.processes.len() as u64).max(1);
        let mut measures = vec![time("ended", outcome.ended)];
        for function in Function::ALL {
            let each = outcome.processes.iter().map(|done| done.time_in(function));
            measures.push(Measure {
                of: Parts::Instances(each.clone().map(microseconds).collect()),
                ..time(function.name(), each.sum::<u64>() / count)
            });
        }
        let misses = outcome.tlb_misses as f64;
        measures.push(Measure::one(case("tlb-misses"), 0, "count", misses));
        measures
    }
}

/// How the programs' own work is charged: `time`, and `scale` with native time.
fn clocking(workload: &mut Section<'_>, host_hz: u64) -> Result<Clocking, FileError> {
    let is_native = match workload.has("time") {
        true => workload.own_word("time", TIMES)?.value,
        false => false,
    };
    if !is_native {
        return Ok(Clocking::Counted);
    }
    Ok(Clocking::Measured {
        cycles_per_microsecond: (host_hz as f64 / 1e6 * scale(workload)?).round().max(1.0) as u64,
    })
}

/// The factor from times measured on another machine to simulated ones.
fn scale(workload: &mut Section<'_>) -> Result<f64, FileError> {
    Ok(match workload.has("scale") {
        true => {
            workload
                .own_number("scale", LEAST_SCALE, LARGEST_SCALE)?
                .value
        }
        false => 1.0,
    })
}
