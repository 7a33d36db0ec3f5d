//! Parallel jobs that share the processors of chapter 6's platform.

use causeway_cosched::Strategy;

use super::measure::{Measure, Parts};
use crate::coscheduling::costs::{Costs, Grains};
use crate::coscheduling::programs::{self, Grain, NODES, Program};
use crate::coscheduling::{DidNotEnd, Experiment, JobOutcome, Outcome, run, workloads};
use crate::engine::{MICROSECOND, MILLISECOND, SECOND, Time, microseconds};
use crate::node::Record;
use crate::profile::units::Kind as Unit;
use crate::profile::{FileError, Section};
use crate::statistics::{Statistics, mean, variation};

/// Most jobs: every node has a process of each.
const MOST_JOBS: u64 = 64;
/// Most iterations of a program.
const MOST_ITERATIONS: u64 = 1 << 24;
const TIMES: (u64, u64, &str) = (MICROSECOND, 1_000 * SECOND, "must be from 1 us to 1000 s");
const SIZES: (u64, u64, &str) = (1, 1 << 24, "must be from 1 B to 16 MiB");
/// How often each job's share of the first node's processor is noted.
const PROBE: Time = 100 * MILLISECOND;
/// Most intervals of which shares are reported; of longer runs they are longer.
const MOST_PARTS: usize = 256;

/// Jobs, and how their nodes schedule them.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub(super) costs: Costs,
    pub(super) strategy: Strategy,
    pub(super) jobs: Vec<Program>,
    /// The table of the file that each job comes from: jobs of one table are alike.
    pub(super) tables: Vec<usize>,
    pub(super) seed: u64,
}

/// The kind of a job.
#[derive(Clone, Copy)]
enum Name {
    Parallel(workloads::Kind),
    Sequential,
    Disk,
}

const NAMES: &[(&str, Name)] = &[
    ("life 3.5 %", Name::Parallel(workloads::Kind::LifeLow)),
    ("life 12 %", Name::Parallel(workloads::Kind::LifeHigh)),
    ("mg", Name::Parallel(workloads::Kind::Mg)),
    ("lu", Name::Parallel(workloads::Kind::Lu)),
    ("ep", Name::Parallel(workloads::Kind::Ep)),
    ("sequential", Name::Sequential),
    ("disk", Name::Disk),
];

/// Reads the workload's section of kind `jobs`.
pub(super) fn read(workload: &mut Section<'_>, costs: Costs, seed: u64) -> Result<Jobs, FileError> {
    let strategies: Vec<(&str, Strategy)> = Strategy::all().collect();
    let strategy = workload.own_word("strategy", &strategies)?.value;
    let place = workload.span();
    let (mut jobs, mut tables) = (Vec::new(), Vec::new());
    for (number, mut section) in workload.sections("job")?.into_iter().enumerate() {
        let (program, count) = job(&mut section, &costs.grains)?;
        section.finish()?;
        jobs.extend(std::iter::repeat_n(program, count));
        tables.extend(std::iter::repeat_n(number, count));
    }
    if jobs.len() as u64 > MOST_JOBS {
        let wrong = format!("there are {} jobs; there may be {MOST_JOBS}", jobs.len());
        return Err(workload.error(&place, wrong));
    }
    Ok(Jobs {
        costs,
        strategy,
        jobs,
        tables,
        seed,
    })
}

/// Reads one table of jobs, and the number of jobs in it.
fn job(section: &mut Section<'_>, grains: &Grains) -> Result<(Program, usize), FileError> {
    let name = section.own_word("program", NAMES)?;
    let count = section.count_or("count", 1, MOST_JOBS, 1)? as usize;
    let time = |section: &mut Section<'_>, key: &str| section.own_within(key, Unit::Time, TIMES);
    let node = |section: &mut Section<'_>| -> Result<usize, FileError> {
        Ok(section.count_or("node", 0, NODES as u64 - 1, 0)? as usize)
    };
    let program = match name.value {
        Name::Parallel(kind) => {
            let shipped = kind.grain(grains);
            let iterations = u64::from(shipped.iterations);
            let grain = Grain {
                iterations: section.count_or("iterations", 1, MOST_ITERATIONS, iterations)? as u32,
                compute: section
                    .optional("compute", |section, key| time(section, key))?
                    .unwrap_or(shipped.compute),
                message: section
                    .optional("message", |section, key| {
                        section.own_within(key, Unit::Size, SIZES)
                    })?
                    .map_or(shipped.message, |bytes| bytes as u32),
                imbalance: section.count_or("imbalance", 0, 1_000, shipped.imbalance)?,
                parts: shipped.parts,
            };
            kind.program_with(kind.name(), grain)
        }
        Name::Sequential => {
            let node = node(section)?;
            programs::sequential("sequential", node, time(section, "compute")?)
        }
        Name::Disk => {
            let node = node(section)?;
            let (compute, sleep) = (time(section, "compute")?, time(section, "sleep")?);
            let times = section.own_count("iterations", 1, MOST_ITERATIONS)?.value;
            programs::disk_bound("disk", node, compute, sleep, times)
        }
    };
    Ok((program, count))
}

impl Jobs {
    /// Runs the jobs together, and each alone under the operating system's own scheduling: reports each job's processor time, and how much
    /// longer it takes beside the others. The record has the jobs' parts of the first node's processor over time.
    pub(super) fn run(&self, replication: u32) -> Result<(Vec<Measure>, Record), DidNotEnd> {
        let seed = self.seed.wrapping_add(u64::from(replication));
        let together = self.outcome(self.strategy, &self.jobs, seed)?;
        let mut alone: Vec<Time> = Vec::new();
        let mut slowdowns = Vec::new();
        for (number, job) in self.jobs.iter().enumerate() {
            let table = self.tables[number];
            if alone.len() <= table {
                let own = std::slice::from_ref(job);
                alone.push(self.outcome(Strategy::LOCAL, own, seed)?.completion());
            }
            slowdowns.push(took(&together.jobs[number]) as f64 / alone[table].max(1) as f64);
        }
        let statistics = Statistics {
            parts: thinned(&together.shares),
            ..Statistics::default()
        };
        let record = Record {
            statistics: Some(Box::new(statistics)),
            ..Record::default()
        };
        Ok((self.measures(&together, &slowdowns), record))
    }

    fn outcome(
        &self,
        strategy: Strategy,
        jobs: &[Program],
        seed: u64,
    ) -> Result<Outcome, DidNotEnd> {
        run(&Experiment {
            costs: &self.costs,
            settings: self.costs.settings(strategy),
            jobs,
            seed,
            probe: Some(PROBE),
        })
    }

    fn measures(&self, outcome: &Outcome, slowdowns: &[f64]) -> Vec<Measure> {
        let strategy = self.strategy.name().unwrap_or_default().to_lowercase();
        let one = |case: String, metric: &str, value| {
            Measure::one(format!("{strategy}/{case}"), 0, metric, value)
        };
        let completion = microseconds(outcome.completion());
        let mut measures = vec![one("all/completion".to_owned(), "time_us", completion)];
        let mut times = Vec::new();
        for (number, (job, found)) in self.jobs.iter().zip(&outcome.jobs).enumerate() {
            let case = |what: &str| format!("job-{number}/{}/{what}", job.name);
            let took = took(found);
            times.push(microseconds(took));
            let nodes = (0..NODES).filter(|node| job.script(*node, 0).is_some());
            let had = took.max(1) as f64 * nodes.count().max(1) as f64;
            measures.push(one(case("completion"), "time_us", microseconds(took)));
            measures.push(one(case("completion"), "slowdown", slowdowns[number]));
            measures.push(one(case("processors"), "share", found.cpu as f64 / had));
            measures.push(one(case("spinning"), "share", found.spun as f64 / had));
            measures.extend(self.share_over_time(outcome, number).map(|shares| Measure {
                of: Parts::Instances(shares.clone()),
                ..one(case("node-0"), "share", mean(&shares))
            }));
        }
        measures.push(Measure {
            of: Parts::Instances(times.clone()),
            ..one("each/completion".to_owned(), "time_us", mean(&times))
        });
        let case = "each/completion".to_owned();
        measures.push(one(case, "variation", variation(&times)));
        let counts = outcome.counts;
        for (what, count) in [
            ("switches", counts.switches),
            ("interrupts", counts.interrupts),
            ("boosts", counts.boosts),
            ("blocks", counts.blocks),
        ] {
            measures.push(one(format!("host/{what}"), "count", count as f64));
        }
        measures
    }

    /// A job's share of the first node's processor from probe to probe, while it ran and if it has a process there.
    fn share_over_time(&self, outcome: &Outcome, number: usize) -> Option<Vec<f64>> {
        self.jobs[number].script(0, 0)?;
        let job = &outcome.jobs[number];
        let probes = outcome.shares.iter();
        let during = probes.filter(|(at, _)| (job.began + PROBE..=job.ended).contains(at));
        let shares: Vec<f64> = during.map(|(_, shares)| shares[number]).collect();
        (!shares.is_empty()).then_some(shares)
    }
}

fn took(job: &JobOutcome) -> Time {
    job.ended.saturating_sub(job.began)
}

/// Jobs' parts of a processor from probe to probe, in millionths; means of as many probes as leave at most [`MOST_PARTS`].
fn thinned(shares: &[(Time, Vec<f64>)]) -> Vec<(Time, Vec<u32>)> {
    let group = shares.len().div_ceil(MOST_PARTS).max(1);
    let of = |probes: &[(Time, Vec<f64>)]| {
        let (end, last) = probes.last()?;
        let part = |job: usize| {
            let sum: f64 = probes.iter().map(|(_, parts)| parts[job]).sum();
            (1e6 * sum / probes.len() as f64).round() as u32
        };
        Some((*end, (0..last.len()).map(part).collect()))
    };
    shares.chunks(group).filter_map(of).collect()
}
