//! All conversations of one instance: passes what methods report and callers post to the
//! conversation concerned, and returns what the driver is to do with methods.
//!
//! Nothing here does I/O or reads a clock: the same calls give the same results.
//! [`Endpoint`](crate::Endpoint) drives it with methods. After calls that report something, a
//! driver calls [`Conversations::poll_event`] until it returns `None`, then sends what
//! [`Conversations::poll_dirty`] and [`Conversations::poll_transmit`] return.

mod fetching;
mod greetings;
mod posting;
mod shrinking;
mod transferring;

use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::slab::Slab;
use causeway_transport::{Access, Error as TransportError, Packet, PeerError, Spans, Transfer};
use causeway_wire::bmi::{Header, Introduction};
use causeway_wire::formats::Formats;
use causeway_wire::region::Regions;

use crate::conversation::moving::Short;
use crate::conversation::receiving::{Keep, add_receive, post_again};
use crate::conversation::rendezvous::has_withdrawable_message;
use crate::conversation::{Conversation, LinkLimits, Phase, Transmit};
use crate::handshake::{CallerDecision, WaitingCaller};
use crate::lists::NONE;
use crate::matcher::Matcher;
use crate::operation::State;
use crate::shared::{EarlyBody, NO_QUEUE, Shared, Tuning, Work};
use crate::transfers::Remainder;
use crate::types::{Completion, Envelope, OpError, OpId, Unexpected};

/// What a driver is to do. Peers and operations are numbers that are valid until the next call.
#[derive(Debug)]
pub enum Event {
    /// Export memory of an operation: [`Conversations::memory_to_export`], [`Conversations::handle_exported`].
    Export {
        /// The peer.
        peer: u32,
        /// The operation.
        op: u32,
    },
    /// End the exports of an operation ([`Conversations::take_exports`]), then
    /// [`Conversations::complete_finished`].
    Finish {
        /// The peer.
        peer: u32,
        /// The operation.
        op: u32,
        /// What it completes with.
        result: Result<u64, OpError>,
    },
    /// End the exports of an operation, then [`Conversations::rematch`].
    Rematch {
        /// The peer.
        peer: u32,
        /// The operation.
        op: u32,
    },
    /// A peer has connected to us: assign it a name.
    Called {
        /// The peer.
        peer: u32,
    },
    /// A peer that has connected to us has introduced itself ([`Conversations::claimed_addresses`]): find out
    /// whether it is a peer that is known, then call [`Conversations::classify`].
    Introduced {
        /// The peer.
        peer: u32,
    },
    /// A peer no longer needs the connection: [`Conversations::stay`] if it is needed here,
    /// otherwise [`Conversations::agree_to_leave`].
    MayLeave {
        /// The peer.
        peer: u32,
    },
    /// Neither side needs the connection any more: drop it and forget the peer, or
    /// [`Conversations::stay`] if it is needed again.
    MayClose {
        /// The peer.
        peer: u32,
    },
    /// The connection is lost, and was not needed here: forget the peer, or
    /// [`Conversations::reopen_later`] if it is needed again.
    Left {
        /// The peer.
        peer: u32,
    },
    /// A peer needs the connection that was not needed here: it lasts as long as the peer needs it.
    Stays {
        /// The peer.
        peer: u32,
    },
    /// The connection is lost: try another one, or end the exports of all of the peer's operations
    /// ([`Conversations::operations_of`]) and [`Conversations::close`].
    Lost {
        /// The peer.
        peer: u32,
        /// Why.
        cause: PeerError,
    },
    /// The peer does not greet: do as for a connection that is lost, and drop it.
    Silent {
        /// The peer.
        peer: u32,
        /// How long it had, in milliseconds.
        limit_ms: u64,
    },
    /// The peer violated the protocol: drop the connection, then do as for one that is lost.
    ProtocolError {
        /// The peer.
        peer: u32,
        /// What it did.
        reason: String,
    },
    /// Before anything else, have the method keep what it is writing into the memory of a receive
    /// of this peer.
    CancelPlacement {
        /// The peer.
        peer: u32,
    },
    /// The peer may not be needed any more.
    Release {
        /// The peer.
        peer: u32,
    },
    /// Start transfers: [`Conversations::poll_transfer`].
    Transfers,
}

/// See the module's page.
pub struct Conversations<M> {
    pub(crate) peers: Slab<Conversation>,
    pub(crate) shared: Shared<M>,
}

impl<M: Matcher> Conversations<M> {
    /// A table without peers. `early_memory` is in bytes.
    pub fn new(tuning: Tuning, early_memory: usize) -> Self {
        Self {
            peers: Slab::default(),
            shared: Shared::new(tuning, early_memory),
        }
    }

    /// Adds a peer without a connection. Returns its number.
    pub fn add(&mut self, name: String) -> u32 {
        let peer = self.peers.insert(Conversation::new(name));
        let key = self.peers.key(peer);
        self.peers[peer].set_key(key);
        self.shared.shrinking.add(peer);
        peer
    }

    /// Adds a peer that has connected to us.
    pub fn add_caller(&mut self, limits: LinkLimits) -> u32 {
        let peer = self.add(String::new());
        let Self { peers, shared } = self;
        peers[peer].open(shared, limits, true);
        let key = self.peers.key(peer);
        self.shared.work.push_back(Work::Called(key));
        peer
    }

    /// Forgets a peer that is unused and has no connection.
    pub(crate) fn remove(&mut self, peer: u32) -> Option<Conversation> {
        let Self { peers, shared } = self;
        let entry = &mut peers[peer];
        entry.drop_early(shared, true);
        entry.release_waiting_caller(shared);
        entry.close_window(&mut shared.budget);
        entry.may_wait_no_longer(shared);
        shared.greetings.end(peers.key(peer));
        let entry = &mut peers[peer];
        shared.transfers.peer_lost(&mut entry.transfers);
        entry.traffic.settle(&mut shared.touched);
        peers.remove(peer)
    }

    /// Whether no reference, operation or message needs a peer.
    pub(crate) fn is_unused(&self, peer: u32) -> bool {
        let entry = &self.peers[peer];
        entry.refs == 0 && !entry.has_operations() && entry.arrived.is_empty()
    }

    /// Adds a completion queue. Returns its number.
    pub fn add_queue(&mut self) -> u32 {
        self.shared.queues.insert(Default::default())
    }

    /// Takes the next completed operation of a queue.
    #[inline]
    pub fn take_completion(&mut self, queue: u32) -> Option<Completion> {
        let op = self.shared.queues[queue].first()?;
        Some(self.shared.take(op))
    }

    /// Whether messages may flow.
    pub fn is_up(&self, peer: u32) -> bool {
        self.peers[peer].is_up()
    }

    /// Whether there is neither a connection nor an attempt to make one.
    pub fn is_closed(&self, peer: u32) -> bool {
        matches!(self.peers[peer].phase, Phase::Closed)
    }

    /// A peer's operations that are not done, receives that wait last.
    pub fn operations_of(&mut self, peer: u32) -> Vec<u32> {
        let Self { peers, shared } = self;
        let mut all = peers[peer].ops.to_vec(&mut shared.ops);
        all.extend(shared.matcher.receives_of(peers[peer].id, usize::MAX));
        all
    }

    /// Takes the keys under which an operation's memory is exported. The caller ends these exports.
    pub fn take_exports(&mut self, op: u32) -> Vec<u64> {
        let Self { peers, shared } = self;
        let keys = std::mem::take(&mut shared.ops[op].exports);
        let peer = shared.ops[op].peer;
        if let Some(peer) = peers.get_mut(peer).filter(|_| !keys.is_empty()) {
            peer.clear_next(shared);
        }
        keys
    }

    /// The memory of an operation.
    pub fn memory(&self, op: u32) -> &[Memory] {
        self.shared.ops[op].fragments.as_slice()
    }

    /// The packet that [`Transmit::Control`] means.
    pub fn control_packet(&self, peer: u32) -> &[u8] {
        self.peers[peer].control_packet()
    }

    /// Reports that the method has no room for a packet to a peer:
    /// [`Conversations::handle_writable`] follows.
    pub fn handle_blocked(&mut self, peer: u32) {
        self.peers[peer].blocked = true;
    }

    /// Whether there are events or packets.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.shared.work.is_empty() || !self.shared.dirty.is_empty()
    }

    /// Whether there are events, for [`Conversations::poll_event`].
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.shared.work.is_empty()
    }

    /// Returns what the packet of a peer that was just handled has left to do, if it is short and
    /// nothing else is queued before it. It stays an event unless the driver does it now and calls
    /// [`Conversations::handle_short_done`].
    pub(crate) fn peek_short(&self, peer: u32) -> Option<Short<'_>> {
        self.peers[peer].short_of(&self.shared)
    }

    /// Reports that the driver has done what [`Conversations::peek_short`] returned.
    pub(crate) fn handle_short_done(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].handle_short_done(shared);
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            let work = self.shared.work.pop_front()?;
            if let Some(event) = self.event_of(work) {
                return Some(event);
            }
        }
    }

    fn event_of(&mut self, work: Work) -> Option<Event> {
        let operation = |op: u64| {
            let op = self.shared.ops.find(op)?;
            Some((self.shared.ops[op].peer, op))
        };
        Some(match work {
            Work::Export(op) => {
                let (peer, op) = operation(op)?;
                Event::Export { peer, op }
            }
            Work::Finish(op, result) => {
                let (peer, op) = operation(op)?;
                // Otherwise the peer was lost meanwhile, and the operation with it.
                let finishing = matches!(self.shared.ops[op].state, State::Finishing);
                finishing.then_some(Event::Finish { peer, op, result })?
            }
            Work::Rematch(op) => {
                let (peer, op) = operation(op)?;
                let entry = &self.shared.ops[op];
                let is_withdrawn = entry.withdrawn && has_withdrawable_message(&entry.state);
                is_withdrawn.then_some(Event::Rematch { peer, op })?
            }
            Work::Called(peer) => {
                let peer = self.peers.find(peer)?;
                Event::Called { peer }
            }
            Work::Introduced(peer) => {
                let peer = self.peers.find(peer)?;
                Event::Introduced { peer }
            }
            Work::MayLeave(peer) => {
                let peer = self.peers.find(peer)?;
                Event::MayLeave { peer }
            }
            Work::MayClose(peer) => {
                let peer = self.peers.find(peer)?;
                Event::MayClose { peer }
            }
            Work::Left(peer) => {
                let peer = self.peers.find(peer)?;
                Event::Left { peer }
            }
            Work::Stays(peer) => {
                let peer = self.peers.find(peer)?;
                Event::Stays { peer }
            }
            Work::Lost(peer, cause) => {
                let peer = self.peers.find(peer)?;
                Event::Lost { peer, cause }
            }
            Work::Silent {
                peer: key,
                greeting,
                limit_ms,
            } => {
                let peer = self.peers.find(key)?;
                let lasts = self.shared.greetings.end_numbered(key, greeting);
                let is_silent = lasts && self.peers[peer].awaits_greeting();
                is_silent.then_some(Event::Silent { peer, limit_ms })?
            }
            Work::ProtocolError(peer, reason) => {
                let peer = self.peers.find(peer)?;
                Event::ProtocolError { peer, reason }
            }
            Work::CancelPlacement(peer) => {
                let peer = self.peers.find(peer)?;
                Event::CancelPlacement { peer }
            }
            Work::Release(peer) => {
                let peer = self.peers.find(peer)?;
                Event::Release { peer }
            }
            Work::Transfers => Event::Transfers,
            Work::Shrink => {
                self.shrink_some();
                return None;
            }
            Work::Fetch => {
                self.fetch_waiting();
                return None;
            }
        })
    }

    /// A peer with something to send.
    pub fn poll_dirty(&mut self) -> Option<u32> {
        loop {
            let peer = self.shared.dirty.pop()?;
            if let Some(entry) = self.peers.get(peer)
                && entry.dirty
            {
                self.peers[peer].dirty = false;
                return Some(peer);
            }
        }
    }

    /// Notes that a peer has more to send, after other peers and after packets that arrive.
    pub(crate) fn postpone(&mut self, peer: u32) {
        self.shared.postponed.push(peer);
    }

    /// Makes the postponed peers due again: the next call that makes progress sends to them.
    pub(crate) fn resume_postponed(&mut self) {
        let Self { peers, shared } = self;
        while let Some(peer) = shared.postponed.pop() {
            if let Some(entry) = peers.get_mut(peer) {
                entry.mark_dirty(shared);
            }
        }
    }

    /// Returns what to send to a peer next; `None` if there is nothing to send, no room or no
    /// credit.
    pub fn poll_transmit(&mut self, peer: u32) -> Option<Transmit> {
        let Self { peers, shared } = self;
        peers[peer].poll_transmit(shared)
    }

    /// Reports that the method has accepted what [`Conversations::poll_transmit`] returned, and
    /// `holds` it until later or has sent it.
    pub fn transmitted(&mut self, peer: u32, what: &Transmit, holds: bool) {
        let Self { peers, shared } = self;
        peers[peer].transmitted(shared, what, holds);
    }

    /// Completes sends that wait until the packets of their peers have left, if the method no
    /// longer holds any: `holds` is called for each such peer.
    pub fn complete_held(&mut self, mut holds: impl FnMut(u32) -> bool) {
        let Self { peers, shared } = self;
        let mut holding = std::mem::take(&mut shared.holding);
        holding.retain(|&peer| {
            let entry = peers.get_mut(peer);
            let Some(entry) = entry.filter(|entry| entry.held_send.is_some()) else {
                return false;
            };
            let holds = holds(peer);
            if !holds {
                entry.packets_left(shared);
            }
            holds
        });
        shared.holding = holding;
    }

    /// Whether a send to this peer waits until its packets have left.
    pub fn holds_send(&self, peer: u32) -> bool {
        self.peers[peer].held_send.is_some()
    }

    /// Whether sends wait until packets have left.
    #[inline]
    pub fn has_held(&self) -> bool {
        !self.shared.holding.is_empty()
    }

    /// A connection to a peer begins.
    pub fn open(&mut self, peer: u32, limits: LinkLimits) {
        let Self { peers, shared } = self;
        peers[peer].open(shared, limits, false);
    }

    /// Sets which instance this is, and where it can be called. Without this it has no number and
    /// cannot be called.
    pub fn introduce_as(&mut self, introduction: Introduction) {
        self.shared.own.introduction = introduction;
    }

    /// Sets which formats this instance speaks, if they are not the usual ones.
    pub fn set_formats(&mut self, formats: Formats) {
        self.shared.own.formats = formats;
    }

    /// Sets where this instance can be reached, for greetings that are sent from now on.
    pub fn introduce_at(&mut self, addresses: Vec<String>) {
        self.shared.own.introduction.addresses = addresses;
    }

    /// The addresses at which a peer that has connected to us claims to be reachable.
    pub fn claimed_addresses(&self, peer: u32) -> &[String] {
        let theirs = &self.peers[peer].greeting.theirs;
        theirs
            .as_ref()
            .map_or(&[], |theirs| theirs.addresses.as_slice())
    }

    /// Decides about a caller that the driver has compared with the known peers: `known` is the one
    /// that it turned out to be, to which we connect ourselves. [`CallerDecision::Same`] obliges the
    /// driver to drop the connection of the known one, if it has one, and to
    /// [merge](Conversations::merge) them; a caller that waits is introduced again. `None` if
    /// nothing is to be decided.
    pub fn classify(&mut self, caller: u32, known: Option<u32>) -> Option<CallerDecision> {
        let key = self.peers.key(caller);
        let Self { peers, shared } = self;
        if !peers[caller].awaits_decision() {
            return None;
        }
        let (own, theirs) = (shared.own.introduction.id, peers[caller].greeting.id());
        let waiting_caller =
            known.and_then(|known| peers.find(peers[known].greeting.waiting_caller.as_ref()?.0));
        let waits = |waiting_caller: u32| {
            waiting_caller != caller && peers[waiting_caller].awaits_decision()
        };
        let known = known.filter(|_| !waiting_caller.is_some_and(waits));
        let decision = known.map_or(CallerDecision::Distinct, |known| {
            peers[known].classify(own, theirs)
        });
        match (decision, known) {
            (CallerDecision::Wait, Some(known)) => {
                peers[known].greeting.waiting_caller = Some(Box::new(WaitingCaller(key)))
            }
            (CallerDecision::Distinct, _) => peers[caller].consent(shared),
            _ => {}
        }
        Some(decision)
    }

    /// The caller that waits until our call to a peer has come up or failed, if there is one.
    pub fn waiting_caller(&mut self, peer: u32) -> Option<u32> {
        let waiting_caller = self.peers[peer].greeting.waiting_caller.take()?;
        let waiting_caller = self.peers.find(waiting_caller.0)?;
        self.peers[waiting_caller]
            .awaits_decision()
            .then_some(waiting_caller)
    }

    /// Merges a caller with the known peer that it turned out to be. The known peer keeps its
    /// number and operations, and takes over the caller's connection; the caller's number ends.
    pub fn merge(&mut self, known: u32, caller: u32) {
        let Self { peers, shared } = self;
        shared.greetings.end(peers.key(caller));
        let Some(from) = peers.remove(caller) else {
            return;
        };
        let known = &mut peers[known];
        known.take_over(shared, from);
        known.consent(shared);
    }

    /// Asks a peer whether it needs the connection, which is up and not needed here.
    pub fn leave(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].leave(shared);
    }

    /// Agrees to close a connection that is not needed here either.
    pub fn agree_to_leave(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].agree_to_leave(shared);
    }

    /// Notifies a peer that does not need the connection that it is needed here.
    pub fn stay(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].stay(shared);
    }

    /// Whether this side has asked to leave the connection to a peer and awaits its reply.
    pub fn is_leaving(&self, peer: u32) -> bool {
        matches!(self.peers[peer].phase, Phase::Leaving)
    }

    /// Called when a connection that was not needed has been lost, after the exports of its
    /// operations have been ended, and a connection is needed again: operations that can wait for
    /// the next connection do so.
    pub fn reopen_later(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].reopen_later(shared);
    }

    /// Ends the connection to a peer, after exports of its operations have been ended: all of them
    /// fail. A peer that `may_return` returns as another incarnation.
    pub fn close(&mut self, peer: u32, cause: PeerError, may_return: bool) {
        let Self { peers, shared } = self;
        peers[peer].close(shared, cause, may_return);
    }

    /// Handles a packet of a peer.
    #[inline]
    pub fn handle_packet(&mut self, peer: u32, packet: Packet<'_>) {
        let Self { peers, shared } = self;
        peers[peer].handle_packet(shared, packet);
    }

    /// See [`Conversation::handle_placement`].
    pub(crate) fn handle_placement(
        &mut self,
        peer: u32,
        header: &Header,
        size: usize,
        into: &mut Spans,
    ) -> bool {
        let Self { peers, shared } = self;
        peers[peer].handle_placement(shared, header, size, into)
    }

    /// See [`Conversation::handle_placement_done`].
    pub(crate) fn handle_placement_done(&mut self, peer: u32, header: &Header) {
        let Self { peers, shared } = self;
        peers[peer].handle_placement_done(shared, header);
    }

    /// Reports that the method has room for packets to a peer again.
    pub fn handle_writable(&mut self, peer: u32) {
        let Self { peers, shared } = self;
        peers[peer].handle_writable(shared);
    }

    /// Reports that the connection to a peer is lost.
    pub fn handle_lost(&mut self, peer: u32, cause: PeerError) {
        let Self { peers, shared } = self;
        peers[peer].handle_lost(shared, cause);
    }

    /// Reports that a peer sent something that the method itself refuses, or that nothing can be
    /// sent to the peer.
    pub(crate) fn protocol_error(&mut self, peer: u32, reason: String) {
        let Self { peers, shared } = self;
        peers[peer].protocol_error(shared, reason);
    }

    /// The memory of an operation that is to be exported now: all of it, or `None`.
    pub fn memory_to_export(&self, peer: u32, op: u32) -> Option<(Spans, Access)> {
        self.peers[peer].memory_to_export(&self.shared, op)
    }

    /// Reports that the memory was exported under these regions' keys, or could not be.
    pub fn handle_exported(&mut self, peer: u32, op: u32, result: Result<Regions, TransportError>) {
        let Self { peers, shared } = self;
        if let Ok(regions) = &result {
            let keys = regions.iter().map(|region| region.key);
            shared.ops[op].exports.extend(keys);
        }
        peers[peer].handle_exported(shared, op, result);
    }

    /// Completes an operation whose exports have been ended.
    pub fn complete_finished(&mut self, peer: u32, op: u32, result: Result<u64, OpError>) {
        let Self { peers, shared } = self;
        // The remaining ones have ended with the connection.
        shared.ops[op].exports.clear();
        peers[peer].clear_next(shared);
        peers[peer].complete(shared, op, result);
    }

    /// Keeps an operation whose memory its peer still holds: it is retried later
    /// ([`Conversations::retry_held`]).
    pub(crate) fn hold_finished(&mut self, op: u32, result: Result<u64, OpError>) {
        let key = self.shared.ops.key(op);
        self.shared.held.push((key, result));
    }

    /// Queues events that finish operations whose memory was held.
    pub(crate) fn retry_held(&mut self) {
        let held = self.shared.held.drain(..);
        let work = held.map(|(key, result)| Work::Finish(key, result));
        self.shared.work.extend(work);
    }

    /// Whether receives wait to be offered to their senders.
    #[inline]
    pub fn has_offers(&self) -> bool {
        !self.shared.to_offer.is_empty()
    }

    /// Whether [`Conversations::begin_poll`] is to be called.
    #[inline(always)]
    pub fn wants_time(&self) -> bool {
        self.shared.watch.wants_time()
    }

    /// Whether a receive is watched whose time of posting is not known yet.
    pub(crate) fn begins_watch(&self) -> bool {
        self.shared.watch.begins()
    }

    /// Reports the time when a poll begins or has ended, or a receive was posted. Receives are
    /// offered if their messages were found late.
    #[inline(never)]
    pub fn begin_poll(&mut self, now: Instant) {
        let Shared { watch, ops, .. } = &mut self.shared;
        let watched = watch.poll(now);
        if watched.is_some_and(|receive| ops.find(receive).is_none()) {
            watch.end();
        }
    }

    /// Offers receives that still wait to their senders. Called when there is nothing else to do.
    pub fn make_offers(&mut self) {
        let Self { peers, shared } = self;
        while let Some(key) = shared.to_offer.pop() {
            if let Some(op) = shared.ops.find(key)
                && let Some(peer) = peers.get_mut(shared.ops[op].peer)
            {
                peer.offer(shared, op);
            }
        }
    }

    /// Matches a receive again whose message was withdrawn, before all later receives. Its exports
    /// have been ended.
    pub fn rematch(&mut self, peer: u32, op: u32) {
        let Self { peers, shared } = self;
        if !peers[peer].begin_rematch(shared, op) {
            return;
        }
        match shared.matcher.take_for(op) {
            Some(message) => {
                let from = shared.early[message].peer;
                peers[from].join(shared, op, message);
            }
            None => post_again(shared, &mut peers[peer], op),
        }
    }

    /// The message that a receive of this pattern would get, and its envelope. The message stays.
    pub(crate) fn find_message(&mut self, pattern: M::Pattern) -> Option<(u32, Envelope)> {
        let message = self.shared.matcher.find(pattern)?;
        let early = &self.shared.early[message];
        let size = match &early.body {
            EarlyBody::Whole(data) => data.len() as u64,
            EarlyBody::Announced(incoming) => incoming.announcement.size,
        };
        let envelope = Envelope {
            peer: early.peer,
            tag: early.tag,
            size,
        };
        Some((message, envelope))
    }

    /// Posts a receive that waits. Returns its key.
    #[inline(always)]
    pub(crate) fn add_receive(
        &mut self,
        caller: (u32, u64),
        pattern: M::Pattern,
        room: u64,
        keep: Keep<'_>,
    ) -> u64 {
        let Self { peers, shared } = self;
        let peer = M::only_peer(pattern).map(|peer| &mut peers[peer]);
        add_receive(shared, peer, caller, pattern, room, keep)
    }

    /// Cancels an operation, if it still exists.
    pub fn cancel(&mut self, op: OpId) {
        if let Some(op) = self.shared.ops.find(op.0) {
            self.cancel_operation(op);
        }
    }

    fn cancel_operation(&mut self, op: u32) {
        let Self { peers, shared } = self;
        let peer = shared.ops[op].peer;
        if peer != NONE {
            return peers[peer].cancel(shared, op);
        }
        // A receive that waits for any of several peers.
        if matches!(shared.ops[op].state, State::Posted) {
            shared.matcher.withdraw(op);
            shared.release_memory(op);
            shared.ops[op].error = Some(Box::new(OpError::Cancelled));
            shared.set_done(op, 0);
        }
    }

    /// Cancels all operations posted to a completion queue, and drops its completions.
    pub(crate) fn close_queue(&mut self, queue: u32) {
        for op in self.shared.ops.indices() {
            if self.shared.ops[op].queue != queue {
                continue;
            }
            if matches!(self.shared.ops[op].state, State::Done) {
                self.shared.take(op);
            } else {
                // The caller can no longer test for it: it is dropped when it is done.
                self.shared.ops[op].queue = NO_QUEUE;
                self.cancel_operation(op);
            }
        }
        self.shared.queues.remove(queue);
    }

    /// Whether an operation is done or no longer exists.
    pub(crate) fn is_done(&self, op: u32) -> bool {
        let op = self.shared.ops.get(op);
        op.is_none_or(|op| matches!(op.state, State::Done))
    }

    /// An operation's handle.
    #[inline]
    pub fn id(&self, op: u32) -> OpId {
        OpId(self.shared.ops.key(op))
    }

    /// Takes one unexpected message, round robin over the peers.
    pub fn take_unexpected(&mut self) -> Option<Unexpected> {
        let Self { peers, shared } = self;
        loop {
            let peer = shared.ready.pop_front()?;
            if let Some(message) = peers[peer].take_unexpected(shared) {
                return Some(message);
            }
        }
    }
}

/// See [`Conversations::poll_transfer`].
#[derive(Debug)]
pub struct ToStart {
    /// The peer.
    pub peer: u32,
    /// The operation.
    pub op: u32,
    /// What the method is to do.
    pub transfer: Transfer,
    /// What remains of the transfer after it.
    pub behind: Remainder,
}
