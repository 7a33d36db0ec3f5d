//! The page by which a process finds those of its unpolled rings that have packets, however many
//! rings there are, and by which it is woken.
//!
//! A notifier sets its bit, then a bit in the summary, then checks whether the owner is armed
//! (sleeps or is about to). A sleeper sets `armed`, fences, and checks the summary: either the
//! sleeper sees the bit or the notifier sees the sleeper.
//!
//! The owner's other threads, which set a flag instead of a bit, keep to the same order
//! ([`unpark`]).
//!
//! `armed` holds the number of the sleep, never the same twice. A notifier clears it only after its
//! wake-up is on the way, so that no other sender relies on a wake-up that cannot be sent, and only
//! if the number is still the one it saw, so that a late notifier does not hide the next sleep.
//!
//! A sleeper on descriptors is woken by a record on a socket. A parked owner sleeps on `armed`
//! itself: a notifier marks the word as called, which keeps an owner awake that is about to park,
//! wakes the threads that sleep on it, and only then clears it. A notifier that dies in between
//! leaves a word that still makes others send a wake-up.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use causeway_sys::word::Word;
use causeway_wire::shm::doorbell::{
    BITMAP_WORDS, CALLED, PARKED, SLEEP_STEP, WORDS_PER_SUMMARY_BIT,
};

use crate::wake::WakeFlag;

/// The words of a doorbell.
pub(super) trait BellMemory {
    /// The type of the words.
    type Word: Word;
    /// The number of the sleep while the owner sleeps or is about to, otherwise 0.
    fn armed(&self) -> &Self::Word;
    /// One bit for each group of words in the bitmap, set if the group has rung bits.
    fn summary(&self) -> &Self::Word;
    /// Word `at` of the bitmap, below [`BITMAP_WORDS`].
    fn bitmap(&self, at: usize) -> &Self::Word;
    /// A full fence.
    fn full_fence(&self);
    /// Wakes the owner if it sleeps on [`BellMemory::armed`].
    fn wake_parked(&self);
}

/// What a process sleeps on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SleepOn {
    /// Its descriptors.
    Descriptors,
    /// The doorbell's word.
    Word,
}

/// The value of `armed` during sleep `number`, which is neither 0 nor ever reused.
pub(super) fn sleep(number: u64, on: SleepOn) -> u64 {
    number * SLEEP_STEP + if on == SleepOn::Word { PARKED } else { 0 }
}

/// Rings `bit` of a peer's doorbell. Returns the sleep from which its owner has to be woken, for
/// [`call`] and [`woken`].
pub(super) fn ring(bell: &impl BellMemory, bit: u32) -> Option<u64> {
    let at = bit as usize / 64;
    bell.bitmap(at).fetch_or(1 << (bit % 64), AcqRel);
    let group = at / WORDS_PER_SUMMARY_BIT;
    bell.summary().fetch_or(1 << group, SeqCst);
    bell.full_fence();
    match bell.armed().load(Relaxed) {
        0 => None,
        sleep => Some(sleep),
    }
}

/// Wakes a parked owner from `sleep`. `false` if it sleeps on its descriptors: then the caller
/// sends something to one of them and calls [`woken`].
pub(super) fn call(bell: &impl BellMemory, sleep: u64) -> bool {
    if sleep & PARKED == 0 {
        return false;
    }
    mark_called(bell, sleep);
    bell.wake_parked();
    woken(bell, sleep | CALLED);
    true
}

/// Keeps an owner awake that has announced `sleep` and is about to park.
pub(super) fn mark_called(bell: &impl BellMemory, sleep: u64) {
    bell.armed().replace(sleep, sleep | CALLED, AcqRel);
}

/// Keeps others from waking the owner from `sleep` again: a wake-up that ends it is on the way.
pub(super) fn woken(bell: &impl BellMemory, sleep: u64) {
    bell.armed().replace(sleep, 0, AcqRel);
}

/// Whether a peer has rung.
#[inline]
pub(super) fn is_rung(bell: &impl BellMemory) -> bool {
    bell.summary().load(Relaxed) != 0
}

/// Clears the rung bits and appends their numbers to `rung`.
pub(super) fn collect(bell: &impl BellMemory, rung: &mut Vec<u32>) {
    let mut groups = bell.summary().swap(0, SeqCst);
    while groups != 0 {
        let group = groups.trailing_zeros() as usize;
        groups &= groups - 1;
        let first = group * WORDS_PER_SUMMARY_BIT;
        // Summary bits that no peer sets correspond to no words.
        for at in first..(first + WORDS_PER_SUMMARY_BIT).min(BITMAP_WORDS) {
            if bell.bitmap(at).load(Relaxed) == 0 {
                continue;
            }
            let mut bits = bell.bitmap(at).swap(0, AcqRel);
            while bits != 0 {
                rung.push((at * 64) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// Wakes the owner if it is parked, from another of its threads, which has set a flag that [`is_quiet`] reads.
pub(super) fn unpark(bell: &impl BellMemory) {
    bell.full_fence();
    match bell.armed().load(Relaxed) {
        0 => {}
        // An owner that sleeps on descriptors is woken by a descriptor.
        sleep => drop(call(bell, sleep)),
    }
}

/// Whether an announced sleep may begin: no peer has rung, and none of the `flags` is set. The
/// caller has fenced since [`arm`].
pub(super) fn is_quiet<'a>(
    bell: &impl BellMemory,
    flags: impl IntoIterator<Item = &'a WakeFlag>,
) -> bool {
    !is_rung(bell) && !flags.into_iter().any(WakeFlag::is_set)
}

/// Announces a [`sleep`]. The caller fences (for rings that were polled: the heavy fence) before it
/// checks [`is_quiet`].
pub(super) fn arm(bell: &impl BellMemory, sleep: u64) {
    // Swapped, not stored, here and in `disarm`, so that a notifier's clearing has a definite place
    // in the order between the two.
    bell.armed().swap(sleep, SeqCst);
}

/// Withdraws the announcement.
pub(super) fn disarm(bell: &impl BellMemory) {
    bell.armed().swap(0, AcqRel);
}
