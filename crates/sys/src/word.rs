//! Atomic words as queues, doorbells and locks see them: the processor's, or those of the model checker.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::fence;
#[cfg(not(loom))]
pub use std::sync::atomic::fence;

/// An atomic word.
pub trait Word {
    /// As the standard library's.
    fn load(&self, order: Ordering) -> u64;
    /// As the standard library's.
    fn store(&self, value: u64, order: Ordering);
    /// As the standard library's.
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// As the standard library's.
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;
    /// As the standard library's.
    fn fetch_and(&self, bits: u64, order: Ordering) -> u64;
    /// As the standard library's.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    /// As the standard library's.
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;
    /// Sets the word to `new` if it is `old`; returns whether it was.
    fn replace(&self, old: u64, new: u64, order: Ordering) -> bool;
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            #[inline]
            fn load(&self, order: Ordering) -> u64 {
                self.load(order)
            }
            #[inline]
            fn store(&self, value: u64, order: Ordering) {
                self.store(value, order)
            }
            #[inline]
            fn swap(&self, value: u64, order: Ordering) -> u64 {
                self.swap(value, order)
            }
            #[inline]
            fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
                self.fetch_or(bits, order)
            }
            #[inline]
            fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
                self.fetch_and(bits, order)
            }
            #[inline]
            fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
                self.fetch_add(value, order)
            }
            #[inline]
            fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
                self.fetch_sub(value, order)
            }
            #[inline]
            fn replace(&self, old: u64, new: u64, order: Ordering) -> bool {
                self.compare_exchange(old, new, order, Ordering::Relaxed)
                    .is_ok()
            }
        }
    };
}

word!(AtomicU64);
#[cfg(loom)]
word!(loom::sync::atomic::AtomicU64);
