//! Paths from C, and texts to C.

use std::ffi::{CStr, c_char};

use causeway_wire::fs::MAX_PATH_BYTES;

use crate::error::Failure;

/// A path from C, relative to the root.
///
/// # Safety
/// `path` is null or points to a string that ends with a NUL and does not change during `'a`.
pub(crate) unsafe fn path<'a>(path: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    Failure::if_null(path, what)?;
    // SAFETY: not null, and otherwise as the caller promises.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.is_empty() {
        return Err(Failure::new(libc::ENOENT, format!("{what} is empty")));
    }
    if bytes.len() > MAX_PATH_BYTES {
        let text = format!(
            "{what} has {} bytes; at most {MAX_PATH_BYTES} are possible",
            bytes.len()
        );
        return Err(Failure::new(libc::ENAMETOOLONG, text));
    }
    Ok(bytes)
}

/// Writes bytes with a NUL behind them, as far as there is room; returns their number without the NUL.
///
/// # Safety
/// `into` is valid for writes of `room` bytes, or `room` is 0.
pub(crate) unsafe fn write(bytes: &[u8], into: *mut c_char, room: usize) -> Result<i64, Failure> {
    if room > 0 {
        Failure::if_null(into, "the pointer for the text")?;
        let fits = bytes.len().min(room - 1);
        // SAFETY: `fits` is less than `room`, for which the caller vouches.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), into, fits);
            into.add(fits).write(0);
        }
    }
    Ok(i64::try_from(bytes.len()).unwrap_or(i64::MAX))
}
