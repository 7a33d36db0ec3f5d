//! Tests that run a part of themselves in another process, so that it can be stopped and killed
//! for real.
//!
//! A test calls [`part`] first: in the ordinary run it returns `None` and the test goes on; in a
//! child it returns the child's role. [`Child::spawn`] runs the test binary again with
//! exactly that test selected:
//!
//! ```no_run
//! use causeway_testkit::process::{self, Child};
//!
//! // #[test]
//! fn a_dead_writer_is_noticed() {
//!     if let Some(part) = process::part() {
//!         part.report("ready");
//!         loop {
//!             std::thread::park();
//!         }
//!     }
//!     let mut child = Child::spawn("tests::a_dead_writer_is_noticed", "writer", &[]);
//!     assert_eq!(child.next_line(), "ready");
//!     child.kill();
//! }
//! ```
//!
//! A child sends its test lines; output of the test harness is ignored.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::patience::GENEROUS;

const ROLE: &str = "CAUSEWAY_TEST_ROLE";
const ARGUMENT: &str = "CAUSEWAY_TEST_ARGUMENT_";
/// Starts the lines that are meant for the parent.
const MARK: &str = "@causeway ";

/// Held for reading while a process is started: until it has printed something or has ended. The system lets the parent continue a
/// moment before it closes the child's copies of the parent's descriptors.
static STARTING: RwLock<()> = RwLock::new(());

/// Waits until no process is being started by [`Child::spawn`].
///
/// A new process has copies of all descriptors of this one until its program runs: an address at which a socket
/// listened is free only then.
pub fn await_starts() {
    drop(STARTING.write().unwrap_or_else(PoisonError::into_inner));
}

/// The name by which the test harness knows the test of this full path: without the crate.
pub fn test_name(path: &'static str) -> &'static str {
    path.split_once("::").map_or(path, |(_, rest)| rest)
}

/// The processor time that the calling thread has had.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The role of this process, if it is a child.
#[derive(Debug)]
pub struct Part {
    /// The role that [`Child::spawn`] named.
    pub role: String,
    /// The arguments that it gave.
    pub arguments: Vec<String>,
}

/// The part that this process plays; `None` if it is no child of [`Child::spawn`]. A child ends
/// with its parent, also if that is killed.
pub fn part() -> Option<Part> {
    let role = std::env::var(ROLE).ok()?;
    std::thread::spawn(|| {
        // The parent never writes: reading ends when its end of the pipe is closed.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let arguments = (0..)
        .map_while(|index| std::env::var(format!("{ARGUMENT}{index}")).ok())
        .collect();
    Some(Part { role, arguments })
}

impl Part {
    /// Sends the parent a line.
    ///
    /// # Panics
    /// If the parent is gone: the child ends with it.
    pub fn report(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        // The harness may have left its own line unfinished.
        writeln!(out, "\n{MARK}{line}").expect("the parent listens");
        out.flush().expect("the parent listens");
    }
}

/// A child process; killed when dropped.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    said: Receiver<String>,
}

impl Child {
    /// Runs the test `test` (its full name, as the harness prints it) of this binary again as a
    /// child that plays `role`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(test: &str, role: &str, arguments: &[&str]) -> Self {
        let binary = std::env::current_exe().expect("the test knows its own binary");
        let mut command = Command::new(binary);
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (index, argument) in arguments.iter().enumerate() {
            command.env(format!("{ARGUMENT}{index}"), argument);
        }
        let starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let mut process = command.spawn().expect("the test binary runs again");
        let out = process.stdout.take().expect("its output is piped");
        let (tell, said) = channel();
        let (tell_start, has_started) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            // The test harness prints before it runs the test.
            let _ = out.fill_buf();
            drop(tell_start);
            for line in out.lines().map_while(Result::ok) {
                if let Some(message) = line.strip_prefix(MARK)
                    && tell.send(message.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        let started: Result<(), _> = has_started.recv_timeout(GENEROUS);
        assert_eq!(
            started,
            Err(RecvTimeoutError::Disconnected),
            "the child is silent"
        );
        drop(starting);
        Self { process, said }
    }

    /// The next line that the child has sent.
    ///
    /// # Panics
    /// If it ends or stays silent for too long.
    #[track_caller]
    pub fn next_line(&self) -> String {
        match self.said.recv_timeout(GENEROUS) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("the child is silent"),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the child ended without a line: is the test's name right?")
            }
        }
    }

    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.handle().as_raw_nonzero().get()
    }

    fn handle(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Stops the child; returns when it no longer runs.
    pub fn stop(&self) {
        kill_process(self.handle(), Signal::STOP).expect("the child can be stopped");
        let path = format!("/proc/{}/stat", self.pid());
        crate::patience::eventually("the child stands still", || {
            let stat = std::fs::read_to_string(&path).ok()?;
            let state = stat.rsplit_once(") ")?.1;
            assert!(!state.starts_with('Z'), "the child has ended by itself");
            state.starts_with('T').then_some(())
        });
    }

    /// Lets a stopped child go on.
    pub fn resume(&self) {
        kill_process(self.handle(), Signal::CONT).expect("the child can be resumed");
    }

    /// Kills the child with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits for the child to end by itself.
    ///
    /// # Panics
    /// If it does not, for too long.
    pub fn finish(&mut self) -> ExitStatus {
        crate::patience::eventually("the child ends", || {
            self.process.try_wait().expect("a child of this process")
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_free_once_children_have_started() {
        if part().is_some() {
            return;
        }
        let test = "process::tests::sockets_are_free_once_children_have_started";
        for _ in 0..50 {
            let endpoint = crate::loopback::fresh();
            let listener = std::net::TcpListener::bind(endpoint).expect("nothing has it");
            let _child = Child::spawn(test, "idle", &[]);
            drop(listener);
            await_starts();
            std::net::TcpListener::bind(endpoint).expect("no process has a copy");
        }
    }

    #[test]
    fn a_child_reports_stops_and_dies() {
        if let Some(part) = part() {
            part.report(&format!("{} {}", part.role, part.arguments.join("+")));
            loop {
                std::thread::park();
            }
        }
        let mut child = Child::spawn(
            "process::tests::a_child_reports_stops_and_dies",
            "parrot",
            &["one", "two"],
        );
        assert_eq!(child.next_line(), "parrot one+two");
        child.stop();
        child.resume();
        child.kill();
        let status = child.process.wait().expect("a child of this process");
        assert!(!status.success(), "killed, not ended by itself");
    }

    #[test]
    fn a_child_may_end_by_itself() {
        if part().is_some() {
            return;
        }
        let mut child = Child::spawn("process::tests::a_child_may_end_by_itself", "mayfly", &[]);
        assert!(child.finish().success());
    }
}
