//! A file system of real server processes, and everything that can happen to them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::sabotage;
use causeway_fs::server::PARENT_PIPE;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use causeway_testkit::random::Random;

use crate::plan::Plan;

/// The command under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");
/// Nothing here takes nearly as long, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time-out of clients while no server is away for longer than a restart.
const PATIENT: Duration = Duration::from_secs(30);
/// Time-out of clients that ask a server that is away.
const IMPATIENT: Duration = Duration::from_millis(250);
/// Bytes of the disk of a server whose disk can be filled.
const SMALL_DISK: u64 = 10 << 20;

/// Number of I/O servers; server 0 of the configuration keeps the metadata.
pub(crate) const IO_SERVERS: usize = 2;

struct Process {
    child: Child,
    /// Its end ends the server.
    _stdin: ChildStdin,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mounted disk of bounded size.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "umount");
    }
}

/// The result of starting a server.
pub(crate) enum Start {
    /// It serves.
    Serves,
    /// It reported why not, and ended.
    Refuses(String),
}

/// The file system.
pub(crate) struct World {
    pub(crate) configuration: Configuration,
    servers: Vec<Option<Process>>,
    sabotage: Option<&'static str>,
    disk: Option<Mount>,
    pub(crate) directory: tempfile::TempDir,
}

/// Port of the first server, where servers are reached over TCP. No ephemeral one, so that no connection takes it
/// while a server is away.
const PORT: u16 = 7047;

/// An address of this host that no other file system of the tests has, also of those in other processes.
fn own_host() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 250;
    Ipv4Addr::new(127, 1 + high % 250, low, 1 + number as u8)
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > until {
            return Err(format!("never: {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether servers are started with the option to format an empty directory.
fn knows_format() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    *KNOWS.get_or_init(|| {
        let help = Command::new(PROGRAM)
            .args(["fs", "serve", "--help"])
            .output();
        help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--format"))
    })
}

pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!(
            "cp -a {} {}: {other:?}",
            from.display(),
            to.display()
        )),
    }
}

impl World {
    /// Formats a file system and starts all of its servers. Where the plan has a small disk, the first I/O server
    /// lies on one that can be filled.
    pub(crate) fn new(plan: &Plan, sabotage: Option<&'static str>) -> Result<Self, String> {
        let durability = match plan.synced {
            true => Durability::Synced,
            false => Durability::Relaxed,
        };
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut configuration =
            Configuration::one_machine("torture", 0x7047, directory.path(), IO_SERVERS, durability);
        configuration.distribution.strip_size = 16 << 10;
        configuration.timeout = PATIENT;
        if plan.tcp {
            let host = own_host();
            for (server, port) in configuration.servers.iter_mut().zip(PORT..) {
                server.addresses = vec![format!("tcp://{host}:{port}")];
            }
        }
        let disk = match plan.small_disk {
            true => Some(mount(directory.path())?),
            false => None,
        };
        if let Some(Mount(disk)) = &disk {
            configuration.servers[1].directory = disk.join("io0");
        }
        let mut world = Self {
            servers: configuration.servers.iter().map(|_| None).collect(),
            configuration,
            sabotage,
            disk,
            directory,
        };
        for (patient, timeout) in [(true, PATIENT), (false, IMPATIENT)] {
            let mut configuration = world.configuration.clone();
            configuration.timeout = timeout;
            let file = world.file(patient);
            // Whatever the mask is: one that others may change is not used.
            std::fs::write(&file, configuration.to_toml())
                .and_then(|()| std::fs::set_permissions(&file, Permissions::from_mode(0o644)))
                .map_err(|error| error.to_string())?;
        }
        for server in 0..world.servers.len() {
            if let Start::Refuses(why) = world.spawn(server, true)? {
                return Err(format!("a new server refuses to start: {why}"));
            }
        }
        Ok(world)
    }

    /// The configuration file of patient or impatient clients.
    pub(crate) fn file(&self, patient: bool) -> PathBuf {
        self.directory.path().join(match patient {
            true => "causeway.toml",
            false => "impatient.toml",
        })
    }

    /// A client.
    pub(crate) fn client(&self, patient: bool) -> Result<Client, String> {
        let mut configuration = self.configuration.clone();
        configuration.timeout = if patient { PATIENT } else { IMPATIENT };
        Client::connect(&configuration, ClientOptions::default()).map_err(|e| e.to_string())
    }

    fn name(&self, server: usize) -> &str {
        &self.configuration.servers[server].name
    }

    /// A server's directory.
    pub(crate) fn home(&self, server: usize) -> PathBuf {
        self.configuration.servers[server].directory.clone()
    }

    /// Where something is kept beside a server's directory, on the same disk.
    pub(crate) fn beside(&self, server: usize, what: &str) -> PathBuf {
        self.home(server)
            .with_file_name(format!("{}.{what}", self.name(server)))
    }

    fn log(&self, server: usize) -> PathBuf {
        let name = format!("{}.log", self.name(server));
        self.directory.path().join(name)
    }

    /// The file that stalls an I/O server's storage while it exists.
    fn stall(&self, server: usize) -> PathBuf {
        let name = format!("{}.stall", self.name(server));
        self.directory.path().join(name)
    }

    /// The file that makes a server's syncs fail while it exists.
    fn failing(&self, server: usize) -> PathBuf {
        let name = format!("{}.failing", self.name(server));
        self.directory.path().join(name)
    }

    /// Makes all syncs of a server fail.
    pub(crate) fn fail_syncs(&self, server: usize, errno: Errno) -> Result<(), String> {
        // Appears with its content: a server may read it at any moment.
        let draft = self.failing(server).with_extension("draft");
        std::fs::write(&draft, errno.raw_os_error().to_string())
            .and_then(|()| std::fs::rename(&draft, self.failing(server)))
            .map_err(|error| format!("letting syncs fail: {error}"))
    }

    /// Makes a server's syncs succeed again.
    pub(crate) fn mend_syncs(&self, server: usize) -> Result<(), String> {
        std::fs::remove_file(self.failing(server))
            .map_err(|error| format!("letting syncs succeed: {error}"))
    }

    /// Stalls an I/O server's storage.
    pub(crate) fn freeze(&self, server: usize) -> Result<(), String> {
        std::fs::write(self.stall(server), "").map_err(|error| format!("freezing: {error}"))
    }

    /// Resumes storage that [`World::freeze`] has stalled.
    pub(crate) fn thaw(&self, server: usize) -> Result<(), String> {
        std::fs::remove_file(self.stall(server)).map_err(|error| format!("thawing: {error}"))
    }

    fn spawn(&mut self, server: usize, format: bool) -> Result<Start, String> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log(server))
            .map_err(|error| error.to_string())?;
        let mut command = Command::new(PROGRAM);
        command.args(["fs", "serve", "--server", self.name(server), "--config"]);
        command.arg(self.file(true));
        if format && knows_format() {
            command.arg("--format");
        }
        if let Some(sabotage) = self.sabotage {
            command.env(sabotage::VARIABLE, sabotage);
        }
        if self.configuration.servers[server].io {
            command.env(sabotage::STALL, self.stall(server));
        }
        command.env(sabotage::FAIL_SYNCS, self.failing(server));
        let mut child = command
            .env(PARENT_PIPE, "1")
            .env("CAUSEWAY_LOG", "info")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".to_owned());
        };
        let process = Process {
            child,
            _stdin: stdin,
        };
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        if read.is_ok_and(|count| count > 0) && line.contains(" ready at ") {
            self.servers[server] = Some(process);
            return Ok(Start::Serves);
        }
        drop(process);
        let words = std::fs::read(self.log(server)).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let last = words.lines().next_back().unwrap_or("silently");
        Ok(Start::Refuses(last.to_owned()))
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, server: usize) {
        self.servers[server] = None;
    }

    /// Starts a server on what lies in its directory.
    pub(crate) fn start(&mut self, server: usize) -> Result<Start, String> {
        self.spawn(server, false)
    }

    /// Starts a server on its own, undamaged directory: it must serve.
    pub(crate) fn must_start(&mut self, server: usize) -> Result<(), String> {
        match self.start(server)? {
            Start::Serves => Ok(()),
            Start::Refuses(why) => Err(format!(
                "{} refuses its own directory: {why}",
                self.name(server)
            )),
        }
    }

    fn pid(&self, server: usize) -> Option<Pid> {
        Pid::from_raw(self.servers[server].as_ref()?.child.id() as i32)
    }

    /// Stops a server as SIGSTOP does.
    pub(crate) fn halt(&self, server: usize) -> Result<(), String> {
        let pid = self.pid(server).ok_or("the server is not there")?;
        kill_process(pid, Signal::STOP).map_err(|error| error.to_string())
    }

    /// Resumes a stopped server.
    pub(crate) fn go_on(&self, server: usize) -> Result<(), String> {
        let pid = self.pid(server).ok_or("the server is not there")?;
        kill_process(pid, Signal::CONT).map_err(|error| error.to_string())
    }

    /// Puts a server's directory aside, while it does not run.
    pub(crate) fn put_aside(&self, server: usize) -> Result<(), String> {
        let (home, aside) = (self.home(server), self.beside(server, "right"));
        std::fs::rename(&home, &aside).map_err(|error| format!("putting aside: {error}"))
    }

    /// Brings the right directory back, while the server does not run.
    pub(crate) fn bring_back(&self, server: usize) -> Result<(), String> {
        let (home, aside) = (self.home(server), self.beside(server, "right"));
        match std::fs::remove_dir_all(&home) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("removing the wrong directory: {error}"));
            }
            _ => {}
        }
        std::fs::rename(&aside, &home).map_err(|error| format!("bringing back: {error}"))
    }

    /// Fills the small disk to its last byte.
    pub(crate) fn fill(&self) -> Result<(), String> {
        let Some(Mount(disk)) = &self.disk else {
            return Err("there is no small disk".to_owned());
        };
        let mut filler = std::fs::File::create(disk.join("filler")).map_err(|e| e.to_string())?;
        for size in [64 << 10, 4 << 10, 1] {
            while filler.write_all(&vec![1; size]).is_ok() {}
        }
        Ok(())
    }

    /// Makes the room again that [`World::fill`] took.
    pub(crate) fn make_room(&self) -> Result<(), String> {
        let Some(Mount(disk)) = &self.disk else {
            return Err("there is no small disk".to_owned());
        };
        std::fs::remove_file(disk.join("filler")).map_err(|error| error.to_string())
    }

    /// How many warnings and errors a server has logged.
    pub(crate) fn warnings(&self, server: usize) -> usize {
        let log = std::fs::read(self.log(server)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let loud = |line: &&str| line.contains("WARN") || line.contains("ERROR");
        log.lines().filter(loud).count()
    }

    /// Servers that have ended without a request to stop, and those that have panicked.
    pub(crate) fn check_servers(&mut self) -> Result<(), String> {
        for server in 0..self.servers.len() {
            let log = std::fs::read(self.log(server)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
                return Err(format!("{}: {line}", self.name(server)));
            }
            if let Some(process) = &mut self.servers[server]
                && let Ok(Some(status)) = process.child.try_wait()
            {
                let last = log.lines().next_back().unwrap_or_default();
                return Err(format!("{} ended: {status}: {last}", self.name(server)));
            }
        }
        Ok(())
    }

    /// Waits until a server replies to a patient client.
    pub(crate) fn await_server(&self, server: usize) -> Result<(), String> {
        let mut client = self.client(true)?;
        let mut last = String::new();
        wait_for("a server answers", || match client.ping(server) {
            Ok(_) => true,
            Err(error) => {
                last = error.to_string();
                false
            }
        })
        .map_err(|error| format!("{error}: {last}"))
    }
}

fn mount(directory: &Path) -> Result<Mount, String> {
    let disk = directory.join("disk");
    std::fs::create_dir(&disk).map_err(|error| error.to_string())?;
    let output = Command::new("mount")
        .args(["-t", "tmpfs", "-o"])
        .arg(format!("size={SMALL_DISK}"))
        .arg("causeway-torture")
        .arg(&disk)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(Mount(disk)),
        Ok(output) => Err(format!(
            "disks that can be filled need the right to mount a tmpfs (run as root): {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!("mount: {error}")),
    }
}

/// Regular files below a directory, in order.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut files, mut todo) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Flips one bit of a file, somewhere in what was written of it.
pub(crate) fn flip(path: &Path, dice: &mut Random) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let written: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    if written.is_empty() {
        return Ok("nothing to flip".to_owned());
    }
    let at = written[dice.below(written.len())];
    let bit = dice.below(8);
    std::fs::File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.write_all_at(&[bytes[at] ^ 1 << bit], at as u64))
        .map_err(|error| error.to_string())?;
    let name = path.file_name().unwrap_or_default().display().to_string();
    Ok(format!("bit {bit} of byte {at} of {name}"))
}
