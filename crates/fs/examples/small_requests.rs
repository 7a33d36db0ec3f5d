//! What a request for 4 KiB costs: one client, one I/O server, shared memory or loopback TCP.
//!
//! ```sh
//! cargo run --release -p causeway-fs --example small_requests -- shm 5
//! ```
//! prints, for each round, microseconds per read and per write. To compare two builds, run both in turns. With `compare` behind that, two clusters
//! are measured in short turns, one with capabilities and one without, and the medians and what capabilities take come last; with `off` there are
//! no capabilities. With `control`, both clusters have capabilities: by how much two that are the same differ here is what `compare` cannot resolve.

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
/// The same where two clusters are compared: short turns, which whatever else goes on in the machine meets alike.
const REQUESTS_IN_TURN: u32 = 500;

/// Microseconds of a read and of a write.
type Times = [f64; 2];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if std::env::var_os(SERVES).is_some() {
        let [_, configuration, server] = &arguments[..] else {
            return Err("a configuration and a server are needed".into());
        };
        causeway_fs::server::serve(Path::new(configuration), server, |_| Ok(()))?;
        return Ok(());
    }
    let method = arguments.get(1).map_or("shm", String::as_str);
    let rounds: u32 = arguments.get(2).map_or(Ok(5), |text| text.parse())?;
    let rules: &[_] = match arguments.get(3).map(String::as_str) {
        None => &[CapabilityRule::Required],
        Some("off") => &[CapabilityRule::Off],
        Some("compare") => &[CapabilityRule::Required, CapabilityRule::Off],
        Some("control") => &[CapabilityRule::Required, CapabilityRule::Required],
        Some(other) => {
            return Err(format!("{other}: none of `compare`, `control` and `off`").into());
        }
    };
    let make = |rule: &CapabilityRule| Stand::start(method, *rule);
    let mut stands = rules.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    if let [one] = &mut stands[..] {
        for _ in 0..rounds {
            let [read, write] = one.measure(REQUESTS)?;
            println!("read {read:.3} write {write:.3}");
        }
    }
    if let [with, without] = &mut stands[..] {
        for turn in 0..rounds * (REQUESTS / REQUESTS_IN_TURN) {
            // Neither is always the first.
            let (first, second) = match turn % 2 {
                0 => (&mut *with, &mut *without),
                _ => (&mut *without, &mut *with),
            };
            first.measure(REQUESTS_IN_TURN)?;
            second.measure(REQUESTS_IN_TURN)?;
        }
        let (with, without) = (with.medians(), without.medians());
        for (kind, what) in ["read", "write"].into_iter().enumerate() {
            let (with, without) = (with[kind], without[kind]);
            let part = (with / without - 1.0) * 100.0;
            let second = match rules {
                [_, CapabilityRule::Off] => "without",
                _ => "with them, too",
            };
            println!("{what}: {with:.3} with capabilities, {without:.3} {second}: {part:+.1} %");
        }
    }
    stands
        .into_iter()
        .try_for_each(|stand| stand.cluster.stop())?;
    Ok(())
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
    fn start(method: &str, rule: CapabilityRule) -> Result<Self, Box<dyn Error>> {
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
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
        })
    }
}
