//! What a request for 4 KiB costs: one client, one I/O server, shared memory or loopback TCP.
//!
//! ```sh
//! cargo run --release -p causeway-fs --example small_requests -- shm 5
//! ```
//! prints, for each round, microseconds per read and per write. To compare two builds, run both in turns.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions, CreateOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use causeway_wire::random::SplitMix64;

const SERVES: &str = "CAUSEWAY_EXAMPLE_SERVES";
const FILE_BYTES: u64 = 64 << 20;
const REQUEST_BYTES: usize = 4 << 10;
/// Requests of each kind in a round.
const REQUESTS: u32 = 20_000;

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
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let mut configuration = Configuration::one_machine(
        "small",
        random_identity()?,
        directory.path(),
        1,
        Durability::Relaxed,
    );
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
    let mut block = vec![0; REQUEST_BYTES];
    for round in 0..=rounds {
        let mut place = || random.below(FILE_BYTES / REQUEST_BYTES as u64) * REQUEST_BYTES as u64;
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            client.read_at(&mut file, place(), &mut block)?;
        }
        let read = begun.elapsed();
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            client.write_at(&mut file, place(), &block)?;
        }
        let written = begun.elapsed();
        // The first round warms up.
        if round > 0 {
            println!("read {:.3} write {:.3}", each(read), each(written));
        }
    }
    cluster.stop()?;
    Ok(())
}

/// Microseconds of one of the requests that took this long.
fn each(all: Duration) -> f64 {
    all.as_secs_f64() * 1e6 / f64::from(REQUESTS)
}
