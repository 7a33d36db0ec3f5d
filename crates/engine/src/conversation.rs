//! The protocol with one peer: greeting, credits, messages that travel whole, rendezvous,
//! cancelling.
//!
//! A conversation does no I/O and reads no clock. Packets, ends of transfers and the caller's
//! operations come in by the `handle_*` and `post_*` functions; [`Conversation::poll_transmit`]
//! returns what to send next. What needs a method (an export, a transfer) is queued as [`Work`] in
//! the state that all conversations of an instance [share](crate::shared).
//! [`Conversations`](crate::conversations::Conversations) combines all conversations of an
//! instance, and [`Endpoint`](crate::Endpoint) drives that with methods.
//!
//! The parts are in files of their own, all of them `impl Conversation`: [`greeting`], [`graceful_close`], [`eager`], [`receiving`], [`rendezvous`],
//! [`parts`], [`offers`], [`unexpected`], [`moving`], [`placement`], [`cancel`], [`withdrawing`], [`closing`].

mod cancel;
mod closing;
mod direct;
mod eager;
mod graceful_close;
mod greeting;
pub(crate) mod moving;
mod offers;
mod parts;
mod placement;
pub(crate) mod receiving;
pub(crate) mod rendezvous;
mod unexpected;
pub(crate) mod withdrawing;

use std::collections::VecDeque;

use causeway_sys::memory::Memory;
use causeway_transport::{Packet, PeerError};
use causeway_wire::bmi::{self as wire, Body, Header, Kind};

use crate::arrivals::Arrivals;
use crate::credit::{Account, Budget, Grant};
use crate::fragments::Fragments;
use crate::handshake::Greeting;
use crate::lists::List;
use crate::matcher::Matcher;
use crate::offers::Offers;
use crate::operation::{OpKind, State};
use crate::sends::Sends;
use crate::shared::{Shared, Tuning, Work};
use crate::traffic::Traffic;
use crate::types::{EAGER_BY_METHOD, OpError, Tag};

pub use eager::Transmit;

/// The log target of connections that are made and lost.
pub(crate) const CONNECT: &str = "causeway_engine::connect";

/// Control packets that may be queued for one peer, besides one for each announcement that may be
/// unmatched here. Each replies to something from the peer that is itself bounded; a longer queue
/// means that the peer sends requests without reading the replies.
const MAX_CONTROL: usize = 4096;

/// Bytes behind the header of a control packet that are decoded on the stack; most packets have
/// fewer.
const FEW_BYTES: usize = 128;

/// The state of a peer's connection.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// There is no connection. The next operation makes one.
    Closed,
    /// The connection is being made, or the two sides have not finished greeting each other.
    Greeting,
    /// Messages may flow.
    Up,
    /// This side has sent that it no longer needs the connection: only the peer's messages still
    /// flow.
    Leaving,
    /// The connection is lost, or the peer violated the protocol; the driver has yet to clean up.
    Failed,
    /// The peer, which had connected to us, is gone for good.
    Gone(PeerError),
}

/// What the method that connects a peer can do.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkLimits {
    /// The largest packet in bytes.
    pub max_packet: usize,
    /// Messages up to this many bytes are best sent whole by this method.
    pub eager_bytes: u32,
    /// The same for memory that the peer may map.
    pub mapped_eager_bytes: u32,
    /// The most fragments of a list; a transfer with a longer list is started part by part.
    pub max_list: usize,
    /// Whether both processes copy parts of most transfers.
    pub shares_copies: bool,
    /// Whether a peer writes memory that is exported to it without this process taking part.
    pub one_sided: bool,
    /// Whether packets that the method has accepted may be held until later polls before they
    /// leave.
    pub holds_packets: bool,
}

/// See the module's page.
pub(crate) struct Conversation {
    /// The peer's number in tables, and its key.
    pub(crate) id: u32,
    key: u64,
    /// What the peer is called in errors and logs: its address or addresses.
    pub(crate) name: String,
    /// References that callers hold.
    pub(crate) refs: u32,
    pub(crate) phase: Phase,
    /// The present connection was up once: its end is not a failed attempt.
    pub(crate) was_up: bool,
    /// The number, unique in the instance, of the peer's latest connection that came up. It tells connections apart to which a method gives the
    /// same handle, because they lead to one address.
    pub(crate) connection: u64,
    /// The state of the greeting, and which instance the peer claims to be.
    pub(crate) greeting: Greeting,
    limits: LinkLimits,
    /// This peer's eager limit, in place of the instance's.
    eager_limit: Option<usize>,
    /// Size of the largest message that is sent eagerly, in bytes.
    pub(crate) eager_max: u64,
    /// The same for messages in memory that the peer may map.
    mapped_eager_max: u32,
    /// Messages of this size and above that wait are announced, although they could be sent whole.
    announces_from: u32,

    /// What this side may send.
    pub(crate) account: Account,
    /// What the peer may send.
    pub(crate) grant: Grant,
    /// Packets without a message. They are sent before messages.
    control: VecDeque<Vec<u8>>,
    /// Sends that wait, by operation.
    pub(crate) expected: VecDeque<u32>,
    /// Unexpected sends that wait: while they wait for credit, expected ones are still sent.
    pub(crate) unexpected: VecDeque<u32>,
    /// What only few peers need.
    rare: Option<Box<Rare>>,
    /// Our announcements that may be unmatched at the peer.
    pub(crate) announced: u32,
    pub(crate) announced_unexpected: u32,
    /// The peer's announcements that are unmatched here.
    announcements: u32,
    announcements_unexpected: u32,
    /// The send that completes once the method holds no packets to this peer any more: see
    /// [`State::Held`](crate::operation::State::Held).
    pub(crate) held_send: Option<u32>,
    /// The method has no room for packets; it reports when it has.
    pub(crate) blocked: bool,
    /// In the list of peers with something to send.
    pub(crate) dirty: bool,
    /// The peer waits for credit: all that is available is granted at once.
    starved: bool,
    /// A packet with the size of the peer's window is to be sent.
    window_update_due: bool,
    /// Transfers in progress.
    pub(crate) transfers: u32,
    /// One has ended since fetches that take too long were last looked for.
    pub(crate) has_moved: bool,
    /// Receives that senders may write into before they have announced a message.
    offers: Offers,

    /// Operations that are neither done nor receives that wait for a message.
    pub(crate) ops: List,
    /// Receives that wait and that only this peer can satisfy.
    receives: u32,
    /// The receive, by key, into whose memory the method is writing a message.
    placement: Option<u64>,
    /// Messages for which no receive has been posted yet.
    pub(crate) early: List,
    /// Why the latest connection was lost.
    pub(crate) loss: Option<PeerError>,
    /// Unexpected messages in order of arrival.
    pub(crate) arrived: Arrivals,
    /// In the ring of peers whose first unexpected message can be taken.
    in_ready_ring: bool,
    /// In the ring of peers whose unexpected messages are to be fetched.
    in_fetch_ring: bool,

    pub(crate) traffic: Traffic,
}

/// What only few peers need. It is allocated only for those, and released with the connection.
#[derive(Debug, Default)]
struct Rare {
    /// Sends whose receivers have requested them in parts, in order.
    sending_parts: VecDeque<u32>,
    /// Receives, by key, whose memory is exported to the peer once the export of another receive
    /// has ended.
    uncleared: VecDeque<u64>,
    /// Where the peer's announced messages are, if many were looked for.
    sends: Option<Sends>,
}

/// A placeholder, of no peer.
impl Default for Conversation {
    fn default() -> Self {
        Self::new(String::new())
    }
}

impl Conversation {
    /// A peer without a connection. The table then assigns its key ([`Conversation::set_key`]).
    pub(crate) fn new(name: String) -> Self {
        Self {
            id: 0,
            key: 0,
            name,
            refs: 0,
            phase: Phase::Closed,
            was_up: false,
            connection: 0,
            greeting: Greeting::default(),
            limits: LinkLimits::default(),
            eager_limit: None,
            eager_max: 0,
            mapped_eager_max: 0,
            announces_from: u32::MAX,
            account: Account::default(),
            grant: Grant::default(),
            control: VecDeque::new(),
            expected: VecDeque::new(),
            unexpected: VecDeque::new(),
            rare: None,
            announced: 0,
            announced_unexpected: 0,
            announcements: 0,
            announcements_unexpected: 0,
            held_send: None,
            blocked: false,
            dirty: false,
            starved: false,
            window_update_due: false,
            transfers: 0,
            has_moved: false,
            offers: Offers::default(),
            ops: List::default(),
            receives: 0,
            placement: None,
            early: List::default(),
            loss: None,
            arrived: Arrivals::default(),
            in_ready_ring: false,
            in_fetch_ring: false,
            traffic: Traffic::default(),
        }
    }

    /// Sets the key under which the table holds it.
    pub(crate) fn set_key(&mut self, key: u64) {
        (self.key, self.id) = (key, key as u32);
    }

    /// Sets what the method of this connection can do.
    pub(crate) fn set_limits(&mut self, tuning: &Tuning, limits: LinkLimits) {
        self.limits = limits;
        self.set_eager_max(tuning);
    }

    /// Whether both processes copy parts of most transfers from now on.
    pub(crate) fn set_shares_copies(&mut self, shares: bool) {
        self.limits.shares_copies = shares;
    }

    /// Overrides the instance's eager limit.
    pub(crate) fn set_eager_limit(&mut self, tuning: &Tuning, limit: usize) {
        self.eager_limit = Some(limit);
        self.set_eager_max(tuning);
    }

    /// Computes the largest eager message.
    pub(crate) fn set_eager_max(&mut self, tuning: &Tuning) {
        let room = self.limits.max_packet.saturating_sub(wire::HEADER_BYTES);
        let (limit, mapped) = match self.eager_limit.unwrap_or(tuning.eager_limit) {
            EAGER_BY_METHOD => (self.limits.eager_bytes, self.limits.mapped_eager_bytes),
            limit => {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                (limit, limit)
            }
        };
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        self.eager_max = limit.min(room).into();
        self.mapped_eager_max = mapped.min(room);
    }

    /// Whether the next message that waits would be sent whole, and is so large that the method may
    /// prefer to have it announced.
    pub(crate) fn waits_with_large<M>(&self, shared: &Shared<M>) -> bool {
        let front = self.expected.front();
        front.is_some_and(|&op| {
            let size = shared.ops[op].size;
            size > self.mapped_eager_max.into() && size <= self.eager_max
        })
    }

    /// Sets from which size on waiting messages are announced.
    pub(crate) fn set_announces_from(&mut self, bytes: Option<usize>) {
        self.announces_from =
            bytes.map_or(u32::MAX, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Whether a message of this size, in this memory, travels whole.
    #[inline(always)]
    pub(crate) fn is_eager(&self, data: &[Memory], size: u64) -> bool {
        size <= self.mapped_eager_max.into() || (size <= self.eager_max && !is_mappable(data))
    }

    /// Whether messages may flow.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Whether an operation is not done.
    #[inline]
    pub(crate) fn has_operations(&self) -> bool {
        !self.ops.is_empty() || self.receives > 0
    }

    /// Notes for observers that there is something new.
    #[inline]
    pub(crate) fn touch<M>(&mut self, shared: &mut Shared<M>) {
        self.traffic.touch(self.id, &mut shared.touched);
    }

    /// Notes that there is something to send.
    #[inline]
    pub(crate) fn mark_dirty<M>(&mut self, shared: &mut Shared<M>) {
        if !self.dirty {
            self.dirty = true;
            shared.dirty.push(self.id);
        }
    }

    /// Queues a packet that carries no message. A peer that lets too many pile up is dropped.
    fn queue_control<M>(&mut self, shared: &mut Shared<M>, packet: Vec<u8>) {
        if self.control.len() >= MAX_CONTROL + shared.tuning.announced_limit as usize {
            return self.protocol_error(shared, "it sends requests without reading the replies");
        }
        self.control.push_back(packet);
        self.mark_dirty(shared);
    }

    /// Queues a packet of a header alone.
    fn queue_bare<M>(&mut self, shared: &mut Shared<M>, kind: Kind, word: u64) {
        let packet = shared.buffers.holding(&Header::new(kind, word).encode());
        self.queue_control(shared, packet);
    }

    /// Marks the peer failed because it violated the protocol: the driver then drops its
    /// connection.
    pub(crate) fn protocol_error<M>(&mut self, shared: &mut Shared<M>, reason: impl Into<String>) {
        if matches!(self.phase, Phase::Greeting | Phase::Up | Phase::Leaving) {
            self.phase = Phase::Failed;
            let work = Work::ProtocolError(self.key, reason.into());
            shared.work.push_back(work);
        }
    }

    /// The connection is lost.
    pub(crate) fn handle_lost<M>(&mut self, shared: &mut Shared<M>, cause: PeerError) {
        let work = match self.phase {
            // The driver already handles an earlier failure.
            Phase::Failed => return,
            Phase::Leaving => Work::Left(self.key),
            _ => Work::Lost(self.key, cause),
        };
        self.phase = Phase::Failed;
        shared.work.push_back(work);
    }

    /// The method has room again.
    pub(crate) fn handle_writable<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        self.blocked = false;
        self.mark_dirty(shared);
        shared.retry_transfers();
    }

    /// Adds an operation.
    #[inline]
    pub(crate) fn add_op<M>(
        &mut self,
        shared: &mut Shared<M>,
        kind: OpKind,
        caller: (u32, u64),
        tag: Tag,
        memory: (Fragments, u64),
        state: State,
    ) -> u32 {
        let (key, op) = shared.ops.reuse();
        let index = key as u32;
        op.renew(kind, self.id, caller, tag, memory.1);
        (op.fragments, op.state) = (memory.0, state);
        self.ops.push_back(&mut shared.ops, index);
        self.touch(shared);
        index
    }

    /// Takes an operation out of the list.
    #[inline]
    fn unlist<M>(&mut self, shared: &mut Shared<M>, op: u32) {
        self.ops.remove(&mut shared.ops, op);
        self.release_if_unused(shared);
    }

    #[inline]
    fn release_if_unused<M>(&self, shared: &mut Shared<M>) {
        if self.refs == 0 && !self.has_operations() {
            shared.work.push_back(Work::Release(self.key));
        }
    }

    /// Completes an operation. It stays in the table until the caller tests for it. Memory that is
    /// still exported is released first: that of an offered receive that has ended in another way.
    pub(crate) fn complete<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        result: Result<u64, OpError>,
    ) {
        if !shared.ops[op].exports.is_empty() {
            return self.end_exports(shared, op, result);
        }
        if shared.ops[op].kind == OpKind::Fetch {
            return self.fetched(shared, op, result);
        }
        self.unlist(shared, op);
        shared.release_memory(op);
        let entry = &mut shared.ops[op];
        let bytes = result.unwrap_or_else(|error| {
            entry.error = Some(Box::new(error));
            0
        });
        shared.set_done(op, bytes);
    }

    /// Completes an operation; if it has exports, the driver ends them first.
    pub(crate) fn finish<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        result: Result<u64, OpError>,
    ) {
        let entry = &mut shared.ops[op];
        if let Ok(bytes) = result {
            self.traffic.finished(entry.kind, bytes);
        }
        self.touch(shared);
        self.complete(shared, op, result);
    }

    /// Has the driver end an operation's exports, then complete it.
    fn end_exports<M>(&mut self, shared: &mut Shared<M>, op: u32, result: Result<u64, OpError>) {
        shared.ops[op].state = State::Finishing;
        let key = shared.ops.key(op);
        shared.work.push_back(Work::Finish(key, result));
    }

    /// The error of an operation whose peer went away.
    pub(crate) fn lost(&self, cause: PeerError) -> OpError {
        OpError::Peer {
            address: self.name.clone(),
            cause,
        }
    }

    /// Handles a packet from the peer. Most are whole messages whose headers carry no credit and no
    /// flags.
    #[inline(always)]
    pub(crate) fn handle_packet<M: Matcher>(&mut self, shared: &mut Shared<M>, packet: Packet<'_>) {
        if self.is_up() && packet.len() >= wire::HEADER_BYTES {
            let mut head = [0; wire::HEADER_BYTES];
            packet.read_at(0, &mut head);
            if let Some(tag) = Header::tag_of_bare_eager(head) {
                return self.eager(shared, tag, packet);
            }
        }
        self.handle_any_packet(shared, packet);
    }

    #[inline(never)]
    fn handle_any_packet<M: Matcher>(&mut self, shared: &mut Shared<M>, packet: Packet<'_>) {
        if packet.len() < wire::HEADER_BYTES {
            return self.protocol_error(shared, "a packet shorter than its header");
        }
        let mut head = [0; wire::HEADER_BYTES];
        packet.read_at(0, &mut head);
        let header = match Header::decode(head) {
            Ok(header) => header,
            Err(error) => return self.protocol_error(shared, error.to_string()),
        };
        match self.is_up() {
            true => self.message_or_control(shared, header, packet),
            false => self.packet_while_not_up(shared, header, packet),
        }
    }

    #[inline]
    fn message_or_control<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: Header,
        packet: Packet<'_>,
    ) {
        if !self.take_credit_and_flags(shared, &header) {
            return;
        }
        match header.kind {
            Kind::Eager => self.eager(shared, header.word, packet),
            Kind::Unexpected => self.unexpected(shared, header.word, packet),
            Kind::Part if self.takes_parts() => self.part(shared, header.word, packet),
            _ => self.control(shared, header, packet),
        }
    }

    /// Applies the credit and flags that any header may carry; `false` if they were invalid.
    #[inline]
    fn take_credit_and_flags<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
    ) -> bool {
        if header.credit != 0 && !self.credit(shared, header.credit) {
            return false;
        }
        if header.flags & wire::FLAG_STARVED != 0 {
            self.starved(shared);
        }
        true
    }

    fn control<M: Matcher>(&mut self, shared: &mut Shared<M>, header: Header, packet: Packet<'_>) {
        self.touch(shared);
        let mut few = [0; FEW_BYTES];
        let many;
        let rest = match few.get_mut(..packet.len() - wire::HEADER_BYTES) {
            Some(few) => {
                packet.read_at(wire::HEADER_BYTES, few);
                &*few
            }
            None => {
                many = packet.to_vec(wire::HEADER_BYTES);
                &many
            }
        };
        let body = match wire::decode_body(&header, rest) {
            Ok(body) => body,
            Err(error) => return self.protocol_error(shared, error.to_string()),
        };
        match (header.kind, body) {
            (Kind::Announce, Body::Announcement(body)) => self.announced(shared, &header, body),
            (Kind::AnnounceUnexpected, Body::Announcement(body)) => {
                self.announced_unexpected(shared, &header, body);
            }
            (Kind::ClearToSend, Body::Clearance(body)) => self.cleared(shared, header.word, body),
            (Kind::Refuse, Body::Refusal(body)) => self.refused(shared, header.word, body),
            (Kind::ReadyToReceive, Body::Offer(offer)) if self.may_offer() => {
                self.offered(shared, header.word, offer);
            }
            (Kind::SendComplete, Body::Written(size)) if self.may_offer() => {
                self.send_completed(shared, header.word, size);
            }
            (Kind::Retract, _) if self.may_offer() => self.retracted(shared, header.word),
            (Kind::Written, _) => self.written(shared, header.word),
            (Kind::Read, _) => self.read(shared, header.word),
            (Kind::Withdraw, _) => self.withdrawn(shared, header.word),
            (Kind::Recall, _) if self.recalls() => self.recalled(shared, header.word),
            (Kind::Credit, _) => {
                self.account.set_window(header.word);
                self.mark_dirty(shared);
            }
            (Kind::Reclaim, _) => self.reclaimed(shared, header.word),
            (Kind::Return, _) => self.returned(shared, header.word),
            (Kind::Leave, _) if self.introduces() => self.left(shared, header.word),
            (Kind::Stay, _) if self.introduces() => self.stays(shared),
            (kind, _) => self.protocol_error(shared, format!("{kind:?} at the wrong time")),
        }
    }

    /// The count of our announcements, of one kind, that may be unmatched at the peer.
    fn announced_count(&mut self, unexpected: bool) -> &mut u32 {
        if unexpected {
            &mut self.announced_unexpected
        } else {
            &mut self.announced
        }
    }

    /// Reclaims window memory from this peer, which is asked to return credit.
    pub(crate) fn shrink_window<M>(&mut self, shared: &mut Shared<M>) {
        if self.grant.shrink(&mut shared.budget) {
            let window = self.grant.window().into();
            self.queue_bare(shared, Kind::Reclaim, window);
        }
    }

    /// Returns the window to the budget, as the peer is being forgotten.
    pub(crate) fn close_window(&mut self, budget: &mut Budget) {
        self.grant.close(budget);
    }
}

/// Whether peers may map the memory of a message, so that copying it takes no system call.
fn is_mappable(data: &[Memory]) -> bool {
    matches!(data, [memory] if memory.object().is_some())
}
