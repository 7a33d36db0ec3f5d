//! Verbs that go on in the background: a mount, the agent. The command starts this program again, and ends once that serves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use causeway_command::failure::{Doing as _, Failure, Outcome};

/// What the process in the background writes once it serves.
const READY: &str = "ready";
/// A directory that no process in the background keeps from being unmounted.
const ANYWHERE: &str = "/";

/// Starts a command and waits until it serves. Returns its process id.
pub(super) fn start(mut command: Command, doing: impl Fn() -> String + Copy) -> Outcome<u32> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .doing(doing)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).doing(doing)?;
    }
    if line.trim_end() == READY {
        return Ok(child.id());
    }
    let status = child.wait().doing(doing)?;
    // The process has reported why on the same standard error.
    Err(Failure {
        code: status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1),
        ..Failure::reported()
    })
}

/// Reports to the command that has started this process that the process serves, and closes the descriptors
/// of the terminal.
pub(super) fn leave_terminal() -> Outcome {
    let doing = || "leaving the terminal".to_owned();
    // A process that leads its group already has left the terminal's.
    let _ = rustix::process::setsid();
    std::env::set_current_dir(ANYWHERE).doing(doing)?;
    let mut out = std::io::stdout();
    writeln!(out, "{READY}").doing(doing)?;
    out.flush().doing(doing)?;
    let null = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .doing(doing)?;
    rustix::stdio::dup2_stdout(&null).doing(doing)?;
    rustix::stdio::dup2_stderr(&null).doing(doing)
}
