//! How long greetings may take.
//!
//! A connection that a method has made is of no use before both sides have greeted each other, and
//! operations wait for it. A side that does not greet in time is given up, as if the method had not
//! reached it. A caller has the instance's patience for all that it has to send; a peer that is
//! called has the same again for what the method does before.

use super::Conversations;
use crate::matcher::Matcher;
use crate::shared::Work;

impl<M: Matcher> Conversations<M> {
    /// Gives up peers that have not greeted in time. A step of the patience has passed.
    pub(super) fn expire_greetings(&mut self) {
        let Self { peers, shared } = self;
        let Some(patience) = &shared.patience else {
            return;
        };
        // A caller that waits for a decision of this side has as long again afterwards.
        let lasts = |key| {
            let peer = peers.find(key);
            peer.is_some_and(|peer| peers[peer].awaits_greeting())
        };
        let late = shared.greetings.take_late(patience.steps(), lasts);
        let silent = late.into_iter().map(|(peer, ongoing)| Work::Silent {
            peer,
            greeting: ongoing.number,
            limit_ms: ongoing.limit_ms(patience.whole()),
        });
        shared.work.extend(silent);
    }
}
