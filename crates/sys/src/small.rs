//! Copying few bytes without calling a function.
//!
//! A message of 8 bytes is copied twice on its way; a call of `memcpy` each time would be a
//! noticeable part of that way.

use crate::aliasing;

/// Copies `len` bytes as [`copy_nonoverlapping`](std::ptr::copy_nonoverlapping) does, inline where they are few.
///
/// # Safety
/// As there: `from` is valid for reads and `to` for writes of `len` bytes, and they do not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every branch moves the first and the last bytes of the `len`, in pieces that `len` has room
    // for and that together cover it.
    unsafe {
        match len {
            0 => {}
            8..=16 => ends::<u64>(from, to, len),
            4..=7 => ends::<u32>(from, to, len),
            2..=3 => ends::<u16>(from, to, len),
            1 => to.write(from.read()),
            17..=32 => ends::<u128>(from, to, len),
            33..=64 => {
                let last = len - 32;
                ends::<u128>(from, to, 32);
                ends::<u128>(from.add(last), to.add(last), 32);
            }
            _ => aliasing::copy(from, to, len),
        }
    }
}

/// Copies the first and the last bytes of `len`; for at most twice a `T` these are all.
///
/// # Safety
/// As [`copy`], and `len` is at least that of a `T`.
#[inline(always)]
unsafe fn ends<T>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: both ranges lie inside the `len` bytes that the caller vouches for.
    unsafe {
        let head = from.cast::<T>().read_unaligned();
        let tail = from.add(last).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(head);
        to.add(last).cast::<T>().write_unaligned(tail);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_length_arrives_whole_and_alone() {
        let from: Vec<u8> = (1..=100).collect();
        for len in 0..=80 {
            let mut to = [0u8; 100];
            // SAFETY: both have 100 bytes.
            unsafe { super::copy(from.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!(to[..len], from[..len]);
            assert!(to[len..].iter().all(|byte| *byte == 0), "{len}");
        }
    }
}
