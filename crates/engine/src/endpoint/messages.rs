//! Probing messages that wait for their receives, and taking them out of matching; sends that
//! complete only when their receive is found; waiting for progress of any kind.

use std::time::Duration;

use causeway_sys::memory::Memory;
use causeway_transport::{PeerError, Takes};

use super::Endpoint;
use super::posting::Sending;
use crate::conversations::Conversations;
use crate::fragments::{ReceiveBuffer, check_writable, total};
use crate::matcher::Matcher;
use crate::types::{
    Addr, Completion, DirectReceive, Envelope, Error, OpId, Posted, Queue, Tag, Taken,
};
use crate::waiting::Awaited;

/// The largest receive, in bytes, whose message is polled for before the receive is posted. Larger
/// receives are posted first, because methods may write their messages straight into their memory,
/// and senders of still larger messages look for offered receives.
const DIRECT_BYTES: usize = 16 << 10;

impl<M: Matcher> Endpoint<M> {
    /// Sends `data` as [`Endpoint::post_send`] does, but completes only when the peer has found a
    /// receive for it, even if it is small.
    pub fn post_synchronous_send(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        self.post_message(to, data, tag, (queue, user), Sending::Synchronous)
    }

    /// Sends a message, as [`Endpoint::post_send`] does, if it can leave at once and whole. Otherwise nothing has been done.
    #[inline]
    pub fn try_send(&mut self, to: Addr, data: &Memory, tag: Tag, queue: Queue) -> bool {
        let data = std::slice::from_ref(data);
        self.send_now(to, data, tag, queue).is_some()
    }

    /// Posts a receive, as [`Endpoint::post_receive`] does, if no message is held that it might
    /// get, and it may be posted. Otherwise does nothing.
    #[inline(always)]
    pub fn try_receive(
        &mut self,
        pattern: M::Pattern,
        into: &Memory,
        queue: Queue,
        user: u64,
    ) -> Option<OpId> {
        self.receive_usual(pattern, into, queue, user)
    }

    /// Receives a message and waits for it, provided that no message is held, for whatever receive, and that a receive may be posted. The
    /// receive is posted only if the message has not arrived after some polls. A caller that has posted no receives for other messages
    /// lets each poll deliver one packet (`takes`): the methods then keep the other packets, as far as they can. [`Endpoint::envelope`]
    /// describes the message as after [`Endpoint::test`]. Only for instances that a single thread uses: a wake-up from another thread
    /// does not end the wait.
    pub fn receive_directly(
        &mut self,
        pattern: M::Pattern,
        into: &Memory,
        (queue, user): (Queue, u64),
        takes: Takes,
    ) -> DirectReceive {
        self.conversations.shared.takes = takes;
        let received = self.receive_and_wait(pattern, into, (queue, user));
        self.conversations.shared.takes = Takes::Some;
        received
    }

    #[inline]
    fn receive_and_wait(
        &mut self,
        pattern: M::Pattern,
        into: &Memory,
        (queue, user): (Queue, u64),
    ) -> DirectReceive {
        // While messages are held, the caller waits by itself, in polls that take several packets of each peer, and the waiting policy
        // learns nothing from this call. Waiting here made receives by rank, in turn from three and four peers, take three to five times
        // as long.
        if self.conversations.shared.matcher.holds_messages() {
            return DirectReceive::Unusual;
        }
        if !self.would_be_usual(pattern, into, queue) {
            return DirectReceive::Unusual;
        }
        let losses = self.conversations.shared.losses;
        let is_short = into.len() <= DIRECT_BYTES;
        if is_short {
            if let Some(bytes) = self.poll_for_message(pattern, into, losses) {
                return DirectReceive::Whole(bytes);
            }
            // A packet that has arrived meanwhile may be a message that is held now, or may have
            // ended the connection.
            if self.conversations.shared.matcher.holds_messages() {
                return DirectReceive::Unusual;
            }
        }
        let Some(op) = self.receive_later(pattern, std::slice::from_ref(into), queue, user) else {
            return DirectReceive::Unusual;
        };
        if !is_short {
            self.progress();
        }
        // Whether the first polls of a wait have been made. If the time slice is over, it begins with a yield.
        let mut has_polled = is_short && !self.policy.enter();
        let index = op.0 as u32;
        let is_over = |all: &Conversations<M>| all.is_done(index) || all.shared.losses != losses;
        while !is_over(&self.conversations) {
            match std::mem::take(&mut has_polled) {
                true => self.wait_longer_until(Duration::MAX, is_over),
                false => self.wait_until(Duration::MAX, is_over),
            };
        }
        match self.take_moved(op) {
            Some(bytes) => DirectReceive::Whole(bytes),
            None => DirectReceive::Waits(op),
        }
    }

    /// Polls for a message without a posted receive, as often as a wait does before it reads the
    /// clock: once if the time slice is over, because the receive must be visible to others before the process yields.
    /// (Posting it at once in this case made every receive of a stream of messages that have already come a posted one,
    /// since only a wait begins another slice.) Returns the message's size in bytes if it has come.
    #[inline]
    fn poll_for_message(&mut self, pattern: M::Pattern, into: &Memory, losses: u64) -> Option<u64> {
        let is_over = |all: &Conversations<M>| {
            let shared = &all.shared;
            shared.direct.has_come() || shared.matcher.holds_messages() || shared.losses != losses
        };
        let shared = &mut self.conversations.shared;
        shared.direct.begin(&mut shared.references, into);
        shared.matcher.await_directly(Some(pattern));
        self.progress();
        if !is_over(&self.conversations) && !self.policy.enter() {
            let polls = self.policy.first_polls(Awaited::Messages);
            if self.advance_to(polls, &is_over) {
                if self.conversations.shared.direct.has_come() {
                    self.policy.arrived_at_once(Awaited::Messages);
                }
                self.flush_control();
            }
        }
        let shared = &mut self.conversations.shared;
        shared.matcher.await_directly(None);
        shared.direct.end(&mut shared.references)
    }

    /// The envelope of what the latest successful call of [`Endpoint::test`] or
    /// [`Endpoint::post_receive`] has completed: the sender and the tag of a receive's message.
    #[inline]
    pub fn envelope(&self) -> Envelope {
        self.conversations.shared.envelope
    }

    /// A handle for the peer that patterns name by this number, such as one that has connected to
    /// us and was never looked up. No reference is added.
    pub fn addr(&self, number: u32) -> Option<Addr> {
        self.check_process().ok()?;
        let peers = &self.conversations.peers;
        peers.get(number).map(|_| Addr(peers.key(number)))
    }

    /// Takes an operation's completion if it is done. No progress is made.
    pub fn take(&mut self, op: OpId) -> Result<Option<Completion>, Error> {
        self.check_process()?;
        self.conversations.shared.take_done(op)
    }

    /// Takes the completions of everything that was posted to `queue` and is done. No progress is made. Returns how many there are.
    pub fn take_all(&mut self, queue: Queue, out: &mut Vec<Completion>) -> Result<usize, Error> {
        let queue = self.queue(queue)?;
        let before = out.len();
        out.extend(std::iter::from_fn(|| {
            self.conversations.take_completion(queue)
        }));
        Ok(out.len() - before)
    }

    /// Whether an operation is done, or no longer exists. No progress is made.
    pub fn is_done(&self, op: OpId) -> bool {
        self.conversations.shared.is_done(op)
    }

    /// Makes progress, without waiting. Returns whether anything happened.
    pub fn poll(&mut self) -> bool {
        self.check_process().is_ok() && !self.finds_nothing() && self.progress()
    }

    /// Makes progress, without waiting, in up to so many polls: until this operation is done, or nothing happens. Each poll delivers what `takes` says. Returns whether anything
    /// has happened.
    pub fn poll_for(&mut self, op: OpId, takes: Takes, polls: u32) -> bool {
        if self.check_process().is_err() || self.finds_nothing() {
            return false;
        }
        self.conversations.shared.takes = takes;
        let mut any = false;
        for _ in 0..polls {
            if !self.progress() {
                break;
            }
            any = true;
            if self.is_done(op) {
                break;
            }
        }
        self.conversations.shared.takes = Takes::Some;
        any
    }

    /// The envelope of the message that a receive of this pattern would get now. The message stays.
    /// No progress is made.
    pub fn probe(&mut self, pattern: M::Pattern) -> Option<Envelope> {
        self.check_process().ok()?;
        let (_, envelope) = self.conversations.find_message(pattern)?;
        Some(envelope)
    }

    /// Takes the message that a receive of this pattern would get out of matching: only
    /// [`Endpoint::receive_taken`] gets it from now on. No progress is made.
    pub fn take_message(&mut self, pattern: M::Pattern) -> Option<(Taken, Envelope)> {
        self.check_process().ok()?;
        let (message, envelope) = self.conversations.find_message(pattern)?;
        let shared = &mut self.conversations.shared;
        shared.matcher.discard(message);
        shared.early[message].taken = true;
        Some((Taken(shared.early.key(message)), envelope))
    }

    /// Receives a message that was taken. `pattern` is the one it was taken by, or another that it
    /// matches. If its sender is lost, or has withdrawn it, the receive completes with
    /// [`OpError::Withdrawn`](crate::types::OpError::Withdrawn).
    pub fn receive_taken(
        &mut self,
        taken: Taken,
        pattern: M::Pattern,
        into: &[Memory],
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        self.check_process()?;
        check_writable(into)?;
        total(into)?;
        self.receive_taken_into((taken, pattern), ReceiveBuffer::Memory(into), queue, user)
    }

    /// How many events there were: operations that completed, expected messages that arrived before
    /// their receives, unexpected ones that arrived, and connections that were lost. A caller waits for the next one by
    /// [`Endpoint::wait_for_event`]. ([`Endpoint::change_counts`] adds the number of unexpected messages that wait.)
    #[inline]
    pub fn event_count(&self) -> u64 {
        self.conversations.shared.event_count()
    }

    /// Makes progress until [`Endpoint::event_count`] is no longer `since`, or `idle` has passed. Returns
    /// whether it has changed: in a forked child always, since other calls return the error.
    pub fn wait_for_event(&mut self, since: u64, idle: Duration) -> bool {
        if self.check_process().is_err() || self.event_count() != since {
            return true;
        }
        self.progress();
        self.event_count() != since
            || (!idle.is_zero() && self.wait_until(idle, |all| all.shared.event_count() != since))
    }

    /// How many connections were lost so far, apart from calls of unknown processes that did not come up.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.conversations.shared.losses
    }

    /// Why the latest connection to a peer was lost, if one was, and no other has been made since.
    pub fn loss(&self, addr: Addr) -> Option<PeerError> {
        let entry = &self.conversations.peers[self.number(addr)?];
        entry.loss.clone().filter(|_| !entry.is_up())
    }
}
