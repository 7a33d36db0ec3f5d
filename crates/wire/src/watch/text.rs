//! Texts that must fit: cut when they are written, checked when they are read.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use crate::codec::{Malformed, unknown, utf8};

/// The front of a text that fits into `most` bytes, cut between characters.
pub fn front(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text that fits into `most` bytes: the middle is left out, as both ends of an address tell more
/// than it does.
pub fn ends(text: &str, most: usize) -> String {
    const GAP: &str = "…";
    if text.len() <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(GAP.len()) else {
        return String::new();
    };
    let head = front(text, room / 3);
    let mut tail = text.len() - (room - head.len());
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{head}{GAP}{}", &text[tail..])
}

/// Text at the front of `bytes`, which are zero behind it: one encoding only.
pub(super) fn text_in(bytes: &[u8], len: usize, field: &'static str) -> Result<String, Malformed> {
    let (text, padding) = bytes
        .split_at_checked(len)
        .ok_or(Malformed::Truncated { field })?;
    if let Some(byte) = padding.iter().find(|byte| **byte != 0) {
        return unknown("padding", *byte);
    }
    Ok(utf8(text, field)?.to_owned())
}
