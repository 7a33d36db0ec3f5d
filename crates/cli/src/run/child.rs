//! A process of the job, which can be sent signals until it has been reaped.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Sends signals to a process, never to another one that has got its id. Descriptors of processes would do that, too, but Linux has
/// them from 5.3 on, and some containers do not allow them.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    pid: Pid,
    /// Whether the process has been reaped; locked while it is, and while it is sent a signal.
    is_reaped: Arc<Mutex<bool>>,
}

impl Signals {
    pub(crate) fn of(child: &Child) -> Self {
        Self {
            pid: Pid::from_child(child),
            is_reaped: Arc::default(),
        }
    }

    /// Sends a signal, if the process has not been reaped. A process that has ended already needs none.
    pub(crate) fn send(&self, signal: Signal) {
        self.unless_reaped(|pid| {
            // The process is this one's child, so the kernel refuses no signal to it, unless it runs as another user.
            if let Err(error) = kill_process(pid, signal) {
                tracing::debug!(?signal, %error, "a process is not sent a signal");
            }
        });
    }

    /// Calls this if the process has not been reaped, and lets nobody reap it meanwhile.
    fn unless_reaped(&self, call: impl FnOnce(Pid)) {
        // In the condition of an `if`, the lock would be released before the call.
        let is_reaped = (self.is_reaped.lock()).unwrap_or_else(PoisonError::into_inner);
        if !*is_reaped {
            call(self.pid);
        }
    }

    /// Waits until the process has ended, and reaps it.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.pid), ended) {
                Ok(Some(_)) => break,
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut is_reaped = (self.is_reaped.lock()).unwrap_or_else(PoisonError::into_inner);
        *is_reaped = true;
        child.wait()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_sent_signals_until_it_is_reaped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let signals = Signals::of(&child);
        let other = signals.clone();
        let waiting = std::thread::spawn(move || signals.wait(&mut child).unwrap());
        other.send(Signal::TERM);
        let status = waiting.join().unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
        assert!(*other.is_reaped.lock().unwrap());
        // To nobody: the id may be another process's by now.
        other.send(Signal::KILL);
        other.unless_reaped(|_| panic!("it has been reaped"));
    }

    #[test]
    fn no_process_is_reaped_while_it_is_sent_a_signal() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let signals = Signals::of(&child);
        let mut is_locked = false;
        signals.unless_reaped(|pid| {
            kill_process(pid, Signal::KILL).unwrap();
            is_locked = signals.is_reaped.try_lock().is_err();
        });
        signals.wait(&mut child).unwrap();
        assert!(is_locked);
    }
}
