//! The page that a process publishes about itself: the status of its message layer, and its latest
//! log events.
//!
//! The page is a memory file that the process maps and others open through `/proc`. It has four
//! parts: a head of single words ([`word`]), two short texts ([`area`]), a ring of log events
//! ([`LogEvent`]) and a table of rows ([`Row`]). Texts, events and rows begin with a version word
//! that is odd while the rest is being written; a reader copies them, compares the version before
//! and after, and only then decodes. `docs/formats/watch.md` draws it.

mod event;
mod layout;
mod row;
#[cfg(test)]
mod tests;
mod text;

pub use event::{LogEvent, MAX_EVENT_TEXT, MAX_TARGET};
pub use layout::{
    EVENT_BODY_BYTES, EVENT_BYTES, EVENTS, EVENTS_OFFSET, PAGE_BYTES, ROW_BODY_BYTES, ROW_BYTES,
    ROWS, ROWS_OFFSET, area, event_offset, event_version, row_offset, word,
};
pub use row::{
    Count, InstanceRow, MAX_ADDRESS, MAX_LISTENING, OpKind, PeerRow, PhaseCode, Row, WaitReason,
    Waiting,
};
pub use text::{ends, front};

use alloc::string::String;

use crate::formats::Formats;

/// The first word of a page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CWWATCH\0");
/// The formats of pages that this build reads. It writes the highest: a page serves any reader, and
/// formats cannot be negotiated.
pub const FORMATS: Formats = Formats {
    lowest: 1,
    highest: 2,
};
/// The name of the memory file: `/proc/PID/fd` shows it after `/memfd:`.
pub const FILE_NAME: &str = "causeway:watch";

/// The word at [`word::FORMAT_AND_PID`].
pub fn pack_format(pid: u32) -> u64 {
    u64::from(FORMATS.highest) | u64::from(pid) << 32
}

/// The process id in the word at [`word::FORMAT_AND_PID`]; an error if this build does not read
/// pages of that format.
pub fn unpack_format(word: u64) -> Result<u32, String> {
    let format = word as u32;
    match u8::try_from(format) {
        Ok(known) if FORMATS.has(known) => Ok((word >> 32) as u32),
        Ok(other @ 1..) => {
            Err(FORMATS.mismatch(Formats::only(other), "the page that processes show"))
        }
        _ => Err(alloc::format!(
            "it states a format {format}, which there cannot be"
        )),
    }
}
