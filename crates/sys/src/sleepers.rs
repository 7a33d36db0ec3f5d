//! Processes that sleep until a change in the memory that they share, and how the process that makes the change finds them.
//!
//! Each process has a bit in a word of that memory. A process that is about to sleep sets it, checks its condition once more, and
//! sleeps until it is sent a notice. A process that has changed a word for which others may sleep reads the bits, clears those of
//! processes whose wait is over, and sends a notice to each of them. There is a full fence between the change and the reading of
//! bits, and one between the setting of a bit and the last check: either the process that makes the change sees the bit, or the
//! process that sleeps sees the change. A process that was sent a notice and has to sleep on sets its bit again: it may have been
//! cleared for the condition of an earlier wait.
//!
//! The memory may also hold a lock that a process has alone or several share ([`try_lock`]).

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use crate::word::{Word, fence};

#[cfg(all(loom, test))]
mod model;

/// Announces that the process of this bit is about to sleep. The process checks its condition once
/// more before it does.
pub fn announce(bits: &impl Word, bit: u32) {
    bits.fetch_or(1 << bit, SeqCst);
    fence(SeqCst);
}

/// The same for a process that states, in another word, the condition under which it is to be
/// woken.
pub fn announce_wish(bits: &impl Word, bit: u32, (word, wish): (&impl Word, u64)) {
    word.store(wish, SeqCst);
    announce(bits, bit);
}

/// Withdraws the announcement: the process no longer sleeps.
pub fn withdraw(bits: &impl Word, bit: u32) {
    bits.fetch_and(!(1 << bit), SeqCst);
}

/// The bits of those that sleep or are about to, for a process that has made a change before. Mostly there are none.
#[inline]
pub fn sleepers(bits: &impl Word) -> u64 {
    fence(SeqCst);
    bits.load(SeqCst)
}

/// Takes the bits of `ready`. Returns those that no other process has taken: each of their processes is to be sent a notice.
pub fn take(bits: &impl Word, ready: u64) -> u64 {
    bits.fetch_and(!ready, SeqCst) & ready
}

/// Tries to take a lock, whose word is 0, or how many share it, or the number of the process that has it alone, + 1, in the upper half. If that
/// fails, returns which process has it alone, if one has.
pub fn try_lock(word: &impl Word, own: u32, exclusive: bool) -> Result<(), Option<u32>> {
    let mut found = word.load(Relaxed);
    loop {
        let new = match exclusive {
            true if found == 0 => (u64::from(own) + 1) << 32,
            false if found >> 32 == 0 => found + 1,
            _ => return Err((found >> 32).checked_sub(1).map(|process| process as u32)),
        };
        if word.replace(found, new, SeqCst) {
            return Ok(());
        }
        found = word.load(Relaxed);
    }
}

/// Releases a lock that this process holds alone, or shares. The caller then calls [`sleepers`] for those
/// that wait for the lock.
pub fn unlock(word: &impl Word, exclusive: bool) {
    match exclusive {
        true => word.store(0, Release),
        false => drop(word.fetch_sub(1, Release)),
    }
}
