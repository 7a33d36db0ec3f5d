//! Pending signals of programs that wait for locks; no event reports them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval between checks for signals of waiting programs.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// A program that waits for a lock.
pub(crate) struct Waiting {
    pub(crate) wait: u64,
    pub(crate) thread: u32,
    /// The wait has ended without a signal.
    pub(crate) has_ended: Arc<AtomicBool>,
}

/// Programs that wait for locks.
#[derive(Default)]
pub(crate) struct Waits {
    waiting: Mutex<Vec<Waiting>>,
    begun: Condvar,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, waiting: Waiting) {
        let mut known = self.lock();
        known.push(waiting);
        // While others wait, signals are checked in any case, and not more often for one more.
        if known.len() == 1 {
            self.begun.notify_one();
        }
    }

    /// Waits until some program waits for a lock, and then for the interval between two checks. Returns the waits of programs with a pending signal.
    pub(crate) fn interrupted(&self) -> Vec<u64> {
        let waiting = self.lock();
        let waited = self.begun.wait_while(waiting, |waiting| waiting.is_empty());
        let waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let waited = self.begun.wait_timeout(waiting, SIGNAL_CHECK);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut interrupted = Vec::new();
        waiting.retain(|waiting| {
            if waiting.has_ended.load(Ordering::Acquire) {
                return false;
            }
            let is_interrupted = has_signal(waiting.thread);
            if is_interrupted {
                interrupted.push(waiting.wait);
            }
            !is_interrupted
        });
        interrupted
    }
}

/// Whether a thread has a pending signal that it does not block.
fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| is_pending(&status))
}

fn is_pending(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_are_blocked_end_no_wait() {
        let status = |pending: &str, shared: &str, blocked: &str| {
            format!(
                "Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\nSigIgn:\t0\n"
            )
        };
        let none = "0000000000000000";
        assert!(!is_pending(&status(none, none, none)));
        assert!(is_pending(&status("0000000000000100", none, none)));
        assert!(is_pending(&status(
            none,
            "0000000000000002",
            "0000000000000001"
        )));
        assert!(!is_pending(&status(
            none,
            "0000000000000002",
            "0000000000000002"
        )));
        assert!(!is_pending("") && !has_signal(u32::MAX));
    }
}
