//! Connections underneath the connectionless interface: made when needed, dropped when lost. If an
//! address was never reached, the peer's next address is tried.

use causeway_transport::{Peer as Handle, PeerError};

use super::Endpoint;
use super::connections::Delivery;
use crate::conversation::{CONNECT, Phase};
use crate::matcher::Matcher;

impl<M: Matcher> Endpoint<M> {
    /// Makes sure that a connection is up or being made, for an operation that was just posted.
    /// Fails the peer's operations if none can be made.
    pub(super) fn connect(&mut self, peer: u32) {
        if !matches!(self.conversations.peers[peer].phase, Phase::Closed) {
            return;
        }
        self.connections.end(peer).begin();
        self.next_attempt(peer, PeerError::Disconnected);
    }

    /// Tries the candidate addresses from the present attempt on. `cause` is why the one before
    /// failed.
    fn next_attempt(&mut self, peer: u32, mut cause: PeerError) {
        let name = &self.conversations.peers[peer].name;
        let schemes = self.methods.schemes();
        let candidates = match self.connections.candidates(&schemes, name) {
            Ok(candidates) => candidates,
            Err(error) => return self.close(peer, PeerError::of_call(&error)),
        };
        let end = self.connections.end(peer);
        if end.attempt == 0 {
            let passed = candidates.passed_over.iter();
            let notes = passed.map(|(address, why)| format!("{address}: {why}"));
            notes.for_each(|note| end.note(note));
        }
        while let Some(candidate) = candidates
            .usable
            .get(self.connections.end(peer).attempt as usize)
        {
            let now = self.methods.read_clock();
            let method = self.methods.get(candidate.method);
            match method.connect(now, &candidate.address) {
                Ok(handle) => {
                    let first = usize::from(self.connections.end(peer).attempt);
                    let others = candidates.usable[first..].iter().skip(1);
                    let tried = others
                        .take_while(|other| other.method == candidate.method)
                        .take_while(|other| method.also_at(handle, &other.address));
                    self.connections.end(peer).tried = 1 + tried.count() as u8;
                    return self.attempt(peer, (candidate.method, handle));
                }
                Err(error) => {
                    let end = self.connections.end(peer);
                    let note = format!("{}: {error}", candidate.address);
                    end.note(note);
                    end.attempt += 1;
                    cause = PeerError::of_call(&error);
                }
            }
        }
        self.close(peer, cause);
    }

    /// The index of the method by which an address would be reached first.
    pub(super) fn first_method(&self, list: &str) -> Result<usize, causeway_transport::Error> {
        let schemes = self.methods.schemes();
        let candidates = self.connections.candidates(&schemes, list)?;
        Ok(candidates.usable.first().map_or(0, |c| c.method))
    }

    fn attempt(&mut self, peer: u32, link: (usize, Handle)) {
        if self.connections.link(peer).is_some_and(|old| old != link) {
            self.unlink(peer);
        }
        self.connections.set_link(peer, link);
        let limits = self.methods.slots[link.0].limits;
        self.conversations.open(peer, limits);
    }

    /// Drops a peer's handle, if it has one.
    pub(super) fn unlink(&mut self, peer: u32) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return;
        };
        let now = self.methods.read_clock();
        let slot = &mut self.methods.slots[method];
        let mut delivery = Delivery::new(
            &mut self.conversations,
            &mut self.connections,
            (method, slot.limits),
        );
        slot.method.disconnect(now, handle, &mut delivery);
        self.connections.clear_link(peer);
    }

    /// Adds a peer that has connected to us.
    pub(super) fn called(&mut self, peer: u32) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return;
        };
        let slot = &self.methods.slots[method];
        let name = match slot.method.address(handle) {
            Some(address) => address.to_string(),
            None => format!("{}://peer-{}", slot.scheme, handle.0),
        };
        tracing::debug!(target: CONNECT, peer = name, "called");
        self.conversations.peers[peer].name = name;
    }

    /// A connection is lost: falls back to the peer's next address if this one was never reached.
    pub(super) fn lost(&mut self, peer: u32, cause: PeerError) {
        let method = self.connections.link(peer).map(|(method, _)| method);
        self.lost_by(method, peer, cause);
    }

    /// The same for a connection by this method, which may have been dropped already.
    fn lost_by(&mut self, method: Option<usize>, peer: u32, cause: PeerError) {
        let entry = &self.conversations.peers[peer];
        let (called, was_up) = (entry.greeting.called, entry.was_up);
        let outbound = self.connections.end(peer).outbound;
        if outbound && called && !was_up {
            return self.reconnect_if_needed(peer);
        }
        if outbound
            && !was_up
            && let Some(caller) = self.conversations.waiting_caller(peer)
        {
            return self.merge(peer, caller, &[]);
        }
        let entry = &self.conversations.peers[peer];
        let end = self.connections.end(peer);
        if let Some(method) = method
            && outbound
            && !was_up
        {
            let scheme = self.methods.slots[method].scheme;
            tracing::debug!(target: CONNECT, peer = entry.name, scheme, %cause, "not reached");
            end.note(format!("{scheme}: {cause}"));
            end.attempt += end.tried.max(1);
            return self.next_attempt(peer, cause);
        }
        self.close(peer, cause);
    }

    /// Gives up a connection on which the peer does not greet: the next address is tried, if there
    /// is one.
    pub(super) fn give_up(&mut self, peer: u32, limit_ms: u64) {
        let method = self.connections.link(peer).map(|(method, _)| method);
        // First, as the method may give the next connection the same handle.
        self.end_all_exports(peer);
        self.unlink(peer);
        self.lost_by(method, peer, PeerError::TimedOut(limit_ms));
    }

    /// Drops a peer that violated the protocol.
    pub(super) fn drop_offender(&mut self, peer: u32, reason: String) {
        let name = &self.conversations.peers[peer].name;
        tracing::warn!(target: CONNECT, peer = name, reason, "dropping a peer");
        if !self.conversations.peers[peer].was_up {
            // The peer may fail because of our greeting in the same way: it is sent, so that the
            // peer can report why.
            self.transmit_control(peer);
        }
        self.unlink(peer);
        self.close(peer, PeerError::Protocol(reason));
    }

    /// Drops a connection at the caller's request.
    pub(super) fn drop_connection(&mut self, peer: u32) {
        let phase = &self.conversations.peers[peer].phase;
        if matches!(phase, Phase::Greeting | Phase::Up | Phase::Leaving) {
            self.unlink(peer);
            self.close(peer, PeerError::Disconnected);
            let all = &mut self.conversations;
            all.peers[peer].drop_early(&mut all.shared, true);
        }
    }

    /// Ends a connection: everything that depends on it fails, and nothing else.
    pub(super) fn close(&mut self, peer: u32, cause: PeerError) {
        self.end_all_exports(peer);
        let outbound = self.connections.end(peer).outbound;
        let called = self.conversations.peers[peer].greeting.called;
        self.connections.forget_introduction(peer);
        self.conversations.close(peer, cause, outbound);
        if called || !outbound {
            // The method keeps the entry of a caller until the entry is released.
            self.unlink(peer);
        }
    }

    /// Forgets a peer that nothing needs any more.
    pub(super) fn release_if_unused(&mut self, peer: u32) {
        let all = &mut self.conversations;
        let entry = &all.peers[peer];
        let outbound = self.connections.end(peer).outbound;
        let stays = !outbound && !matches!(entry.phase, Phase::Gone(_));
        if stays || !all.is_unused(peer) {
            return;
        }
        match all.peers[peer].phase {
            Phase::Up if all.peers[peer].is_mutual(&all.shared) => all.leave(peer),
            // The peer decides whether the connection stays.
            Phase::Leaving => {}
            Phase::Greeting if entry.greeting.called => self.forget_look_ups(peer),
            _ => self.forget(peer),
        }
    }

    /// Drops the connection to a peer, and removes the peer.
    pub(super) fn forget(&mut self, peer: u32) {
        self.unlink(peer);
        self.forget_look_ups(peer);
        self.connections.forget_introduction(peer);
        self.conversations.remove(peer);
        self.connections.add(peer, false);
    }
}
