//! Fetching large unexpected messages of all peers into the memory that there is for them.
//!
//! Peers take turns. A peer may hold at most as much of the memory as is free beside that
//! ([`Budget::reserve_pull`](crate::credit::Budget::reserve_pull)), so that some is left for peers
//! with fewer messages, and a peer for whose next message there is no room does not keep others
//! from fetching theirs, unless it has been passed over often.
//!
//! A message takes its memory before it moves, and a sender may never move it. As long as some peer
//! waits for memory, a fetch may therefore take no longer than the instance's
//! [patience](Conversations::set_patience); then its sender's connection is dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Conversations;
use crate::conversation::unexpected::Fetch;
use crate::matcher::Matcher;
use crate::operation::State;
use crate::shared::Work;

/// After this many fetches for other peers, a peer without room is the next.
const MOST_PASSED: u32 = 8;

/// Which peers wait to fetch unexpected messages.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Peers, by key, with messages to be fetched, round robin.
    pub(crate) ring: VecDeque<u64>,
    /// [`Work::Fetch`] is queued.
    queued: bool,
    /// A peer, by key, for whose next message there is no room.
    waits: Option<u64>,
    /// Fetches for other peers that have begun since then.
    passed: u32,
    /// How many fetches have begun.
    pub(crate) begun: u64,
    /// Since when some peer has waited for room, and how many fetches had begun by then.
    short: Option<(Instant, u64)>,
}

impl Fetches {
    /// Has the waiting peers tried again. Returns the work to be queued, if it is not queued yet.
    pub(crate) fn retry(&mut self) -> Option<Work> {
        (!std::mem::replace(&mut self.queued, true)).then_some(Work::Fetch)
    }

    /// Notes the result for a peer that was tried.
    fn tried(&mut self, peer: u64, fetch: Fetch) {
        match fetch {
            Fetch::NoRoom if self.waits.is_none() => (self.waits, self.passed) = (Some(peer), 0),
            Fetch::NoRoom => {}
            _ if self.waits == Some(peer) => self.waits = None,
            Fetch::Begun { .. } => self.passed += 1,
            Fetch::Nothing | Fetch::HasShare => {}
        }
    }
}

impl<M: Matcher> Conversations<M> {
    /// Sets how long a fetch may take while other messages wait for its memory. Without this, it
    /// takes as long as it takes.
    pub fn set_patience(&mut self, patience: Duration) {
        self.shared.patience = Some(patience);
    }

    /// Starts to fetch large unexpected messages: tries each waiting peer once.
    pub(super) fn fetch_waiting(&mut self) {
        self.check_waits();
        let Self { peers, shared } = self;
        shared.fetches.queued = false;
        // Peers that have begun one are tried again after all others.
        let mut again = Vec::new();
        for _ in 0..shared.fetches.ring.len() {
            let Some(key) = shared.fetches.ring.pop_front() else {
                break;
            };
            let Some(peer) = peers.find(key) else {
                continue;
            };
            let is_kept_out = shared.fetches.passed >= MOST_PASSED
                && shared.fetches.waits.is_some_and(|waits| waits != key);
            let fetch = match is_kept_out {
                true => Fetch::NoRoom,
                false => peers[peer].fetch_next(shared),
            };
            shared.fetches.tried(key, fetch);
            match fetch {
                Fetch::Nothing | Fetch::Begun { more: false } => peers[peer].leave_fetch_ring(),
                Fetch::Begun { more: true } => again.push(key),
                Fetch::HasShare | Fetch::NoRoom => shared.fetches.ring.push_back(key),
            }
        }
        if !again.is_empty() {
            shared.fetches.ring.extend(again);
            shared.retry_fetches();
        }
    }

    /// Forgets the peer that waited for room if it does not any more.
    fn check_waits(&mut self) {
        let waits = self
            .shared
            .fetches
            .waits
            .and_then(|key| self.peers.find(key));
        if !waits.is_some_and(|peer| self.peers[peer].is_to_fetch()) {
            self.shared.fetches.waits = None;
        }
    }

    /// When [`Conversations::expire`] is to be called, if nothing happens until then.
    pub fn deadline(&self) -> Option<Instant> {
        let (since, _) = self.shared.fetches.short?;
        since.checked_add(self.shared.patience?)
    }

    /// Drops peers that have kept others waiting for too long. Called now and then, and before the
    /// driver sleeps.
    pub fn expire(&mut self, now: Instant) {
        let Some(patience) = self.shared.patience else {
            return;
        };
        if self.shared.fetches.waits.is_some() {
            self.check_waits();
        }
        let Self { peers, shared } = self;
        let fetches = &mut shared.fetches;
        if fetches.waits.is_none() {
            fetches.short = None;
            return;
        }
        let (since, begun) = *fetches.short.get_or_insert((now, fetches.begun));
        if now.saturating_duration_since(since) < patience {
            return;
        }
        fetches.short = Some((now, fetches.begun));
        for peer in peers.iter_mut() {
            let is_stuck = peer.arrived.fetching().any(|(number, op)| {
                let state = &shared.ops[op].state;
                number < begun && matches!(state, State::Pulling(_) | State::Cleared { .. })
            });
            if is_stuck {
                let reason = format!(
                    "an unexpected message that it has announced did not come within {} s, and others wait for the \
                     memory",
                    patience.as_secs_f32()
                );
                peer.protocol_error(shared, reason);
            }
        }
    }
}
