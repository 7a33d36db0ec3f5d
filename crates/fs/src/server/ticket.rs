//! Requests in progress by name, and where their replies go.

use causeway_bmi::Addr;

/// Most requests in progress.
pub const MAX_REQUESTS: usize = 256;

/// Names a request in progress. Never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    pub(super) slot: u16,
    pub(super) generation: u32,
}

/// Where a reply goes, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyTo {
    pub(super) from: Addr,
    pub(super) tag: u64,
    /// The request's format, or the one of a refusal.
    pub(super) format: u8,
    /// The number of the request's record in the audit; 0 if it has none.
    pub(super) record: u64,
}
