//! Threads that a library starts inside an application.

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// Enough for a thread that only waits and wakes others, and for what the program keeps for each of its threads.
const STACK_BYTES: usize = 128 << 10;

/// Starts a thread with a small stack that no signal of the process is delivered to: the program's handlers
/// run in the threads in which they would run without this one.
///
/// # Errors
/// If the system refuses another thread.
pub fn spawn_without_signals(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn_worker(name, STACK_BYTES, run)
}

/// As [`spawn_without_signals`], with a stack of this many bytes.
///
/// # Errors
/// If the system refuses another thread.
pub fn spawn_worker(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // The new thread has the mask of the one that starts it.
    let mask = block_all_signals()?;
    let thread = Builder::new()
        .name(name.to_owned())
        .stack_size(stack_bytes)
        .spawn(run);
    set_signal_mask(&mask);
    thread
}

/// How often another thread has replaced the calling one on its processor, because it parked or was preempted. A
/// yield that does not change this count has run no other thread. About 0.4 µs. `None` where the system does not
/// count.
pub fn switches() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure in, unless it fails, and then it is not read.
    let usage = unsafe {
        match libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) {
            0 => usage.assume_init(),
            _ => return None,
        }
    };
    u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).ok()
}

/// Blocks all signals for the calling thread. Returns the mask before.
fn block_all_signals() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set it is given, and `pthread_sigmask` reads that and writes the other;
    // both live on this stack. If the call fails, `before` is not used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn set_signal_mask(mask: &libc::sigset_t) {
    // SAFETY: `mask` is a set that the system gave; nothing else is touched. The call fails for an unknown
    // operation only.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
    }
}

/// The structure of `sched_setattr`, in its first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Requests the shortest time slices for the calling thread, 0.1 ms. When it is woken, it then preempts a thread that computes on its processor,
/// which would otherwise use up its own slice first. Its share of the processor stays the same. Has an effect from Linux 6.12 on. Short sleeps of
/// the thread end on time, too.
pub fn take_short_slices() {
    // SAFETY: the call has no memory arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: the call has no memory arguments.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: 100_000,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the structure is as long as it says, and is read only. If the call fails, slices stay as they are.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's mask of blocked signals in `/proc`.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigBlk:"));
        u64::from_str_radix(line.unwrap()[7..].trim(), 16).unwrap()
    }

    #[test]
    fn the_new_thread_blocks_signals_and_the_old_one_as_before() {
        let before = blocked();
        let (send, received) = std::sync::mpsc::channel();
        let thread = spawn_without_signals("quiet", move || send.send(blocked()).unwrap());
        thread.unwrap().join().unwrap();
        let inside = received.recv().unwrap();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD] {
            assert_ne!(inside & 1 << (signal - 1), 0, "signal {signal}");
        }
        assert_eq!(blocked(), before);
    }
}
