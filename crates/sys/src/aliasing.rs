//! Copies whose target lies a few bytes further on in its page than their source.
//!
//! The string copy instruction (`rep movsb`) is used by the C library for copies of some kB and more, and by the kernel in
//! cross-memory attach. On some processors it slows down to 1.8 GB/s where the target lies 1 to 31 bytes further on in its page
//! than the source (an EPYC of the third generation; 50 GB/s otherwise). Messages behind a header of 16 bytes are copied in
//! just this way. Whether this processor slows down is measured at the first such copy. If it does, [`copy`] copies in steps
//! that are too short for the instruction, and [`attach`](crate::attach) copies by way of a buffer that has the same offset in
//! its page as the remote memory.

use std::ptr;
use std::sync::OnceLock;

use crate::timing::lowest;

/// Bytes of a page: only the offsets of addresses in their pages are compared.
const PAGE: usize = 4096;
/// Targets that lie fewer bytes than this further on are slow.
const SPREAD: usize = 32;
/// Copies of at most this many bytes are not made by the instruction.
pub const STEP_BYTES: usize = 2048;
/// Bytes copied for the measurement.
const SAMPLE_BYTES: usize = 8192;
/// A copy that takes this many times as long shows that the instruction slows down (28 times were measured;
/// without that, copies differ by a factor of up to two).
const SLOWDOWN: f64 = 5.0;

/// Whether the bytes at `to` lie a little further on in their page than those at `from`.
#[inline]
pub(crate) fn is_close(from: usize, to: usize) -> bool {
    (1..SPREAD).contains(&(to.wrapping_sub(from) % PAGE))
}

/// Whether the C library's copies are slow on this processor where [`is_close`] holds.
fn is_slow() -> bool {
    static MEASURED: OnceLock<bool> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        slows_down(|from, into| {
            into.copy_from_slice(from);
            true
        })
    })
}

/// Whether copies that `copy` makes are slow where [`is_close`] holds. `copy` returns whether it has
/// copied.
pub(crate) fn slows_down(mut copy: impl FnMut(&[u8], &mut [u8]) -> bool) -> bool {
    let from = vec![1u8; SAMPLE_BYTES];
    let mut into = vec![2u8; SAMPLE_BYTES + 3 * PAGE];
    let start = into.as_ptr().align_offset(PAGE) + from.as_ptr().addr() % PAGE;
    let mut time = |further: usize| {
        let target = start + further..start + further + SAMPLE_BYTES;
        lowest(|| match into.get_mut(target.clone()) {
            Some(target) => copy(&from, std::hint::black_box(target)),
            None => false,
        })
    };
    let (close, apart) = (time(SPREAD / 2), time(4 * SPREAD));
    close
        .zip(apart)
        .is_some_and(|(close, apart)| close > SLOWDOWN * apart)
}

/// Copies `len` bytes as [`ptr::copy_nonoverlapping`] does.
///
/// # Safety
/// As there: `from` is valid for reads and `to` for writes of `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller vouches for.
    unsafe {
        if len > STEP_BYTES {
            copy_many(from, to, len);
        } else {
            ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// [`copy`] of more than [`STEP_BYTES`] bytes.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller vouches for.
    unsafe {
        if is_close(from.addr(), to.addr()) && is_slow() {
            copy_in_steps(from, to, len);
        } else {
            ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Copies without the string copy instruction: by the C library's vector instructions.
///
/// # Safety
/// As [`copy`].
pub unsafe fn copy_in_steps(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..len).step_by(STEP_BYTES) {
        let step = STEP_BYTES.min(len - at);
        // SAFETY: inside the `len` bytes.
        unsafe { ptr::copy_nonoverlapping(from.add(at), to.add(at), step) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_a_little_further_on_are_close() {
        for (from, to, close) in [
            (0, 0, false),
            (0, 1, true),
            (100, 131, true),
            (100, 132, false),
            (16, 0, false),
            (4095, 4096, true),
            (4080, 3 * 4096, true),
            (8192 + 5, 21, true),
        ] {
            assert_eq!(is_close(from, to), close, "{from} {to}");
        }
    }

    #[test]
    fn copies_of_any_length_are_whole_whichever_way() {
        let from: Vec<u8> = (0..10_000u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(is_slow(), is_slow());
        for len in [0, 1, 1023, 1024, 1025, 2048, 5000, 10_000] {
            for way in [copy, copy_in_steps] {
                let mut into = vec![0xee; 10_001];
                // SAFETY: both have as many bytes.
                unsafe { way(from.as_ptr(), into.as_mut_ptr(), len) };
                assert!(into[..len] == from[..len] && into[len..].iter().all(|b| *b == 0xee));
            }
        }
    }
}
