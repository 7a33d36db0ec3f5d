//! A file system on this machine that a command runs: what [`DevCluster`] offers, with a time-out and
//! addresses of our choice. It is gone when the command ends, in whatever way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, DevError, ServerCommand, random_identity};

use crate::failure::{Doing, Failure, Outcome};
use crate::shutdown;

/// What to start.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// Where everything lies.
    pub(crate) directory: PathBuf,
    /// Number of I/O servers.
    pub(crate) servers: usize,
    /// What an acknowledgement promises.
    pub(crate) durability: Durability,
    /// Reachable over TCP on the loopback interface too.
    pub(crate) tcp: bool,
    /// The bound on how long an operation may take.
    pub(crate) timeout: Option<Duration>,
    /// Environment variables of the servers.
    pub(crate) environment: Vec<(String, String)>,
}

/// A running file system.
pub(crate) struct Cluster {
    running: DevCluster,
}

impl Cluster {
    /// Writes the configuration, unless there is one in the directory, and starts every server.
    pub(crate) fn start(spec: &Spec) -> Outcome<Self> {
        let directory = &spec.directory;
        let doing = || format!("starting a file system in {}", directory.display());
        std::fs::create_dir_all(directory).doing(doing)?;
        let directory = std::fs::canonicalize(directory).doing(doing)?;
        let file = directory.join("causeway.toml");
        let configuration = match file.exists() {
            true => crate::fs::session::load(&file)?,
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

    /// What the file system consists of.
    pub(crate) fn configuration(&self) -> &Configuration {
        self.running.configuration()
    }

    /// Its configuration file.
    pub(crate) fn file(&self) -> &Path {
        self.running.configuration_file()
    }

    /// A server's name.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.configuration()
            .servers
            .get(index)
            .map_or("?", |server| &server.name)
    }

    /// A running server's process id.
    pub(crate) fn pid(&self, index: usize) -> Option<u32> {
        self.running.pid(index)
    }

    /// Kills a server with SIGKILL.
    pub(crate) fn kill(&mut self, index: usize) -> Outcome {
        let what = format!("killing the server {}", self.name(index));
        self.running.kill(index).map_err(failed(what))
    }

    /// Starts a server again and waits until it answers.
    pub(crate) fn restart(&mut self, index: usize) -> Outcome {
        let what = format!("starting the server {} again", self.name(index));
        self.running.restart(index).map_err(failed(what))
    }

    /// A server that has ended by itself, with its last words.
    pub(crate) fn ended(&mut self) -> Option<(usize, String)> {
        self.running.ended()
    }
}

fn failed(what: String) -> impl FnOnce(DevError) -> Failure {
    move |error| Failure::new(what, error)
}

fn configure(spec: &Spec, directory: &Path) -> Outcome<Configuration> {
    let id = random_identity().doing(|| "making a random identity".to_owned())?;
    let mut configuration =
        Configuration::one_machine("dev", id, directory, spec.servers, spec.durability);
    if let Some(timeout) = spec.timeout {
        configuration.timeout = timeout;
    }
    if spec.tcp {
        // The ports are fixed in the file, so they are chosen now: free ones at this moment, all held
        // until the last is found.
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
