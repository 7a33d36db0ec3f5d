//! The patterns that each participant runs once in a run, and the figures that result.

use serde::Serialize;

use crate::messages::effort::Effort;
use crate::messages::exchange::{Between, Exchange, Spread};
use crate::parts::figure::Figure;

/// How processes exchange messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// Half round trips, by size.
    Latency,
    /// Windows of messages, by size: bandwidth, and the rate of small ones.
    Bandwidth,
    /// One server with many clients.
    Load,
    /// A token is passed round more processes than there are processors.
    Ring,
    /// Half round trips while other peers are connected and idle, or active.
    Idle,
    /// Both sides sleep between messages.
    Pause,
    /// The receiver computes between messages.
    Computing,
    /// Half round trips beside a process on each processor that computes.
    Contention,
}

impl Pattern {
    /// All, in the order in which they are run.
    pub(crate) const ALL: [Self; 8] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Load,
        Self::Ring,
        Self::Idle,
        Self::Pause,
        Self::Computing,
        Self::Contention,
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Load => "load",
            Self::Ring => "ring",
            Self::Idle => "idle",
            Self::Pause => "pause",
            Self::Computing => "computing",
            Self::Contention => "contention",
        }
    }

    /// Its description, in a line.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Latency => "half of a round trip between two processes, by size; 99th percentile",
            Self::Bandwidth => "acknowledged windows of messages, by size; rate of small ones",
            Self::Load => "many clients ask one server for 10 KB or 100 KB at once",
            Self::Ring => "a token passed round 2, 4 and 8 processes on two processors",
            Self::Idle => "8-byte latency with up to 4,096 other peers connected",
            Self::Pause => "8 bytes one way after both sides were idle for 1 ms; processor time",
            Self::Computing => {
                "8 bytes one way where the receiver computes for 50 µs before it replies"
            }
            Self::Contention => "8 bytes one way beside a computing process on each processor",
        }
    }
}

/// One pattern over one method, as every participant runs it.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) pattern: Pattern,
    /// `shm` or `tcp`.
    pub(crate) method: String,
    /// Sizes of messages, for the patterns that have them.
    pub(crate) sizes: Vec<u64>,
    /// Clients of a server.
    pub(crate) clients: usize,
    /// How often and how long.
    pub(crate) effort: Effort,
    /// The two processors.
    pub(crate) processors: [usize; 2],
}

/// Sizes of a server's replies, as in the thesis's figures 5.6, 5.7, 5.13 and 5.14.
pub(crate) const REPLY_BYTES: [u64; 2] = [10_000, 100_000];
/// How long each side sleeps before it sends, while the other one waits, in microseconds.
const PAUSE_US: u32 = 1000;
/// How long a receiver computes before it replies, in microseconds.
const COMPUTING_US: u32 = 50;
/// Most round trips of an exchange that ends by time.
const MOST_ROUNDS: u64 = 1 << 20;
/// Processes in a ring.
pub(crate) const RINGS: [usize; 3] = [2, 4, 8];

impl Trial {
    /// Sizes of streams: a stream of nothing has no bandwidth.
    pub(crate) fn stream_sizes(&self) -> impl Iterator<Item = u64> {
        self.sizes.iter().copied().filter(|size| *size > 0)
    }

    /// How long clients send requests to a server, or a token is passed round.
    pub(crate) fn milliseconds(&self) -> u64 {
        if self.effort.quick { 300 } else { 1000 }
    }

    /// How long every process in a ring then waits for a message.
    pub(crate) fn pause_ms(&self) -> u64 {
        if self.effort.quick { 100 } else { 300 }
    }

    /// The exchange of eight bytes that the pattern consists of, if it is one; it ends by time.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        let (lead, follow, most) = match self.pattern {
            Pattern::Pause => {
                let sleeps = Between::Sleeps(PAUSE_US);
                // Each round takes two milliseconds.
                (sleeps, sleeps, self.milliseconds())
            }
            Pattern::Computing => {
                let computes = Between::Computes(COMPUTING_US);
                (Between::Nothing, computes, MOST_ROUNDS)
            }
            Pattern::Contention => (Between::Nothing, Between::Nothing, MOST_ROUNDS),
            _ => return None,
        };
        Some(Exchange {
            size: 8,
            rounds: most,
            milliseconds: self.milliseconds(),
            lead,
            follow,
        })
    }

    /// Its name: `latency over shm`, `load by 64 clients over tcp`.
    pub(crate) fn name(&self) -> String {
        let by = match self.pattern {
            Pattern::Load => format!(" by {} clients", self.clients),
            _ => String::new(),
        };
        format!("{}{by} over {}", self.pattern.name(), self.method)
    }

    /// Whether the trial yields figures of this case.
    pub(crate) fn yields(&self, case: &str) -> bool {
        let method = &self.method;
        let kinds = match self.pattern {
            Pattern::Bandwidth => vec![format!("bandwidth/{method}"), format!("rate/{method}")],
            Pattern::Load => vec![format!("load/{method}/{}-clients", self.clients)],
            pattern => vec![format!("{}/{method}", pattern.name())],
        };
        let rest = |kind: &String| case.strip_prefix(kind.as_str());
        kinds
            .iter()
            .filter_map(rest)
            .any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl Figure {
    /// Results of an exchange: the figures that its pattern is judged by.
    pub(crate) fn of_exchange(trial: &Trial, spread: &Spread) -> Vec<Self> {
        let case = format!("{}/{}", trial.pattern.name(), trial.method);
        let mean = (format!("{case}/mean"), spread.mean_us);
        let median = (case.clone(), spread.median_us);
        let p99 = (format!("{case}/p99"), spread.p99_us);
        let cpu = (format!("{case}/cpu-of-a-message"), spread.cpu_us);
        let figures = match trial.pattern {
            // Messages that wait for a time slice are few, but take most of the time.
            Pattern::Contention => vec![mean, p99],
            Pattern::Pause => vec![median, p99, cpu],
            _ => vec![median, p99],
        };
        figures
            .into_iter()
            .filter_map(|(case, microseconds)| Self::latency(case, 8, microseconds))
            .collect()
    }

    /// Results of the clients of a server: fastest, mean and slowest, each by its mean.
    pub(crate) fn of_load(trial: &Trial, size: u64, latencies_us: &[f64]) -> Vec<Self> {
        let case = format!("load/{}/{}-clients", trial.method, latencies_us.len());
        let mean = latencies_us.iter().sum::<f64>() / latencies_us.len().max(1) as f64;
        let min = latencies_us.iter().copied().fold(f64::INFINITY, f64::min);
        let max = latencies_us.iter().copied().fold(0.0, f64::max);
        [
            ("min", "latency_us", min),
            ("mean", "latency_us", mean),
            ("max", "latency_us", max),
            ("max-to-mean", "ratio", max / mean),
        ]
        .into_iter()
        .filter_map(|(which, metric, value)| {
            Self::new(format!("{case}/{which}"), size, metric, value)
        })
        .collect()
    }

    /// Costs of a ring: time and processor time of a hop, and of waiting for a late message.
    pub(crate) fn of_ring(method: &str, processes: usize, ring: &RingFigures) -> Vec<Self> {
        let case = format!("ring/{method}/{processes}-processes");
        [
            ("hop", "latency_us", ring.hop_us),
            ("cpu-of-a-hop", "latency_us", ring.cpu_us_per_hop),
            ("cpu-while-waiting", "cpu_share", ring.waiting_cpu_share),
        ]
        .into_iter()
        .filter_map(|(which, metric, value)| Self::new(format!("{case}/{which}"), 0, metric, value))
        .collect()
    }
}

/// Figures of a ring.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RingFigures {
    /// Time of a hop.
    pub(crate) hop_us: f64,
    /// Processor time of all processes together.
    pub(crate) cpu_us_per_hop: f64,
    /// The same while all wait, in processors.
    pub(crate) waiting_cpu_share: f64,
}

/// A trial that a participant did not complete.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gap {
    #[serde(rename = "who")]
    pub(crate) participant: String,
    /// The trial's name.
    #[serde(serialize_with = "by_name")]
    pub(crate) trial: Trial,
    /// A short reason: `timed out`, or `failed`.
    pub(crate) how: &'static str,
    /// The full reason.
    pub(crate) why: String,
}

fn by_name<S: serde::Serializer>(trial: &Trial, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&trial.name())
}
