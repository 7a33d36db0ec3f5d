//! What the operating system says about this process and others.

/// The user whose process this is, by number: the effective one.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
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
