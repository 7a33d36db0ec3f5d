//! How another thread ends a wait: a flag that is checked inside the preparation of every sleep.
//!
//! The waiting thread announces that it is about to sleep, fences, and only then checks the flag; a
//! thread that wants the wait to end sets the flag, fences, and only then checks for an
//! announcement. So either the waiter sees the flag and does not sleep, or the caller sees the
//! announcement and wakes it. A check before the announcement is not enough: a call between the two
//! would be missed.
//!
//! Where the waiter announces its sleep depends on what it sleeps on. On descriptors, it calls this
//! flag's own [`WakeFlag::begin_sleep`]; parked in a method, it calls the method's
//! [`Method::prepare_park`](crate::Method::prepare_park).

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicBool, fence};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicBool, fence};

/// Set if a wait should end, or the next one should not begin. Stays set until the waiter takes it.
#[derive(Debug, Default)]
pub struct WakeFlag {
    is_set: AtomicBool,
    /// The waiter sleeps on descriptors or is about to.
    sleeps: AtomicBool,
}

impl WakeFlag {
    /// Sets the flag. Returns whether the waiter sleeps on descriptors: then the caller makes one
    /// of them readable. In any case the caller calls [`Park::unpark`] afterwards, for a parked
    /// waiter. Safe to use in a signal handler.
    pub fn set(&self) -> bool {
        self.is_set.store(true, SeqCst);
        fence(SeqCst);
        self.sleeps.load(Relaxed)
    }

    /// Whether it is set, as far as the waiter's thread can see now.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(SeqCst)
    }

    /// Clears the flag. Returns whether it was set.
    #[inline]
    pub fn take(&self) -> bool {
        self.is_set() && self.is_set.swap(false, SeqCst)
    }

    /// Announces that the waiter is about to sleep on descriptors. `false` if the flag is set: then
    /// it must not sleep. Either way [`WakeFlag::end_sleep`] has to be called afterwards.
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
    /// After [`Parking::Prepared`] with this number, sleeps until there is something to poll for,
    /// until [`Park::unpark`], or for `limit`: then it returns `false`, and may be called again as
    /// long as the sleep was not ended. May also return `true` spuriously, and does so at once if
    /// the sleep was ended.
    fn park(&self, sleep: u64, limit: Option<Duration>) -> bool;

    /// Ends the sleep that began with [`Method::prepare_park`](crate::Method::prepare_park), if
    /// there is one. The flag that was passed to the preparation must be set before. Safe to use in
    /// a signal handler.
    fn unpark(&self);
}

/// The result of [`Method::prepare_park`](crate::Method::prepare_park).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parking {
    /// The method cannot park, or not now: sleep on its descriptor.
    Unsupported,
    /// There is something to poll for, or the flag is set.
    Refused,
    /// The sleep of this number may begin: [`Park::park`].
    Prepared(u64),
}
