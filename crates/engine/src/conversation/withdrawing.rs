//! Messages that their senders cancel, or ask for back, after they have announced them.
//!
//! The receiver looks for the message, which may have no receive yet, or be on the way into one. A
//! peer may have announced 1,048,576 messages (MPI), and such packets cost it nothing. A few messages
//! are looked at; if there are more, all are listed once, and the list is kept up to date from then
//! on ([`Sends`]). A packet therefore takes a bounded number of steps beyond those that the
//! announcements have paid for.

use causeway_wire::bmi::Refusal;

use super::Conversation;
use super::rendezvous::refusal;
use crate::matcher::Matcher;
use crate::operation::{Op, State};
use crate::sends::{MessageLocation, Sends};
use crate::shared::{Early, EarlyBody, Shared, Work};

/// Early messages that are looked at without a list, and operations likewise.
const FEW: usize = 64;

#[cfg(test)]
thread_local! {
    /// Entries that were looked at by this thread.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The result of a search among few messages.
enum Looked {
    /// It is found, or not there.
    All(Option<MessageLocation>),
    /// There are more.
    Some,
}

/// The send of the peer's whose message an operation receives, as long as nothing is complete.
fn send_received(op: &Op) -> Option<u64> {
    match &op.state {
        State::Matched(incoming)
        | State::Pulling(incoming)
        | State::Collecting(incoming)
        | State::ToClear(incoming)
        | State::Cleared { incoming, .. } => Some(incoming.announcement.send),
        _ => None,
    }
}

/// The send of the peer's whose message waits for a receive, if it was announced.
fn send_waiting(early: &Early) -> Option<u64> {
    match &early.body {
        EarlyBody::Announced(incoming) => Some(incoming.announcement.send),
        EarlyBody::Whole(_) => None,
    }
}

impl Conversation {
    /// Early messages, and the sends of those that were announced.
    fn early_sends<M>(
        &self,
        shared: &Shared<M>,
    ) -> impl Iterator<Item = (Option<u64>, MessageLocation)> {
        let behind = |index: &u32| shared.early[*index].links.next();
        let early = std::iter::successors(self.early.first(), behind);
        early.map(|index| {
            #[cfg(test)]
            LOOKS.set(LOOKS.get() + 1);
            (
                send_waiting(&shared.early[index]),
                MessageLocation::Early(index),
            )
        })
    }

    /// Operations, and the sends of those that receive an announced message.
    fn received_sends<M>(
        &self,
        shared: &Shared<M>,
    ) -> impl Iterator<Item = (Option<u64>, MessageLocation)> {
        let behind = |op: &u32| shared.ops[*op].links.next();
        let ops = std::iter::successors(self.ops.first(), behind);
        ops.map(|op| {
            #[cfg(test)]
            LOOKS.set(LOOKS.get() + 1);
            let location = MessageLocation::Op(shared.ops.key(op));
            (send_received(&shared.ops[op]), location)
        })
    }

    /// Notes where an announced message is now, if the locations are listed.
    pub(super) fn note_location(&mut self, send: u64, location: MessageLocation) {
        if let Some(rare) = &mut self.rare
            && let Some(sends) = &mut rare.sends
            && !sends.note(send, location)
        {
            // It is made anew when it is needed.
            rare.sends = None;
        }
    }

    /// Looks for a message among the first ones.
    fn look_at_few<M>(&self, shared: &Shared<M>, send: u64) -> Looked {
        let is_it = |looked: &(Option<u64>, MessageLocation)| looked.0 == Some(send);
        let (mut early, mut received) = (self.early_sends(shared), self.received_sends(shared));
        let found = early.by_ref().take(FEW).find(is_it);
        let found = found.or_else(|| received.by_ref().take(FEW).find(is_it));
        match found {
            None if early.next().is_some() || received.next().is_some() => Looked::Some,
            found => Looked::All(found.map(|(_, location)| location)),
        }
    }

    /// Where the message of a send of the peer's is, if it is still at the peer.
    fn location_of<M>(&mut self, shared: &Shared<M>, send: u64) -> Option<MessageLocation> {
        if self.rare.as_ref().is_none_or(|rare| rare.sends.is_none()) {
            if let Looked::All(location) = self.look_at_few(shared, send) {
                return location;
            }
            let all = self.early_sends(shared).chain(self.received_sends(shared));
            let sends = Sends::new(all);
            self.rare.get_or_insert_default().sends = Some(sends);
        }
        let location = self.rare.as_ref()?.sends.as_ref()?.find(send)?;
        let present = match location {
            MessageLocation::Early(index) => {
                let early = shared.early.get(index);
                early
                    .filter(|early| early.peer == self.id)
                    .and_then(send_waiting)
            }
            MessageLocation::Op(key) => {
                let op = shared.ops.find(key).map(|op| &shared.ops[op]);
                op.filter(|op| op.peer == self.id).and_then(send_received)
            }
        };
        (present == Some(send)).then_some(location)
    }

    /// The sender has cancelled an announced message.
    pub(super) fn withdrawn<M: Matcher>(&mut self, shared: &mut Shared<M>, send: u64) {
        match self.location_of(shared, send) {
            Some(MessageLocation::Early(index)) => self.forget_early(shared, index),
            Some(MessageLocation::Op(key)) => {
                let Some(op) = shared.ops.find(key) else {
                    return;
                };
                let entry = &mut shared.ops[op];
                // Until then its transfer must not start, and a second such packet must not take the next message.
                let is_known = std::mem::replace(&mut entry.withdrawn, true);
                if !is_known && !matches!(entry.state, State::Pulling(_)) {
                    shared.work.push_back(Work::Rematch(key));
                }
            }
            None => self.withdrawn_unexpected(shared, send),
        }
    }

    /// The sender asks for an announced message back.
    pub(super) fn recalled<M: Matcher>(&mut self, shared: &mut Shared<M>, send: u64) {
        if let Some(MessageLocation::Early(index)) = self.location_of(shared, send)
            && !shared.early[index].taken
        {
            self.forget_early(shared, index);
            self.queue_control(shared, refusal(send, Refusal::Cancelled));
        }
    }
}
