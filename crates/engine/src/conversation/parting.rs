//! How the two sides of a connection part that both may need.
//!
//! A connection that both sides use is not closed by one of them, which could be losing messages that the other has
//! just sent. The one that does not need it any more says so and sends no more messages. If the other one needs it,
//! it stays; if not, it says the same, and the first one closes it.

use causeway_wire::bmi::Kind;

use super::{Conversation, Phase};
use crate::matcher::Matcher;
use crate::shared::{Shared, Work};

impl Conversation {
    /// Says that the connection is not needed here. What is posted from now on waits.
    pub(crate) fn leave<M>(&mut self, shared: &mut Shared<M>) {
        self.phase = Phase::Leaving;
        self.queue_bare(shared, Kind::Leave, 0);
    }

    /// Says that the connection is needed.
    pub(crate) fn stay<M>(&mut self, shared: &mut Shared<M>) {
        self.queue_bare(shared, Kind::Stay, 0);
    }

    /// The peer does not need the connection.
    pub(super) fn asked_to_leave<M>(&mut self, shared: &mut Shared<M>) {
        if matches!(self.phase, Phase::Leaving) {
            self.phase = Phase::Failed;
            shared.work.push_back(Work::Left(self.key));
        } else {
            shared.work.push_back(Work::MayLeave(self.key));
        }
    }

    /// The peer needs the connection.
    pub(super) fn asked_to_stay<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        if !matches!(self.phase, Phase::Leaving) {
            return self.protocol_error(shared, "it stays without having been asked");
        }
        self.phase = Phase::Up;
        self.mark_dirty(shared);
        shared.retry_transfers();
        self.release_rival(shared);
        shared.work.push_back(Work::Stays(self.key));
    }
}
