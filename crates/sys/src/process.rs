//! What the operating system reports about this process and others.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;

/// The number of this process.
pub fn own_number() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The user whose process this is, by number: the effective one.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes the process that `command` will start ignore SIGQUIT, and so all processes that it starts in turn, unless they
/// handle the signal.
pub fn ignore_quit(command: &mut Command) {
    // SAFETY: a child may set dispositions of signals between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGQUIT, libc::SIG_IGN) {
            libc::SIG_ERR => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// Has the kernel kill the process that `command` will start as soon as the thread that starts it ends, also if that is by SIGKILL.
/// Processes that it starts in turn are not killed.
pub fn end_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let end_with_parent = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the call.
        match rustix::process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(std::io::ErrorKind::NotFound.into()),
        }
    };
    // SAFETY: a child may make system calls between `fork` and `exec`.
    unsafe {
        command.pre_exec(end_with_parent);
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

/// Whether `uid` may stand for any user: the kernel puts this number (65534, unless an administrator has changed it) in place of
/// all users that have none in this process's user namespace. `false` where every user has one, as outside of such namespaces.
pub fn is_overflow_user(uid: u32) -> bool {
    static NUMBER: OnceLock<u32> = OnceLock::new();
    uid == *NUMBER.get_or_init(|| overflow_number("/proc/sys/kernel/overflowuid"))
        && !are_all_mapped("/proc/self/uid_map")
}

/// Whether `gid` may stand for any group, as [`is_overflow_user`] says of users.
pub fn is_overflow_group(gid: u32) -> bool {
    static NUMBER: OnceLock<u32> = OnceLock::new();
    gid == *NUMBER.get_or_init(|| overflow_number("/proc/sys/kernel/overflowgid"))
        && !are_all_mapped("/proc/self/gid_map")
}

fn overflow_number(file: &str) -> u32 {
    const USUAL: u32 = 65_534;
    let text = std::fs::read_to_string(file);
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(USUAL)
}

/// A process can enter another namespace at any time, so that this is read each time.
fn are_all_mapped(file: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|map| maps_all(&map))
}

/// Whether a map of users or groups (`user_namespaces(7)`) has a number for each: the last field of a line is how many it maps.
fn maps_all(map: &str) -> bool {
    let counts = map.lines().filter_map(|line| {
        let count = line.split_ascii_whitespace().nth(2)?;
        count.parse::<u64>().ok()
    });
    counts.sum::<u64>() >= u32::MAX.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_map_of_all_users_leaves_none_without_a_number() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(maps_all("0 0 1000\n1000 1000 4294966295\n"));
        assert!(!maps_all("         0       1000          1\n"));
        assert!(!maps_all("0 1000 1\n1 100000 65536\n"));
        assert!(!maps_all(""));
        assert!(!is_overflow_user(0) && !is_overflow_group(0));
    }
}
