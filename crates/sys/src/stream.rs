//! Copying past the caches.

/// Copies `len` bytes with stores that do not bring the target into the caches. All of them become
/// visible to others before anything that the caller stores next.
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

/// As above, but through the caches: for this kind of processor no better way is implemented.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe { std::ptr::copy(from, to, len) };
}

/// A word that can be stored past the caches.
pub(crate) trait Word: Copy {
    /// Stores it at `to`.
    ///
    /// # Safety
    /// `to` must be valid for writes, and a multiple of the word's size. The store becomes visible before later ones only by
    /// [`fence`].
    unsafe fn store(self, to: *mut Self);
}

impl Word for u64 {
    #[inline(always)]
    unsafe fn store(self, to: *mut Self) {
        // SAFETY: the caller's; the instruction is in every processor of this kind.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_stream_si64(to.cast(), self.cast_signed());
        };
        // SAFETY: the caller's.
        #[cfg(not(target_arch = "x86_64"))]
        unsafe {
            to.write(self);
        };
    }
}

impl Word for u32 {
    #[inline(always)]
    unsafe fn store(self, to: *mut Self) {
        // SAFETY: the caller's; the instruction is in every processor of this kind.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_stream_si32(to.cast(), self.cast_signed());
        };
        // SAFETY: the caller's.
        #[cfg(not(target_arch = "x86_64"))]
        unsafe {
            to.write(self);
        };
    }
}

/// Copies `len` bytes as words with [`Word::store`]. Parts of a line that are stored one after the other reach memory together, even by
/// several calls, so that blocks that are shorter than a line, or lie across two, are copied as fast as whole lines.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; `to` and `len` must be multiples of the word's size.
#[inline(always)]
pub(crate) unsafe fn copy_words<W: Word>(from: *const u8, to: *mut u8, len: usize) {
    let (from, to, count) = (from.cast::<W>(), to.cast::<W>(), len / size_of::<W>());
    for at in 0..count {
        // SAFETY: the word lies inside both, and a word's boundary is one of every word of them.
        unsafe { from.add(at).read_unaligned().store(to.add(at)) };
    }
}

/// Makes everything that was stored past the caches visible to others before anything that the
/// caller stores next.
#[inline]
pub fn fence() {
    // SAFETY: the instruction is in every processor of this kind.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    };
}
