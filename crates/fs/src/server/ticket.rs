//! Names of requests in progress, and the destinations of their replies.

use causeway_bmi::Addr;

/// Most requests in progress.
pub const MAX_REQUESTS: usize = 256;
/// From so many requests in progress on, each user for whom agents speak may have an eighth of all. Such a user may let requests last, by not
/// sending their data, and not reading replies.
pub(super) const CROWDED: usize = MAX_REQUESTS / 2;
pub(super) const SHARE_OF_USER: usize = MAX_REQUESTS / 8;
/// Most replies that a client does not read which has made more requests than its user's share, before it is disconnected.
pub(super) const UNREAD: usize = 16;

/// Names a request in progress. The name is never used again for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    pub(super) slot: u16,
    pub(super) generation: u32,
}

/// The destination of a reply, and its form.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyTo {
    pub(super) from: Addr,
    pub(super) tag: u64,
    /// The format of the request; of a refusal, a format that the client decodes.
    pub(super) format: u8,
    /// The number of the request's audit record; 0 if it has none.
    pub(super) record: u64,
}
