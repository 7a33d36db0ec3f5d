//! The page that a process publishes about itself: what its message layer is doing, and its latest
//! log events.
//!
//! The page is a memory file that the process maps and others open through `/proc`. It has four
//! parts: a head of single words ([`word`]), two short texts ([`area`]), a ring of log events
//! ([`LogEvent`]) and a table of rows ([`Row`]). Texts, events and rows begin with a version word that
//! is odd while the rest is being written; a reader copies them out, compares the version before and
//! behind, and only then decodes. `docs/formats/watch.md` draws it.

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

use crate::codec::{Malformed, unknown};

/// The first word of a page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CWWATCH\0");
/// Version of everything here; a reader shows pages of its own version only.
pub const VERSION: u32 = 1;
/// What the memory file is called: `/proc/PID/fd` shows it behind `/memfd:`.
pub const FILE_NAME: &str = "causeway:watch";

/// The word at [`word::VERSION_AND_PID`].
pub fn pack_version(pid: u32) -> u64 {
    u64::from(VERSION) | u64::from(pid) << 32
}

/// The process id in the word at [`word::VERSION_AND_PID`].
pub fn unpack_version(word: u64) -> Result<u32, Malformed> {
    match word as u32 {
        VERSION => Ok((word >> 32) as u32),
        other => unknown("version of the page", other),
    }
}
