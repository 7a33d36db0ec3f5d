//! The page through which a process learns which of its rings that are not polled have something, whatever their
//! number, and through which it is woken.
//!
//! Ringing sets the peer's bit, then a bit in the summary, then looks whether the process is armed
//! (sleeps or is about to). Going to sleep sets `armed`, fences, and looks at the summary: either the
//! sleeper sees the ring or the notifier sees the sleeper.
//!
//! The owner's other threads, which set a flag instead of a bit, keep to the same order ([`unpark`]).
//!
//! `armed` holds the number of the sleep, never the same twice. A notifier takes it back only after its
//! wake-up is on the way, so that no sender relies on one that cannot be sent, and only if the number is
//! still the one it saw, so that a notifier that comes late does not hide the next sleep.
//!
//! A sleeper on descriptors is woken by a record on a socket. A parked owner sleeps on `armed` itself: a notifier
//! marks the word as called, which keeps an owner awake that is about to park, wakes
//! those that sleep on it, and only then takes it back. A notifier that dies in between leaves a word that still
//! asks others for waking.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use causeway_sys::word::Word;
use causeway_wire::shm::doorbell::{
    BITMAP_WORDS, CALLED, PARKED, SLEEP_STEP, WORDS_PER_SUMMARY_BIT,
};

use crate::wake::WakeFlag;

/// Where a doorbell's words lie.
pub(super) trait BellMemory {
    /// The words' type.
    type Word: Word;
    /// Not 0, the number of the sleep, while the owner sleeps or is about to.
    fn armed(&self) -> &Self::Word;
    /// Groups of the bitmap with rung bits.
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

/// What `armed` holds during sleep `number`, which is not 0 and never given before.
pub(super) fn sleep(number: u64, on: SleepOn) -> u64 {
    number * SLEEP_STEP + if on == SleepOn::Word { PARKED } else { 0 }
}

/// Rings `bit` of a peer's doorbell. Returns from which sleep its owner has to be woken, for
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

/// Wakes a parked owner from `sleep`. `false` if it sleeps on its descriptors: then the caller sends something
/// to one of them and calls [`woken`].
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

/// Spares others the waking from `sleep`: a wake-up that ends it is on the way.
pub(super) fn woken(bell: &impl BellMemory, sleep: u64) {
    bell.armed().replace(sleep, 0, AcqRel);
}

/// Whether a peer has rung.
#[inline]
pub(super) fn is_rung(bell: &impl BellMemory) -> bool {
    bell.summary().load(Relaxed) != 0
}

/// Takes the bits that were rung and appends their numbers to `rung`.
pub(super) fn collect(bell: &impl BellMemory, rung: &mut Vec<u32>) {
    let mut groups = bell.summary().swap(0, SeqCst);
    while groups != 0 {
        let group = groups.trailing_zeros() as usize;
        groups &= groups - 1;
        let first = group * WORDS_PER_SUMMARY_BIT;
        // Bits that no peer of ours sets name no words.
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
        // One that sleeps on descriptors is called on a descriptor.
        sleep => drop(call(bell, sleep)),
    }
}

/// Whether a sleep that was announced may begin: no peer has rung, and none of the `flags` is set. The caller
/// has fenced since [`arm`].
pub(super) fn is_quiet<'a>(
    bell: &impl BellMemory,
    flags: impl IntoIterator<Item = &'a WakeFlag>,
) -> bool {
    !is_rung(bell) && !flags.into_iter().any(WakeFlag::is_set)
}

/// Announces a [`sleep`]. The caller fences (for rings that were polled: the heavy fence) before it looks
/// whether all [`is_quiet`].
pub(super) fn arm(bell: &impl BellMemory, sleep: u64) {
    // Swapped, not stored, here and in `disarm`, so that what a notifier takes back finds a definite
    // place between the two.
    bell.armed().swap(sleep, SeqCst);
}

/// Takes the announcement back.
pub(super) fn disarm(bell: &impl BellMemory) {
    bell.armed().swap(0, AcqRel);
}
