//! The end of a connection: all operations that depend on it fail, and no others.

use causeway_transport::PeerError;

use super::{CONNECT, Conversation, Phase};
use crate::matcher::Matcher;
use crate::operation::State;
use crate::shared::{EarlyBody, Shared, Work};

impl Conversation {
    /// Ends a connection, after exports of the operations' memory have been ended: all operations
    /// fail. A peer that `may_return` can come back as another incarnation, whose messages must not
    /// be mixed with those of this one.
    pub(crate) fn close<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        cause: PeerError,
        may_return: bool,
    ) {
        tracing::debug!(target: CONNECT, peer = self.name, %cause, "no longer connected");
        self.touch(shared);
        // A call that did not come up is no loss of a process that this one knows: one of two that call each other ends in this way.
        if self.was_up || self.refs > 0 {
            shared.losses += 1;
        }
        self.loss = Some(cause.clone());
        self.phase = Phase::Failed;
        self.control.clear();
        self.held_send = None;
        self.expected.clear();
        self.unexpected.clear();
        self.rare = None;
        self.announced = 0;
        self.announced_unexpected = 0;
        self.grant.close(&mut shared.budget);
        self.placement = None;
        self.end_offers(shared);
        for receive in shared.matcher.receives_of(self.id, usize::MAX) {
            self.withdraw_receive(shared, receive);
        }
        for op in self.ops.to_vec(&mut shared.ops) {
            let error = self.lost(cause.clone());
            self.complete(shared, op, Err(error));
        }
        self.forget_announcements(shared);
        shared.transfers.peer_lost(&mut self.transfers);
        self.release_waiting_caller(shared);
        shared.greetings.end(self.key);
        self.phase = if may_return {
            Phase::Closed
        } else {
            Phase::Gone(cause)
        };
        self.drop_early(shared, may_return);
        shared.work.push_back(Work::Release(self.key));
        shared.retry_transfers();
    }

    /// Handles the loss of a connection that was not needed here when it was lost, and is needed
    /// again: operations of which the peer has not been notified wait for the next connection, all
    /// others fail. The caller has ended the exports. Messages that have arrived stay: the peer's
    /// incarnation has not ended.
    pub(crate) fn reopen_later<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        for op in self.ops.to_vec(&mut shared.ops) {
            if !matches!(shared.ops[op].state, State::Queued | State::ToMove(_)) {
                let error = self.lost(PeerError::Disconnected);
                self.complete(shared, op, Err(error));
            }
        }
        self.control.clear();
        self.held_send = None;
        self.rare = None;
        self.announced = 0;
        self.announced_unexpected = 0;
        self.grant.close(&mut shared.budget);
        shared.transfers.peer_lost(&mut self.transfers);
        self.placement = None;
        self.end_offers(shared);
        self.forget_announcements(shared);
        self.drop_early(shared, false);
        self.release_waiting_caller(shared);
        shared.greetings.end(self.key);
        self.phase = Phase::Closed;
        self.touch(shared);
    }

    /// Drops early messages: those that are still at the sender, or all.
    pub(crate) fn drop_early<M: Matcher>(&mut self, shared: &mut Shared<M>, all: bool) {
        for index in self.early.to_vec(&mut shared.early) {
            if all || matches!(shared.early[index].body, EarlyBody::Announced(_)) {
                self.forget_early(shared, index);
            }
        }
    }
}
