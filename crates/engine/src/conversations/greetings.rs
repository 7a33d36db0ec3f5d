//! How long greetings may take.
//!
//! A connection that a method has made is of no use before both sides have greeted each other, and
//! operations wait for it. A side that does not greet in time is given up, as if the method had not
//! reached it. A caller has the instance's patience for all that it has to send; a peer that is
//! called has the same again for what the method does before.

use std::time::{Duration, Instant};

use super::Conversations;
use crate::greetings::{Begun, MOST_ENDED};
use crate::matcher::Matcher;
use crate::shared::Work;

impl<M: Matcher> Conversations<M> {
    /// When the first greeting will have taken too long.
    pub(super) fn greeting_deadline(&self) -> Option<Instant> {
        self.shared.greetings.due
    }

    /// Gives up peers that have not greeted in time.
    pub(super) fn expire_greetings(&mut self, now: Instant, patience: Duration) {
        let Self { peers, shared } = self;
        let all = &mut shared.greetings;
        let is_due = all.due.is_some_and(|due| now >= due);
        if !is_due && all.timed == all.begun.len() {
            return;
        }
        if is_due || all.begun.len() >= all.purge_at.max(MOST_ENDED) {
            let lasts = |begun: &Begun| {
                let peer = peers.find(begun.peer);
                peer.is_some_and(|peer| peers[peer].awaits_greeting(begun.number))
            };
            let is_late = |begun: &Begun| begun.end(patience).is_some_and(|end| now >= end);
            let late = all
                .begun
                .iter()
                .filter(|begun| lasts(begun) && is_late(begun));
            let limit = |begun: &Begun| patience.as_millis() as u64 * u64::from(begun.times);
            let silent = late.map(|begun| Work::Silent(begun.peer, limit(begun)));
            shared.work.extend(silent);
            // A caller that waits for a decision of this side may have to send something later.
            all.begun.retain(|begun| {
                let peer = peers.find(begun.peer);
                !is_late(begun) && peer.is_some_and(|peer| peers[peer].is_greeting(begun.number))
            });
            all.timed = all
                .begun
                .iter()
                .filter(|begun| begun.since.is_some())
                .count();
            all.purge_at = 2 * all.begun.len() + MOST_ENDED;
        }
        all.set_times(now, patience);
    }
}
