//! What becomes of a connection in the end: its own, ours, or that of patience.

use causeway_wire::datagram::Prefix;

use super::core::Core;
use super::link::Link;
use super::table::Origin;
use super::{Remote, Time};
use crate::error::PeerError;
use crate::method::{Peer, Silence, Sink};

impl Core {
    /// A connection, or the attempt to make one, is over.
    pub(super) fn end(&mut self, now: Time, peer: Peer, cause: PeerError, sink: &mut dyn Sink) {
        self.last_words(now, peer, &cause);
        self.unlink(peer);
        let session = self.session();
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        state.identity = None;
        state.session.flush_held(peer, sink);
        match &mut state.origin {
            Origin::Connected { at, .. } => {
                *at = 0;
                state.session.fail(&cause, peer, sink);
                state.session = session;
                sink.peer_down(peer, cause);
            }
            Origin::Accepted => {
                state.session.fail(&cause, peer, sink);
                state.session = session;
                state.gone = Some(cause.clone());
                sink.peer_down(peer, cause);
            }
            &mut Origin::HalfOpen(entry) => {
                tracing::debug!(address = %state.address, %cause, "a UDP connection came to nothing");
                self.half_open.remove(entry, peer);
                self.forget(peer);
            }
            Origin::Lingering { .. } => {
                self.forget(peer);
            }
        }
    }

    /// What the other side may like to know; if it is lost, it is lost.
    fn last_words(&mut self, now: Time, peer: Peer, cause: &PeerError) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(link) = state.link.as_mut().filter(|link| link.is_up()) else {
            return;
        };
        match cause {
            // Its goodbye is acknowledged.
            PeerError::Closed => link.incoming.ack_now(now),
            PeerError::Protocol(text) if link.has_delivered_all(&state.session) => {
                state.session.send_protocol_error(text);
            }
            _ => return,
        }
        let mut words = Vec::new();
        if link.transmit(now, &mut state.session, &mut self.scratch, &mut words) {
            let to = link.remote;
            self.reply(to, words);
        }
    }

    /// Another target of the peer that we connect to is tried, or the attempt is over.
    pub(super) fn next_target(
        &mut self,
        now: Time,
        peer: Peer,
        cause: PeerError,
        sink: &mut dyn Sink,
    ) {
        let more = match self.peers.get_mut(peer).map(|state| &mut state.origin) {
            Some(Origin::Connected { targets, at }) if *at + 1 < targets.len() => {
                *at += 1;
                true
            }
            _ => false,
        };
        match more {
            true => {
                self.unlink(peer);
                if let Some(state) = self.peers.get_mut(peer) {
                    state.goes_on = true;
                }
                self.make_due(peer);
            }
            false => self.end(now, peer, cause, sink),
        }
    }

    /// The system says that a datagram of ours, which begins with `front`, found no receiver at `to`.
    pub fn handle_unreachable(&mut self, now: Time, to: Remote, front: &[u8], sink: &mut dyn Sink) {
        if let Some(peer) = self.sender_of(to, front) {
            self.handle_gone(now, peer, "its host says that its process is gone", sink);
        }
    }

    /// The same, but that it was larger than the way there carries.
    pub fn handle_too_large(&mut self, to: Remote, front: &[u8]) {
        if let Some(peer) = self.sender_of(to, front)
            && let Some(state) = self.peers.get_mut(peer)
            && let Some(link) = &mut state.link
        {
            link.shrink();
        }
    }

    /// Whose datagram to `to` begins so. One of an earlier connection belongs to no peer.
    fn sender_of(&self, to: Remote, front: &[u8]) -> Option<Peer> {
        let prefix = Prefix::peek(front).ok()?;
        let peer = *self.by_number.get(&prefix.from)?;
        let link = self.peers.get(peer)?.link.as_ref()?;
        (link.remote == to).then_some(peer)
    }

    /// A source that should know says that the peer is gone, or is not there.
    pub(super) fn handle_gone(
        &mut self,
        now: Time,
        peer: Peer,
        why: &'static str,
        sink: &mut dyn Sink,
    ) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if state.is_lingering() {
            return self.end(now, peer, PeerError::Disconnected, sink);
        }
        let Some(link) = &mut state.link else { return };
        if link.is_up() {
            link.suspect(now, why);
            self.touch(now, peer);
        } else {
            let cause = PeerError::Refused(format!("at {}", link.remote.address));
            self.next_target(now, peer, cause, sink);
        }
    }

    /// The peer's time has come.
    pub(super) fn expire(&mut self, now: Time, peer: Peer, sink: &mut dyn Sink) {
        let connect_ms = self.config.connect_timeout.as_millis() as u64;
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if let Origin::Lingering { until, .. } = state.origin
            && until <= now
        {
            self.forget(peer);
            return;
        }
        let Some(link) = &mut state.link else { return };
        if let Err(cause) = link.expire(now, connect_ms) {
            match link.is_up() {
                true => self.end(now, peer, cause, sink),
                false => self.next_target(now, peer, cause, sink),
            }
        }
    }

    /// The caller drops a peer. What was accepted for it is still sent, if that is possible soon.
    pub fn disconnect(&mut self, now: Time, peer: Peer, sink: &mut dyn Sink) {
        if self.peers.shown(peer).is_none() {
            return;
        }
        let until = now + self.config.linger_timeout;
        let link = self.peers.get_mut(peer).and_then(|state| state.link.take());
        let caller = link.as_ref().map(|link| (link.remote, link.theirs));
        let was_caller = caller.is_some_and(|caller| self.by_caller.get(&caller) == Some(&peer));
        let Some(mut state) = self.forget(peer) else {
            return;
        };
        state.session.abandon(&PeerError::Disconnected, peer, sink);
        let Some(link) = link else { return };
        let owes_nothing = link.has_delivered_all(&state.session);
        state.session.goodbye();
        let number = link.ours;
        let lingering = self.peers.insert(|handle| {
            state.handle = handle;
            state.origin = Origin::Lingering {
                until,
                owes_nothing,
            };
            state.link = Some(link);
            state.ready = false;
            state.due = false;
            state.timer = None;
            state
        });
        self.by_number.insert(number, lingering);
        if let Some(caller) = caller.filter(|_| was_caller) {
            self.by_caller.insert(caller, lingering);
        }
        self.touch(now, lingering);
    }

    /// A peer that we dropped is forgotten once it has everything.
    pub(super) fn let_go_if_done(&mut self, peer: Peer) {
        let done = self.peers.get(peer).is_some_and(|state| {
            let link = state.link.as_ref();
            state.is_lingering()
                && link.is_some_and(|link: &Link| link.has_delivered_all(&state.session))
        });
        if done {
            self.forget(peer);
        }
    }

    /// Drops every peer.
    pub fn disconnect_all(&mut self, now: Time) {
        let peers: Vec<Peer> = self.peers.iter().map(|state| state.handle).collect();
        for peer in peers {
            self.disconnect(now, peer, &mut Silence);
        }
    }

    /// Whether a peer that we dropped has not got everything yet. A goodbye alone is not waited for:
    /// a peer that misses it finds out.
    pub fn still_sends(&self) -> bool {
        self.peers.iter().any(|state| match state.origin {
            Origin::Lingering { owes_nothing, .. } => !owes_nothing || state.session.has_output(),
            _ => false,
        })
    }
}
