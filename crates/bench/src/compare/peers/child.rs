//! Programs of other projects, run within bounds, so that they always end.
//!
//! Three bounds hold at once. The wall clock: after `within`, every process that the run has
//! started is killed. The kernel's limit of processor time: a process that spins is ended even if
//! no signal reaches it. A mark in the environment: launchers put their ranks into sessions of
//! their own, so killing the launcher's process group would leave them running; every process with
//! the run's mark is found and ended instead. Files that they leave in `/dev/shm` are removed
//! (`leftovers`).

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use causeway_command::shutdown;
use causeway_watch::process;
use rustix::process::{Signal, pidfd_send_signal};

use super::leftovers;

/// Most bytes that are kept of a program's output.
const MOST_OUTPUT_BYTES: u64 = 1 << 20;
/// How long marked processes may take to be gone once they are killed.
const CLEARING: Duration = Duration::from_secs(5);
/// Name of the mark in the environment.
const MARK: &str = "CAUSEWAY_COMPARE_RUN";

/// Why a program gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The program took longer than it may.
    pub(crate) timed_out: bool,
    /// In words.
    pub(crate) why: String,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self {
            timed_out: false,
            why,
        }
    }
}

impl From<Failed> for String {
    fn from(failed: Failed) -> Self {
        failed.why
    }
}

/// A program to run, its arguments and its environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Where it starts; here if empty.
    pub(crate) directory: PathBuf,
}

impl Program {
    /// A program with arguments.
    pub(crate) fn new(path: &Path, arguments: &[&str]) -> Self {
        Self {
            path: path.to_owned(),
            arguments: arguments.iter().map(|&one| one.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a variable to its environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the program to its end, at most for this time; returns its output, or why it failed.
    pub(crate) fn run(&self, within: Duration) -> Result<String, Failed> {
        Running::start(self, within)?.finish()
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// A program that has been started. Dropping it ends it.
pub(crate) struct Running {
    name: String,
    mark: String,
    child: Child,
    output: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    deadline: Instant,
    within: Duration,
    since: SystemTime,
}

impl Running {
    /// Starts a program that may run for this time.
    pub(crate) fn start(program: &Program, within: Duration) -> Result<Self, String> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let name = program.name();
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{run}", std::process::id());
        let since = leftovers::before_start();
        shutdown::expect_children();
        let mut command = Command::new("/bin/sh");
        // No process of the run may use more processor time than the whole run may take.
        command
            .args(["-c", "ulimit -t \"$0\" && exec \"$@\""])
            .arg((within.as_secs() + 1).to_string())
            .arg(&program.path)
            .args(&program.arguments)
            .envs(
                program
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !program.directory.as_os_str().is_empty() {
            command.current_dir(&program.directory);
        }
        let failed = |error| format!("{name} cannot be started: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let output = read_aside(child.stdout.take());
        let errors = read_aside(child.stderr.take());
        Ok(Self {
            name,
            mark,
            child,
            output,
            errors,
            deadline: Instant::now() + within,
            within,
            since,
        })
    }

    /// Whether the program has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Awaits the program's end; returns its output, or why it failed.
    pub(crate) fn finish(mut self) -> Result<String, Failed> {
        let status = self.await_end();
        // Processes that are left behind would hold the pipes open.
        end_marked(&self.mark);
        let moment = Duration::from_secs(1);
        let output = self.output.recv_timeout(moment).unwrap_or_default();
        let errors = self.errors.recv_timeout(moment).unwrap_or_default();
        let output = String::from_utf8_lossy(&output).into_owned();
        let errors = String::from_utf8_lossy(&errors).into_owned();
        match status {
            Some(status) if status.success() => Ok(output),
            Some(status) => Err(Failed::from(format!(
                "{} failed ({status}){}",
                self.name,
                likely_reason(&errors, &output)
            ))),
            None => Err(Failed {
                timed_out: true,
                why: format!(
                    "{} did not end within {} s{}",
                    self.name,
                    self.within.as_secs(),
                    likely_reason(&errors, &output)
                ),
            }),
        }
    }

    fn await_end(&mut self) -> Option<ExitStatus> {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= self.deadline {
                return None;
            }
            // Polling more often would take processor time from the measurement.
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that cannot be killed any more has ended.
        if self.is_running() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        end_marked(&self.mark);
        leftovers::remove(self.since);
    }
}

/// The line that most likely has the reason.
fn likely_reason(errors: &str, output: &str) -> String {
    let says = |text: &str| {
        let lines = text.lines().map(str::trim);
        // Lines with figures are not a reason.
        let mut lines =
            lines.filter(|line| line.chars().any(char::is_alphanumeric) && !line.starts_with('{'));
        let first = lines.next().map(str::to_owned);
        lines
            .find(|line| {
                let line = line.to_lowercase();
                line.contains("error") || line.contains("fail") || line.contains("mpi: rank")
            })
            .map(str::to_owned)
            .or(first)
    };
    let line = says(errors).or_else(|| says(output));
    line.map_or(String::new(), |line| {
        format!(": {}", line.chars().take(200).collect::<String>())
    })
}

fn read_aside(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            let first = (&mut pipe).take(MOST_OUTPUT_BYTES).read_to_end(&mut kept);
            // Output above the limit is read and dropped, so that the writer does not block.
            let rest = std::io::copy(&mut pipe, &mut std::io::sink());
            tracing::debug!(?first, ?rest, "a program's output has ended");
            // The output of a run that was abandoned is not awaited.
            let _ = sender.send(kept);
        });
    }
    receiver
}

/// Kills every process that carries the mark, until none is left.
fn end_marked(mark: &str) {
    let entry = format!("{MARK}={mark}");
    let deadline = Instant::now() + CLEARING;
    loop {
        let found: Vec<u32> = marked(&entry);
        if found.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in found {
            // The number may be another process's by now: check the mark once more.
            if let Some(handle) = shutdown::open_process(pid)
                && carries(pid, &entry)
            {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn marked(entry: &str) -> Vec<u32> {
    let processes = process::all().into_iter().flatten();
    processes.filter(|pid| carries(*pid, entry)).collect()
}

/// Whether a process has that entry in its environment. A process that has ended has none.
fn carries(pid: u32, entry: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|one| one == entry.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::new(Path::new("/bin/sh"), &["-c", script])
    }

    #[test]
    fn output_of_a_program_is_returned() {
        let said = shell("echo \"$ONE\"; echo aside >&2").with("ONE", "two");
        assert_eq!(said.run(Duration::from_secs(20)).unwrap(), "two\n");
    }

    #[test]
    fn a_failure_names_the_program_and_the_reason() {
        let why = shell("echo noise; echo 'fatal error: no such device' >&2; exit 3")
            .run(Duration::from_secs(20))
            .unwrap_err()
            .why;
        assert!(
            why.contains("sh failed") && why.contains("no such device"),
            "{why}"
        );
        let why = Program::new(Path::new("/nonexistent/program"), &[])
            .run(Duration::from_secs(20))
            .unwrap_err()
            .why;
        assert!(why.contains("program failed"), "{why}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        // A grandchild in a session of its own that ignores signals and holds the pipes open.
        let script = format!(
            "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > {}; while :; do sleep 0.1; done' & wait",
            file.display()
        );
        let began = Instant::now();
        let failed = shell(&script).run(Duration::from_secs(1)).unwrap_err();
        assert!(failed.timed_out, "{failed:?}");
        assert!(failed.why.contains("did not end within 1 s"), "{failed:?}");
        assert!(began.elapsed() < Duration::from_secs(60));
        let pid = std::fs::read_to_string(&file).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
        assert!(
            state
                .as_ref()
                .map_or(true, |state| state.contains("State:\tZ")),
            "{state:?}"
        );
    }

    #[test]
    fn leftovers_of_a_killed_program_are_removed() {
        let place = format!("/dev/shm/mpich_shm_test{}_0", std::process::id());
        let script = format!("echo segment > {place} && echo made && exec sleep 60");
        let mut running = Running::start(&shell(&script), Duration::from_secs(60)).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while !Path::new(&place).exists() {
            assert!(running.is_running() && Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(running);
        assert!(!Path::new(&place).exists());
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        let why = shell("while :; do echo y; done").run(Duration::from_secs(1));
        assert!(why.is_err(), "{why:?}");
    }
}
