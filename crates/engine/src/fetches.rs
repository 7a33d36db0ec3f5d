//! Which peers have large unexpected messages to be fetched
//! (`conversations::fetching`).

use std::collections::VecDeque;
use std::time::Instant;

/// The result of an attempt to fetch the next message of a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fetch {
    /// None is to be fetched now.
    Nothing,
    /// It is being fetched, or was refused.
    Begun {
        /// There are more to fetch.
        more: bool,
    },
    /// The peer holds its share of the memory.
    HasShare,
    /// There is no room for it.
    NoRoom,
}

/// After this many fetches for other peers, a peer without room is the next.
const MOST_PASSED: u32 = 8;

/// Which peers wait to fetch unexpected messages.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Peers, by key, with messages to be fetched, round robin.
    pub(crate) ring: VecDeque<u64>,
    /// Trying the peers is queued.
    pub(crate) queued: bool,
    /// A peer, by key, for whose next message there is no room.
    pub(crate) waits: Option<u64>,
    /// Fetches for other peers that have begun since then.
    passed: u32,
    /// How many fetches have begun.
    pub(crate) begun: u64,
    /// Since when some peer has waited for room, and how many fetches had begun by then.
    pub(crate) short: Option<(Instant, u64)>,
}

impl Fetches {
    /// The waiting peers are to be tried again. Returns whether that is to be queued.
    pub(crate) fn retry(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// Whether other peers have begun so many fetches while one had no room that it is the next.
    pub(crate) fn is_passed_often(&self) -> bool {
        self.passed >= MOST_PASSED
    }

    /// Notes the result for a peer that was tried.
    pub(crate) fn tried(&mut self, peer: u64, fetch: Fetch) {
        match fetch {
            Fetch::NoRoom if self.waits.is_none() => (self.waits, self.passed) = (Some(peer), 0),
            Fetch::NoRoom => {}
            _ if self.waits == Some(peer) => self.waits = None,
            Fetch::Begun { .. } => self.passed += 1,
            Fetch::Nothing | Fetch::HasShare => {}
        }
    }
}
