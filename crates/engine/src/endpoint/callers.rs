//! Recognizing that a process that has connected to us is a peer that was looked up, and ending
//! connections that either side may need.

use causeway_transport::PeerError;
use causeway_transport::registry::Candidates;

use super::Endpoint;
use crate::conversation::{CONNECT, Phase};
use crate::handshake::CallerDecision;
use crate::matcher::Matcher;
use crate::types::Error;

/// At most this many addresses of one peer are used to recognize it: the first ones.
const MOST_CONFIRMED: usize = 4;

impl<M: Matcher> Endpoint<M> {
    /// The known peer that a list of addresses leads to, if it is reached by the method that would
    /// be chosen for the list.
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

    /// Returns the peer of a text that is looked up for the first time.
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
        let name = &self.conversations.peers[peer].name;
        self.connections.look_up((peer, name), text, &candidates);
        Ok(peer)
    }

    /// Handles the introduction of a peer that has connected to us. If it is a peer that was looked
    /// up, and the evidence agrees, the two are merged.
    pub(super) fn introduced(&mut self, peer: u32) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return;
        };
        let claims = self.conversations.claimed_addresses(peer).iter();
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
        match self.conversations.classify(peer, known) {
            Some(CallerDecision::Same) => self.merge(known.unwrap_or(peer), peer, &confirmed),
            Some(CallerDecision::Distinct) => {
                let entry = &mut self.conversations.peers[peer];
                if !confirmed.is_empty() && !self.connections.end(peer).outbound {
                    entry.name = confirmed.join(",");
                }
                self.connections.introduce(peer, &confirmed);
            }
            Some(CallerDecision::Wait) | None => {}
        }
    }

    /// Whether a known peer may take over a connection by this method.
    fn may_become(&self, known: u32, method: usize) -> bool {
        self.connections.may_take_over(known) && self.method_of(known) == Some(method)
    }

    /// Merges a caller with a peer that was looked up.
    pub(super) fn merge(&mut self, known: u32, caller: u32, addresses: &[String]) {
        let name = &self.conversations.peers[known].name;
        tracing::debug!(target: CONNECT, peer = name, "it has connected to us: one connection is enough");
        self.unlink(known);
        self.connections.move_link(caller, known);
        self.conversations.merge(known, caller);
        self.connections.introduce(known, addresses);
    }

    /// Whether a connection that the peer does not need is needed here.
    fn needs(&mut self, peer: u32) -> bool {
        self.connections.end(peer).outbound && !self.conversations.is_unused(peer)
    }

    /// Handles the peer's notice that it no longer needs the connection.
    pub(super) fn may_leave(&mut self, peer: u32) {
        if !self.conversations.is_up(peer) {
            // We have just sent the same.
            return;
        }
        match self.needs(peer) {
            true => self.conversations.stay(peer),
            false => self.conversations.agree_to_leave(peer),
        }
    }

    /// Closes a connection that neither side needs, unless it is needed here again.
    pub(super) fn may_close(&mut self, peer: u32) {
        if !self.conversations.is_leaving(peer) {
            return;
        }
        if self.needs(peer) {
            self.conversations.stay(peer);
        } else if self.conversations.is_unused(peer) {
            self.forget(peer);
        } else {
            self.close(peer, PeerError::Closed);
        }
    }

    /// Forgets a peer whose connection was lost while it was not needed here, unless it is needed
    /// again.
    pub(super) fn left(&mut self, peer: u32) {
        match self.connections.end(peer).outbound {
            true => self.reconnect_if_needed(peer),
            false => self.close(peer, PeerError::Closed),
        }
    }

    /// Handles the peer's reply that it needs the connection. If it is not needed here, it lasts as
    /// long as the peer needs it.
    pub(super) fn stays(&mut self, peer: u32) {
        if self.conversations.is_unused(peer) {
            self.forget_look_ups(peer);
        }
    }

    /// Treats a peer no longer as one that was looked up.
    pub(super) fn forget_look_ups(&mut self, peer: u32) {
        let name = &self.conversations.peers[peer].name;
        self.connections.forget_look_ups(peer, name);
    }

    /// Handles the loss of a connection for which no operation has failed: if the peer, which was
    /// looked up, is needed, another connection is made.
    pub(super) fn reconnect_if_needed(&mut self, peer: u32) {
        if self.conversations.is_unused(peer) {
            return self.forget(peer);
        }
        self.end_all_exports(peer);
        self.unlink(peer);
        self.connections.forget_introduction(peer);
        self.conversations.reopen_later(peer);
        if self.conversations.peers[peer].has_operations() {
            self.connect(peer);
        }
    }
}
