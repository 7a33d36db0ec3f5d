//! A file system on this machine that a command runs: a [`DevCluster`] with a time-out and
//! addresses that the command chooses. Its servers end when the command ends, even by SIGKILL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, DevError, ServerCommand, random_identity};
use causeway_report::units::bytes_text;

use crate::failure::{Doing, Failure, Outcome};
use crate::{remote, shutdown};

/// The file system to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The directory that holds all of it.
    pub directory: PathBuf,
    /// Number of I/O servers.
    pub servers: usize,
    /// Which failures acknowledged changes survive.
    pub durability: Durability,
    /// Reachable over TCP on the loopback interface too.
    pub tcp: bool,
    /// The bound on how long an operation may take.
    pub timeout: Option<Duration>,
    /// Whether new files have checksums.
    pub checksums: bool,
    /// Environment variables of the servers.
    pub environment: Vec<(String, String)>,
}

/// A running file system.
pub struct Cluster {
    running: DevCluster,
}

impl Cluster {
    /// Writes the configuration, unless there is one in the directory, and starts every server.
    pub fn start(spec: &Spec) -> Outcome<Self> {
        let directory = &spec.directory;
        let doing = || format!("starting a file system in {}", directory.display());
        std::fs::create_dir_all(directory).doing(doing)?;
        let directory = std::fs::canonicalize(directory).doing(doing)?;
        let file = directory.join("causeway.toml");
        let configuration = match file.exists() {
            true => remote::load(&file)?,
            false => configure(spec, &directory)?,
        };
        let command = ServerCommand {
            environment: spec.environment.clone(),
            ..ServerCommand::this_program().doing(doing)?
        };
        shutdown::expect_children();
        let running = DevCluster::create(configuration, &file, command).map_err(failed(doing()))?;
        Ok(Self { running })
    }

    /// The file system's configuration.
    pub fn configuration(&self) -> &Configuration {
        self.running.configuration()
    }

    /// Its configuration file.
    pub fn file(&self) -> &Path {
        self.running.configuration_file()
    }

    /// A server's name.
    pub fn name(&self, index: usize) -> &str {
        self.configuration()
            .servers
            .get(index)
            .map_or("?", |server| &server.name)
    }

    /// A running server's process id.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.running.pid(index)
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, index: usize) -> Outcome {
        let what = format!("killing the server {}", self.name(index));
        self.running.kill(index).map_err(failed(what))
    }

    /// Starts a server again and waits until it replies.
    pub fn restart(&mut self, index: usize) -> Outcome {
        let what = format!("starting the server {} again", self.name(index));
        self.running.restart(index).map_err(failed(what))
    }

    /// Returns a server that has ended by itself, with the last lines that it printed.
    pub fn ended(&mut self) -> Option<(usize, String)> {
        self.running.ended()
    }
}

/// Bytes that are free in the file system that holds `path`, and whether that is a tmpfs.
pub fn free_space(path: &Path) -> Outcome<(u64, bool)> {
    let doing = || format!("reading the free space at {}", path.display());
    let space = rustix::fs::statvfs(path).doing(doing)?;
    let kind = rustix::fs::statfs(path).doing(doing)?;
    Ok((
        space.f_bavail.saturating_mul(space.f_frsize),
        // TMPFS_MAGIC of linux/magic.h.
        kind.f_type == 0x0102_1994,
    ))
}

/// Fails if the file system that holds `path` has less room than is needed.
pub fn require_space(path: &Path, needed: u64) -> Outcome {
    let (free, _) = free_space(path)?;
    if free >= needed {
        return Ok(());
    }
    let (free, needed) = (bytes_text(free), bytes_text(needed));
    Err(Failure::new(
        format!("making room in {}", path.display()),
        format!("{free} are free, about {needed} are needed"),
    ))
}

fn failed(what: String) -> impl FnOnce(DevError) -> Failure {
    move |error| Failure::new(what, error)
}

fn configure(spec: &Spec, directory: &Path) -> Outcome<Configuration> {
    let id = random_identity().doing(|| "making a random identity".to_owned())?;
    let mut configuration =
        Configuration::one_machine("dev", id, directory, spec.servers, spec.durability);
    configuration.checksums = spec.checksums;
    if let Some(timeout) = spec.timeout {
        configuration.timeout = timeout;
    }
    if spec.tcp {
        // The ports are fixed in the file, so they are chosen now: ports that are free at this
        // moment, all held until the last is found.
        let mut held = Vec::new();
        for server in &mut configuration.servers {
            let doing = || "finding a free port on the loopback interface".to_owned();
            let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).doing(doing)?;
            let port = socket.local_addr().doing(doing)?.port();
            server.addresses.push(format!("tcp://127.0.0.1:{port}"));
            held.push(socket);
        }
    }
    Ok(configuration)
}
