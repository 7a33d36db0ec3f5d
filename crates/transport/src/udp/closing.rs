//! How connections end: by an error, by either side, or by a time limit.

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
        self.send_cause(now, peer, &cause);
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

    /// Sends the reason to the other side, once, as best effort.
    fn send_cause(&mut self, now: Time, peer: Peer, cause: &PeerError) {
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

    /// Tries another target of the peer that this process connects to, or ends the attempt.
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

    /// Handles the system's report that our datagram, which begins with `front`, found no receiver
    /// at `to`.
    pub fn handle_unreachable(&mut self, now: Time, to: Remote, front: &[u8], sink: &mut dyn Sink) {
        if let Some(peer) = self.sender_of(to, front) {
            self.handle_gone(now, peer, "its host reports that its process is gone", sink);
        }
    }

    /// The same for a datagram that was too large for the path.
    pub fn handle_too_large(&mut self, to: Remote, front: &[u8]) {
        if let Some(peer) = self.sender_of(to, front)
            && let Some(state) = self.peers.get_mut(peer)
            && let Some(link) = &mut state.link
        {
            link.shrink();
        }
    }

    /// The peer whose datagram to `to` begins with `front`. A datagram of an earlier connection
    /// belongs to no peer.
    fn sender_of(&self, to: Remote, front: &[u8]) -> Option<Peer> {
        let prefix = Prefix::peek(front).ok()?;
        let peer = *self.by_number.get(&prefix.from)?;
        let link = self.peers.get(peer)?.link.as_ref()?;
        (link.remote == to).then_some(peer)
    }

    /// Handles a report, from a source that should know, that the peer is gone or does not exist.
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

    /// Handles a peer's timer.
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

    /// Drops a peer at the caller's request. Accepted packets are still sent, if that is possible
    /// soon.
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

    /// Forgets a dropped peer once it has received everything.
    pub(super) fn free_if_done(&mut self, peer: Peer) {
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

    /// Whether a dropped peer has not received everything. A goodbye alone is not waited for: a
    /// peer that misses it detects the end otherwise.
    pub fn still_sends(&self) -> bool {
        self.peers.iter().any(|state| match state.origin {
            Origin::Lingering { owes_nothing, .. } => !owes_nothing || state.session.has_output(),
            _ => false,
        })
    }
}
