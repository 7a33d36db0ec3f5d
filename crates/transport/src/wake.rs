//! How another thread ends a wait: a flag that is checked inside the preparation of every sleep.
//!
//! The waiting thread announces that it is about to sleep, fences, and only then checks the flag; a
//! thread that wants the wait to end sets the flag, fences, and only then checks for an announcement. So
//! either the waiter sees the flag and does not sleep, or the caller sees the announcement and wakes. A
//! check before the announcement proves nothing: a call between the two would be slept through.
//!
//! Where the waiter announces itself depends on what it sleeps on. On descriptors, it is this flag's own
//! [`WakeFlag::begin_sleep`]; parked in a method, it is the method's ([`Method::prepare_park`](crate::Method::prepare_park)).

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicBool, fence};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicBool, fence};

/// Whether a wait shall end, or the next one not begin. Stays set until the waiter takes it.
#[derive(Debug, Default)]
pub struct WakeFlag {
    is_set: AtomicBool,
    /// The waiter sleeps on descriptors or is about to.
    sleeps: AtomicBool,
}

impl WakeFlag {
    /// Sets the flag. Returns whether the waiter sleeps on descriptors: then the caller makes one of them
    /// readable. A parked waiter is the business of [`Park::unpark`], which is to be called afterwards in any case.
    /// Safe to use in a signal handler.
    pub fn set(&self) -> bool {
        self.is_set.store(true, SeqCst);
        fence(SeqCst);
        self.sleeps.load(Relaxed)
    }

    /// Whether it is set, as far as the waiter's thread can tell now.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    /// Clears the flag. Returns whether it was set.
    #[inline]
    pub fn take(&self) -> bool {
        self.is_set() && self.is_set.swap(false, SeqCst)
    }

    /// Announces that the waiter is about to sleep on descriptors. `false` if the flag is set, and then there is
    /// no sleep. Either way [`WakeFlag::end_sleep`] follows.
    #[must_use]
    pub fn begin_sleep(&self) -> bool {
        self.sleeps.store(true, SeqCst);
        fence(SeqCst);
        !self.is_set()
    }

    /// The waiter is awake again.
    pub fn end_sleep(&self) {
        self.sleeps.store(false, Relaxed);
    }
}

/// Where a method's sleeper parks: detached from the method, which other threads may use meanwhile.
pub trait Park: std::fmt::Debug + Send + Sync {
    /// After [`Parking::Prepared`] with this number, sleeps until there is something to poll for, until
    /// [`Park::unpark`], or for `limit`: then it returns `false`, and may be called again as long as the sleep was not ended.
    /// Also returns `true` for no reason, and at once if the sleep was ended.
    fn park(&self, sleep: u64, limit: Option<Duration>) -> bool;

    /// Ends the sleep that began with [`Method::prepare_park`](crate::Method::prepare_park), if there is one. The
    /// flag that the preparation was given must be set before. Safe to use in a signal handler.
    fn unpark(&self);
}

/// What [`Method::prepare_park`](crate::Method::prepare_park) came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parking {
    /// The method has no quicker way to sleep than on its descriptor, or not now.
    Unsupported,
    /// There is something to poll for, or the flag is set.
    Refused,
    /// The sleep of this number may begin: [`Park::park`].
    Prepared(u64),
}
