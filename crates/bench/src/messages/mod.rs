//! `causeway bench messages`: latency, bandwidth and rate of every method, with the machine's limits.

pub(crate) mod effort;
pub(crate) mod exchange;
pub(crate) mod page;
pub(crate) mod pair;
pub(crate) mod worker;

use causeway_command::failure::Outcome;
use causeway_command::shutdown;
use causeway_report::units::size_text;
use clap::Args;

use crate::distance::{Distances, Probe};
use crate::outcome::{Benchmark, Presentation};
use crate::participants::{LIMIT, OURS};
use crate::parts::Parts;
use crate::parts::figure::Figure;
use crate::parts::findings::Findings;
use crate::parts::repeats::{self, Plan};
use crate::sizes::{self, Sizes};
use effort::{COPY_BYTES, Effort};
use pair::Pair;

/// The largest message that is measured.
const MOST_BYTES: u64 = 256 << 20;
/// The largest message for which the limits are a cache line and a blocking socket.
const SMALL_BYTES: u64 = 64;

/// Measure latency, bandwidth and rate of messages, by method and size
///
/// Two processes, each bound to a processor, exchange messages through the message layer. Between
/// the runs they measure what the machine can do at best: a cache line bounced between the two
/// processors, copying memory, and bare TCP sockets, spinning and blocking. How far apart the two processors are is
/// measured before and after each part; figures are compared only with limits at the same distance (near or far), and
/// what then lacks parts is measured again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway bench messages
  causeway bench messages --methods shm --sizes 8,64KiB,1MiB --runs 9
  causeway bench messages --quick --json | jq '.rows[] | select(.metric == \"ratio\")'
  causeway bench messages --html messages.html")]
pub(crate) struct Arguments {
    /// Methods to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["shm", "tcp"],
          value_parser = ["shm", "tcp"])]
    methods: Vec<String>,
    #[command(flatten)]
    sizes: sizes::Choice,
    /// Most TCP connections between the two processes, for large messages [usual: by the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    tcp_connections: Option<u8>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Fewer repetitions: an impression, not a measurement
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    presentation: Presentation,
}

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    let sizes = arguments.sizes.choose(MOST_BYTES)?;
    let mut benchmark = Benchmark::new("messages", &arguments.presentation);
    let trials = trials(&arguments.methods, &sizes);
    benchmark.sizes(sizes);
    benchmark.note(
        "each run is cut into up to 40 parts; the run's figure is that of the median part, so that \
         moments in which another process had the processor do not decide. 99th percentiles are of round trips whose \
         times are taken one by one, halved"
            .to_owned(),
    );
    let mut pair = Pair::start(Effort {
        quick: arguments.quick,
    })?;
    benchmark.note(pair.placement());
    if let Some(most) = arguments.tcp_connections {
        benchmark.note(format!("up to {most} TCP connections between the two"));
        pair.tcp_connections = most;
    }
    benchmark.note(
        "figures are compared only with limits that were measured while the two processors were as far apart".to_owned(),
    );
    let mut probe = Probe::new();
    let parts = measure(&benchmark, &mut pair, &mut probe, &trials, arguments.runs)?;
    benchmark.parts(&parts, probe.why());
    benchmark.rows = with_ratios(&parts, &trials).rows();
    benchmark.finish(page::draw)
}

/// Measurements of messages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measurement {
    /// Half of a round trip.
    Latency,
    /// Windows of messages, from memory that the message layer allocated or not.
    Stream { allocate: bool },
}

/// One measurement over one method.
#[derive(Debug, Clone)]
struct Trial {
    method: String,
    what: Measurement,
    size: u64,
}

fn trials(methods: &[String], sizes: &Sizes) -> Vec<Trial> {
    let mut trials = Vec::new();
    for method in methods {
        let shared = (method == "shm").then_some(Measurement::Stream { allocate: true });
        let stream = Measurement::Stream { allocate: false };
        for what in [Measurement::Latency, stream].into_iter().chain(shared) {
            // A stream of nothing has no bandwidth.
            let wanted = |size: &&u64| what == Measurement::Latency || **size > 0;
            trials.extend(sizes.bytes.iter().filter(wanted).map(|&size| Trial {
                method: method.clone(),
                what,
                size,
            }));
        }
    }
    trials
}

impl Trial {
    fn name(&self) -> String {
        let (size, method) = (size_text(self.size), &self.method);
        match self.what {
            Measurement::Latency => format!("latency of {size} over {method}"),
            Measurement::Stream { allocate: false } => format!("bandwidth of {size} over {method}"),
            Measurement::Stream { allocate: true } => {
                format!("bandwidth of {size} over {method}, shared buffers")
            }
        }
    }

    /// The case of the trial's rows.
    fn case(&self) -> String {
        let method = &self.method;
        match self.what {
            Measurement::Latency => format!("latency/{method}"),
            Measurement::Stream { allocate: false } => format!("bandwidth/{method}"),
            Measurement::Stream { allocate: true } => format!("bandwidth/{method}/shared-buffers"),
        }
    }

    /// The case of the limit that the trial is compared with, and the name of the ratio; none if
    /// there is no limit.
    fn limit(&self) -> Option<(&'static str, &'static str)> {
        match self.what {
            Measurement::Latency if self.method == "tcp" => {
                Some(("latency/bare-tcp-polling", "to-limit"))
            }
            Measurement::Latency => {
                (self.size <= SMALL_BYTES).then_some(("latency/cache-line", "to-limit"))
            }
            Measurement::Stream { .. } => {
                (self.size >= COPY_BYTES).then_some(("bandwidth/memcpy", "to-memcpy"))
            }
        }
    }

    fn ours(&self, pair: &mut Pair) -> Outcome<Vec<Figure>> {
        let (case, size) = (self.case(), self.size);
        let allocate = self.what == Measurement::Stream { allocate: true };
        pair.check(size, allocate)?;
        if self.what != Measurement::Latency {
            let rate = pair.stream(size, allocate)?;
            return Ok(Figure::of_stream(&case, &self.method, size, rate));
        }
        let latency = Figure::latency(case.clone(), size, pair.latency(&self.method, size)?);
        let p99 = Figure::latency(format!("{case}/p99"), size, pair.p99(&self.method, size)?);
        Ok(latency.into_iter().chain(p99).collect())
    }

    fn limits(&self, pair: &mut Pair) -> Outcome<Vec<Figure>> {
        let size = self.size;
        let Some((case, _)) = self.limit() else {
            return Ok(Vec::new());
        };
        if self.what != Measurement::Latency {
            let copied = pair.copy(size)?;
            let figure = Figure::new(case, size, "bandwidth_mb_s", copied);
            return Ok(figure.into_iter().collect());
        }
        if self.method == "shm" {
            let figure = Figure::latency(case, size, pair.cache_line()?);
            return Ok(figure.into_iter().collect());
        }
        let rounds = pair.effort.echoes(&self.method, size);
        let polling = Figure::latency(case, size, pair.bare(size, rounds, false)?);
        let mut figures: Vec<Figure> = polling.into_iter().collect();
        if size <= SMALL_BYTES {
            let blocking = pair.bare(size, rounds.min(2000), true)?;
            figures.extend(Figure::latency("latency/bare-tcp-blocking", size, blocking));
        }
        Ok(figures)
    }
}

/// Measures each trial as often as requested, and repeats those that then lack parts at the
/// distance of the limit.
fn measure(
    benchmark: &Benchmark,
    pair: &mut Pair,
    probe: &mut Probe,
    trials: &[Trial],
    runs: u32,
) -> Outcome<Parts> {
    let plan = Plan {
        trials: trials.iter().map(Trial::name).collect(),
        participants: vec![OURS.to_owned(), LIMIT.to_owned()],
        runs,
    };
    let mut open = "";
    repeats::run(plan, &benchmark.output, |_, number, participant| {
        let trial = trials.get(number);
        let Some(trial) = trial.filter(|trial| participant == OURS || trial.limit().is_some())
        else {
            return Ok((Distances::UNKNOWN, Vec::new()));
        };
        if open != trial.method {
            pair.open(&trial.method)?;
            open = &trial.method;
        }
        let (distances, figures) = probe.around(|| match participant {
            OURS => trial.ours(pair),
            _ => trial.limits(pair),
        });
        Ok((distances, figures?))
    })
}

/// The figures, and the ratios to the limits, each of two figures at the same distance.
fn with_ratios(parts: &Parts, trials: &[Trial]) -> Findings {
    let mut findings = parts.findings();
    for (number, trial) in trials.iter().enumerate() {
        // A limit may be that of several trials: each is compared with its own.
        let own = parts.findings_of(number);
        let (case, size) = (trial.case(), trial.size);
        let Some((limit, ratio)) = trial.limit() else {
            continue;
        };
        if let Some(ours) = own.series(&case, OURS, size)
            && let Some(limit) = own.series(limit, LIMIT, size)
        {
            for (run, value) in ours.over_by_run(limit) {
                let figure = Figure::new(format!("{case}/{ratio}"), size, "ratio", value);
                if let Some(figure) = figure {
                    findings.add(run, OURS, &ours.distance, figure);
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Part;

    fn sizes() -> Sizes {
        Sizes {
            bytes: vec![0, 8, 1000, 100_000],
            seed: None,
        }
    }

    #[test]
    fn every_size_is_measured_in_every_way_that_it_has() {
        let trials = trials(&["shm".to_owned(), "tcp".to_owned()], &sizes());
        let count =
            |wanted: Measurement| trials.iter().filter(|trial| trial.what == wanted).count();
        assert_eq!(count(Measurement::Latency), 8);
        assert_eq!(count(Measurement::Stream { allocate: false }), 6);
        assert_eq!(count(Measurement::Stream { allocate: true }), 3);
        let name = trials.last().unwrap().name();
        assert_eq!(name, "bandwidth of 100,000 B over tcp");
        let limits = trials.iter().filter_map(Trial::limit).count();
        // Small ones over shm, all over tcp, and sizes that are worth copying.
        assert_eq!(limits, 2 + 4 + 3);
    }

    #[test]
    fn ratios_are_only_of_figures_at_one_distance() {
        let trials = trials(&["shm".to_owned()], &sizes());
        let number = trials
            .iter()
            .position(|trial| trial.what == Measurement::Latency && trial.size == 8)
            .unwrap();
        let mut parts = Parts::new(trials.iter().map(Trial::name).collect(), 1);
        for (participant, case, distance, value) in [
            (OURS, "latency/shm", 0.05, 0.1),
            (LIMIT, "latency/cache-line", 0.25, 0.25),
            (LIMIT, "latency/cache-line", 0.05, 0.05),
            (OURS, "latency/shm", 0.25, 0.4),
            (OURS, "latency/shm", 0.05, 0.2),
        ] {
            parts.add(Part {
                trial: number,
                participant: participant.to_owned(),
                distances: Distances {
                    before: Some(distance),
                    after: Some(distance),
                },
                figures: Figure::latency(case, 8, value).into_iter().collect(),
            });
        }
        let rows = with_ratios(&parts, &trials).rows();
        let ratio = rows.iter().find(|row| row.metric == "ratio").unwrap();
        assert_eq!(
            (ratio.case.as_str(), ratio.runs),
            ("latency/shm/to-limit", 1)
        );
        assert!((ratio.median - 2.0).abs() < 1e-9, "{ratio:?}");
        assert_eq!(ratio.distance.as_deref(), Some("near"));
        let others = parts.other_rows();
        assert_eq!(others.len(), 2, "{others:?}");
        assert!(
            others
                .iter()
                .all(|row| row.distance.as_deref() == Some("far"))
        );
    }
}
