//! Text in and out.

use std::ffi::{CStr, c_char, c_int};

use crate::error::{BMI_EADDRESS, Failure};

/// Reads a text from C.
///
/// # Safety
/// `text` is null or points to a string that ends with a NUL and does not change during `'a`.
pub(crate) unsafe fn read<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    Failure::if_null(text, what)?;
    // SAFETY: not null, and otherwise as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Failure::new(BMI_EADDRESS, format!("{what} is not UTF-8")))
}

/// Writes a text as `snprintf` would: at most `room` bytes with the NUL; returns its whole length.
///
/// # Safety
/// `into` is valid for writes of `room` bytes, or `room` is 0.
pub(crate) unsafe fn write(text: &str, into: *mut c_char, room: usize) -> Result<c_int, Failure> {
    if into.is_null() && room > 0 {
        return Err(Failure::invalid("the pointer for the text is NULL"));
    }
    // A text that does not fit is cut between characters.
    let most = room.saturating_sub(1).min(text.len());
    let fits = (0..=most).rev().find(|&at| text.is_char_boundary(at));
    let fits = fits.unwrap_or(0);
    if room > 0 {
        // SAFETY: `fits` is less than `room`, for which the caller vouches.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), into, fits);
            into.add(fits).write(0);
        }
    }
    Ok(c_int::try_from(text.len()).unwrap_or(c_int::MAX))
}
