//! Which peers are one: a process that has connected to us and an address that was looked up. And how a connection that
//! both of two may need ends.

use causeway_transport::PeerError;
use causeway_transport::registry::Candidates;

use super::Endpoint;
use crate::conversation::{CONNECT, Phase};
use crate::handshake::Meeting;
use crate::matcher::Matcher;
use crate::types::Error;

/// Addresses of one peer that are looked into: it is known by the first ones.
const MOST_CONFIRMED: usize = 4;

impl<M: Matcher> Endpoint<M> {
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
        let name = &self.conversations.peers[peer].name;
        self.connections.look_up((peer, name), text, &candidates);
        Ok(peer)
    }

    /// A peer that has connected to us says which instance it is. If that is a peer that was looked up, and the evidence agrees, they
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
            Some(Meeting::Distinct) => {
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
    pub(super) fn merge(&mut self, known: u32, caller: u32, addresses: &[String]) {
        let name = &self.conversations.peers[known].name;
        tracing::debug!(target: CONNECT, peer = name, "it calls us: one connection is enough");
        self.unlink(known);
        self.connections.move_link(caller, known);
        self.conversations.merge(known, caller);
        self.connections.introduce(known, addresses);
    }

    /// Whether a connection that the peer does not need is needed here.
    fn needs(&mut self, peer: u32) -> bool {
        self.connections.end(peer).outbound && !self.conversations.is_unused(peer)
    }

    /// The peer does not need the connection any more.
    pub(super) fn may_leave(&mut self, peer: u32) {
        if !self.conversations.is_up(peer) {
            // We have just said the same.
            return;
        }
        match self.needs(peer) {
            true => self.conversations.stay(peer),
            false => self.conversations.agree_to_leave(peer),
        }
    }

    /// Neither side needs the connection any more, unless that has changed here.
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

    /// The connection is lost that was not needed here, unless that has changed.
    pub(super) fn left(&mut self, peer: u32) {
        match self.connections.end(peer).outbound {
            true => self.come_back(peer),
            false => self.close(peer, PeerError::Closed),
        }
    }

    /// The peer needs the connection: if it is not needed here, it is the peer's.
    pub(super) fn stays(&mut self, peer: u32) {
        if self.conversations.is_unused(peer) {
            self.forget_look_ups(peer);
        }
    }

    /// A peer is not one that was looked up any more.
    pub(super) fn forget_look_ups(&mut self, peer: u32) {
        let name = &self.conversations.peers[peer].name;
        self.connections.forget_look_ups(peer, name);
    }

    /// The connection to a peer that was looked up is lost, and nothing with it: if the peer is needed, there will be
    /// another one.
    pub(super) fn come_back(&mut self, peer: u32) {
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
