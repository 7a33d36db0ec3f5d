//! Subflows: extra connections with a peer, for the data of large transfers.
//!
//! The accepting side *invites*: it sends a random ticket on the first connection. The other side
//! makes as many connections as the invitation permits, as soon as there is something large to
//! move, and presents the ticket in each handshake, in which it is also authenticated again. A
//! subflow has a slot in the table of peers for its socket; its data belongs to the peer's session.
//! It ends with its peer: when a subflow ends, its data is lost, and so is the peer.

use causeway_sys::{net, random};
use causeway_wire::tcp::Ticket;
use rustix::event::epoll;

use super::Tcp;
use super::handshake::Agreement;
use super::link::{Link, Phase, broken};
use super::slots::{Origin, PeerState};
use crate::error::PeerError;
use crate::method::{Identity, Peer, Silence, Sink};
use crate::session::Invitation;

impl Tcp {
    /// Invites a peer that connected to us, has come up and supports subflows.
    pub(super) fn invite(&mut self, peer: Peer, connections: u8) {
        let Some(state) = self.slots.get_mut(peer).filter(|_| connections > 1) else {
            return;
        };
        let Ok(ticket) = random::bytes().map(Ticket) else {
            return;
        };
        state.ticket = Some(ticket);
        self.tickets.insert(ticket, peer);
        state.session.invite(Invitation {
            ticket,
            subflows: usize::from(connections) - 1,
        });
    }

    /// Begins to connect as often as the invitation permits, if there is something large to move.
    pub(super) fn accept_invitation(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let Origin::Connected(targets) = &state.origin else {
            return;
        };
        let Some(target) = targets.current() else {
            return;
        };
        let Some(invitation) = state.session.take_invitation() else {
            return;
        };
        let address = state.address.clone();
        let now = self.clock.now();
        let deadline = now + self.config.connect_timeout;
        let bounds = self.bounds();
        for _ in 0..invitation
            .subflows
            .min(usize::from(self.config.connections).saturating_sub(1))
        {
            let Ok(socket) = net::connect(&target) else {
                return;
            };
            let origin = Origin::Subflow {
                of: peer,
                ticket: Some(invitation.ticket),
            };
            let subflow = self
                .slots
                .insert(|handle| PeerState::new(handle, origin, address.clone(), bounds));
            let data = epoll::EventData::new_u64(subflow.0);
            if epoll::add(&self.epoll, &socket, data, epoll::EventFlags::OUT).is_err() {
                self.slots.remove(subflow);
                return;
            }
            if let Some(state) = self.slots.get_mut(subflow) {
                state.link = Some(Link::new(socket, Phase::Connecting, now, deadline));
                Self::make_timed(&mut self.timed, state);
            }
            if let Some(state) = self.slots.get_mut(peer) {
                state.subflows.push(subflow);
            }
        }
    }

    /// The peer whose ticket a connection has presented, if it may have one more subflow.
    fn invited(&self, subflow: Peer, ticket: Ticket) -> Option<Peer> {
        let of = *self.tickets.get(&ticket)?;
        let state = self.slots.shown(of)?;
        let has_place = state.subflows.len() + 1 < usize::from(self.config.connections);
        let subflow = self.slots.get(subflow)?;
        let same = same_peer(subflow.identity, state.identity) && subflow.node == state.node;
        (has_place && same && state.is_up()).then_some(of)
    }

    /// Makes a connection that presented a ticket a subflow.
    pub(super) fn join(
        &mut self,
        subflow: Peer,
        ticket: Ticket,
        agreement: Agreement,
        sink: &mut dyn Sink,
    ) {
        let Some(of) = self.invited(subflow, ticket) else {
            let cause = "its ticket for a subflow is not valid".to_owned();
            return self.end(subflow, PeerError::Unauthorised(cause), &mut Silence);
        };
        self.trust(subflow, Origin::Subflow { of, ticket: None });
        if let Some(state) = self.slots.get_mut(of) {
            state.subflows.push(subflow);
        }
        self.stand(subflow, of, agreement, sink);
    }

    /// Marks a subflow up.
    pub(super) fn stand(
        &mut self,
        subflow: Peer,
        of: Peer,
        agreement: Agreement,
        sink: &mut dyn Sink,
    ) {
        let Some(mut link) = self.slots.get_mut(subflow).and_then(|s| s.link.take()) else {
            return;
        };
        let rest = link.agree(agreement);
        let Some(state) = self.slots.get_mut(of) else {
            self.slots.remove(subflow);
            return;
        };
        link.connection = state.session.add_subflow();
        let fed = link.input(&rest, &mut state.session, of, &mut self.buffers, sink);
        Self::make_due(&mut self.due, state);
        if let Some(state) = self.slots.get_mut(subflow) {
            state.link = Some(link);
        }
        match fed {
            Ok(()) => self.start_polling(subflow),
            Err(cause) => self.end(of, cause, sink),
        }
    }

    /// Reads a subflow that is up. Returns whether anything happened.
    pub(super) fn read_subflow(&mut self, subflow: Peer, of: Peer, sink: &mut dyn Sink) -> bool {
        let Some(mut link) = self.slots.get_mut(subflow).and_then(|s| s.link.take()) else {
            return false;
        };
        let Some(state) = self.slots.get_mut(of) else {
            self.slots.remove(subflow);
            return true;
        };
        let outcome = link.read(&mut state.session, of, &mut self.buffers, sink);
        if let Some(state) = self.slots.get_mut(subflow) {
            state.link = Some(link);
        }
        match outcome {
            Ok(false) => false,
            Ok(true) => {
                self.serve(of, sink);
                true
            }
            Err(cause @ PeerError::Protocol(_)) => {
                self.end(of, cause, sink);
                true
            }
            Err(cause) => {
                self.lose(subflow, of, cause);
                true
            }
        }
    }

    /// Handles the loss of a subflow. The first connection may still deliver packets, and the
    /// reason: it is given time.
    fn lose(&mut self, subflow: Peer, of: Peer, cause: PeerError) {
        self.polled.retain(|&polled| polled != subflow);
        self.slots.remove(subflow);
        let until = self.clock.now() + self.config.linger_timeout;
        if let Some(state) = self.slots.get_mut(of) {
            state.subflows.retain(|&other| other != subflow);
            state.dying.get_or_insert((until, cause));
            Self::make_timed(&mut self.timed, state);
        }
    }

    /// Closes a peer's subflows, and invalidates its ticket.
    pub(super) fn close_subflows(&mut self, subflows: Vec<Peer>, ticket: Option<Ticket>) {
        for subflow in subflows {
            self.polled.retain(|&polled| polled != subflow);
            self.slots.remove(subflow);
        }
        if let Some(ticket) = ticket {
            self.tickets.remove(&ticket);
        }
    }

    /// Sends the output of a peer's subflows. Returns whether anything was sent.
    pub(super) fn flush_subflows(&mut self, peer: Peer) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let subflows = std::mem::take(&mut state.subflows);
        let mut any = false;
        let mut lost = None;
        for &subflow in &subflows {
            let Some(mut link) = self.slots.get_mut(subflow).and_then(|s| s.link.take()) else {
                continue;
            };
            if let Some(state) = self.slots.get_mut(peer).filter(|_| link.is_up()) {
                any |= link.flush(&mut state.session, &mut self.buffers);
                Self::watch(&self.epoll, &mut link, subflow, false);
                if !link.has_sent_all(&state.session) && !link.full {
                    Self::make_due(&mut self.due, state);
                }
                if let Some(cause) = &link.broken {
                    lost = Some((subflow, cause.clone()));
                }
            }
            if let Some(state) = self.slots.get_mut(subflow) {
                state.link = Some(link);
            }
        }
        if let Some(state) = self.slots.get_mut(peer) {
            state.subflows = subflows;
        }
        if let Some((subflow, cause)) = lost {
            self.lose(subflow, peer, cause);
        }
        any
    }

    /// Has epoll report when a socket that was full has room again, and input: if a packet is held
    /// back, only the end of the stream.
    pub(super) fn watch(
        epoll: &std::os::fd::OwnedFd,
        link: &mut Link,
        peer: Peer,
        is_stopped: bool,
    ) {
        if (link.full, is_stopped) != (link.watches_room, link.watches_end) {
            let mut flags = match is_stopped {
                true => epoll::EventFlags::RDHUP,
                false => epoll::EventFlags::IN,
            };
            if link.full {
                flags |= epoll::EventFlags::OUT;
            }
            let data = epoll::EventData::new_u64(peer.0);
            match epoll::modify(epoll, &link.socket, data, flags) {
                Ok(()) => (link.watches_room, link.watches_end) = (link.full, is_stopped),
                Err(error) => link.broken = Some(broken(&error.into())),
            }
        }
    }
}

/// Whether a subflow is of the same peer as its first connection. A process whose groups have changed between the two, as its agent states them
/// for each connection, is still the same peer: data over the subflow counts as data over the first connection, with the groups stated there.
fn same_peer(subflow: Option<Identity>, first: Option<Identity>) -> bool {
    match (subflow, first) {
        (Some(Identity::OneUser { uid, .. }), Some(Identity::OneUser { uid: of_first, .. })) => {
            uid == of_first
        }
        (subflow, first) => subflow == first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_groups_have_changed_is_the_same_peer() {
        let user = |uid, gid| Some(Identity::OneUser { uid, gid });
        assert!(same_peer(user(5, 6), user(5, 6)));
        assert!(same_peer(user(5, 7), user(5, 6)));
        for (subflow, first) in [
            (user(6, 6), user(5, 6)),
            (Some(Identity::Keyed), user(5, 6)),
            (user(5, 6), Some(Identity::Keyed)),
            (None, user(5, 6)),
            (user(5, 6), None),
        ] {
            assert!(!same_peer(subflow, first), "{subflow:?} {first:?}");
        }
        assert!(same_peer(Some(Identity::Keyed), Some(Identity::Keyed)));
    }
}
