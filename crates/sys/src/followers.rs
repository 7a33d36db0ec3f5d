//! Threads that wait in an instance while another one waits for all of them: how exactly the thread whose awaited operation is done
//! learns that.
//!
//! A thread that follows states, inside the instance, what it waits for, and gets a word of its own. Outside, it then watches
//! this word: for a while it yields the processor between two checks, then it sleeps. A thread inside that completes what a follower waits
//! for calls the follower. That takes a system call only if the follower sleeps, which the caller makes only once it is outside again, so
//! that the woken follower finds the lock free.
//!
//! A follower that sees that no thread waits for all any more enters and does so itself. One that sleeps does not see that: the thread
//! that ends its wait for all calls one of those that sleep, unless another follower is awake. That thread clears the word that says
//! that a thread waits for all before it checks whether followers sleep, and a follower announces its sleep before it reads that word:
//! one of the two sees what the other has done.

use std::sync::atomic::Ordering::SeqCst;

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// The thread of the word is awake, and watches the word.
pub const AWAKE: u64 = 0;
/// It sleeps, or is about to.
const ASLEEP: u64 = 1;
/// It was called: it has to enter and check.
const CALLED: u64 = 2;

/// The word that a follower watches, and how it sleeps.
pub trait FollowerMemory {
    /// The word's type.
    type Word: Word;
    /// [`AWAKE`] when the thread gets the word.
    fn state(&self) -> &Self::Word;
    /// Sleeps while [`FollowerMemory::state`] is this; may return early. `false` if the thread's time is up.
    fn sleep(&self, state: u64) -> bool;
    /// Wakes the thread.
    fn wake(&self);
}

/// Whether the follower is to enter: it was called, or no thread waits for all.
#[inline]
pub fn is_to_enter(word: &impl FollowerMemory, waiter: &impl Word) -> bool {
    word.state().load(SeqCst) == CALLED || waiter.load(SeqCst) == 0
}

/// Sleeps until the follower is to enter, or its time is up.
pub fn sleep(word: &impl FollowerMemory, waiter: &impl Word) {
    if !word.state().replace(AWAKE, ASLEEP, SeqCst) {
        return;
    }
    fence(SeqCst);
    if waiter.load(SeqCst) == 0 {
        return;
    }
    while word.state().load(SeqCst) == ASLEEP && word.sleep(ASLEEP) {}
}

/// Calls a follower. Returns whether it is to be woken.
pub fn call(word: &impl FollowerMemory) -> bool {
    word.state().swap(CALLED, SeqCst) == ASLEEP
}

/// Notes that no thread waits for all from now on.
pub fn end_waiter(waiter: &impl Word) {
    waiter.store(0, SeqCst);
    fence(SeqCst);
}

/// After [`end_waiter`], inside: which follower is to be called so that one enters. `None` if one that is awake will do
/// so by itself.
pub fn successor<'a, P: FollowerMemory>(words: impl Iterator<Item = &'a P>) -> Option<&'a P> {
    let mut asleep = None;
    for word in words {
        if word.state().load(SeqCst) != ASLEEP {
            return None;
        }
        asleep = asleep.or(Some(word));
    }
    asleep
}
