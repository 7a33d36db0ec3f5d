//! `causeway bench messages`: latency, bandwidth and rate of every method, with the machine's limits.

mod page;
pub(crate) mod worker;

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use causeway_sys::shared::SharedWords;
use clap::Args;

use super::outcome::Benchmark;
use crate::failure::{Doing, Failure, Outcome};
use crate::output::Output;
use crate::shutdown::{self, ScratchDirectory};
use crate::task::Task;
use crate::units::parse_bytes;
use crate::workers::{Event, Pool};
use worker::{Assignment, Order, Report};

/// How long one measurement may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Smallest message whose bandwidth is held against copying: smaller copies stay in the innermost cache
/// and say nothing about messages.
const COPY_BYTES: u64 = 64 << 10;
/// Largest message whose rate is shown beside its bandwidth.
const RATE_BYTES: u64 = 4096;

/// Measure latency, bandwidth and rate of messages, by method and size
///
/// Two processes, each bound to a processor, exchange messages through the message layer. Between
/// the runs they measure what the machine can do at best: a cache line bounced between the two
/// processors, copying memory, and bare TCP sockets, spinning and blocking.
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
    /// Sizes of messages
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes,
          default_values = ["8", "64", "1KiB", "4KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB"])]
    sizes: Vec<u64>,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Fewer repetitions: an impression, not a measurement
    #[arg(long)]
    quick: bool,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Write a report with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The pair of processes.
struct Pair {
    pool: Pool<Report>,
    _words: SharedWords,
    scratch: ScratchDirectory,
    quick: bool,
}

/// Numbers of the ends in the pool.
const LEAD: usize = 0;
const FOLLOW: usize = 1;

/// Runs the benchmark.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::on_signals()?;
    if let Some(size) = arguments.sizes.iter().find(|size| **size > 256 << 20) {
        return Err(
            Failure::usage("reading --sizes", format!("{size} bytes are too many"))
                .hint("messages up to 256 MiB are measured"),
        );
    }
    let mut benchmark = Benchmark::new("messages", Output::new(arguments.json));
    benchmark.note(
        "each run is cut into up to 40 parts; the run's figure is that of the median part, so that \
         moments in which another process had the processor do not decide"
            .to_owned(),
    );
    let mut pair = Pair::start(&mut benchmark, arguments.quick)?;
    for method in &arguments.methods {
        benchmark.output.line(&format!("{method}:"));
        pair.open(method)?;
        latency(&mut benchmark, &mut pair, method, &arguments)?;
        stream(&mut benchmark, &mut pair, method, &arguments)?;
    }
    benchmark.finish(arguments.html.as_ref(), page::draw)
}

impl Pair {
    fn start(benchmark: &mut Benchmark, quick: bool) -> Outcome<Self> {
        let doing = || "sharing words between processes".to_owned();
        let words = SharedWords::new(64).doing(doing)?;
        let inherited = words.inheritable().doing(doing)?;
        let processors =
            causeway_sys::pin::allowed_cpus().doing(|| "finding the processors".to_owned())?;
        let pinned = processors.len() > 1;
        if pinned {
            benchmark.note(format!(
                "two processes, bound to processors {} and {}",
                processors.first().copied().unwrap_or(0),
                processors.get(1).copied().unwrap_or(0)
            ));
        } else {
            benchmark.note(
                "there is only one processor: both processes share it, and latencies are those of \
                 the scheduler"
                    .to_owned(),
            );
        }
        let mut pool = Pool::new();
        for leads in [true, false] {
            let processor = processors
                .get(usize::from(!leads))
                .copied()
                .filter(|_| pinned);
            pool.start(&Task::BenchMessages(Assignment {
                leads,
                processor,
                words: inherited.as_raw_fd(),
            }))?;
        }
        pool.gather(PATIENCE, "starting the pair of processes")?;
        let mut pair = Self {
            pool,
            _words: words,
            scratch: ScratchDirectory::new(&std::env::temp_dir(), "messages")?,
            quick,
        };
        let port = pair.introduce(|port| Order::Socket {
            port: port.parse().unwrap_or(0),
        })?;
        tracing::debug!(port, "bare socket");
        Ok(pair)
    }

    /// Gives an order first to the end that listens, then, with where that is, to the other one.
    fn introduce(&mut self, order: impl Fn(&str) -> Order) -> Outcome<String> {
        let what = "introducing the two processes";
        self.pool.send(FOLLOW, &order(""))?;
        let place = loop {
            match self.pool.event(PATIENCE) {
                Some((FOLLOW, Event::Said(Report::Listening(place)))) => break place,
                Some((_, Event::Ended(reason))) => {
                    return Err(Failure::new(
                        what,
                        reason.unwrap_or("one of them ended".to_owned()),
                    ));
                }
                Some(_) => {}
                None => return Err(Failure::new(what, "the listening one does not answer")),
            }
        };
        self.pool.send(LEAD, &order(&place))?;
        self.pool.gather(PATIENCE, what)?;
        Ok(place)
    }

    fn open(&mut self, method: &str) -> Outcome {
        let listen = match method {
            "tcp" => "tcp://127.0.0.1:0".to_owned(),
            _ => format!("{method}://{}/bench.sock", self.scratch.path().display()),
        };
        self.introduce(|address| Order::Layer {
            listen: listen.clone(),
            address: address.to_owned(),
        })?;
        Ok(())
    }

    /// Lets both ends do something; answers the seconds that it took.
    fn measure(&mut self, order: &Order) -> Outcome<f64> {
        self.pool.send(FOLLOW, order)?;
        self.pool.send(LEAD, order)?;
        let reports = self.pool.gather(PATIENCE, "exchanging messages")?;
        match reports.into_iter().next() {
            Some(Report::Took(seconds)) => Ok(seconds),
            other => Err(Failure::new(
                "exchanging messages",
                format!("no time but {other:?}"),
            )),
        }
    }

    /// Repetitions that take long enough to be measured and not longer.
    fn rounds(&self, size: u64, most: u64) -> u64 {
        let bytes = if self.quick { 4 << 20 } else { 256 << 20 };
        let most = if self.quick { most / 20 } else { most };
        (bytes / size.max(1)).clamp(if self.quick { 2 } else { 16 }, most.max(2))
    }

    /// Microseconds one way, over `rounds` there and back.
    fn one_way(&mut self, order: &Order, rounds: u64) -> Outcome<f64> {
        Ok(self.measure(order)? * 1e6 / rounds as f64 / 2.0)
    }
}

fn latency(
    benchmark: &mut Benchmark,
    pair: &mut Pair,
    method: &str,
    arguments: &Arguments,
) -> Outcome {
    for &size in &arguments.sizes {
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        pair.measure(&Order::Check {
            size: bytes,
            allocate: false,
        })?;
        let (mut ours, mut limit, mut blocking) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            let most = if method == "shm" { 100_000 } else { 20_000 };
            let rounds = pair.rounds(size, most);
            let order = Order::Latency {
                size: bytes,
                rounds,
                allocate: false,
            };
            // A first few rounds bring both ends to the place where they wait for each other.
            pair.measure(&Order::Latency {
                size: bytes,
                rounds: rounds.min(50),
                allocate: false,
            })?;
            ours.push(pair.one_way(&order, rounds)?);
            if method == "shm" && size <= 64 {
                let rounds = if pair.quick { 20_000 } else { 200_000 };
                limit.push(pair.one_way(&Order::CacheLine { rounds }, rounds)?);
            }
            if method == "tcp" {
                let bare = |blocking| Order::Bare {
                    size: bytes,
                    rounds,
                    blocking,
                };
                limit.push(pair.one_way(&bare(false), rounds)?);
                if size <= 64 {
                    let few = rounds.min(2000);
                    let order = Order::Bare {
                        size: bytes,
                        rounds: few,
                        blocking: true,
                    };
                    blocking.push(pair.one_way(&order, few)?);
                }
            }
        }
        let case = format!("latency/{method}");
        benchmark.add(&case, "causeway", size, "latency_us", &ours);
        let limit_case = match method {
            "shm" => "latency/cache-line",
            _ => "latency/bare-tcp-polling",
        };
        benchmark.add(limit_case, "limit", size, "latency_us", &limit);
        benchmark.add(
            "latency/bare-tcp-blocking",
            "limit",
            size,
            "latency_us",
            &blocking,
        );
        benchmark.ratio(&format!("{case}/to-limit"), size, &ours, &limit);
    }
    Ok(())
}

fn stream(
    benchmark: &mut Benchmark,
    pair: &mut Pair,
    method: &str,
    arguments: &Arguments,
) -> Outcome {
    let kinds: &[bool] = if method == "shm" {
        &[false, true]
    } else {
        &[false]
    };
    for &allocate in kinds {
        for &size in arguments.sizes.iter().filter(|size| **size > 0) {
            let bytes = usize::try_from(size).unwrap_or(usize::MAX);
            pair.measure(&Order::Check {
                size: bytes,
                allocate,
            })?;
            // As many in flight as keep both sides busy, bounded in bytes.
            let window = usize::try_from(((16_u64 << 20) / size).clamp(4, 64)).unwrap_or(4);
            let (mut ours, mut limit) = (Vec::new(), Vec::new());
            for _ in 0..arguments.runs {
                let rounds = pair.rounds(size * window as u64, 5000);
                let seconds = pair.measure(&Order::Stream {
                    size: bytes,
                    window,
                    rounds,
                    allocate,
                })?;
                let messages = rounds as f64 * window as f64;
                ours.push(messages * size as f64 / 1e6 / seconds.max(1e-9));
                if size < COPY_BYTES {
                    continue;
                }
                let rounds = pair.rounds(size, 1_000_000);
                let seconds = pair.measure(&Order::Copy {
                    size: bytes,
                    rounds,
                })?;
                limit.push(rounds as f64 * size as f64 / 1e6 / seconds.max(1e-9));
            }
            let suffix = if allocate { "/shared-buffers" } else { "" };
            let case = format!("bandwidth/{method}{suffix}");
            benchmark.add(&case, "causeway", size, "bandwidth_mb_s", &ours);
            if !allocate {
                benchmark.add("bandwidth/memcpy", "limit", size, "bandwidth_mb_s", &limit);
                if size <= RATE_BYTES {
                    let rates: Vec<f64> = ours.iter().map(|mb| mb * 1e6 / size as f64).collect();
                    let case = format!("rate/{method}");
                    benchmark.add(&case, "causeway", size, "rate_per_s", &rates);
                }
            }
            benchmark.ratio(&format!("{case}/to-memcpy"), size, &ours, &limit);
        }
    }
    Ok(())
}
