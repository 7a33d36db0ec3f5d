//! Threads that work beside the server's loop when they are notified.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::client::{Client, Interrupter};
use crate::locks::{lock, wait_timeout_while};
use crate::threads::JoinOnDrop;

/// Wakes a thread that works beside the loop.
#[derive(Clone, Default)]
pub(super) struct Wakeup(Arc<(Mutex<WakeupState>, Condvar)>);

#[derive(Default)]
struct WakeupState {
    notified: bool,
    stopping: bool,
    /// The thread's client, whose call must be interrupted if it waits for a server that is down when the thread has to end.
    client: Option<Interrupter>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    Notified,
    TimedOut,
    Stop,
}

impl Wakeup {
    /// There may be work.
    pub(super) fn notify(&self) {
        // A thread that works or pauses looks once more before it waits, also if it was notified before: waking it from a pause for
        // each of many notifications would cost a switch each.
        if !std::mem::replace(&mut lock(&self.0.0).notified, true) {
            self.0.1.notify_all();
        }
    }

    fn stop(&self) {
        self.set(|state| {
            state.stopping = true;
            state.client.iter().for_each(Interrupter::interrupt);
        });
    }

    /// Registers a client whose calls are interrupted when the thread is stopped.
    pub(super) fn interrupts(&self, client: &Client) {
        self.set(|state| {
            let interrupter = client.interrupter();
            if state.stopping {
                interrupter.interrupt();
            }
            state.client = Some(interrupter);
        });
    }

    fn set(&self, change: impl FnOnce(&mut WakeupState)) {
        change(&mut lock(&self.0.0));
        self.0.1.notify_all();
    }

    /// Waits for a notification, but not longer than this.
    pub(super) fn wait(&self, most: Option<Duration>) -> Wake {
        let (mut state, is_time_up) =
            wait_timeout_while(&self.0.1, lock(&self.0.0), most, |state| {
                !state.notified && !state.stopping
            });
        match state.stopping {
            true => Wake::Stop,
            false if is_time_up => Wake::TimedOut,
            false => {
                state.notified = false;
                Wake::Notified
            }
        }
    }

    /// Pauses; returns `false` if the thread has to stop.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let (state, _) = wait_timeout_while(&self.0.1, lock(&self.0.0), Some(pause), |state| {
            !state.stopping
        });
        !state.stopping
    }
}

/// A thread that works beside the loop whenever it is notified, and ends when this is dropped.
pub(super) struct Background {
    wakeup: Wakeup,
    _thread: JoinOnDrop,
}

impl Background {
    /// Starts a thread of this name. `work` must return once [`Wakeup::wait`] returns [`Wake::Stop`].
    pub(super) fn start(
        name: &str,
        wakeup: Wakeup,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        Ok(Self {
            wakeup,
            _thread: JoinOnDrop::spawn(name, work)?,
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.wakeup.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_seen_by_the_next_wait_and_many_are_one() {
        let wakeup = Wakeup::default();
        let wait = || wakeup.wait(Some(Duration::ZERO));
        assert_eq!(wait(), Wake::TimedOut);
        wakeup.notify();
        assert!(wakeup.pause(Duration::ZERO));
        wakeup.notify();
        assert_eq!(wait(), Wake::Notified);
        assert_eq!(wait(), Wake::TimedOut);
        let waiting = wakeup.clone();
        let thread = std::thread::spawn(move || waiting.wait(Some(Duration::from_secs(60))));
        wakeup.notify();
        assert_eq!(thread.join().ok(), Some(Wake::Notified));
        wakeup.notify();
        wakeup.stop();
        assert_eq!(wait(), Wake::Stop);
    }
}
