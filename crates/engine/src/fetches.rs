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
    /// There is no room for it.
    NoRoom,
}

/// After this many fetches for other peers, a peer without room is the next.
const MOST_PASSED: u32 = 8;

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
    /// Some peer waits for room.
    pub(crate) short: Option<Short>,
}

impl Fetches {
    /// The waiting peers are to be tried again. Returns whether that is to be queued.
    pub(crate) fn retry(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// Whether this peer is left out, because another one has been passed over so often that it is
    /// the next.
    pub(crate) fn is_kept_out(&self, peer: u64) -> bool {
        self.passed >= MOST_PASSED && self.waits.is_some_and(|waits| waits != peer)
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

    /// All peers have been tried at this step of the patience, and some were `refused` for lack of
    /// room, or none. Returns whether they are to be tried again: the peer for which others were
    /// kept out waits no longer.
    pub(crate) fn round_ended(&mut self, refused: bool, steps: u64) -> bool {
        if !refused {
            self.short = None;
            return false;
        }
        let begun = self.begun;
        // A part of the present step has passed already.
        let since = steps + 1;
        self.short.get_or_insert(Short { since, begun });
        self.waits.is_none()
    }
}
