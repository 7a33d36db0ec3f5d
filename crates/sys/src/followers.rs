//! Threads that wait in an instance while another one of them waits for all: how each learns that it has to look for itself, and no
//! other does.
//!
//! A thread that follows says, inside the instance, what it waits for, and gets a place. Then it looks at its place outside: for a while it
//! yields the processor between two looks, then it sleeps. A thread inside that finds what a follower waits for calls it, which is a
//! system call only if the follower sleeps, and only once the caller is outside again: a follower that wakes finds the lock free.
//!
//! A follower that sees that no thread waits for all any more goes in and takes that over. One that sleeps does not see it: the thread
//! that ends its wait for all calls one of those that sleep, unless another follower is awake. It takes the waiter away before it looks
//! whether they sleep, and a follower says that it sleeps before it looks for the waiter: either sees what the other has done.

use std::sync::atomic::Ordering::SeqCst;

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// The place's thread is awake, and looks at it.
pub const AWAKE: u64 = 0;
/// It sleeps, or is about to.
const ASLEEP: u64 = 1;
/// It has to look for itself.
const CALLED: u64 = 2;

/// Where a follower looks, and how it sleeps.
pub trait PlaceMemory {
    /// The word's type.
    type Word: Word;
    /// [`AWAKE`] when the thread gets the place.
    fn state(&self) -> &Self::Word;
    /// Sleeps while [`PlaceMemory::state`] is this; may return early. `false` if the thread's time is up.
    fn sleep(&self, state: u64) -> bool;
    /// Wakes the thread.
    fn wake(&self);
}

/// Whether the follower is to go in: it was called, or no thread waits for all.
#[inline]
pub fn is_to_enter(place: &impl PlaceMemory, waiter: &impl Word) -> bool {
    place.state().load(SeqCst) == CALLED || waiter.load(SeqCst) == 0
}

/// Sleeps until the follower is to go in, or its time is up.
pub fn sleep(place: &impl PlaceMemory, waiter: &impl Word) {
    if !place.state().replace(AWAKE, ASLEEP, SeqCst) {
        return;
    }
    fence(SeqCst);
    if waiter.load(SeqCst) == 0 {
        return;
    }
    while place.state().load(SeqCst) == ASLEEP && place.sleep(ASLEEP) {}
}

/// Calls a follower. Returns whether it is to be woken.
pub fn call(place: &impl PlaceMemory) -> bool {
    place.state().swap(CALLED, SeqCst) == ASLEEP
}

/// No thread waits for all from now on.
pub fn end_waiter(waiter: &impl Word) {
    waiter.store(0, SeqCst);
    fence(SeqCst);
}

/// Behind [`end_waiter`], inside: which of the followers is to be called so that one goes in. None if one will by itself.
pub fn successor<'a, P: PlaceMemory>(places: impl Iterator<Item = &'a P>) -> Option<&'a P> {
    let mut asleep = None;
    for place in places {
        if place.state().load(SeqCst) != ASLEEP {
            return None;
        }
        asleep = asleep.or(Some(place));
    }
    asleep
}
