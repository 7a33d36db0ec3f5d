//! What the operating system says about this process and others.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The user whose process this is, by number: the effective one.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Has the process that `command` will start ignore SIGQUIT, as all do that it starts in turn, unless they handle the signal.
pub fn ignore_quit(command: &mut Command) {
    // SAFETY: a child may set dispositions of signals between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGQUIT, libc::SIG_IGN) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// Whether the process has been stopped (SIGSTOP, a debugger). `false` also if
/// that cannot be found out.
pub fn is_stopped(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        // The name before it, in brackets, may contain anything.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
        matches!(state, Some([b'T' | b't', ..]))
    })
}
