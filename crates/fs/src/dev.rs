//! A whole file system of separate server processes on this machine: for trying it out, for the
//! demonstration, for benchmarks and tests.
//!
//! The servers are children whose standard input is a pipe from here: when this process ends in any way,
//! the pipe ends, and so do the servers.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use causeway_wire::fs::Errno;

use crate::client::{Client, ClientOptions};
use crate::config::{Configuration, Durability};
use crate::server::{self, PARENT_PIPE};

/// How long a server may take from its start to its first reply.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server may take to stop in an orderly way before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a starting or stopping server is polled: the standard library waits for a child either without a limit or not
/// at all, and a server that starts cannot be asked before it listens.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Lines of a server's log that an error quotes.
const QUOTED_LINES: usize = 5;
/// Most bytes of these.
const QUOTED_BYTES: u64 = 16 << 10;

/// The reason why a cluster does not start, or has failed: a sentence with what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DevError(pub String);

/// How a server process is started: a program and its arguments, in which `{config}` and `{server}`
/// stand for the configuration file and the server's name.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables besides this process's.
    pub environment: Vec<(String, String)>,
}

impl ServerCommand {
    /// This program as `fs serve --config FILE --server NAME`.
    pub fn this_program() -> io::Result<Self> {
        let arguments = [
            "fs", "serve", "--config", "{config}", "--server", "{server}",
        ];
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: arguments.map(str::to_owned).to_vec(),
            environment: Vec::new(),
        })
    }

    fn command(&self, config: &Path, server: &str) -> Command {
        let mut command = Command::new(&self.program);
        for argument in &self.arguments {
            command.arg(match argument.as_str() {
                "{config}" => config.as_os_str().to_owned(),
                "{server}" => OsString::from(server),
                other => OsString::from(other),
            });
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env(PARENT_PIPE, "1");
        command
    }
}

/// A running file system. Its servers end when this is dropped.
#[derive(Debug)]
pub struct DevCluster {
    configuration: Configuration,
    file: PathBuf,
    logs: PathBuf,
    command: ServerCommand,
    /// The servers, in the order of the configuration.
    servers: Vec<Option<Child>>,
    /// For each, where its log stood when it was started last.
    log_starts: Vec<u64>,
}

impl DevCluster {
    /// Starts a file system below `directory` with one metadata server and `servers` I/O servers. A
    /// directory that has one already is started again with the configuration that lies there.
    pub fn start(
        directory: &Path,
        servers: usize,
        durability: Durability,
        command: ServerCommand,
    ) -> Result<Self, DevError> {
        std::fs::create_dir_all(directory).map_err(at(directory))?;
        let directory = std::fs::canonicalize(directory).map_err(at(directory))?;
        let file = directory.join("causeway.toml");
        if file.exists() {
            let found = Configuration::load(&file).map_err(|error| DevError(error.to_string()))?;
            let have = found.io_servers().len();
            if have != servers || found.durability != durability {
                return Err(DevError(format!(
                    "{} holds a file system with {have} I/O servers, {:?}; \
                     start it with these, or choose another directory",
                    directory.display(),
                    found.durability
                )));
            }
            return Self::launch(found, &file, command);
        }
        let id = random_identity().map_err(|error| DevError(format!("random numbers: {error}")))?;
        let made = Configuration::one_machine("dev", id, &directory, servers, durability);
        Self::create(made, &file, command)
    }

    /// Starts all servers of `configuration`. If there is no `file` yet, this is a new file system: the servers'
    /// directories are formatted, and the configuration is written.
    pub fn create(
        configuration: Configuration,
        file: &Path,
        command: ServerCommand,
    ) -> Result<Self, DevError> {
        let text = configuration.to_toml();
        // A configuration that the servers will refuse is refused here.
        let configuration = Configuration::parse(&text, &file.display().to_string())
            .map_err(|error| DevError(error.to_string()))?;
        match file.exists() {
            true => Self::launch(configuration, file, command),
            false => Self::launch(format_all(configuration, file)?, file, command),
        }
    }

    fn launch(
        configuration: Configuration,
        file: &Path,
        command: ServerCommand,
    ) -> Result<Self, DevError> {
        let logs = file.with_file_name("log");
        // Names of users' files are in what servers log.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&logs)
            .map_err(at(&logs))?;
        let servers = configuration.servers.iter().map(|_| None).collect();
        let log_starts = vec![0; configuration.servers.len()];
        let mut cluster = Self {
            configuration,
            file: file.to_owned(),
            logs,
            command,
            servers,
            log_starts,
        };
        let all: Vec<usize> = (0..cluster.servers.len()).collect();
        for &index in &all {
            cluster.spawn(index)?;
        }
        cluster.await_ready(&all)?;
        cluster.await_layout()?;
        Ok(cluster)
    }

    /// The file system's configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The configuration file.
    pub fn configuration_file(&self) -> &Path {
        &self.file
    }

    /// Process id of a server, if it was started and has not been found ended.
    pub fn pid(&self, server: usize) -> Option<u32> {
        Some(self.servers.get(server)?.as_ref()?.id())
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, server: usize) -> Result<(), DevError> {
        let child = self.child(server)?;
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| DevError(format!("the server cannot be killed: {error}")))?;
        self.servers[server] = None;
        Ok(())
    }

    /// Starts a server that was killed or stopped, and waits until it replies.
    pub fn restart(&mut self, server: usize) -> Result<(), DevError> {
        if self.servers.get(server).is_some_and(Option::is_some) {
            self.stop_server(server)?;
        }
        self.spawn(server)?;
        self.await_ready(&[server])
    }

    /// Stops one server in an orderly way.
    pub fn stop_server(&mut self, server: usize) -> Result<(), DevError> {
        let child = self.child(server)?;
        // The server stops at the end of its standard input.
        drop(child.stdin.take());
        let status = match wait_until(child, Instant::now() + STOP_TIMEOUT) {
            Ok(Some(status)) => status,
            Ok(None) => {
                return self.kill(server).and(Err(DevError(format!(
                    "server {} did not stop within {STOP_TIMEOUT:?} and was killed",
                    self.name(server)
                ))));
            }
            Err(error) => {
                return Err(DevError(format!(
                    "the server cannot be waited for: {error}"
                )));
            }
        };
        self.servers[server] = None;
        if !status.success() {
            return Err(DevError(format!(
                "server {} ended with {status}: {}",
                self.name(server),
                self.end_of_log(server)
            )));
        }
        Ok(())
    }

    /// Stops all servers in an orderly way, the metadata server last.
    pub fn stop(mut self) -> Result<(), DevError> {
        let mut outcome = Ok(());
        let metadata = self.configuration.metadata_server();
        let mut order = self.configuration.io_servers();
        order.retain(|&server| server != metadata);
        order.push(metadata);
        for server in order {
            if self.servers[server].is_some() {
                outcome = outcome.and(self.stop_server(server));
            }
        }
        outcome
    }

    /// The server that has ended without a request to stop, if there is one, and the last lines of its log.
    pub fn ended(&mut self) -> Option<(usize, String)> {
        for index in 0..self.servers.len() {
            let status = match &mut self.servers[index] {
                Some(child) => child.try_wait().ok().flatten(),
                None => None,
            };
            if let Some(status) = status {
                self.servers[index] = None;
                return Some((index, format!("{status}: {}", self.end_of_log(index))));
            }
        }
        None
    }

    fn child(&mut self, server: usize) -> Result<&mut Child, DevError> {
        self.servers
            .get_mut(server)
            .and_then(Option::as_mut)
            .ok_or_else(|| DevError(format!("server number {server} does not run")))
    }

    fn name(&self, server: usize) -> &str {
        match self.configuration.servers.get(server) {
            Some(entry) => &entry.name,
            None => "(unknown)",
        }
    }

    fn log(&self, server: usize) -> PathBuf {
        self.logs.join(format!("{}.log", self.name(server)))
    }

    fn spawn(&mut self, server: usize) -> Result<(), DevError> {
        let log = self.log(server);
        let out = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .map_err(at(&log))?;
        let err = out.try_clone().map_err(at(&log))?;
        self.log_starts[server] = out.metadata().map_err(at(&log))?.len();
        let child = self
            .command
            .command(&self.file, self.name(server))
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(at(&self.command.program))?;
        self.servers[server] = Some(child);
        Ok(())
    }

    /// Waits until these servers reply to a ping with the identities of those started here.
    fn await_ready(&mut self, servers: &[usize]) -> Result<(), DevError> {
        let mut client = self.short_timeout_client()?;
        let until = Instant::now() + START_TIMEOUT;
        for &server in servers {
            loop {
                if let Ok(greeting) = client.ping(server)
                    && Some(greeting.pid) == self.pid(server)
                {
                    break;
                }
                self.check_running()?;
                if Instant::now() >= until {
                    return Err(DevError(format!(
                        "server {} does not reply after {START_TIMEOUT:?}: {}",
                        self.name(server),
                        self.end_of_log(server)
                    )));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Waits until the metadata server has registered all I/O servers.
    fn await_layout(&mut self) -> Result<(), DevError> {
        let mut client = self.short_timeout_client()?;
        let until = Instant::now() + START_TIMEOUT;
        for server in self.configuration.io_servers() {
            while let Err(error) = client.verify(server) {
                if error.errno == Errno::WRONG_TARGET || Instant::now() >= until {
                    return Err(DevError(error.to_string()));
                }
                self.check_running()?;
            }
        }
        Ok(())
    }

    /// Fails if a server has ended while starting.
    fn check_running(&mut self) -> Result<(), DevError> {
        match self.ended() {
            Some((ended, end)) => Err(DevError(format!(
                "server {} ended while starting, {end}",
                self.name(ended)
            ))),
            None => Ok(()),
        }
    }

    fn short_timeout_client(&self) -> Result<Client, DevError> {
        let configuration = Configuration {
            timeout: Duration::from_millis(500),
            ..self.configuration.clone()
        };
        Client::connect(&configuration, ClientOptions::default())
            .map_err(|error| DevError(error.to_string()))
    }

    /// The end of what a server has logged since it was started last.
    fn end_of_log(&self, server: usize) -> String {
        let log = self.log(server);
        let start = self.log_starts.get(server).copied().unwrap_or_default();
        let said = match last_lines(&log, start) {
            Ok(lines) if lines.is_empty() => "it has logged nothing".to_owned(),
            Ok(lines) => lines.join(" | "),
            Err(error) => format!("its log cannot be read: {error}"),
        };
        format!("{said} (log: {})", log.display())
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        for child in self.servers.iter_mut().flatten() {
            drop(child.stdin.take());
        }
        for child in self.servers.iter_mut().flatten() {
            if !matches!(
                wait_until(child, Instant::now() + STOP_TIMEOUT),
                Ok(Some(_))
            ) {
                // The server may have ended meanwhile; then both calls fail, and nothing is left to do.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// The last lines of a log behind its first `start` bytes.
fn last_lines(log: &Path, start: u64) -> io::Result<Vec<String>> {
    let mut file = File::open(log)?;
    let len = file.metadata()?.len();
    // A log that is shorter was begun anew.
    let start = if start <= len { start } else { 0 };
    let from = start.max(len.saturating_sub(QUOTED_BYTES));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(QUOTED_LINES);
    Ok(lines.into_iter().skip(last).map(str::to_owned).collect())
}

/// Formats the directories of a new file system and then writes its configuration, so that a configuration shows
/// that all servers were formatted.
fn format_all(mut configuration: Configuration, file: &Path) -> Result<Configuration, DevError> {
    let draft = file.with_extension("toml.new");
    // A formatting that was interrupted is continued, as the same file system.
    if let Ok(begun) = Configuration::load(&draft) {
        configuration.id = begun.id;
    }
    write_configuration(&draft, &configuration).map_err(at(&draft))?;
    for entry in &configuration.servers {
        if !server::is_formatted(&configuration, &entry.name) {
            server::format(&configuration, &entry.name)
                .map_err(|error| DevError(error.to_string()))?;
        }
    }
    std::fs::rename(&draft, file).map_err(at(file))?;
    Ok(configuration)
}

/// Whatever the caller's umask is: a configuration that other users may change is not accepted.
fn write_configuration(file: &Path, configuration: &Configuration) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    let mut written = std::fs::File::create(file)?;
    written.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    written.write_all(configuration.to_toml().as_bytes())
}

/// Makes errors that concern a file or directory.
fn at(path: &Path) -> impl Fn(io::Error) -> DevError {
    move |error| DevError(format!("{}: {error}", path.display()))
}

fn wait_until(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// An identity for a new file system: random, never zero.
pub fn random_identity() -> io::Result<u128> {
    Ok(u128::from_le_bytes(causeway_sys::random::bytes()?).max(1))
}
