//! How a connection is closed that either side may need.
//!
//! A connection that both sides use is not closed by one of them alone, since messages that the
//! other has just sent could be lost. The side that no longer needs it asks to leave, and sends no
//! more messages. If the other side needs it, it replies that it stays; if not, it agrees and sends
//! no more messages either, and the first side closes the connection, or stays if it needs the
//! connection by then. If both ask at once, the one with the larger number agrees.

use causeway_wire::bmi::{AGREES_TO_LEAVE, ASKS_TO_LEAVE, Kind};

use super::{Conversation, Phase};
use crate::matcher::Matcher;
use crate::shared::{Shared, Work};

impl Conversation {
    /// Asks to leave, or agrees if the peer has asked. Messages posted from now on wait.
    pub(crate) fn leave<M>(&mut self, shared: &mut Shared<M>) {
        if self.greeting.asked_to_leave {
            return self.agree_to_leave(shared);
        }
        self.phase = Phase::Leaving;
        self.may_wait_no_longer(shared);
        self.greeting.agreed_to_leave = false;
        self.queue_bare(shared, Kind::Leave, ASKS_TO_LEAVE);
    }

    /// Agrees that the connection is not needed.
    pub(crate) fn agree_to_leave<M>(&mut self, shared: &mut Shared<M>) {
        self.phase = Phase::Leaving;
        self.may_wait_no_longer(shared);
        self.greeting.agreed_to_leave = true;
        self.greeting.asked_to_leave = false;
        self.queue_bare(shared, Kind::Leave, AGREES_TO_LEAVE);
    }

    /// Notifies the peer that the connection is needed.
    pub(crate) fn stay<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        self.queue_bare(shared, Kind::Stay, 0);
        self.go_on(shared);
    }

    /// Whether this side has agreed to leave: the peer closes the connection at any moment, unless
    /// it replies that it stays.
    pub(crate) fn has_agreed_to_leave(&self) -> bool {
        matches!(self.phase, Phase::Leaving) && self.greeting.agreed_to_leave
    }

    /// The peer no longer needs the connection.
    pub(super) fn left<M>(&mut self, shared: &mut Shared<M>, word: u64) {
        let waits = matches!(self.phase, Phase::Leaving) && !self.greeting.agreed_to_leave;
        let work = match (word, &self.phase) {
            (ASKS_TO_LEAVE, Phase::Up) if !self.greeting.asked_to_leave => {
                self.greeting.asked_to_leave = true;
                Work::MayLeave(self.key)
            }
            (ASKS_TO_LEAVE, _) if waits => {
                let own = shared.own.introduction.id;
                if self.greeting.id().is_some_and(|theirs| theirs < own) {
                    self.greeting.agreed_to_leave = true;
                    return;
                }
                Work::MayClose(self.key)
            }
            (AGREES_TO_LEAVE, _) if waits => Work::MayClose(self.key),
            (ASKS_TO_LEAVE, _) => {
                let what = "it asks to close a connection that is not open, or that it has asked to close already";
                return self.protocol_error(shared, what);
            }
            (AGREES_TO_LEAVE, _) => {
                let what = "it agrees to close a connection that this side has not asked to close";
                return self.protocol_error(shared, what);
            }
            (other, _) => {
                let what = format!(
                    "its message about closing the connection has the unknown word {other}"
                );
                return self.protocol_error(shared, what);
            }
        };
        shared.work.push_back(work);
    }

    /// The peer replies that it needs the connection.
    pub(super) fn stays<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        if !matches!(self.phase, Phase::Leaving) {
            return self.protocol_error(
                shared,
                "it keeps a connection that this side has not asked to close",
            );
        }
        self.go_on(shared);
        shared.work.push_back(Work::Stays(self.key));
    }

    fn go_on<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        self.phase = Phase::Up;
        self.greeting.asked_to_leave = false;
        self.mark_dirty(shared);
        shared.retry_transfers();
        self.resume_fetches(shared);
        self.release_waiting_caller(shared);
    }
}
