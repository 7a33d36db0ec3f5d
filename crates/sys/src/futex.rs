//! Sleeping on a word in memory, and waking the threads that do: the cheapest sleep between processes that
//! share a page, about half of what a descriptor costs.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// The half of `word` that holds its low 32 bits, for the kernel: only its address is used.
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let at = usize::from(cfg!(target_endian = "big"));
    // SAFETY: the half lies in `word`, aligned, and lives as long. It is only handed to the kernel,
    // never accessed as an atomic of another size here.
    unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>().add(at) }
}

/// Sleeps while the low half of `word` is that of `value`, at most `limit`. Returns `false` if the time is up.
/// May return `true` without a wake-up: the caller checks its condition again. Processes that share the memory may
/// wake one another.
pub fn wait(word: &AtomicU64, value: u64, limit: Option<Duration>) -> bool {
    sleep(word, value, limit, Flags::empty())
}

/// Wakes all threads that sleep on `word`. The caller changes the word first.
pub fn wake(word: &AtomicU64) {
    wake_all(word, Flags::empty());
}

/// As [`wait`], for a word that only threads of this process know, which the kernel finds faster. [`wake_here`] ends it.
pub fn wait_here(word: &AtomicU64, value: u64, limit: Option<Duration>) -> bool {
    sleep(word, value, limit, Flags::PRIVATE)
}

/// Wakes all threads that sleep in [`wait_here`]. The caller changes the word first.
pub fn wake_here(word: &AtomicU64) {
    wake_all(word, Flags::PRIVATE);
}

fn sleep(word: &AtomicU64, value: u64, limit: Option<Duration>, flags: Flags) -> bool {
    // A limit that the kernel cannot express counts as none.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let outcome = futex::wait(low_half(word), flags, value as u32, limit.as_ref());
    outcome != Err(rustix::io::Errno::TIMEDOUT)
}

fn wake_all(word: &AtomicU64, flags: Flags) {
    // There is nothing to wake if the kernel knows no such address.
    let _ = futex::wake(low_half(word), flags, i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    #[test]
    fn a_sleeper_is_woken_and_a_changed_word_is_not_slept_on() {
        let word = AtomicU64::new(7 << 40 | 5);
        assert!(wait(&word, 6, None));
        assert!(!wait(&word, 5, Some(Duration::from_millis(1))));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let since = Instant::now();
                while word.load(Ordering::Acquire) & 0xff == 5 {
                    wait(&word, 5, Some(Duration::from_secs(600)));
                }
                since.elapsed()
            });
            word.store(4, Ordering::Release);
            wake(&word);
            assert!(sleeper.join().unwrap() < Duration::from_secs(300));
        });
    }
}
