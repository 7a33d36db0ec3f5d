//! What a request for 4 KiB costs: one client on one processor, its servers on another, shared memory or loopback TCP.
//!
//! ```sh
//! cargo run --release -p causeway-fs --example small_requests -- shm 5
//! ```
//! prints, for each round, microseconds per read and per write. To compare two builds, run them alternately. With `off` as the next argument there are no
//! capabilities. With `compare`, each round starts two new clusters, one with capabilities and one without, and measures them alternately for short
//! times: the place of a cluster's memory changes its times by more than capabilities do, so that only many clusters show the cost of these. The medians
//! and quartiles of all rounds are printed last. With `control`, both clusters have capabilities: the difference between two equal clusters is what
//! `compare` cannot resolve.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::{CapabilityRule, Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use causeway_wire::random::SplitMix64;

const SERVES: &str = "CAUSEWAY_EXAMPLE_SERVES";
const FILE_BYTES: u64 = 64 << 20;
const REQUEST_BYTES: usize = 4 << 10;
/// Requests of each kind in a round.
const REQUESTS: u32 = 20_000;
/// The same where two clusters are compared: so few that other activity of the machine affects both clusters
/// alike.
const REQUESTS_PER_SAMPLE: u32 = 500;

/// Microseconds of a read and of a write.
type Times = [f64; 2];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let processors = causeway_sys::pin::allowed_cpus()?;
    if std::env::var_os(SERVES).is_some() {
        let [_, configuration, server] = &arguments[..] else {
            return Err("a configuration and a server are needed".into());
        };
        if let Some(last) = processors.last() {
            causeway_sys::pin::pin_to_cpu(*last)?;
        }
        causeway_fs::server::serve(Path::new(configuration), server, |_| Ok(()))?;
        return Ok(());
    }
    let method = arguments.get(1).map_or("shm", String::as_str);
    let rounds: u32 = arguments.get(2).map_or(Ok(5), |text| text.parse())?;
    let second = match arguments.get(3).map(String::as_str) {
        None => return alone(method, rounds, CapabilityRule::Required, &processors),
        Some("off") => return alone(method, rounds, CapabilityRule::Off, &processors),
        Some("compare") => CapabilityRule::Off,
        Some("control") => CapabilityRule::Required,
        Some(other) => {
            return Err(format!("{other}: none of `compare`, `control` and `off`").into());
        }
    };
    compare(method, rounds, second, &processors)
}

/// Prints what each round of one cluster takes.
fn alone(
    method: &str,
    rounds: u32,
    rule: CapabilityRule,
    processors: &[usize],
) -> Result<(), Box<dyn Error>> {
    let mut stand = Stand::start(method, rule, processors)?;
    for _ in 0..rounds {
        let [read, write] = stand.measure(REQUESTS)?;
        println!("read {read:.3} write {write:.3}");
    }
    Ok(stand.cluster.stop()?)
}

/// Prints the times of a cluster with capabilities and of one with the rule `second`, for each of `rounds` pairs of new clusters and for all of
/// them.
fn compare(
    method: &str,
    rounds: u32,
    second: CapabilityRule,
    processors: &[usize],
) -> Result<(), Box<dyn Error>> {
    let name = match second {
        CapabilityRule::Off => "without",
        _ => "with them, too",
    };
    let mut parts = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        // Each of the two is started first in half of the rounds.
        let rules = match round % 2 {
            0 => [CapabilityRule::Required, second],
            _ => [second, CapabilityRule::Required],
        };
        let [one, other] = rules.map(|rule| Stand::start(method, rule, processors));
        let (mut one, mut other) = (one?, other?);
        for sample in 0..REQUESTS / REQUESTS_PER_SAMPLE {
            let (first, last) = match sample % 2 {
                0 => (&mut one, &mut other),
                _ => (&mut other, &mut one),
            };
            first.measure(REQUESTS_PER_SAMPLE)?;
            last.measure(REQUESTS_PER_SAMPLE)?;
        }
        let (with, beside) = match round % 2 {
            0 => (one.medians(), other.medians()),
            _ => (other.medians(), one.medians()),
        };
        one.cluster.stop()?;
        other.cluster.stop()?;
        let part = [0, 1].map(|kind| (with[kind] / beside[kind] - 1.0) * 100.0);
        println!(
            "round {round}: read {:.3} with, {:.3} {name}: {:+.1} %; write {:.3}, {:.3}: {:+.1} %",
            with[0], beside[0], part[0], with[1], beside[1], part[1]
        );
        for (all, part) in parts.iter_mut().zip(part) {
            all.push(part);
        }
    }
    for (what, all) in ["reads", "writes"].into_iter().zip(&mut parts) {
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(|share| quantile(all, share));
        println!(
            "{what} of {rounds} rounds: median {median:+.1} %, quartiles {lower:+.1} and {upper:+.1} %"
        );
    }
    Ok(())
}

/// The value below which `share` of `values` lies, NaN if there are none.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

/// A cluster, and a client with a file in it.
struct Stand {
    cluster: DevCluster,
    client: Client,
    file: File,
    block: Vec<u8>,
    random: SplitMix64,
    measured: Vec<Times>,
    _directory: tempfile::TempDir,
}

impl Stand {
    /// A cluster whose servers run on the last of `processors`; the calling thread goes to the first.
    fn start(
        method: &str,
        rule: CapabilityRule,
        processors: &[usize],
    ) -> Result<Self, Box<dyn Error>> {
        // Servers must not inherit the client's one processor as the only one that they may choose.
        causeway_sys::pin::pin_to_cpus(processors)?;
        let directory = tempfile::tempdir_in("/dev/shm")?;
        let mut configuration = Configuration::one_machine(
            "small",
            random_identity()?,
            directory.path(),
            1,
            Durability::Relaxed,
        );
        configuration.access.capabilities = rule;
        if method == "tcp" {
            for server in &mut configuration.servers {
                let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
                server.addresses = vec![format!("tcp://{port}")];
            }
        }
        let command = ServerCommand {
            program: std::env::current_exe()?,
            arguments: vec!["{config}".to_owned(), "{server}".to_owned()],
            environment: vec![(SERVES.to_owned(), "1".to_owned())],
        };
        let file = directory.path().join("causeway.toml");
        let cluster = DevCluster::create(configuration, &file, command)?;
        if let Some(first) = processors.first() {
            causeway_sys::pin::pin_to_cpu(*first)?;
        }
        let mut client = Client::connect(cluster.configuration(), ClientOptions::default())?;
        let mut file = client.create(b"/file" as &[u8], &CreateOptions::default())?;
        let mut random = SplitMix64::new(1);
        client.write_at(&mut file, 0, &random.bytes(FILE_BYTES as usize))?;
        let mut stand = Self {
            cluster,
            client,
            file,
            block: vec![0; REQUEST_BYTES],
            random,
            measured: Vec::new(),
            _directory: directory,
        };
        // The first round warms up.
        stand.measure(REQUESTS)?;
        stand.measured.clear();
        Ok(stand)
    }

    fn measure(&mut self, requests: u32) -> Result<Times, Box<dyn Error>> {
        let Self {
            client,
            file,
            block,
            random,
            ..
        } = self;
        let mut place = || random.below(FILE_BYTES / REQUEST_BYTES as u64) * REQUEST_BYTES as u64;
        let begun = Instant::now();
        for _ in 0..requests {
            client.read_at(file, place(), block)?;
        }
        let read = begun.elapsed();
        let begun = Instant::now();
        for _ in 0..requests {
            client.write_at(file, place(), block)?;
        }
        let each = |all: Duration| all.as_secs_f64() * 1e6 / f64::from(requests);
        let times = [each(read), each(begun.elapsed())];
        self.measured.push(times);
        Ok(times)
    }

    fn medians(&self) -> Times {
        [0, 1].map(|kind| {
            let mut all: Vec<f64> = self.measured.iter().map(|times| times[kind]).collect();
            quantile(&mut all, 0.5)
        })
    }
}
