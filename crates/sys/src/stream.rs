//! Copying past the caches.

/// Copies `len` bytes with stores that do not bring the target into the caches, which have all become
/// visible to others before whatever the caller stores next.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes.
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    const STEP: usize = size_of::<__m128i>();
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: `head..tail` and what is before and behind it lie in the caller's ranges, and the target of
    // each aligned store is on a line of its own; the instructions are in every processor of this kind.
    unsafe {
        std::ptr::copy(from, to, head);
        for line in 0..lines {
            let at = head + line * LINE;
            let source = from.add(at).cast::<__m128i>();
            let target = to.add(at).cast::<__m128i>();
            let parts = [0, 1, 2, 3].map(|part| _mm_loadu_si128(source.add(part)));
            for (part, value) in parts.into_iter().enumerate() {
                _mm_stream_si128(target.add(part), value);
            }
        }
        std::ptr::copy(from.add(tail), to.add(tail), len - tail);
        // Such stores are not ordered with others.
        _mm_sfence();
    }
    const { assert!(LINE == 4 * STEP) };
}

/// As above, through the caches: this processor is not known to do better.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe { std::ptr::copy(from, to, len) };
}
