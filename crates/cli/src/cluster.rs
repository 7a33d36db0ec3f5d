//! A file system on this machine: every server a process of its own, started, killed and restarted
//! by a command.
//!
//! Servers run `causeway fs serve`. They end when this process ends, in whatever way: their standard
//! input is a pipe that only we hold open.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, Durability};

use crate::failure::{Doing, Failure, Outcome};
use crate::shutdown;

/// How long a server may take to answer after its start. Replaying a journal is part of it.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a server's last messages that are shown when it does not start.
const TAIL_BYTES: usize = 2000;

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
    /// Servers write messages to files instead of our standard error.
    pub(crate) quiet: bool,
    /// Environment variables of the servers.
    pub(crate) environment: Vec<(String, String)>,
}

/// A running file system.
pub(crate) struct Cluster {
    configuration: Configuration,
    file: PathBuf,
    quiet: bool,
    environment: Vec<(String, String)>,
    servers: Vec<Option<Running>>,
}

struct Running {
    child: Child,
    /// Open as long as the server shall live.
    _input: Option<ChildStdin>,
    _registration: shutdown::Registration,
}

impl Cluster {
    /// Writes the configuration, unless there is one in the directory, and starts every server.
    pub(crate) fn start(spec: &Spec) -> Outcome<Self> {
        let directory = &spec.directory;
        std::fs::create_dir_all(directory)
            .doing(|| format!("making the directory {}", directory.display()))?;
        let directory = std::fs::canonicalize(directory)
            .doing(|| format!("finding the directory {}", directory.display()))?;
        let file = directory.join("causeway.toml");
        if !file.exists() {
            let configuration = configure(spec, &directory)?;
            std::fs::write(&file, configuration.to_toml())
                .doing(|| format!("writing {}", file.display()))?;
        }
        let configuration = crate::fs::session::load(&file)?;
        let mut cluster = Self {
            servers: configuration.servers.iter().map(|_| None).collect(),
            configuration,
            file,
            quiet: spec.quiet,
            environment: spec.environment.clone(),
        };
        for index in 0..cluster.servers.len() {
            cluster.spawn(index)?;
        }
        for index in 0..cluster.servers.len() {
            cluster.wait_until_answering(index)?;
        }
        Ok(cluster)
    }

    /// What the file system consists of.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Its configuration file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// A server's name.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.configuration.servers.get(index).map_or("?", |server| &server.name)
    }

    /// A running server's process id.
    pub(crate) fn pid(&self, index: usize) -> Option<u32> {
        self.servers.get(index)?.as_ref().map(|running| running.child.id())
    }

    /// Kills a server with SIGKILL.
    pub(crate) fn kill(&mut self, index: usize) -> Outcome {
        let doing = format!("killing the server {}", self.name(index));
        let Some(mut running) = self.servers.get_mut(index).and_then(Option::take) else {
            return Err(Failure::new(doing, "it is not running"));
        };
        running.child.kill().and_then(|()| running.child.wait()).doing(|| doing)?;
        Ok(())
    }

    /// Starts a server again and waits until it answers.
    pub(crate) fn restart(&mut self, index: usize) -> Outcome {
        self.spawn(index)?;
        self.wait_until_answering(index)
    }

    /// Servers that have ended by themselves since the last call, with how.
    pub(crate) fn ended(&mut self) -> Vec<(usize, String)> {
        let mut ended = Vec::new();
        for (index, slot) in self.servers.iter_mut().enumerate() {
            let Some(running) = slot else { continue };
            if let Ok(Some(status)) = running.child.try_wait() {
                ended.push((index, status.to_string()));
                *slot = None;
            }
        }
        ended
    }

    fn log(&self, index: usize) -> PathBuf {
        self.file.with_file_name(format!("{}.log", self.name(index)))
    }

    fn spawn(&mut self, index: usize) -> Outcome {
        let name = self.name(index).to_owned();
        let doing = || format!("starting the server {name}");
        let messages = match self.quiet {
            true => Stdio::from(
                File::options().create(true).append(true).open(self.log(index)).doing(doing)?,
            ),
            false => Stdio::inherit(),
        };
        let mut child = Command::new(std::env::current_exe().doing(doing)?)
            .args(["fs", "serve", "--server", &name, "--config"])
            .arg(&self.file)
            .env(causeway_fs::server::PARENT_PIPE, "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(messages)
            .spawn()
            .doing(doing)?;
        let registration = shutdown::register_child(&child)?;
        let input = child.stdin.take();
        if let Some(slot) = self.servers.get_mut(index) {
            *slot = Some(Running {
                child,
                _input: input,
                _registration: registration,
            });
        }
        Ok(())
    }

    fn wait_until_answering(&mut self, index: usize) -> Outcome {
        let what = format!("starting the server {}", self.name(index));
        let patient = Configuration {
            timeout: START_PATIENCE,
            ..self.configuration.clone()
        };
        let brief = Configuration {
            timeout: Duration::from_millis(500),
            ..patient
        };
        let mut client = Client::connect(&brief, ClientOptions::default())?;
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let error = match client.ping(index) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Some((_, status)) = self.ended().into_iter().find(|ended| ended.0 == index) {
                return Err(Failure::new(what, format!("it ended: {status}{}", self.tail(index))));
            }
            if Instant::now() >= deadline {
                return Err(Failure::new(what, format!("{error}{}", self.tail(index))));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A server's last messages, for an error.
    fn tail(&self, index: usize) -> String {
        if !self.quiet {
            return String::new();
        }
        let bytes = std::fs::read(self.log(index)).unwrap_or_default();
        let start = bytes.len().saturating_sub(TAIL_BYTES);
        let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned();
        match text.trim() {
            "" => String::new(),
            text => format!("; it said: {text}"),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Closing their input tells them to end; who does not listen is killed.
        for running in self.servers.iter_mut().flatten() {
            running._input = None;
        }
        let deadline = Instant::now() + Duration::from_secs(3);
        for running in self.servers.iter_mut().flatten() {
            while matches!(running.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn configure(spec: &Spec, directory: &Path) -> Outcome<Configuration> {
    let id = u128::from_le_bytes(crate::fs::init::random()?);
    let mut configuration =
        Configuration::one_machine("dev", id, directory, spec.servers, spec.durability);
    if let Some(timeout) = spec.timeout {
        configuration.timeout = timeout;
    }
    if spec.tcp {
        // The ports are fixed in the file, so they are chosen now: free ones at this moment.
        for server in &mut configuration.servers {
            let doing = || "finding a free port on the loopback interface".to_owned();
            let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).doing(doing)?;
            let port = socket.local_addr().doing(doing)?.port();
            server.addresses.push(format!("tcp://127.0.0.1:{port}"));
        }
    }
    Ok(configuration)
}
