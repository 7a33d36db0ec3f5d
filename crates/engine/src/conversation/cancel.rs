//! Cancelling: an operation releases its memory as soon as nothing can access it any more.
//!
//! If a method is placing a message in the memory, the method keeps the message itself from then
//! on, and the message goes to the next receive. Where the peer may be reading or writing the
//! memory, a notice is sent to it if there is room for one now, and the export is ended, which
//! takes effect whatever the peer does. Where this side is copying, or the message has left the
//! caller's memory or comes in parts, the operation completes as if it had not been cancelled. A
//! receive that is offered ends with the sender's reply ([`offers`](super::offers)), so that this
//! cancel, unlike all others, waits for the sender to make progress. Only the sender knows whether
//! its message is written: one-sided writes leave no trace here before the packet that reports them,
//! and that may be on its way. To revoke the export and complete at once would lose a message that
//! its sender has seen complete: the bytes are in memory that is the caller's again, and may be
//! overwritten before the report arrives. Keeping the message would mean copying all memory of each
//! such receive when it is cancelled, whether it was written or not, into memory without a bound.

use std::collections::VecDeque;

use causeway_wire::bmi::{Kind, RECALLING, Refusal};

use super::Conversation;
use super::rendezvous::refusal;
use crate::matcher::Matcher;
use crate::operation::{OpKind, State};
use crate::shared::Shared;
use crate::types::OpError;

impl Conversation {
    /// Whether the two sides have agreed on a format with recalls.
    pub(super) fn recalls(&self) -> bool {
        self.greeting.format >= RECALLING
    }

    /// Asks for a send back: it is cancelled unless its receive has been found. Of an announced one only the receiver knows that, so
    /// that it goes on as it is until the receiver agrees.
    pub(crate) fn recall<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        let key = shared.ops.key(op);
        let entry = &mut shared.ops[op];
        match entry.state {
            State::Announced if self.recalls() && entry.kind == OpKind::Send => {
                if !std::mem::replace(&mut entry.withdrawn, true) {
                    self.touch(shared);
                    self.queue_bare(shared, Kind::Recall, key);
                }
            }
            // The receive has been found.
            State::ToPush(_) => {}
            _ => self.cancel(shared, op),
        }
    }

    /// Cancels an operation.
    pub(crate) fn cancel<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        self.touch(shared);
        let key = shared.ops.key(op);
        let entry = &mut shared.ops[op];
        let (tag, kind) = (entry.tag, entry.kind);
        let cancelled = Err(OpError::Cancelled);
        match &mut entry.state {
            // The sender may be writing its message.
            State::Posted if entry.offered && !entry.exports.is_empty() => self.retract(shared, op),
            State::Posted => {
                if std::mem::take(&mut entry.offered) {
                    self.offers.was_unused();
                }
                self.withdraw_receive(shared, op);
                self.complete(shared, op, cancelled);
            }
            State::Matched(_) => {
                let taken = std::mem::replace(&mut entry.state, State::Finishing);
                self.complete(shared, op, cancelled);
                if let State::Matched(incoming) = taken {
                    self.unmatch(shared, tag, incoming);
                }
            }
            State::Placed { .. } => {
                self.cancel_placement(shared);
                self.complete(shared, op, cancelled);
            }
            State::Cleared { incoming, .. } | State::ToClear(incoming) => {
                let packet = refusal(incoming.announcement.send, Refusal::Cancelled);
                self.queue_control(shared, packet);
                self.finish(shared, op, cancelled);
            }
            State::Queued | State::ToAnnounce { .. } => {
                let queue = if kind == OpKind::SendUnexpected {
                    &mut self.unexpected
                } else {
                    &mut self.expected
                };
                unqueue(queue, op);
                self.finish(shared, op, cancelled);
                // The sends behind it may leave now.
                self.mark_dirty(shared);
            }
            State::Announced | State::ToPush(_) => {
                self.withdraw_announcement(shared, op);
                self.queue_bare(shared, Kind::Withdraw, key);
                self.finish(shared, op, cancelled);
            }
            State::ToWrite(_) => {
                self.abandon_write(shared, op);
                self.complete(shared, op, cancelled);
            }
            State::ToMove(_) => self.complete(shared, op, cancelled),
            State::Held
            | State::Pulling(_)
            | State::Collecting(_)
            | State::SendingParts { .. }
            | State::Pushing { .. }
            | State::Writing(_)
            | State::Retracting
            | State::Moving
            | State::Finishing
            | State::Done => {}
        }
    }
}

/// Removes an operation from a queue, if it is there. It is searched for from both ends, since many
/// are mostly cancelled in their order, or in the opposite one.
fn unqueue(queue: &mut VecDeque<u32>, op: u32) {
    let len = queue.len();
    let mut pairs = (0..len.div_ceil(2)).map(|at| [at, len - 1 - at]);
    let found = pairs.find_map(|pair| pair.into_iter().find(|at| queue[*at] == op));
    if let Some(at) = found {
        queue.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_leave_queues_from_anywhere() {
        for len in 0..6 {
            for gone in 0..len + 1 {
                let mut queue: VecDeque<u32> = (0..len).collect();
                unqueue(&mut queue, gone);
                let left: Vec<u32> = (0..len).filter(|op| *op != gone).collect();
                assert_eq!(queue, left);
            }
        }
    }
}
