//! The table of peers, handles and methods, and of the addresses by which peers are reached. It
//! calls no method.

use std::collections::HashMap;

use causeway_transport::{
    Outlet, PLACEMENT_HEAD_BYTES, Packet, Peer as Handle, PeerError, Sink, Spans, Takes, Token,
    TransferError, address, registry,
};
use causeway_wire::bmi::{self as wire, Header};

use super::watch::Watched;
use crate::conversation::LinkLimits;
use crate::conversation::moving::Short;
use crate::conversations::Conversations;
use crate::matcher::Matcher;

/// The connections of an instance.
#[derive(Default)]
pub(crate) struct Connections {
    /// By number of the peer: the method's index, and its handle.
    routes: Vec<Option<Link>>,
    /// By number of the peer.
    ends: Vec<End>,
    /// By method and the method's table index: the whole handle, and the peer's number.
    pub(super) links: Vec<Vec<Option<(Handle, u32)>>>,
    /// Looked-up addresses, and lists of them, by text.
    pub(super) by_text: HashMap<String, u32>,
    /// Peers by other single addresses: those in lists that were looked up, and those where callers
    /// can be reached.
    by_address: HashMap<String, u32>,
    /// The addresses at which this process listens: messages to them stay in the process.
    pub(super) listening: Vec<String>,
}

/// A method, by index, and its handle of a peer.
pub(super) type Link = (usize, Handle);

/// How the connection with one peer came about.
#[derive(Default)]
pub(crate) struct End {
    /// We looked the peer up, and connect to it when there is no connection. A peer that was not
    /// looked up exists as long as the connection that it has made.
    pub(super) outbound: bool,
    /// Memory was exported over a connection that we are still making: this connection is not given
    /// up for one that the peer makes.
    pub(super) pinned: bool,
    /// How many of the candidate addresses have failed in this attempt.
    pub(super) attempt: u8,
    /// How many of them, from that one on, the method tries now.
    pub(super) tried: u8,
    /// Not allocated for most peers.
    details: Option<Box<Details>>,
    pub(super) watched: Watched,
}

/// Details that only few peers have.
#[derive(Default)]
struct Details {
    /// Why addresses were passed over, as text for people.
    notes: Vec<String>,
    /// The texts by which it was looked up besides its name.
    texts: Vec<String>,
    /// The addresses in lists by which it was looked up.
    looked_up: Vec<String>,
    /// The addresses that lead to it as long as its connection is up.
    introduced: Vec<String>,
}

impl End {
    fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Why addresses were passed over.
    pub(super) fn notes(&self) -> &[String] {
        let details = self.details.as_ref();
        details.map_or(&[], |details| &details.notes)
    }

    /// Notes why an address was passed over.
    pub(super) fn note(&mut self, note: String) {
        self.details().notes.push(note);
    }

    /// Begins a new attempt.
    pub(super) fn begin(&mut self) {
        self.attempt = 0;
        self.pinned = false;
        if let Some(details) = &mut self.details {
            details.notes.clear();
        }
    }
}

impl Connections {
    /// A table for this many methods.
    pub(crate) fn new(methods: usize) -> Self {
        Self {
            links: vec![Vec::new(); methods],
            ..Self::default()
        }
    }

    /// Adds a peer.
    pub(super) fn add(&mut self, peer: u32, outbound: bool) {
        let index = peer as usize;
        if self.ends.len() <= index {
            self.ends.resize_with(index + 1, End::default);
            self.routes.resize(index + 1, None);
        }
        self.routes[index] = None;
        self.ends[index] = End {
            outbound,
            ..End::default()
        };
    }

    /// Notes that a peer of this name was looked up by this text, which has these addresses.
    /// Addresses that lead to other peers are left to them.
    pub(super) fn look_up(
        &mut self,
        (peer, name): (u32, &str),
        text: &str,
        found: &registry::Candidates,
    ) {
        let end = &mut self.ends[peer as usize];
        end.outbound = true;
        if text != name {
            end.details().texts.push(text.to_owned());
        }
        self.by_text.insert(text.to_owned(), peer);
        for candidate in &found.usable {
            let address = candidate.address.to_string();
            if address == text {
                continue;
            }
            let leads_to = *self.by_address.entry(address.clone()).or_insert(peer);
            let details = end.details();
            if leads_to == peer && !details.looked_up.contains(&address) {
                // Addresses from its introduction that were looked up as well outlast the
                // connection now.
                details
                    .introduced
                    .retain(|introduced| *introduced != address);
                details.looked_up.push(address);
            }
        }
    }

    /// Notes that a peer can be reached at these addresses as long as its connection is up.
    pub(super) fn introduce(&mut self, peer: u32, addresses: &[String]) {
        for address in addresses {
            if self.peer_at(address).is_none() {
                self.by_address.insert(address.clone(), peer);
                let details = self.ends[peer as usize].details();
                details.introduced.push(address.clone());
            }
        }
    }

    /// The peer that an address leads to.
    pub(super) fn peer_at(&self, address: &str) -> Option<u32> {
        let found = self.by_text.get(address);
        found.or_else(|| self.by_address.get(address)).copied()
    }

    /// Forgets what a peer stated in its introduction, or was once looked up by: its connection has
    /// ended.
    pub(super) fn forget_introduction(&mut self, peer: u32) {
        let end = &mut self.ends[peer as usize];
        end.pinned = false;
        if let Some(details) = &mut end.details {
            for address in std::mem::take(&mut details.introduced) {
                self.by_address.remove(&address);
            }
        }
    }

    /// Treats a peer of this name no longer as one that was looked up. As long as its connection is
    /// up, look-ups still find it.
    pub(super) fn forget_look_ups(&mut self, peer: u32, name: &str) {
        let end = &mut self.ends[peer as usize];
        if !std::mem::take(&mut end.outbound) {
            return;
        }
        let details = end.details();
        details.introduced.append(&mut details.looked_up);
        details.texts.push(name.to_owned());
        let mut introduced = Vec::new();
        for text in std::mem::take(&mut details.texts) {
            if self.by_text.remove(&text) == Some(peer) {
                introduced.push(text);
            }
        }
        self.introduce(peer, &introduced);
    }

    /// Moves the connection of one peer to another. The first one ends.
    pub(super) fn move_link(&mut self, from: u32, to: u32) {
        if let Some(link) = self.link(from) {
            self.clear_link(from);
            self.set_link(to, link);
        }
        self.forget_introduction(from);
        self.add(from, false);
    }

    /// A peer's end.
    #[inline]
    pub(super) fn end(&mut self, peer: u32) -> &mut End {
        &mut self.ends[peer as usize]
    }

    /// Whether a peer that we call may take over a connection that it has made itself.
    pub(super) fn may_take_over(&self, peer: u32) -> bool {
        let end = &self.ends[peer as usize];
        end.outbound && !end.pinned
    }

    /// Why addresses of a peer were passed over.
    pub(super) fn notes(&self, peer: u32) -> &[String] {
        self.ends[peer as usize].notes()
    }

    /// A peer's method and handle.
    #[inline]
    pub(super) fn link(&self, peer: u32) -> Option<Link> {
        self.routes[peer as usize]
    }

    /// Sets a peer's handle.
    pub(super) fn set_link(&mut self, peer: u32, link: Link) {
        let (method, handle) = link;
        let table = &mut self.links[method];
        if table.len() <= handle.index() {
            table.resize(handle.index() + 1, None);
        }
        table[handle.index()] = Some((handle, peer));
        self.routes[peer as usize] = Some(link);
    }

    /// Clears a peer's handle.
    pub(super) fn clear_link(&mut self, peer: u32) {
        if let Some((method, handle)) = self.routes[peer as usize].take()
            && let Some(entry) = self.links[method].get_mut(handle.index())
            && *entry == Some((handle, peer))
        {
            *entry = None;
        }
    }

    /// The peer behind a handle.
    #[inline]
    fn peer(&self, method: usize, handle: Handle) -> Option<u32> {
        let (known, peer) = (*self.links[method].get(handle.index())?)?;
        (known == handle).then_some(peer)
    }

    /// Sorts the addresses at which this process listens into the order in which others try them.
    pub(crate) fn sort_listening(&mut self) {
        let scheme = |text: &str| text.split("://").next().map_or(u8::MAX, address::rank);
        self.listening.sort_by_key(|text| scheme(text));
    }

    /// The addresses of a list in the order in which to try them, with those of this process itself
    /// first.
    pub(super) fn candidates(
        &self,
        schemes: &[&'static str],
        list: &str,
    ) -> Result<registry::Candidates, causeway_transport::Error> {
        let ours = registry::split(list)?
            .iter()
            .any(|address| self.listening.iter().any(|own| *own == address.to_string()));
        let list = if ours { "self://here" } else { list };
        registry::candidates(schemes, list)
    }
}

/// Delivers what one method reports.
pub(super) struct Delivery<'a, M> {
    pub(super) conversations: &'a mut Conversations<M>,
    pub(super) connections: &'a mut Connections,
    /// The method's index, and what it can do.
    method: usize,
    limits: LinkLimits,
    /// The peer that was looked up last: packets often come in a row.
    latest: Option<(Handle, u32)>,
}

impl<'a, M> Delivery<'a, M> {
    /// The delivery of one method, by index, with these capabilities.
    pub(super) fn new(
        conversations: &'a mut Conversations<M>,
        connections: &'a mut Connections,
        (method, limits): (usize, LinkLimits),
    ) -> Self {
        Self {
            conversations,
            connections,
            method,
            limits,
            latest: None,
        }
    }

    #[inline]
    fn peer(&mut self, handle: Handle) -> Option<u32> {
        match self.latest {
            Some((known, peer)) if known == handle => Some(peer),
            _ => self.look_up(handle),
        }
    }

    #[inline]
    fn look_up(&mut self, handle: Handle) -> Option<u32> {
        let peer = self.connections.peer(self.method, handle)?;
        self.latest = Some((handle, peer));
        Some(peer)
    }
}

impl<M: Matcher> Delivery<'_, M> {
    /// Carries out at once what the packet requires, if that is short: queueing it would take
    /// longer.
    #[inline(never)]
    fn act_now(&mut self, peer: u32, outlet: &mut dyn Outlet) {
        let is_done = match self.conversations.peek_short(peer) {
            Some(Short::Read {
                local,
                remote,
                notify,
            }) => outlet.read_now(local, remote, &notify),
            Some(Short::Revoke { key }) => outlet.revoke_now(key),
            None => false,
        };
        if is_done {
            self.conversations.handle_short_done(peer);
        }
    }
}

impl<M: Matcher> Sink for Delivery<'_, M> {
    #[inline]
    fn packet(&mut self, handle: Handle, packet: Packet<'_>) {
        if let Some(peer) = self.peer(handle) {
            self.conversations.handle_packet(peer, packet);
        }
    }

    #[inline]
    fn handle(&mut self, handle: Handle, packet: Packet<'_>, outlet: &mut dyn Outlet) {
        if let Some(peer) = self.peer(handle) {
            self.conversations.handle_packet(peer, packet);
            if self.conversations.has_events() {
                self.act_now(peer, outlet);
            }
        }
    }

    fn takes(&self) -> Takes {
        let shared = &self.conversations.shared;
        match shared.takes {
            // Further packets of the peer that is served now may be messages for which no receive
            // waits.
            Takes::OneInTurn if shared.matcher.holds_messages() => Takes::One,
            takes => takes,
        }
    }

    fn transfer_done(&mut self, _: Handle, token: Token, result: Result<(), TransferError>) {
        self.conversations.handle_transfer_done(token, result);
    }

    fn peer_up(&mut self, handle: Handle) {
        let peer = self.conversations.add_caller(self.limits);
        self.connections.add(peer, false);
        self.connections.set_link(peer, (self.method, handle));
        self.latest = None;
    }

    fn peer_down(&mut self, handle: Handle, cause: PeerError) {
        if let Some(peer) = self.peer(handle) {
            self.conversations.handle_lost(peer, cause);
        }
    }

    fn writable(&mut self, handle: Handle) {
        if let Some(peer) = self.peer(handle) {
            self.conversations.handle_writable(peer);
        }
    }

    fn receive_buffer(
        &mut self,
        handle: Handle,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        match (self.peer(handle), Header::decode(*head)) {
            (Some(peer), Ok(header)) => {
                let size = len.saturating_sub(wire::HEADER_BYTES);
                self.conversations
                    .handle_placement(peer, &header, size, into)
            }
            // It is checked again, and refused, when the whole packet has arrived.
            _ => false,
        }
    }

    fn placement_done(&mut self, handle: Handle, head: &[u8; PLACEMENT_HEAD_BYTES]) {
        if let (Some(peer), Ok(header)) = (self.peer(handle), Header::decode(*head)) {
            self.conversations.handle_placement_done(peer, &header);
        }
    }
}

const _: () = assert!(PLACEMENT_HEAD_BYTES == wire::HEADER_BYTES);
