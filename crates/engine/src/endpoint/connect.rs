//! Connections underneath the connectionless interface: made when needed, dropped when lost, with the next address
//! of a peer tried where one was never reached.

use causeway_transport::registry::Candidates;
use causeway_transport::{Peer as Handle, PeerError};

use super::Endpoint;
use super::connections::Delivery;
use crate::conversation::greeting::Meeting;
use crate::conversation::{CONNECT, Phase};
use crate::matcher::Matcher;
use crate::types::Error;

/// Addresses of one peer that are looked into: it is known by the first ones.
const MOST_CONFIRMED: usize = 4;

impl<M: Matcher> Endpoint<M> {
    /// Makes sure that a connection is on its way, for an operation that was just posted. Fails the
    /// peer's operations if none can be made.
    pub(super) fn connect(&mut self, peer: u32) {
        if !matches!(self.conversations.peers[peer].phase, Phase::Closed) {
            return;
        }
        let end = self.connections.end(peer);
        end.attempt = 0;
        end.pinned = false;
        end.notes.clear();
        self.next_attempt(peer, PeerError::Disconnected);
    }

    /// Tries the candidates from the present attempt on. `cause` is why the one before failed.
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
            end.notes.extend(notes);
        }
        while let Some(candidate) = candidates.usable.get(self.connections.end(peer).attempt) {
            let now = self.methods.read_clock();
            let method = self.methods.get(candidate.method);
            match method.connect(now, &candidate.address) {
                Ok(handle) => return self.attempt(peer, (candidate.method, handle)),
                Err(error) => {
                    let end = self.connections.end(peer);
                    let note = format!("{}: {error}", candidate.address);
                    end.notes.push(note);
                    end.attempt += 1;
                    cause = PeerError::of_call(&error);
                }
            }
        }
        self.close(peer, cause);
    }

    /// The method, by index, that an address would be reached by first.
    pub(super) fn first_method(&self, list: &str) -> Result<usize, causeway_transport::Error> {
        let schemes = self.methods.schemes();
        let candidates = self.connections.candidates(&schemes, list)?;
        Ok(candidates.usable.first().map_or(0, |c| c.method))
    }

    /// The peer that a list of addresses means, if one is known that is reached in the way in which it would be.
    fn peer_at(&self, candidates: &Candidates) -> Option<u32> {
        let first = candidates.usable.first()?;
        let peer = self.connections.peer_at(&first.address.to_string())?;
        (self.method_of(peer) == Some(first.method)).then_some(peer)
    }

    /// The method by which a peer is, or would be, reached.
    fn method_of(&self, peer: u32) -> Option<usize> {
        let entry = &self.conversations.peers[peer];
        match entry.phase {
            Phase::Greeting | Phase::Up | Phase::Leaving | Phase::Failed => {
                self.connections.link(peer).map(|(method, _)| method)
            }
            Phase::Closed => self.first_method(&entry.name).ok(),
            Phase::Gone(_) => None,
        }
    }

    /// The peer of a text that is looked up for the first time.
    pub(super) fn look_up(&mut self, text: &str) -> Result<u32, Error> {
        let schemes = self.methods.schemes();
        let candidates = self.connections.candidates(&schemes, text)?;
        let peer = match self.peer_at(&candidates) {
            Some(peer) => peer,
            None => {
                let peer = self.conversations.add(text.to_owned());
                self.connections.add(peer, true);
                peer
            }
        };
        if !std::mem::replace(&mut self.connections.end(peer).outbound, true) {
            self.conversations.peers[peer].name = text.to_owned();
        }
        self.connections.look_up(peer, text, &candidates);
        Ok(peer)
    }

    fn attempt(&mut self, peer: u32, link: (usize, Handle)) {
        if self.connections.link(peer).is_some_and(|old| old != link) {
            self.unlink(peer);
        }
        self.connections.set_link(peer, link);
        let limits = self.methods.slots[link.0].limits;
        self.conversations.open(peer, limits);
    }

    /// Drops the method's handle of a peer, if it has one.
    fn unlink(&mut self, peer: u32) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return;
        };
        let now = self.methods.read_clock();
        let slot = &mut self.methods.slots[method];
        let mut delivery = Delivery {
            conversations: &mut self.conversations,
            connections: &mut self.connections,
            method,
            limits: slot.limits,
        };
        slot.method.disconnect(now, handle, &mut delivery);
        self.connections.clear_link(peer);
    }

    /// A peer has connected to us.
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

    /// A peer that has connected to us says who it is. If that is a peer that was looked up, and the evidence agrees, they
    /// become one.
    pub(super) fn introduced(&mut self, peer: u32) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return;
        };
        let claims = self.conversations.claims(peer).iter();
        let slot = &self.methods.slots[method];
        let confirm = |claim: &String| slot.method.confirm_address(handle, &claim.parse().ok()?);
        let confirmed: Vec<String> = claims
            .filter_map(confirm)
            .take(MOST_CONFIRMED)
            .map(|address| address.to_string())
            .collect();
        let mut leads_to = confirmed
            .iter()
            .filter_map(|text| self.connections.peer_at(text));
        let known = leads_to.find(|&known| self.may_become(known, method));
        match self.conversations.meet(peer, known) {
            Some(Meeting::Same) => self.merge(known.unwrap_or(peer), peer, &confirmed),
            Some(Meeting::Apart) => {
                let entry = &mut self.conversations.peers[peer];
                if !confirmed.is_empty() && !self.connections.end(peer).outbound {
                    entry.name = confirmed.join(",");
                }
                self.connections.introduce(peer, &confirmed);
            }
            Some(Meeting::Wait) | None => {}
        }
    }

    /// Whether a known peer may take over a connection by this method.
    fn may_become(&self, known: u32, method: usize) -> bool {
        self.connections.may_take_over(known) && self.method_of(known) == Some(method)
    }

    /// Makes a caller and a peer that was looked up one.
    fn merge(&mut self, known: u32, caller: u32, addresses: &[String]) {
        let name = &self.conversations.peers[known].name;
        tracing::debug!(target: CONNECT, peer = name, "it calls us: one connection is enough");
        self.unlink(known);
        self.connections.move_link(caller, known);
        self.conversations.merge(known, caller);
        self.connections.introduce(known, addresses);
    }

    /// The peer does not need the connection any more.
    pub(super) fn may_leave(&mut self, peer: u32) {
        if !self.conversations.is_up(peer) {
            // We have just said the same.
            return;
        }
        let needed = self.connections.end(peer).outbound && !self.conversations.is_unused(peer);
        match needed {
            true => self.conversations.stay(peer),
            false => self.conversations.leave(peer),
        }
    }

    /// Neither side needs the connection any more, unless that has changed here.
    pub(super) fn left(&mut self, peer: u32) {
        if !matches!(self.conversations.peers[peer].phase, Phase::Failed) {
            return;
        }
        if !self.connections.end(peer).outbound {
            self.unlink(peer);
            return self.close(peer, PeerError::Closed);
        }
        self.come_back(peer);
    }

    /// The peer needs the connection: if it is not needed here, it is the peer's.
    pub(super) fn stays(&mut self, peer: u32) {
        if self.conversations.is_unused(peer) {
            self.connections.forget_look_ups(peer);
        }
    }

    /// The connection to a peer that was looked up is over, and nothing was lost with it: if the peer is needed, there
    /// will be another one.
    fn come_back(&mut self, peer: u32) {
        if self.conversations.is_unused(peer) {
            return self.forget(peer);
        }
        let all = &mut self.conversations;
        for op in all.peers[peer].all_operations(&mut all.shared) {
            self.end_exports(peer, op);
        }
        self.unlink(peer);
        self.connections.forget_introduction(peer);
        self.conversations.reopen_later(peer);
        if self.conversations.peers[peer].has_operations() {
            self.connect(peer);
        }
    }

    /// A connection is lost: falls back to the peer's next address if this one was never reached.
    pub(super) fn lost(&mut self, peer: u32, cause: PeerError) {
        let entry = &self.conversations.peers[peer];
        let (called, was_up) = (entry.greeting.called, entry.was_up);
        let outbound = self.connections.end(peer).outbound;
        if outbound && called && !was_up {
            return self.come_back(peer);
        }
        if outbound
            && !was_up
            && let Some(caller) = self.conversations.rival(peer)
        {
            return self.merge(peer, caller, &[]);
        }
        let entry = &self.conversations.peers[peer];
        let link = self.connections.link(peer);
        let end = self.connections.end(peer);
        if let Some((method, _)) = link
            && outbound
            && !was_up
        {
            let scheme = self.methods.slots[method].scheme;
            tracing::debug!(target: CONNECT, peer = entry.name, scheme, %cause, "not reached");
            end.notes.push(format!("{scheme}: {cause}"));
            end.attempt += 1;
            return self.next_attempt(peer, cause);
        }
        self.close(peer, cause);
    }

    /// A peer that sent nonsense.
    pub(super) fn drop_offender(&mut self, peer: u32, reason: String) {
        let name = &self.conversations.peers[peer].name;
        tracing::warn!(target: CONNECT, peer = name, reason, "dropping a peer");
        if !self.conversations.peers[peer].was_up {
            // It may be that it will not like our greeting any better: it is to find out why.
            self.transmit_control(peer);
        }
        self.unlink(peer);
        self.close(peer, PeerError::Protocol(reason));
    }

    /// Drops a connection because the caller says so.
    pub(super) fn drop_connection(&mut self, peer: u32) {
        let phase = &self.conversations.peers[peer].phase;
        if matches!(phase, Phase::Greeting | Phase::Up | Phase::Leaving) {
            self.unlink(peer);
            self.close(peer, PeerError::Disconnected);
            let all = &mut self.conversations;
            all.peers[peer].drop_early(&mut all.shared, true);
        }
    }

    /// The connection is over: everything that depends on it fails, and only that.
    fn close(&mut self, peer: u32, cause: PeerError) {
        let all = &mut self.conversations;
        for op in all.peers[peer].all_operations(&mut all.shared) {
            self.end_exports(peer, op);
        }
        let outbound = self.connections.end(peer).outbound;
        let called = self.conversations.peers[peer].greeting.called;
        self.connections.forget_introduction(peer);
        self.conversations.close(peer, cause, outbound);
        if called || !outbound {
            // The method keeps its entry of a caller until it is told that nobody needs it.
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
            // What becomes of the connection is the peer's to say.
            Phase::Leaving => {}
            Phase::Greeting if entry.greeting.called => self.connections.forget_look_ups(peer),
            _ => self.forget(peer),
        }
    }

    /// Drops the connection to a peer, and forgets it.
    fn forget(&mut self, peer: u32) {
        self.unlink(peer);
        self.connections.forget_look_ups(peer);
        self.connections.forget_introduction(peer);
        self.conversations.remove(peer);
        self.connections.add(peer, false);
    }
}
