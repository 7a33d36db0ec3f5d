//! File systems of real server processes for tests: this test program, run again.

use std::path::PathBuf;

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use causeway_testkit::loopback;
use causeway_wire::random::SplitMix64;

/// Options of a test's file system.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) servers: usize,
    pub(crate) durability: Durability,
    /// Reach servers over loopback TCP instead of shared memory.
    pub(crate) tcp: bool,
    pub(crate) strip_size: u32,
    pub(crate) timeout_ms: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            servers: 2,
            durability: Durability::Relaxed,
            tcp: false,
            strip_size: 64 << 10,
            timeout_ms: 10_000,
        }
    }
}

/// A running file system and its directory.
pub(crate) struct Fixture {
    pub(crate) cluster: DevCluster,
    _directory: tempfile::TempDir,
}

/// Runs this test program as a server: see `server_process` in `main.rs`.
pub(crate) fn server_command() -> ServerCommand {
    let arguments = [
        "--exact",
        "server_process",
        "--nocapture",
        "--test-threads=1",
        "{config}",
        "{server}",
    ];
    ServerCommand {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment: vec![("CAUSEWAY_TEST_SERVER".to_owned(), "1".to_owned())],
    }
}

pub(crate) fn configuration(shape: &Shape, directory: &std::path::Path) -> Configuration {
    let id = random_identity().unwrap();
    let mut made =
        Configuration::one_machine("test", id, directory, shape.servers, shape.durability);
    made.distribution.strip_size = shape.strip_size;
    made.timeout = std::time::Duration::from_millis(shape.timeout_ms);
    if shape.tcp {
        for server in &mut made.servers {
            server.addresses = vec![format!("tcp://{}", loopback::fresh())];
        }
    }
    made
}

/// Formats the directories of all servers.
pub(crate) fn format_all(configuration: &Configuration) {
    for server in &configuration.servers {
        causeway_fs::server::format(configuration, &server.name).unwrap();
    }
}

impl Fixture {
    pub(crate) fn start(shape: &Shape) -> Self {
        Self::start_with(shape, |_| {})
    }

    /// Starts a file system whose configuration is changed first.
    pub(crate) fn start_with(shape: &Shape, change: impl FnOnce(&mut Configuration)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut configuration = configuration(shape, directory.path());
        change(&mut configuration);
        let file = directory.path().join("causeway.toml");
        let cluster = DevCluster::create(configuration, &file, server_command()).unwrap();
        Self {
            cluster,
            _directory: directory,
        }
    }

    pub(crate) fn client(&self) -> Client {
        client(self.cluster.configuration())
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.cluster.configuration_file().to_owned()
    }
}

pub(crate) fn client(configuration: &Configuration) -> Client {
    Client::connect(configuration, ClientOptions::default()).unwrap()
}

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64::new(seed).bytes(len)
}
