//! Fetching large unexpected messages of all peers into the memory that there is for them.
//!
//! Peers are served round robin. A peer may hold at most as much of the memory as is free beside that
//! ([`Budget::reserve_pull`](crate::credit::Budget::reserve_pull)), so that some is left for peers
//! with fewer messages, and a peer for whose next message there is no room does not keep others
//! from fetching theirs, unless it has been passed over often. A message whose transfer could not start
//! yet takes no memory.
//!
//! A message takes its memory before it moves, and a sender may never move it. As long as some peer
//! waits for memory, a fetch may therefore take no longer than the instance's
//! [patience](Conversations::set_patience); then its sender's connection is dropped.

use std::time::{Duration, Instant};

use super::Conversations;
use crate::fetches::{Fetch, MOST_REFUSED, Short};
use crate::matcher::Matcher;
use crate::operation::State;
use crate::patience::{Patience, STEPS};

impl<M: Matcher> Conversations<M> {
    /// Sets how long a greeting may take, and a fetch while other messages wait for its memory. Only
    /// time counts that passes while [`Conversations::expire`] is called, an eighth of this at most
    /// from one call to the next. Without this, they take as long as they take.
    pub fn set_patience(&mut self, patience: Duration, now: Instant) {
        self.shared.patience = Some(Patience::new(patience, now));
    }

    /// Starts to fetch large unexpected messages: tries each waiting peer once, or until there was no
    /// room for many of them.
    pub(super) fn fetch_waiting(&mut self) {
        self.forget_waiting();
        let Self { peers, shared } = self;
        shared.fetches.queued = false;
        let lacked_transfer = std::mem::take(&mut shared.fetches.lacks_transfer);
        // The peer that waits for room comes first. Those that have begun a fetch are tried again after all others.
        let waiting = shared.fetches.waits;
        let count = shared.fetches.ring.len();
        let (mut again, mut refused) = (Vec::new(), 0);
        for key in waiting
            .into_iter()
            .map(Some)
            .chain((0..count).map(|_| None))
        {
            let is_enough = refused >= MOST_REFUSED || shared.fetches.are_others_kept_out();
            if is_enough && key.is_none() {
                // Those that were not tried may still lack one.
                shared.fetches.lacks_transfer |= lacked_transfer;
                break;
            }
            let Some(key) = key.or_else(|| shared.fetches.ring.pop_front()) else {
                break;
            };
            let Some(peer) = peers.find(key) else {
                continue;
            };
            let fetch = peers[peer].fetch_next(shared);
            shared.fetches.tried(key, fetch);
            match fetch {
                Fetch::Nothing | Fetch::Begun { more: false } => peers[peer].leave_fetch_ring(),
                Fetch::Begun { more: true } => again.push(key),
                Fetch::NoRoom => refused += 1,
                Fetch::HasShare | Fetch::NoTransfer => {}
            }
        }
        let steps = shared.patience.as_ref().map_or(0, Patience::steps);
        shared.fetches.round_ended(refused > 0, steps);
        if !again.is_empty() {
            shared.fetches.ring.extend(again);
            shared.retry_fetches();
        }
    }

    /// Forgets the peer that waited for room if it does not any more. Returns whether it did so.
    fn forget_waiting(&mut self) -> bool {
        let Self { peers, shared } = self;
        let Some(key) = shared.fetches.waits else {
            return false;
        };
        let peer = peers.find(key);
        if peer.is_some_and(|peer| peers[peer].is_to_fetch()) {
            return false;
        }
        shared.fetches.waits = None;
        if let Some(peer) = peer {
            peers[peer].leave_fetch_ring();
        }
        true
    }

    /// When [`Conversations::expire`] is to be called, if nothing happens until then.
    pub fn deadline(&self) -> Option<Instant> {
        let Self { shared, .. } = self;
        let is_waiting = shared.fetches.short.is_some() || !shared.greetings.is_empty();
        shared.patience.as_ref().filter(|_| is_waiting)?.step_ends()
    }

    /// Whether [`Conversations::expire`] may give up peers now: the driver handles what has arrived first.
    pub fn may_expire(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Gives up peers that have let others, or operations, wait for too long. Called now and then,
    /// and before the driver sleeps.
    pub fn expire(&mut self, now: Instant) {
        let patience = self.shared.patience.as_mut();
        if patience.is_some_and(|patience| patience.pass(now)) {
            self.expire_greetings();
            self.expire_fetches();
        }
    }

    fn expire_fetches(&mut self) {
        if self.forget_waiting() {
            self.shared.retry_fetches();
        }
        let Self { peers, shared } = self;
        let (Some(patience), Some(short)) = (&shared.patience, shared.fetches.short) else {
            return;
        };
        if patience.steps() < short.since + STEPS {
            return;
        }
        let whole = patience.whole().as_secs_f32();
        shared.fetches.short = Some(Short {
            since: patience.steps(),
            begun: shared.fetches.begun,
        });
        for peer in peers.iter_mut() {
            let moves = peer.is_up() && peer.transfers > 0 && std::mem::take(&mut peer.has_moved);
            let is_stuck = peer.arrived.fetching().any(|(number, op)| {
                let is_stuck = match shared.ops[op].state {
                    // The peer is to move it, or to let go of it, or of other memory.
                    State::Pulling(_)
                    | State::Cleared { .. }
                    | State::Finishing
                    | State::ToClear(_) => true,
                    // It waits for other transfers with the peer, as long as any of them end.
                    State::Matched(_) => !moves,
                    _ => false,
                };
                is_stuck && number < short.begun
            });
            if is_stuck {
                let reason = format!(
                    "an unexpected message that it has announced did not come within {whole} s, and others wait for \
                     the memory"
                );
                peer.protocol_error(shared, reason);
            }
        }
    }
}
