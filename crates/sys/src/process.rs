//! What the operating system says about other processes.

/// Whether the process does not run because somebody has stopped it (SIGSTOP, a debugger). `false` also if
/// that cannot be found out.
pub fn is_stopped(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        // The name before it, in brackets, may contain anything.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes());
        matches!(state, Some([b'T' | b't', ..]))
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::is_stopped;

    #[test]
    fn a_stopped_process_is_told_from_one_that_runs() {
        assert!(!is_stopped(std::process::id() as i32));
        assert!(!is_stopped(0));
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let id = child.id() as i32;
        let pid = Pid::from_raw(id).unwrap();
        for (signal, stopped) in [(Signal::STOP, true), (Signal::CONT, false)] {
            kill_process(pid, signal).unwrap();
            let until = Instant::now() + Duration::from_secs(30);
            while is_stopped(id) != stopped {
                assert!(Instant::now() < until, "{signal:?} is not seen");
                std::thread::yield_now();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_stopped(id));
    }
}
