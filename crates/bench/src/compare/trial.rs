//! What each participant runs once in a run, and the figures that result.

use serde::Serialize;

use crate::messages::effort::Effort;

/// How processes exchange messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// Half round trips, by size.
    Latency,
    /// Windows of messages, by size: bandwidth, and the rate of small ones.
    Bandwidth,
    /// Many clients ask one server.
    Load,
    /// A token goes round more processes than there are processors.
    Ring,
    /// Half round trips while other peers are connected and idle, or active.
    Idle,
}

impl Pattern {
    /// All, in the order in which they are run.
    pub(crate) const ALL: [Self; 5] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Load,
        Self::Ring,
        Self::Idle,
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Load => "load",
            Self::Ring => "ring",
            Self::Idle => "idle",
        }
    }

    /// What it does, in a line.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Latency => "half of a round trip between two processes, by size",
            Self::Bandwidth => "acknowledged windows of messages, by size; rate of small ones",
            Self::Load => "many clients ask one server for 10 KB or 100 KB at once",
            Self::Ring => "a token passed round 2, 4 and 8 processes on two processors",
            Self::Idle => "8-byte latency with up to 4,096 other peers connected",
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
/// Processes in a ring.
pub(crate) const RINGS: [usize; 3] = [2, 4, 8];

impl Trial {
    /// Sizes of streams: a stream of nothing has no bandwidth.
    pub(crate) fn stream_sizes(&self) -> impl Iterator<Item = u64> {
        self.sizes.iter().copied().filter(|size| *size > 0)
    }

    /// How long a server is asked, or a token goes round.
    pub(crate) fn milliseconds(&self) -> u64 {
        if self.effort.quick { 300 } else { 1000 }
    }

    /// How long every process in a ring then waits for a message.
    pub(crate) fn pause_ms(&self) -> u64 {
        if self.effort.quick { 100 } else { 300 }
    }

    /// Its name: `latency over shm`, `load by 64 clients over tcp`.
    pub(crate) fn name(&self) -> String {
        let by = match self.pattern {
            Pattern::Load => format!(" by {} clients", self.clients),
            _ => String::new(),
        };
        format!("{}{by} over {}", self.pattern.name(), self.method)
    }

    /// Whether it yields figures of this case.
    pub(crate) fn yields(&self, case: &str) -> bool {
        let method = &self.method;
        let kinds = match self.pattern {
            Pattern::Latency => vec![format!("latency/{method}")],
            Pattern::Bandwidth => vec![format!("bandwidth/{method}"), format!("rate/{method}")],
            Pattern::Load => vec![format!("load/{method}/{}-clients", self.clients)],
            Pattern::Ring => vec![format!("ring/{method}")],
            Pattern::Idle => vec![format!("idle/{method}")],
        };
        let rest = |kind: &String| case.strip_prefix(kind.as_str());
        kinds
            .iter()
            .filter_map(rest)
            .any(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A measured figure of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// As in a row: `latency/shm`.
    pub(crate) case: String,
    pub(crate) size: u64,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

impl Figure {
    /// A figure; `None` if the value makes no sense.
    pub(crate) fn new(
        case: impl Into<String>,
        size: u64,
        metric: &'static str,
        value: f64,
    ) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then(|| Self {
            case: case.into(),
            size,
            metric,
            value,
        })
    }

    /// The figures of a stream of `rate` messages a second: its bandwidth, and of small ones the rate.
    pub(crate) fn of_stream(case: &str, method: &str, size: u64, rate: f64) -> Vec<Self> {
        let bandwidth = Self::new(case, size, "bandwidth_mb_s", rate * size as f64 / 1e6);
        let counts =
            size <= crate::messages::effort::RATE_BYTES && !case.contains("shared-buffers");
        let rate = counts
            .then(|| Self::new(format!("rate/{method}"), size, "rate_per_s", rate))
            .flatten();
        bandwidth.into_iter().chain(rate).collect()
    }

    /// What the clients of a server saw: fastest, mean and slowest, each by its mean.
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

    /// What a ring cost: time and processor time of a hop, and of waiting for a late message.
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

/// A participant did not come to the end of a trial.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gap {
    #[serde(rename = "who")]
    pub(crate) participant: String,
    /// What it has no figures of; written as its name.
    #[serde(serialize_with = "by_name")]
    pub(crate) trial: Trial,
    /// In two words: `timed out`, or `failed`.
    pub(crate) how: &'static str,
    /// All that is known.
    pub(crate) why: String,
}

fn by_name<S: serde::Serializer>(trial: &Trial, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&trial.name())
}
