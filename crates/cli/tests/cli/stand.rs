//! Running the command, and file systems for it to work with.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far longer than anything in these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// An invocation of the command under construction.
pub(crate) struct Run {
    arguments: Vec<OsString>,
    directory: PathBuf,
    config: Option<PathBuf>,
    variables: Vec<(&'static str, String)>,
    input: Vec<u8>,
    user: Option<u32>,
}

/// Outcome of an invocation.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Run {
    /// `causeway ARGUMENTS…` in a directory.
    pub(crate) fn new<S: AsRef<OsStr>>(directory: &Path, arguments: &[S]) -> Self {
        Self {
            arguments: arguments
                .iter()
                .map(|one| one.as_ref().to_owned())
                .collect(),
            directory: directory.to_owned(),
            config: None,
            variables: Vec::new(),
            input: Vec::new(),
            user: None,
        }
    }

    /// With `$CAUSEWAY_CONFIG`.
    pub(crate) fn config(mut self, file: &Path) -> Self {
        self.config = Some(file.to_owned());
        self
    }

    /// With bytes on standard input.
    pub(crate) fn input(mut self, bytes: &[u8]) -> Self {
        self.input = bytes.to_owned();
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_remove("CAUSEWAY_CONFIG")
            .env_remove("CAUSEWAY_LOG")
            .env_remove("CAUSEWAY_LOG_FILE")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(config) = &self.config {
            command.env("CAUSEWAY_CONFIG", config);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// As another user, with the group of the same number and no others. For root only.
    pub(crate) fn user(mut self, user: Option<u32>) -> Self {
        self.user = user;
        self
    }

    /// With another environment variable.
    pub(crate) fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Child {
        self.command().spawn().unwrap()
    }

    /// Runs it to its end, which comes in bounded time. It never panics and never
    /// sends colours into a pipe.
    pub(crate) fn left(&self) -> Left {
        let mut child = self.start();
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input.clone();
        let feeding = std::thread::spawn(move || {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(&input);
        });
        let mut stdout = child.stdout.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut out = Vec::new();
            stdout.read_to_end(&mut out).unwrap();
            out
        });
        let mut stderr = child.stderr.take().unwrap();
        let complaining = std::thread::spawn(move || {
            let mut err = Vec::new();
            stderr.read_to_end(&mut err).unwrap();
            String::from_utf8_lossy(&err).into_owned()
        });
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("causeway {:?} does not end", self.arguments);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        feeding.join().unwrap();
        let left = Left {
            code: status.code(),
            out: reading.join().unwrap(),
            err: complaining.join().unwrap(),
        };
        assert!(
            !left.err.contains("panicked"),
            "{:?}: {}",
            self.arguments,
            left.err
        );
        assert!(!left.err.contains('\x1b'), "{:?}", self.arguments);
        // Contents of files may be anything; all other output is the command's.
        let is_content = self
            .arguments
            .iter()
            .any(|one| one == "cat" || one == "get");
        assert!(
            is_content || !left.out.contains(&0x1b),
            "{:?}",
            self.arguments
        );
        left
    }

    /// Runs it; it must succeed. Returns its standard output.
    pub(crate) fn ok(&self) -> Vec<u8> {
        let left = self.left();
        assert_eq!(left.code, Some(0), "{:?}: {}", self.arguments, left.err);
        left.out
    }

    /// Runs it; it must succeed with exactly one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        one_object(&self.ok())
    }

    /// Runs it; it must fail with this code and report why in the usual form, perhaps behind the latest log events. Returns
    /// what it printed.
    pub(crate) fn fails(&self, code: i32) -> String {
        let left = self.left();
        assert_eq!(left.code, Some(code), "{:?}: {}", self.arguments, left.err);
        assert!(
            left.err.lines().any(|line| line.starts_with("causeway: ")),
            "{:?}: {}",
            self.arguments,
            left.err
        );
        left.err
    }
}

/// The one JSON object in some output.
pub(crate) fn one_object(out: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(out)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(out)));
    assert!(value.is_object());
    value
}

/// A file system started by `causeway fs dev`, in a directory of its own.
pub(crate) struct Stand {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) config: PathBuf,
    pub(crate) pids: Vec<i32>,
    /// Servers that a test has started in the place of others; they end with it.
    pub(crate) others: Vec<Child>,
    child: Child,
}

impl Stand {
    /// Starts it with two I/O servers.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Starts it with more options.
    pub(crate) fn with(options: &[&str]) -> Self {
        Self::of_user(None, options)
    }

    /// Starts it in memory, where files may have any length.
    pub(crate) fn in_memory() -> Self {
        Self::in_directory(tempfile::tempdir_in("/dev/shm").unwrap(), None, &[])
    }

    /// Starts it as another user, in a directory that is theirs.
    pub(crate) fn of_user(user: Option<u32>, options: &[&str]) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), user, options)
    }

    fn in_directory(directory: tempfile::TempDir, user: Option<u32>, options: &[&str]) -> Self {
        if user.is_some() {
            std::os::unix::fs::chown(directory.path(), user, user).unwrap();
        }
        let mut arguments = vec!["fs", "dev", "--servers", "2", "--json"];
        if !options.contains(&"--durability") {
            arguments.extend(["--durability", "relaxed"]);
        }
        arguments.extend(options);
        let run = Run::new(directory.path(), &arguments).user(user);
        let (child, config, pids) = Self::start(&run);
        Self {
            directory,
            config,
            pids,
            others: Vec::new(),
            child,
        }
    }

    fn start(run: &Run) -> (Child, PathBuf, Vec<i32>) {
        let mut child = run.command().stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said = one_object(line.as_bytes());
        let pids = said["pids"].as_array().unwrap();
        let pids = pids.iter().map(|pid| pid.as_i64().unwrap() as i32);
        let config = PathBuf::from(said["config"].as_str().unwrap());
        (child, config, pids.collect())
    }

    /// Starts it over TCP as well, as another user, with a key of that user's. The second configuration and key are root's.
    pub(crate) fn keyed_of_user(user: u32) -> (Self, PathBuf) {
        let mut stand = Self::of_user(Some(user), &["--tcp"]);
        stand.end(Signal::TERM);
        let text = std::fs::read_to_string(&stand.config).unwrap();
        for (name, owner) in [("users", Some(user)), ("roots", None)] {
            let key = stand.directory.path().join(format!("{name}.key"));
            write_as(&key, &"5a".repeat(32), 0o600, owner);
            let text = text.replacen("id =", &format!("key_file = {key:?}\nid ="), 1);
            let config = stand.directory.path().join(format!("{name}.toml"));
            write_as(&config, &text, 0o644, owner);
        }
        std::fs::rename(stand.directory.path().join("users.toml"), &stand.config).unwrap();
        let again = ["fs", "dev", "--servers", "2", "--json"];
        let again = [&again[..], &["--durability", "relaxed"]].concat();
        let run = Run::new(stand.directory.path(), &again).user(Some(user));
        (stand.child, _, stand.pids) = Self::start(&run);
        let roots = stand.directory.path().join("roots.toml");
        (stand, roots)
    }

    /// Ends it and starts it again, of this user, with another text as its configuration.
    pub(crate) fn start_again(&mut self, user: Option<u32>, change: impl FnOnce(&str) -> String) {
        self.end(Signal::TERM);
        let text = std::fs::read_to_string(&self.config).unwrap();
        write_as(&self.config, &change(&text), 0o644, user);
        let again = [
            "fs",
            "dev",
            "--servers",
            "2",
            "--json",
            "--durability",
            "relaxed",
        ];
        let run = Run::new(self.directory.path(), &again).user(user);
        (self.child, _, self.pids) = Self::start(&run);
    }

    /// `causeway fs ARGUMENTS…` against it.
    pub(crate) fn fs<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Run {
        let mut all = vec![OsString::from("fs")];
        all.extend(arguments.iter().map(|one| one.as_ref().to_owned()));
        Run::new(self.directory.path(), &all).config(&self.config)
    }

    /// A copy of its configuration with a short time-out.
    pub(crate) fn impatient(&self) -> PathBuf {
        self.with_timeout("1 s")
    }

    /// A copy of its configuration with this time-out.
    pub(crate) fn with_timeout(&self, timeout: &str) -> PathBuf {
        let text = std::fs::read_to_string(&self.config).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("timeout"))
            .unwrap();
        let file = self.directory.path().join("impatient.toml");
        let ours = format!("timeout = {timeout:?}");
        write_as(&file, &text.replace(line, &ours), 0o644, None);
        file
    }

    /// Sends `signal` to the command that runs the file system, and waits for its end.
    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        send(self.child.id() as i32, signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end(Signal::TERM);
        }
        for server in &mut self.others {
            // A server that a test has killed is gone already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Writes a file with this mode, whatever the mask is, for this owner.
pub(crate) fn write_as(file: &Path, text: &str, mode: u32, owner: Option<u32>) {
    std::fs::write(file, text).unwrap();
    std::os::unix::fs::chown(file, owner, owner).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Sends a signal to a process that these tests have started. After SIGSTOP it waits until all threads have stopped: they run
/// until the signal has reached them.
pub(crate) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    if signal == Signal::STOP {
        until("it has stopped", || state(pid) == Some('T'));
    }
}

/// The letter by which the kernel names a process's state, if there is one.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which stands in parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

/// Whether a process still runs.
pub(crate) fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
