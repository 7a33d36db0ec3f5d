//! Which peers have large unexpected messages to be fetched
//! (`conversations::fetching`).

use std::collections::VecDeque;

/// The result of an attempt to fetch the next message of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The transfer could not start before others with the peer have ended: until then the message takes no memory.
    NoTransfer,
    /// There is no room for it.
    NoRoom,
}

/// After this many fetches for other peers, a peer without room is the next.
const MOST_PASSED: u32 = 8;

/// Peers without room that are tried in one round, which bounds the work of one event. (Few peers can hold their share, or
/// wait for a transfer: both take memory, or one of the transfers in progress.)
pub(crate) const MOST_REFUSED: u32 = 64;

/// A time in which memory is short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Short {
    /// It has lasted since this step of the patience at least.
    pub(crate) since: u64,
    /// How many fetches had begun by then.
    pub(crate) begun: u64,
}

/// Which peers wait to fetch unexpected messages.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Peers, by key, with messages to be fetched, round robin, besides the one in `waits`.
    pub(crate) ring: VecDeque<u64>,
    /// Trying the peers is queued.
    pub(crate) queued: bool,
    /// The peer, by key, for whose next message there was no room first.
    pub(crate) waits: Option<u64>,
    /// Some peer waits until transfers have ended ([`Fetch::NoTransfer`]).
    pub(crate) lacks_transfer: bool,
    /// Fetches for other peers that have begun since then.
    passed: u32,
    /// How many fetches have begun.
    pub(crate) begun: u64,
    /// Some peer waits for room.
    pub(crate) short: Option<Short>,
}

impl Fetches {
    /// The waiting peers are to be tried again. Returns whether that is to be queued.
    pub(crate) fn retry(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// Whether all other peers are left out, because the one that waits for room has been passed over
    /// so often that it is the next.
    pub(crate) fn are_others_kept_out(&self) -> bool {
        self.waits.is_some() && self.passed >= MOST_PASSED
    }

    /// Notes the result for a peer that was tried, and is not in the ring now. One of which more is to be fetched
    /// returns to the ring after all others.
    pub(crate) fn tried(&mut self, peer: u64, fetch: Fetch) {
        if self.waits == Some(peer) {
            if fetch == Fetch::NoRoom {
                return;
            }
            self.waits = None;
        }
        match fetch {
            Fetch::Nothing | Fetch::Begun { .. } => {}
            Fetch::NoRoom if self.waits.is_none() => (self.waits, self.passed) = (Some(peer), 0),
            Fetch::NoRoom | Fetch::HasShare | Fetch::NoTransfer => self.ring.push_back(peer),
        }
        self.lacks_transfer |= fetch == Fetch::NoTransfer;
        if matches!(fetch, Fetch::Begun { .. }) && self.waits.is_some() {
            self.passed += 1;
        }
    }

    /// The peers have been tried at this step of the patience, and some were `refused` for lack of
    /// room, or none.
    pub(crate) fn round_ended(&mut self, refused: bool, steps: u64) {
        if !refused {
            self.short = None;
            return;
        }
        let begun = self.begun;
        // A part of the present step has passed already.
        let since = steps + 1;
        self.short.get_or_insert(Short { since, begun });
    }
}
