//! Fences whose whole cost is on the side that seldom needs one.
//!
//! Two sides that each write one word and then read the other's must not both miss the other's
//! write; normally both pay for a full fence between their write and their read. With
//! `membarrier`, the rare side runs [`heavy`], which makes every running thread of every registered
//! process pass a full fence, and the frequent side only keeps the compiler from reordering.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Registers this process to take part. Returns whether the kernel lets it. Both processes of a pair
/// must be registered before either leaves its fences out.
pub fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// A full fence, as `fence(SeqCst)`, by the instruction that does it fastest: on x86-64 any locked one, in half the time of `mfence`,
/// which orders more than loads and stores of ordinary memory.
#[inline]
pub fn full() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the word on the stack is valid, and stays as it is.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
}

/// The rare side's fence. A full fence for this thread in any case.
pub fn heavy() {
    fence(Ordering::SeqCst);
    if register() {
        // Registered, so it can only fail for want of kernel memory; there is nothing to do about
        // that, and the senders' own recheck bounds the harm to a late wake-up.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }
}

/// The frequent side's fence: nothing for the processor if the other side uses [`heavy`] and both are
/// registered (`asymmetric`), a full fence otherwise.
#[inline]
pub fn light(asymmetric: bool) {
    if asymmetric {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
