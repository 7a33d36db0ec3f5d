//! Names of requests in progress, and the destinations of their replies.

use causeway_bmi::Addr;

/// Most requests in progress.
pub const MAX_REQUESTS: usize = 256;
/// From so many requests in progress on, each user for whom agents speak may have an eighth of all. Such a user may let requests last, by not
/// sending their data, and not reading replies.
const NEARLY_FULL: usize = MAX_REQUESTS / 2;
const SHARE_OF_USER: usize = MAX_REQUESTS / 8;
/// Most replies that a client does not read which has made more requests than its user's share, before it is disconnected.
const UNREAD: usize = 16;

/// What a user for whom agents speak has of the requests in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OfUser {
    /// Requests of the user, by all connections.
    pub(super) requests: usize,
    /// Replies by the connection that makes one more, which its client does not read.
    pub(super) unread: usize,
}

/// What becomes of one more request of such a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// It is carried out.
    Within,
    /// It is refused for now, if it may last.
    Taken,
    /// Its client is disconnected: refusals that it does not read would be in progress, too.
    Unread,
}

/// Whether a user may have a further request, with this number of requests of all users in
/// progress.
pub(super) fn share(busy: usize, of_user: OfUser) -> Share {
    if busy < NEARLY_FULL || of_user.requests < SHARE_OF_USER {
        return Share::Within;
    }
    match of_user.unread {
        0..UNREAD => Share::Taken,
        _ => Share::Unread,
    }
}

/// Whether a server with this number of requests in progress limits each user's share of them.
pub(super) fn is_nearly_full(busy: usize) -> bool {
    busy >= NEARLY_FULL
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_half_of_the_requests_and_then_a_share() {
        let of = |busy, requests, unread| share(busy, OfUser { requests, unread });
        assert_eq!(of(NEARLY_FULL - 1, NEARLY_FULL - 1, 100), Share::Within);
        assert_eq!(of(NEARLY_FULL, NEARLY_FULL, 0), Share::Taken);
        assert_eq!(of(NEARLY_FULL, NEARLY_FULL, UNREAD), Share::Unread);
        // Another user gets a share of what is left.
        assert_eq!(of(NEARLY_FULL, 0, 0), Share::Within);
        let last = SHARE_OF_USER - 1;
        assert_eq!(of(NEARLY_FULL + last, last, 0), Share::Within);
        assert_eq!(of(NEARLY_FULL + last + 1, last + 1, 0), Share::Taken);
        // So do all who fit.
        let users = (MAX_REQUESTS - NEARLY_FULL) / SHARE_OF_USER;
        assert!(users >= 4);
        assert!(!is_nearly_full(NEARLY_FULL - 1) && is_nearly_full(NEARLY_FULL));
    }
}
