//! A thread that unparks the method's thread when one of its sockets has an event.
//!
//! A parked process sleeps on a word of shared memory, which is the cheapest sleep there is, but
//! only processes that share the memory can end it: not a process that wants to connect, nor one
//! that has died. Both cause events on sockets. The relay sleeps on the sockets and turns each
//! event into an unpark. It takes no part in progress: it reads nothing, and the parked thread
//! reads the events itself.
//!
//! It reports once, then not again until the method's thread has polled its sockets and is about to
//! park ([`Relay::listen`]). So it costs nothing while the process is awake, nor while it is parked
//! and only packets arrive.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use causeway_sys::epoll::{Epoll, Ready};
use causeway_sys::fork::Owner;
use causeway_sys::thread::spawn_without_signals;
use rustix::event::{EventfdFlags, eventfd};

use super::memory::Bell;
use crate::wake::{Park, WakeFlag};

/// A sleep on descriptors costs some microseconds more than a parked one, a thread some ten
/// microseconds at its start and at its end: an instance that sleeps less often does not start one.
const SLEEPS_BEFORE_START: u64 = 16;

/// The key of the method's sockets, and of the stop event, in the relay's own epoll set.
const SOCKETS_KEY: u64 = 0;
const STOP_KEY: u64 = 1;

/// The state that the two threads share.
#[derive(Debug)]
struct Shared {
    set: Epoll,
    /// Readable when the relay should end.
    stop: OwnedFd,
    bell: Bell,
    /// The sockets have an event, or the relay has ended.
    reported: WakeFlag,
    /// The relay cannot go on.
    broken: WakeFlag,
}

/// The relay thread, as owned by the method.
#[derive(Debug)]
pub(super) struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// A forked child has the descriptors, but not the thread.
    process: Owner,
    /// It reports events.
    listens: bool,
}

impl Relay {
    /// Starts the thread. It does not report anything yet.
    fn start(sockets: &Epoll, bell: &Bell) -> io::Result<Self> {
        let process = Owner::this_process()?;
        let set = Epoll::new()?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        set.add(&stop, STOP_KEY)?;
        set.add_once(sockets, SOCKETS_KEY)?;
        let shared = Arc::new(Shared {
            set,
            stop,
            bell: bell.clone(),
            reported: WakeFlag::default(),
            broken: WakeFlag::default(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            spawn_without_signals("causeway-relay", move || shared.run())?
        };
        Ok(Self {
            shared,
            thread: Some(thread),
            process,
            listens: true,
        })
    }

    /// Has the thread report events on `sockets` from now on: at once if there is one. `false` if
    /// it cannot.
    fn listen(&mut self, sockets: &Epoll) -> bool {
        if !self.listens {
            self.listens = self.shared.set.rearm(sockets.as_fd(), SOCKETS_KEY).is_ok();
        }
        self.listens && !self.shared.broken.is_set()
    }

    /// Whether it has reported something since the last call. Then the caller polls the sockets
    /// before it parks again.
    fn take_report(&mut self) -> bool {
        let reported = self.shared.reported.take();
        self.listens &= !reported;
        reported
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.process.is_this_process() {
            // Joining would access a thread that does not exist here.
            std::mem::forget(self.thread.take());
            return;
        }
        // Fails only when the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It only fails if the thread panicked, which was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The main loop of the thread.
    fn run(&self) {
        let mut ready: Vec<Ready> = Vec::new();
        while self.set.wait(&mut ready).is_ok() {
            if ready.iter().any(|event| event.key == STOP_KEY) {
                return;
            }
            if !ready.is_empty() {
                self.report();
            }
            ready.clear();
        }
        self.broken.set();
        self.report();
    }

    fn report(&self) {
        self.reported.set();
        self.bell.unpark();
    }
}

/// Whether this process has a relay.
#[derive(Debug, Default)]
pub(super) enum Relaying {
    /// Not yet.
    #[default]
    NotYet,
    /// It has one.
    Running(Relay),
    /// It cannot have one: the process sleeps on its descriptors.
    Impossible,
}

impl Relaying {
    /// Makes sure that the relay reports events, after this many `sleeps` of the instance. `false`
    /// if there is no relay: then no thread may park.
    pub(super) fn listen(&mut self, sleeps: u64, sockets: &Epoll, bell: &Bell) -> bool {
        match self {
            Self::NotYet if sleeps < SLEEPS_BEFORE_START => return false,
            Self::NotYet => match Relay::start(sockets, bell) {
                Ok(relay) => *self = Self::Running(relay),
                Err(error) => {
                    tracing::debug!(%error, "no thread can watch the sockets: sleeping on descriptors");
                    *self = Self::Impossible;
                }
            },
            Self::Running(_) | Self::Impossible => {}
        }
        let Self::Running(relay) = self else {
            return false;
        };
        let listens = relay.listen(sockets);
        if !listens {
            *self = Self::Impossible;
        }
        listens
    }

    /// Whether the sockets have to be polled before the next sleep.
    pub(super) fn take_report(&mut self) -> bool {
        match self {
            Self::Running(relay) => relay.take_report(),
            Self::NotYet | Self::Impossible => false,
        }
    }

    /// The flag that keeps a sleep from beginning.
    pub(super) fn flag(&self) -> Option<&WakeFlag> {
        match self {
            Self::Running(relay) => Some(&relay.shared.reported),
            Self::NotYet | Self::Impossible => None,
        }
    }
}
