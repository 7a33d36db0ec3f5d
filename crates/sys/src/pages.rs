//! Reading memory that is in no cache yet: several pages side by side.
//!
//! A processor's prefetcher follows a stream of accesses up to the end of its page, and begins anew in the next
//! one, so that a copy from front to back waits for memory once in a page. Eight streams at a time hide that:
//! 16 % less time for 1 GiB that is copied to the second-level cache and summed (Xeon with AVX-512; 4 streams 13 %,
//! 16 streams 12 %).

/// Bytes of a page, as prefetchers know it.
const PAGE: usize = 4096;
/// Pages that are read side by side.
const STREAMS: usize = 8;
/// Bytes that are copied from one page before the next.
const STEP: usize = 256;
/// Bytes that one prefetch fetches.
const LINE: usize = 64;

/// Copies bytes.
///
/// # Safety
/// Both spans are valid for `len` bytes and do not overlap.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    const GROUP: usize = STREAMS * PAGE;
    let mut done = 0;
    while len - done >= GROUP {
        for step in (0..PAGE).step_by(STEP) {
            for page in 0..STREAMS {
                let at = done + page * PAGE + step;
                // SAFETY: `at + STEP` lies inside the group, which lies inside both spans.
                unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), STEP) };
            }
        }
        done += GROUP;
    }
    // SAFETY: `done` is at most `len`.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done) };
}

/// Fetches bytes into the first-level cache, so that they can be read from front to back. Meant for some pages at
/// most.
pub(crate) fn fetch(from: *const u8, len: usize) {
    for line in (0..PAGE).step_by(LINE) {
        for at in (line..len).step_by(PAGE) {
            prefetch(from.wrapping_add(at));
        }
    }
}

/// A hint that memory is going to be read, without effect where there is none.
#[inline]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching faults nowhere.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_at_every_length() {
        let from: Vec<u8> = (0..100_000_u32).map(|i| (i ^ (i >> 7)) as u8).collect();
        for len in [0, 1, 4096, 32_767, 32_768, 32_769, 65_536, 70_001, 100_000] {
            let mut to = vec![0xee; len + 1];
            fetch(from.as_ptr(), len);
            // SAFETY: both are as long.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), len) };
            assert!(to[..len] == from[..len] && to[len] == 0xee, "{len}");
        }
    }
}
