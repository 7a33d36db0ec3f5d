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

use std::time::{Duration, Instant};

use super::Conversations;
use crate::fetches::Fetch;
use crate::matcher::Matcher;
use crate::operation::State;

impl<M: Matcher> Conversations<M> {
    /// Sets how long a greeting may take, and a fetch while other messages wait for its memory.
    /// Without this, they take as long as they take.
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
            let is_kept_out = shared.fetches.is_passed_often()
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
        let fetch = self.shared.fetches.short;
        let fetch = fetch.and_then(|(since, _)| since.checked_add(self.shared.patience?));
        self.greeting_deadline().into_iter().chain(fetch).min()
    }

    /// Gives up peers that have let others, or operations, wait for too long. Called now and then,
    /// and before the driver sleeps.
    pub fn expire(&mut self, now: Instant) {
        if let Some(patience) = self.shared.patience {
            self.expire_greetings(now, patience);
            self.expire_fetches(now, patience);
        }
    }

    fn expire_fetches(&mut self, now: Instant, patience: Duration) {
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
