//! Connections underneath the connectionless interface: greeting, falling, falling back.

use causeway_transport::{Peer as Handle, PeerError, registry};
use causeway_wire::bmi::{self as wire, Header, Kind};

use crate::core::{Core, Delivery, Task};
use crate::methods::Methods;
use crate::op::State;
use crate::peer::{Arrived, EarlyBody, Peer, Phase};
use crate::slab::NONE;
use crate::types::EAGER_BY_METHOD;

impl Core {
    /// Makes sure that a connection is on its way, for an operation that was just posted. Fails the
    /// peer's operations if none can be made.
    pub(crate) fn connect(&mut self, methods: &mut Methods, peer: u32) {
        if !matches!(self.peers[peer].phase, Phase::Closed) {
            return;
        }
        self.peers[peer].attempt = 0;
        self.peers[peer].notes.clear();
        self.next_attempt(methods, peer, PeerError::Disconnected);
    }

    /// Tries the candidates from the present attempt on. `cause` is why the one before failed.
    fn next_attempt(&mut self, methods: &mut Methods, peer: u32, mut cause: PeerError) {
        let found = self.candidates(methods, &self.peers[peer].text);
        let candidates = match found {
            Ok(candidates) => candidates,
            Err(error) => return self.fall(methods, peer, PeerError::of_call(&error)),
        };
        if self.peers[peer].attempt == 0 {
            let passed = candidates.passed_over.iter();
            let notes = passed.map(|(address, why)| format!("{address}: {why}"));
            self.peers[peer].notes.extend(notes);
        }
        while let Some(candidate) = candidates.usable.get(self.peers[peer].attempt) {
            match methods.get(candidate.method).connect(&candidate.address) {
                Ok(handle) => return self.attempt(methods, peer, (candidate.method, handle)),
                Err(error) => {
                    self.peers[peer]
                        .notes
                        .push(format!("{}: {error}", candidate.address));
                    cause = PeerError::of_call(&error);
                    self.peers[peer].attempt += 1;
                }
            }
        }
        self.fall(methods, peer, cause);
    }

    /// The addresses to try, with those of this process itself first.
    fn candidates(
        &self,
        methods: &Methods,
        list: &str,
    ) -> Result<registry::Candidates, causeway_transport::Error> {
        let ours = registry::split(list)?
            .iter()
            .any(|address| self.listening.iter().any(|own| *own == address.to_string()));
        let list = if ours { "self://here" } else { list };
        registry::candidates(&methods.schemes(), list)
    }

    /// Checks that an address could be used at all.
    pub(crate) fn check(
        &self,
        methods: &Methods,
        list: &str,
    ) -> Result<usize, causeway_transport::Error> {
        let candidates = self.candidates(methods, list)?;
        Ok(candidates.usable.first().map_or(0, |c| c.method))
    }

    fn attempt(&mut self, methods: &mut Methods, peer: u32, link: (usize, Handle)) {
        if let Some(old) = self.peers[peer].link
            && old != link
        {
            self.unlink(methods, peer);
        }
        let slot = &methods.slots[link.0];
        self.link(peer, link, slot.max_packet);
        self.peers[peer].eager_bytes = slot.eager_bytes;
        self.greet(peer);
    }

    fn link(&mut self, peer: u32, link: (usize, Handle), max_packet: usize) {
        let (method, handle) = link;
        let table = &mut self.links[method];
        if table.len() <= handle.index() {
            table.resize(handle.index() + 1, NONE);
        }
        table[handle.index()] = peer;
        self.peers[peer].greet(&mut self.budget, link, max_packet);
    }

    /// Queues the first packet, which makes a lazy method connect.
    fn greet(&mut self, peer: u32) {
        self.touch(peer);
        self.queue_control(
            peer,
            Header::new(Kind::Hello, wire::HELLO_WORD).encode().to_vec(),
        );
        if self.budget.is_tight() {
            self.shrink_largest(peer);
        }
    }

    /// Drops the method's handle of a peer, if it has one.
    fn unlink(&mut self, methods: &mut Methods, peer: u32) {
        let Some((method, handle)) = self.peers[peer].link else {
            return;
        };
        let mut delivery = Delivery { core: self, method };
        methods.get(method).disconnect(handle, &mut delivery);
        if let Some(entry) = self.links[method].get_mut(handle.index())
            && *entry == peer
        {
            *entry = NONE;
        }
        self.peers[peer].link = None;
    }

    /// A peer has connected to us (from inside a poll).
    pub(crate) fn add_caller(&mut self, method: usize, handle: Handle) {
        let peer = self.peers.insert(Peer::caller(String::new()));
        // The size of packets is filled in before anything is sent.
        self.link(peer, (method, handle), 0);
        self.greet(peer);
        let key = self.peers.key(peer);
        self.tasks.push_back(Task::Called(key));
    }

    /// The second half of [`Core::add_caller`], when the method can be asked.
    pub(crate) fn called(&mut self, methods: &mut Methods, peer: u32) {
        let Some((method, handle)) = self.peers[peer].link else {
            return;
        };
        let slot = &methods.slots[method];
        let address = slot.method.address(handle);
        let entry = &mut self.peers[peer];
        entry.text = match address {
            Some(address) => address.to_string(),
            None => format!("{}://peer-{}", slot.scheme, handle.0),
        };
        entry.max_packet = slot.max_packet;
        entry.eager_bytes = slot.eager_bytes;
        tracing::debug!(peer = entry.text, "called");
        self.touch(peer);
        self.set_eager_max(peer);
    }

    /// The peer's greeting has come (from inside a poll).
    pub(crate) fn greeted(&mut self, peer: u32, credit: u32) {
        let entry = &mut self.peers[peer];
        entry.phase = Phase::Up;
        entry.was_up = true;
        if !entry.account.receive(credit) {
            return self.condemn(peer, "it grants too much credit");
        }
        tracing::debug!(peer = self.peers[peer].text, credit, "connected");
        self.touch(peer);
        self.set_eager_max(peer);
        self.mark_dirty(peer);
        self.queue_kick();
    }

    /// Recomputes the largest eager message.
    pub(crate) fn set_eager_max(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        let room = entry.max_packet.saturating_sub(wire::HEADER_BYTES);
        let limit = match entry.eager_limit.unwrap_or(self.tuning.eager_limit) {
            EAGER_BY_METHOD => entry.eager_bytes,
            limit => limit,
        };
        entry.eager_max = limit.min(room) as u64;
    }

    /// A peer is down: falls back to its next address if this one was never reached.
    pub(crate) fn down(&mut self, methods: &mut Methods, peer: u32, cause: PeerError) {
        let entry = &mut self.peers[peer];
        if let Some((method, _)) = entry.link
            && entry.outbound
            && !entry.was_up
        {
            let scheme = methods.slots[method].scheme;
            tracing::debug!(peer = entry.text, scheme, %cause, "not reached");
            entry.notes.push(format!("{scheme}: {cause}"));
            entry.attempt += 1;
            return self.next_attempt(methods, peer, cause);
        }
        self.fall(methods, peer, cause);
    }

    /// A peer that sent nonsense.
    pub(crate) fn drop_condemned(&mut self, methods: &mut Methods, peer: u32, reason: String) {
        tracing::warn!(peer = self.peers[peer].text, reason, "dropping a peer");
        self.unlink(methods, peer);
        self.fall(methods, peer, PeerError::Protocol(reason));
    }

    /// Drops a connection because the caller says so.
    pub(crate) fn disconnect(&mut self, methods: &mut Methods, peer: u32) {
        if matches!(self.peers[peer].phase, Phase::Greeting | Phase::Up) {
            self.unlink(methods, peer);
            self.fall(methods, peer, PeerError::Disconnected);
            self.drop_early(peer, true);
        }
    }

    /// The connection is over: everything that depends on it fails, and only that.
    fn fall(&mut self, methods: &mut Methods, peer: u32, cause: PeerError) {
        tracing::debug!(peer = self.peers[peer].text, %cause, "no longer connected");
        self.touch(peer);
        let entry = &mut self.peers[peer];
        entry.phase = Phase::Falling;
        entry.control.clear();
        entry.expected.clear();
        entry.unexpected.clear();
        entry.announced = 0;
        entry.announced_unexpected = 0;
        entry.grant.close(&mut self.budget);
        entry.landing = None;
        self.file_receives(peer);
        let ops = self.peers[peer].ops;
        for op in ops.to_vec(&mut self.ops) {
            if let State::Posted = self.ops[op].state {
                self.unfile(op);
            }
            self.end_exports(methods, op);
            let error = self.peer_error(peer, cause.clone());
            self.complete(op, Err(error));
        }
        self.forget_announcements(peer);
        let entry = &mut self.peers[peer];
        entry.transfers = 0;
        if entry.outbound {
            entry.phase = Phase::Closed;
            self.drop_early(peer, true);
        } else {
            entry.phase = Phase::Gone(cause);
            // The method keeps its entry of a caller until it is told that nobody needs it.
            self.unlink(methods, peer);
            self.drop_early(peer, false);
        }
        let key = self.peers.key(peer);
        self.tasks.push_back(Task::Release(key));
        self.queue_kick();
    }

    /// Forgets unexpected messages that are still with a sender which is gone.
    fn forget_announcements(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        let before = entry.arrived.len();
        entry
            .arrived
            .retain(|arrived| matches!(arrived, Arrived::Ready { .. }));
        self.unexpected_waiting -= before - entry.arrived.len();
        entry.announcements = 0;
        entry.announcements_unexpected = 0;
        self.ring_if_ready(peer);
    }

    /// Drops early messages: those that are still with the sender, or all. A peer that we looked up
    /// may come back as another incarnation, whose messages must not be mixed with these.
    fn drop_early(&mut self, peer: u32, all: bool) {
        let list = self.peers[peer].early;
        for index in list.to_vec(&mut self.early) {
            if all || matches!(self.early[index].body, EarlyBody::Announced(_)) {
                self.early_table.remove(&mut self.early, index);
                self.take_early(index);
            }
        }
    }

    /// Drops a peer that nobody needs any more.
    pub(crate) fn maybe_drop(&mut self, methods: &mut Methods, peer: u32) {
        let entry = &self.peers[peer];
        let in_use = entry.refs > 0 || entry.has_operations() || !entry.arrived.is_empty();
        let stays = !entry.outbound && !matches!(entry.phase, Phase::Gone(_));
        if in_use || stays {
            return;
        }
        self.unlink(methods, peer);
        self.drop_early(peer, true);
        self.peers[peer].grant.close(&mut self.budget);
        self.peers[peer].traffic.settle(&mut self.touched);
        if let Some(entry) = self.peers.remove(peer)
            && entry.outbound
        {
            self.by_text.remove(&entry.text);
        }
    }

    /// Puts the addresses that we listen at into the order in which others try them.
    pub(crate) fn sort_listening(&mut self) {
        let scheme = |text: &str| text.split("://").next().map_or(u8::MAX, registry::cost);
        self.listening.sort_by_key(|text| scheme(text));
    }
}
