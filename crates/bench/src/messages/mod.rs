//! `causeway bench messages`: latency, bandwidth and rate of every method, with the machine's limits.

pub(crate) mod effort;
mod page;
pub(crate) mod pair;
pub(crate) mod worker;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::shutdown;
use causeway_report::units::parse_bytes;
use clap::Args;

use crate::outcome::{Benchmark, Presentation};
use effort::{COPY_BYTES, Effort, RATE_BYTES};
use pair::Pair;

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
    if let Some(size) = arguments.sizes.iter().find(|size| **size > 256 << 20) {
        return Err(
            Failure::usage("reading --sizes", format!("{size} bytes are too many"))
                .hint("messages up to 256 MiB are measured"),
        );
    }
    let mut benchmark = Benchmark::new("messages", &arguments.presentation);
    benchmark.note(
        "each run is cut into up to 40 parts; the run's figure is that of the median part, so that \
         moments in which another process had the processor do not decide"
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
    for method in &arguments.methods {
        benchmark.output.line(&format!("{method}:"));
        pair.open(method)?;
        latency(&mut benchmark, &mut pair, method, &arguments)?;
        stream(&mut benchmark, &mut pair, method, &arguments)?;
    }
    benchmark.finish(page::draw)
}

fn latency(
    benchmark: &mut Benchmark,
    pair: &mut Pair,
    method: &str,
    arguments: &Arguments,
) -> Outcome {
    for &size in &arguments.sizes {
        pair.check(size, false)?;
        let (mut ours, mut limit, mut blocking) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..arguments.runs {
            ours.push(pair.latency(method, size)?);
            if method == "shm" && size <= 64 {
                limit.push(pair.cache_line()?);
            }
            if method == "tcp" {
                let rounds = pair.effort.echoes(method, size);
                limit.push(pair.bare(size, rounds, false)?);
                if size <= 64 {
                    blocking.push(pair.bare(size, rounds.min(2000), true)?);
                }
            }
        }
        let case = format!("latency/{method}");
        benchmark.ours(&case, size, "latency_us", &ours);
        let limit_case = match method {
            "shm" => "latency/cache-line",
            _ => "latency/bare-tcp-polling",
        };
        benchmark.limit(limit_case, size, "latency_us", &limit);
        benchmark.limit("latency/bare-tcp-blocking", size, "latency_us", &blocking);
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
            pair.check(size, allocate)?;
            let (mut rates, mut limit) = (Vec::new(), Vec::new());
            for _ in 0..arguments.runs {
                rates.push(pair.stream(size, allocate)?);
                if size >= COPY_BYTES {
                    limit.push(pair.copy(size)?);
                }
            }
            let megabytes = |rate: &f64| rate * size as f64 / 1e6;
            let ours: Vec<f64> = rates.iter().map(megabytes).collect();
            let suffix = if allocate { "/shared-buffers" } else { "" };
            let case = format!("bandwidth/{method}{suffix}");
            benchmark.ours(&case, size, "bandwidth_mb_s", &ours);
            if !allocate {
                benchmark.limit("bandwidth/memcpy", size, "bandwidth_mb_s", &limit);
                if size <= RATE_BYTES {
                    let case = format!("rate/{method}");
                    benchmark.ours(&case, size, "rate_per_s", &rates);
                }
            }
            benchmark.ratio(&format!("{case}/to-memcpy"), size, &ours, &limit);
        }
    }
    Ok(())
}
