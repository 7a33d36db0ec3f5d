//! Processes, as the kernel describes them.

use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock, which all processes of a host share, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

/// Nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    ns(ClockId::Realtime)
}

/// Seconds since 1970.
pub fn now_seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// On a processor, or waiting for one.
    Running,
    /// Waiting for something.
    Sleeping,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended.
    Ended,
    /// Unknown to the kernel.
    Unknown,
}

impl State {
    /// The state as one word for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }
}

/// The state of a process at this moment.
pub fn state(pid: u32) -> State {
    let stat = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => String::from_utf8_lossy(&stat).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return State::Ended,
        Err(_) => return State::Unknown,
    };
    // The state follows the name, which is in parentheses and may contain anything.
    let letter = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    match letter {
        Some('R') => State::Running,
        Some('S' | 'D' | 'I') => State::Sleeping,
        Some('T' | 't') => State::Stopped,
        Some('Z' | 'X') => State::Ended,
        _ => State::Unknown,
    }
}

/// The numbers of all processes that this one can see.
pub fn all() -> std::io::Result<impl Iterator<Item = u32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The command line by which this process was started, with the program's name without its
/// directories.
pub(crate) fn own_name() -> String {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let Some((program, rest)) = arguments.split_first() else {
        return String::new();
    };
    let program = program.rsplit('/').next().unwrap_or_default();
    let mut name = program.to_owned();
    for argument in rest {
        name.push(' ');
        name.push_str(argument);
    }
    // Arguments may contain anything, and are shown on terminals.
    crate::text::plain(&name)
}

/// The id that the process `pid` has in its own name space of processes. It differs from `pid` if
/// that is not the name space of this process.
pub(crate) fn own_pid_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known() {
        let own = std::process::id();
        assert!(matches!(state(own), State::Running | State::Sleeping));
        assert_eq!(own_pid_of(own), Some(own));
        assert_eq!(state(u32::MAX), State::Ended);
        assert!(!own_name().is_empty() && !own_name().contains('/') || own_name().contains(' '));
        assert!(monotonic_ns() > 0 && realtime_ns() > monotonic_ns());
    }
}
