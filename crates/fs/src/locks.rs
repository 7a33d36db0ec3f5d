//! Locking where a panic of another holder is no reason to fail.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one that a panic has poisoned: no holder leaves its value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
