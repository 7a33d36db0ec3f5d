//! Every MPI, by way of `mpi.c`: built by the MPI's own compiler when it is first needed, started by its
//! own launcher, with the settings that its manual advises for shared memory and for TCP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::child::{Failed, Program};
use super::peer::{Peer, Places, program_at, version_in};
use crate::compare::trial::{Pattern, REPLY_BYTES, RINGS, RingFigures, Trial};
use crate::messages::effort::window;
use crate::messages::exchange::{Between, Exchange, Spread};
use crate::parts::figure::Figure;

const SOURCE: &str = include_str!("mpi.c");
/// How long a job may take from its launch to its end, and more for each size of its messages.
const JOB: Duration = Duration::from_secs(30);
const QUICK_JOB: Duration = Duration::from_secs(15);
const SIZE: Duration = Duration::from_secs(1);
/// Most time for a launcher to print its version, and for a compiler to compile.
const TOOL: Duration = Duration::from_secs(60);

/// The family of an MPI, which decides launcher and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    OpenMpi,
    Mpich,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    fn launcher(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun",
            Self::Mpich => "mpiexec",
        }
    }

    /// Whether a launcher with this version text is of this family.
    fn recognises(self, said: &str) -> bool {
        match self {
            Self::OpenMpi => said.contains("Open MPI") || said.contains("OpenRTE"),
            Self::Mpich => said.contains("HYDRA"),
        }
    }
}

/// An MPI with its program.
struct Mpi {
    name: String,
    family: Family,
    major: u32,
    launcher: PathBuf,
    program: PathBuf,
    scratch: PathBuf,
}

/// All installations of a family.
pub(super) fn find(places: &Places, family: Family) -> Vec<Result<Box<dyn Peer>, String>> {
    let (compiler, launcher) = ("mpicc", family.launcher());
    let own = places.peers.join(family.name()).join("bin");
    let suffixed = |program: &str| places.program(&[&format!("{program}.{}", family.name())]);
    let candidates = [
        (
            program_at(&own.join(compiler)),
            program_at(&own.join(launcher)),
        ),
        (suffixed(compiler), suffixed(launcher)),
        (places.program(&[compiler]), places.program(&[launcher])),
    ];
    candidates
        .into_iter()
        .filter_map(|(compiler, launcher)| {
            let (compiler, launcher) = (compiler?, launcher?);
            build(places, family, &compiler, launcher).transpose()
        })
        .collect()
}

/// Builds the program; `None` if the launcher belongs to another family.
fn build(
    places: &Places,
    family: Family,
    compiler: &Path,
    launcher: PathBuf,
) -> Result<Option<Box<dyn Peer>>, String> {
    let said = Program::new(&launcher, &["--version"]).run(TOOL)?;
    if !family.recognises(&said) {
        return Ok(None);
    }
    let version = version_in(&said).unwrap_or("unknown".to_owned());
    let name = format!("{}-{version}", family.name());
    let scratch = places.scratch.join(&name);
    let source = scratch.join("mpi.c");
    let program = scratch.join("mpi");
    let failed = |error| format!("{} cannot be written: {error}", source.display());
    std::fs::create_dir_all(&scratch).map_err(failed)?;
    if program_at(&program).is_none() {
        std::fs::write(&source, SOURCE).map_err(failed)?;
        let (source, target) = (source.display().to_string(), program.display().to_string());
        Program::new(compiler, &["-O2", "-o", &target, &source]).run(TOOL)?;
    }
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    Ok(Some(Box::new(Mpi {
        name,
        family,
        major: major.unwrap_or(0),
        launcher,
        program,
        scratch,
    })))
}

/// A line of the program.
#[derive(Debug, Deserialize)]
#[serde(tag = "pattern", rename_all = "lowercase")]
enum Line {
    Latency {
        size_bytes: u64,
        latency_us: f64,
        p99_us: f64,
    },
    Exchange(Spread),
    Stream {
        size_bytes: u64,
        rate_per_s: f64,
    },
    Ring(RingLine),
    Load {
        size_bytes: u64,
        latencies_us: Vec<f64>,
    },
}

#[derive(Debug, Deserialize)]
struct RingLine {
    processes: usize,
    #[serde(flatten)]
    figures: RingFigures,
}

/// The figures in a job's output. Launchers print other lines between those of the program.
fn parse(said: &str, trial: &Trial) -> Vec<Figure> {
    let method = &trial.method;
    let lines = said.lines().filter_map(|line| {
        let line = line.get(line.find('{')?..)?;
        serde_json::from_str::<Line>(line.trim()).ok()
    });
    lines
        .flat_map(|line| match line {
            Line::Latency {
                size_bytes,
                latency_us,
                p99_us,
            } => {
                let case = format!("latency/{method}");
                let p99 = Figure::latency(format!("{case}/p99"), size_bytes, p99_us);
                let latency = Figure::latency(case, size_bytes, latency_us);
                latency.into_iter().chain(p99).collect()
            }
            Line::Exchange(spread) => Figure::of_exchange(trial, &spread),
            Line::Stream {
                size_bytes,
                rate_per_s,
            } => Figure::of_stream(
                &format!("bandwidth/{method}"),
                method,
                size_bytes,
                rate_per_s,
            ),
            Line::Ring(ring) => Figure::of_ring(method, ring.processes, &ring.figures),
            Line::Load {
                size_bytes,
                latencies_us,
            } => Figure::of_load(trial, size_bytes, &latencies_us),
        })
        .collect()
}

/// A job: how many ranks, where, and their arguments.
struct Job {
    ranks: usize,
    processors: String,
    arguments: Vec<String>,
}

fn jobs(trial: &Trial) -> Vec<Job> {
    let [one, other] = trial.processors;
    let job = |ranks: usize, processors: String, words: &[String]| Job {
        ranks,
        processors,
        arguments: words.to_vec(),
    };
    let pinned = || format!("{one},{other}");
    let milliseconds = trial.milliseconds().to_string();
    let (effort, method) = (trial.effort, &trial.method);
    match trial.pattern {
        Pattern::Latency => {
            let what = |size: &u64| {
                let (echoes, samples) =
                    (effort.echoes(method, *size), effort.samples(method, *size));
                format!("{size}:{echoes}:{samples}")
            };
            let words = std::iter::once("latency".to_owned()).chain(trial.sizes.iter().map(what));
            vec![job(2, pinned(), &words.collect::<Vec<_>>())]
        }
        Pattern::Bandwidth => {
            let what = |size| format!("{size}:{}:{}", window(size), effort.windows(size));
            let words = std::iter::once("stream".to_owned()).chain(trial.stream_sizes().map(what));
            vec![job(2, pinned(), &words.collect::<Vec<_>>())]
        }
        Pattern::Ring => RINGS
            .iter()
            .map(|&ranks| {
                let processors = match ranks {
                    2 => pinned(),
                    _ => format!("{one}/{other}"),
                };
                let pause = trial.pause_ms().to_string();
                let words = ["ring".to_owned(), milliseconds.clone(), pause];
                job(ranks, processors, &words)
            })
            .collect(),
        Pattern::Load => REPLY_BYTES
            .iter()
            .map(|size| {
                let words = ["load".to_owned(), size.to_string(), milliseconds.clone()];
                job(trial.clients + 1, pinned(), &words)
            })
            .collect(),
        Pattern::Pause | Pattern::Computing | Pattern::Contention => trial
            .exchange()
            .iter()
            .map(|exchange| {
                let words = ["exchange".to_owned(), exchange_words(exchange)];
                job(2, pinned(), &words)
            })
            .collect(),
        Pattern::Idle => Vec::new(),
    }
}

/// An exchange, as the program reads it.
fn exchange_words(exchange: &Exchange) -> String {
    let (lead, follow) = (between(exchange.lead), between(exchange.follow));
    let (size, rounds, milliseconds) = (exchange.size, exchange.rounds, exchange.milliseconds);
    format!("{size}:{rounds}:{milliseconds}:{lead}:{follow}")
}

/// A rank's work in between, in the program's encoding.
fn between(between: Between) -> String {
    match between {
        Between::Nothing => "n".to_owned(),
        Between::Sleeps(microseconds) => format!("s{microseconds}"),
        Between::Computes(microseconds) => format!("c{microseconds}"),
    }
}

impl Mpi {
    fn launch(&self, method: &str, job: &Job) -> Program {
        let scratch = self.scratch.display().to_string();
        let mut program = Program::new(&self.launcher, &[]).with("TMPDIR", &scratch);
        program.directory = self.scratch.clone();
        let mut say = |words: &str| {
            let words = words.split(' ').map(str::to_owned);
            program.arguments.extend(words);
        };
        match self.family {
            Family::OpenMpi => {
                // Ranks bind themselves.
                say("--allow-run-as-root --bind-to none");
                say(if self.major >= 5 {
                    "--map-by :OVERSUBSCRIBE"
                } else {
                    "--oversubscribe"
                });
                let shared = if self.major >= 5 {
                    "self,sm"
                } else {
                    "self,vader"
                };
                let btl = if method == "shm" { shared } else { "self,tcp" };
                say(&format!(
                    "--mca pml ob1 --mca btl {btl} --mca btl_tcp_if_include lo"
                ));
                if job.ranks > 2 {
                    say("--mca mpi_yield_when_idle 1");
                }
            }
            Family::Mpich => {
                say("-bind-to none");
                if method == "tcp" {
                    if self.major >= 5 {
                        // Its other way out, UCX, does not start over the loopback alone.
                        program = program.with("MPIR_CVAR_CH4_NETMOD", "ofi");
                    }
                    program = program
                        .with("MPIR_CVAR_NOLOCAL", "1")
                        .with("UCX_TLS", "tcp,self")
                        .with("UCX_NET_DEVICES", "lo")
                        .with("FI_PROVIDER", "tcp")
                        .with("FI_TCP_IFACE", "lo");
                }
            }
        }
        program
            .arguments
            .extend(["-n".to_owned(), job.ranks.to_string()]);
        program.arguments.push(self.program.display().to_string());
        program.arguments.push(job.processors.clone());
        program.arguments.extend(job.arguments.iter().cloned());
        program
    }
}

impl Peer for Mpi {
    fn name(&self) -> &str {
        &self.name
    }

    fn can(&self, trial: &Trial) -> bool {
        !jobs(trial).is_empty()
    }

    fn run(&mut self, trial: &Trial, figures: &mut Vec<Figure>) -> Result<(), Failed> {
        // Beside processes that compute, launching takes long.
        let within = match trial.effort.quick && trial.pattern != Pattern::Contention {
            true => QUICK_JOB,
            false => JOB,
        };
        let within = within + SIZE * u32::try_from(trial.sizes.len()).unwrap_or(u32::MAX);
        for job in jobs(trial) {
            let said = self.launch(&trial.method, &job).run(within)?;
            let found = parse(&said, trial);
            if found.is_empty() {
                return Err("the job printed no figures".to_owned().into());
            }
            figures.extend(found);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "mpi_tests.rs"]
mod tests;
