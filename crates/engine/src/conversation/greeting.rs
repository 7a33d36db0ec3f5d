//! How a conversation begins.
//!
//! Both sides state the formats that they set_formats. In format 1, and for a caller that does not listen
//! itself, that is all. A caller that listens may be called by the other side at the same time, and
//! each pair is to have one connection and one order of messages. From format 2 on, such a caller
//! therefore states which instance it is, waits for the consent of the other side, and is not bound
//! to the connection before it has sent [`Kind::Ready`]. Until then nothing but the greeting has
//! been sent in either direction, and a connection can be given up for another one without losing
//! anything.
//!
//! ```text
//! caller                          called
//!   Hello ────────────────────────►
//!   ◄──────────────────────── Hello
//!   Introduce ────────────────────►   finds out whether it knows the caller
//!   ◄──────────────────── Introduce   consents
//!   Ready, messages ──────────────►
//! ```
//!
//! Where two instances call each other at once, the connection made by the one with the smaller
//! number is kept: it leaves the other's call without a reply until its own has come up or failed,
//! and the other gives its own call up when it receives the introduction of a caller that it is
//! calling ([`Conversations::classify`](crate::conversations::Conversations::classify)).

use causeway_transport::Packet;
use causeway_wire::bmi::{self as wire, Body, Header, INTRODUCING, InstanceId, Kind};
use causeway_wire::formats::Formats;

use super::{CONNECT, Conversation, LinkLimits, Phase};
use crate::credit::Account;
use crate::handshake::{Awaited, CallerDecision, Greeting};
use crate::matcher::Matcher;
use crate::shared::{Shared, Work};

impl Conversation {
    /// Begins a connection: queues the greeting; nothing is known of the other side yet. `called`
    /// if the peer has made the connection.
    pub(crate) fn open<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        limits: LinkLimits,
        called: bool,
    ) {
        self.phase = Phase::Greeting;
        self.was_up = false;
        self.greeting = Greeting {
            called,
            waiting_caller: self.greeting.waiting_caller.take(),
            ..Greeting::default()
        };
        self.account = Account::default();
        self.blocked = false;
        self.starved = false;
        self.announced = 0;
        self.announced_unexpected = 0;
        self.announcements = 0;
        self.announcements_unexpected = 0;
        self.control.clear();
        self.end_offers(shared);
        self.touch(shared);
        self.set_limits(&shared.tuning, limits);
        if !called {
            self.open_window(shared);
            self.queue_hello(shared);
        }
        shared.begin_greeting(self.key, called);
    }

    /// Commits the first window. A caller gets it only when it has introduced itself.
    fn open_window<M>(&mut self, shared: &mut Shared<M>) {
        self.grant.open(&mut shared.budget);
        if shared.budget.is_memory_short() {
            shared.request_shrink(self.id, self.grant.window());
        }
    }

    /// Queues this side's greeting, unless it was queued before. That to a caller replies to the
    /// caller's, whatever that is.
    fn queue_hello<M>(&mut self, shared: &mut Shared<M>) {
        if !std::mem::replace(&mut self.greeting.is_sent, true) {
            let hello = shared.own.hello().encode();
            let packet = shared.buffers.holding(&hello);
            self.queue_control(shared, packet);
        }
    }

    /// Whether the other side is to send something before messages may flow.
    pub(crate) fn awaits_greeting(&self) -> bool {
        matches!(self.phase, Phase::Greeting) && self.greeting.awaited != Awaited::Decision
    }

    /// Whether the two sides have agreed on a format with introductions.
    pub(crate) fn introduces(&self) -> bool {
        self.greeting.format >= INTRODUCING
    }

    /// Whether the other side may use the connection for calls of its own.
    pub(crate) fn is_mutual<M>(&self, shared: &Shared<M>) -> bool {
        let callable = self.greeting.called || shared.own.is_callable();
        let is_other = self.greeting.id() != Some(shared.own.introduction.id);
        self.introduces() && callable && is_other
    }

    /// Handles a packet that arrives while messages do not flow in both directions.
    #[cold]
    #[inline(never)]
    pub(super) fn packet_while_not_up<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: Header,
        packet: Packet<'_>,
    ) {
        match self.phase {
            Phase::Leaving => return self.message_or_control(shared, header, packet),
            Phase::Greeting => self.queue_hello(shared),
            _ => return,
        }
        let reason = match (self.greeting.awaited, header.kind) {
            (Awaited::Hello, Kind::Hello) if packet.len() == wire::HEADER_BYTES => {
                return self.greeted(shared, &header);
            }
            (Awaited::Hello, Kind::Hello) => "a greeting of the wrong length".to_owned(),
            (Awaited::Introduction, Kind::Introduce) => {
                return self.introduced(shared, &header, packet);
            }
            (Awaited::Ready, Kind::Ready) if header.word == self.greeting.format.into() => {
                return self.mark_up(shared, header.credit);
            }
            (_, kind) => format!("{kind:?} came before the greeting"),
        };
        self.protocol_error(shared, reason);
    }

    /// Handles the peer's greeting.
    fn greeted<M: Matcher>(&mut self, shared: &mut Shared<M>, header: &Header) {
        let (theirs, callable) = match Formats::of_hello(header) {
            Ok(stated) => stated,
            Err(error) => return self.protocol_error(shared, error.to_string()),
        };
        let ours = shared.own.formats;
        let Some(format) = ours.common(theirs) else {
            return self.protocol_error(shared, ours.mismatch(theirs, "the message layer"));
        };
        self.greeting.format = format;
        let introduced = match self.greeting.called {
            true => callable,
            false => shared.own.is_callable(),
        };
        if !introduced || !self.introduces() {
            if self.greeting.called {
                self.open_window(shared);
            }
            return self.mark_up(shared, header.credit);
        }
        if !self.greeting.called {
            self.queue_introduction(shared);
        }
        self.greeting.awaited = Awaited::Introduction;
        self.credit(shared, header.credit);
    }

    fn queue_introduction<M>(&mut self, shared: &mut Shared<M>) {
        let max_packet = self.limits.max_packet;
        let packet = wire::encode_introduction(&shared.own.introduction, max_packet);
        self.queue_control(shared, packet);
    }

    /// Handles the peer's introduction: which instance it is.
    fn introduced<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
        packet: Packet<'_>,
    ) {
        let rest = packet.to_vec(wire::HEADER_BYTES);
        let mut theirs = match wire::decode_body(header, &rest) {
            Ok(Body::Introduction(introduction)) => introduction,
            Ok(_) => return,
            Err(error) => return self.protocol_error(shared, error.to_string()),
        };
        let id = theirs.id;
        if !self.greeting.called {
            theirs.addresses = Vec::new();
        }
        self.greeting.theirs = Some(Box::new(theirs));
        if id == shared.own.introduction.id {
            // This process is connected with itself: both sides are this instance.
            if self.greeting.called {
                self.open_window(shared);
                self.queue_introduction(shared);
            }
            return self.mark_up(shared, header.credit);
        }
        if !self.greeting.called {
            let format = self.greeting.format.into();
            self.queue_bare(shared, Kind::Ready, format);
            return self.mark_up(shared, header.credit);
        }
        self.credit(shared, header.credit);
        self.greeting.awaited = Awaited::Decision;
        shared.work.push_back(Work::Introduced(self.key));
    }

    /// Whether this is a caller that the driver has yet to compare with the known peers.
    pub(crate) fn awaits_decision(&self) -> bool {
        matches!(self.phase, Phase::Greeting) && self.greeting.awaited == Awaited::Decision
    }

    /// Decides about a connection whose caller, the instance numbered `theirs`, turned out to be
    /// this peer. `own` is the number of our instance.
    pub(crate) fn classify(&self, own: InstanceId, theirs: Option<InstanceId>) -> CallerDecision {
        let theirs = theirs.unwrap_or(own);
        match self.phase {
            Phase::Closed => CallerDecision::Same,
            // Both sides call each other, and we are not bound to our connection yet.
            Phase::Greeting if !self.greeting.called && own > theirs => CallerDecision::Same,
            Phase::Greeting if !self.greeting.called && own < theirs => CallerDecision::Wait,
            // We took over an earlier connection of this peer, and it has given that one up: its
            // end is still to be reported.
            Phase::Greeting if self.greeting.id() == Some(theirs) => CallerDecision::Wait,
            // Packets of the previous connection may still arrive.
            Phase::Leaving | Phase::Failed => CallerDecision::Wait,
            _ => CallerDecision::Distinct,
        }
    }

    /// Consents to being called by the peer.
    pub(crate) fn consent<M>(&mut self, shared: &mut Shared<M>) {
        if let Some(theirs) = &mut self.greeting.theirs {
            theirs.addresses = Vec::new();
        }
        self.greeting.awaited = Awaited::Ready;
        shared.begin_greeting(self.key, true);
        self.open_window(shared);
        self.queue_introduction(shared);
    }

    /// Takes over the connection of `from`, the conversation of a caller that turned out to be this
    /// peer. `from` ends.
    pub(crate) fn take_over<M: Matcher>(&mut self, shared: &mut Shared<M>, mut from: Self) {
        self.touch(shared);
        from.traffic.settle(&mut shared.touched);
        self.grant.take_over(&mut from.grant, &mut shared.budget);
        self.account = from.account;
        self.control = from.control;
        self.blocked = from.blocked;
        self.starved = from.starved;
        self.window_update_due = from.window_update_due;
        (self.announced, self.announced_unexpected) = (0, 0);
        (self.announcements, self.announcements_unexpected) = (0, 0);
        self.end_offers(shared);
        self.set_limits(&shared.tuning, from.limits);
        self.greeting = from.greeting;
        self.phase = Phase::Greeting;
        self.was_up = false;
        self.mark_dirty(shared);
    }

    /// Marks the connection up: messages may flow.
    fn mark_up<M: Matcher>(&mut self, shared: &mut Shared<M>, credit: u32) {
        self.phase = Phase::Up;
        shared.greetings.end(self.key);
        self.was_up = true;
        shared.connections += 1;
        self.connection = shared.connections;
        // Most peers are idle after their greeting.
        self.control.shrink_to_fit();
        if !self.credit(shared, credit) {
            return;
        }
        tracing::debug!(target: CONNECT, peer = self.name, format = self.greeting.format, "connected");
        self.touch(shared);
        self.set_eager_max(&shared.tuning);
        self.mark_dirty(shared);
        shared.retry_transfers();
        self.release_waiting_caller(shared);
    }

    /// Has a caller decided about that waited until our own connection came up or failed.
    pub(crate) fn release_waiting_caller<M>(&mut self, shared: &mut Shared<M>) {
        let waiting_caller = self.greeting.waiting_caller.take();
        shared
            .work
            .extend(waiting_caller.map(|waiting_caller| Work::Introduced(waiting_caller.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides keep the connection that the one with the smaller number has made, so they must agree on which.
    #[test]
    fn of_two_calls_that_cross_the_smaller_numbers_is_kept() {
        let classify = |phase, called, own: InstanceId, theirs| {
            let mut conversation = Conversation::new("known".to_owned());
            conversation.phase = phase;
            conversation.greeting.called = called;
            conversation.classify(own, Some(theirs))
        };
        let (small, large) = (InstanceId(1), InstanceId(2));
        assert_eq!(
            classify(Phase::Greeting, false, large, small),
            CallerDecision::Same
        );
        assert_eq!(
            classify(Phase::Greeting, false, small, large),
            CallerDecision::Wait
        );
        for (own, theirs) in [(small, large), (large, small)] {
            assert_eq!(
                classify(Phase::Greeting, true, own, theirs),
                CallerDecision::Distinct
            );
            assert_eq!(
                classify(Phase::Closed, false, own, theirs),
                CallerDecision::Same
            );
            assert_eq!(
                classify(Phase::Leaving, false, own, theirs),
                CallerDecision::Wait
            );
        }
        assert_eq!(
            classify(Phase::Greeting, false, small, small),
            CallerDecision::Distinct
        );
    }
}
