//! Posting: sends and receives on the fast path, and those that have to wait.

use causeway_sys::memory::Memory;
use causeway_transport::{Access, SendError};
use causeway_wire::bmi::send_complete;

use super::Endpoint;
use crate::conversation::Phase;
use crate::conversation::Transmit;
use crate::conversation::receiving::{Keep, add_receive};
use crate::conversations::Conversations;
use crate::fragments::{Fragments, ReceiveBuffer, check_writable, total};
use crate::matcher::Matcher;
use crate::types::{Addr, Completion, Error, OpError, OpId, Posted, Queue, Tag};

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Expected,
    /// It completes only when its receive has been found.
    Synchronous,
    Unexpected,
}

/// Most parts of messages to one peer that are sent before other peers, and packets that have
/// arrived, are served: the peer may accept parts as fast as they are sent.
const PARTS_AT_ONCE: u32 = 64;

/// The identity, in its [`Completion`], of an operation that completed at once.
const AT_ONCE: OpId = OpId(0);

#[inline]
pub(super) fn at_once(user: u64, result: Result<u64, OpError>) -> Posted {
    Posted::Complete(Completion {
        op: AT_ONCE,
        user,
        result,
    })
}

/// Makes an unusual result on the cold path. The usual result fits into registers; made on the same
/// path as an unusual one, which needs room for every error, it would be passed in memory, too.
#[cold]
#[inline(never)]
pub(super) fn cold<T>(make: impl FnOnce() -> T) -> Box<T> {
    Box::new(make())
}

/// A result of a post, small enough for registers.
pub(super) enum Compact {
    Pending(OpId),
    /// Bytes moved.
    Complete(u64),
    Other(Box<Result<Posted, Error>>),
}

/// Posts on the cold path, for the same reason as [`cold`]. Only errors are allocated on the heap.
#[cold]
#[inline(never)]
pub(super) fn post_cold(post: impl FnOnce() -> Result<Posted, Error>) -> Compact {
    match post() {
        Ok(Posted::Pending(op)) => Compact::Pending(op),
        Ok(Posted::Complete(Completion {
            op: AT_ONCE,
            result: Ok(bytes),
            ..
        })) => Compact::Complete(bytes),
        other => Compact::Other(Box::new(other)),
    }
}

impl Compact {
    #[inline]
    pub(super) fn expand(self, user: u64) -> Result<Posted, Error> {
        match self {
            Self::Pending(op) => Ok(Posted::Pending(op)),
            Self::Complete(bytes) => Ok(at_once(user, Ok(bytes))),
            Self::Other(other) => *other,
        }
    }
}

/// `send_now` and `receive_later` do what a small message needs and return little, so that their
/// callers in other crates can be inlined: a result with room for every error is slow to return.
impl<M: Matcher> Endpoint<M> {
    /// Sends a message if it can leave at once and whole. Returns its size.
    #[inline(never)]
    pub(super) fn send_now(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        queue: Queue,
    ) -> Option<u64> {
        if !self.process.is_this_process() {
            return None;
        }
        let entry = self.conversations.peers.find_entry(to.0)?;
        let peer = entry.id;
        if entry.may_hold_next() {
            return None;
        }
        self.conversations.shared.find_queue(queue)?;
        let size = total(data).ok()?;
        self.try_eager_now(peer, data, size, tag, false)
            .then_some(size)
    }

    /// Posts a receive of one fragment from a peer that is there, if no message is held that it might get.
    #[inline(never)]
    pub(super) fn receive_later(
        &mut self,
        pattern: M::Pattern,
        into: &[Memory],
        queue: Queue,
        user: u64,
    ) -> Option<OpId> {
        let [memory] = into else { return None };
        self.receive_usual(pattern, memory, queue, user)
    }

    /// The same, inlined.
    #[inline(always)]
    pub(super) fn receive_usual(
        &mut self,
        pattern: M::Pattern,
        memory: &Memory,
        queue: Queue,
        user: u64,
    ) -> Option<OpId> {
        if !self.process.is_this_process() {
            return None;
        }
        let Conversations { peers, shared } = &mut self.conversations;
        let queue = shared.find_queue(queue)?;
        let peer = match M::only_peer(pattern) {
            Some(peer) => Some(peers.get_mut(peer).filter(|entry| entry.is_up())?),
            None => None,
        };
        if !shared.is_usual(pattern, memory) {
            return None;
        }
        let room = memory.len() as u64;
        let key = add_receive(
            shared,
            peer,
            (queue, user),
            pattern,
            room,
            Keep::Shared(memory),
        );
        let all = &self.conversations;
        if all.has_offers() || all.wants_time() {
            self.offer_or_watch();
        }
        Some(OpId(key))
    }

    /// Whether such a receive could be posted.
    #[inline(always)]
    pub(super) fn would_be_usual(
        &mut self,
        pattern: M::Pattern,
        memory: &Memory,
        queue: Queue,
    ) -> bool {
        let Conversations { peers, shared } = &mut self.conversations;
        let is_up = |peer| peers.get(peer).is_some_and(|entry| entry.is_up());
        self.process.is_this_process()
            && shared.find_queue(queue).is_some()
            && M::only_peer(pattern).is_none_or(is_up)
            && shared.is_usual(pattern, memory)
    }

    #[inline]
    pub(super) fn peer(&self, addr: Addr) -> Result<u32, Error> {
        self.check_process()?;
        self.number(addr).ok_or(Error::Stale("address"))
    }

    /// The index of a queue that is to be posted to.
    #[inline]
    pub(super) fn queue_to_post(&self, queue: Queue) -> Result<u32, Error> {
        self.check_process()?;
        let queue = self.conversations.shared.find_queue(queue);
        queue.ok_or(Error::Stale("context"))
    }

    /// The index of a queue of completions.
    #[inline]
    pub(super) fn queue(&self, queue: Queue) -> Result<u32, Error> {
        self.check_process()?;
        let queue = self.conversations.shared.queues.find(queue.0);
        queue.ok_or(Error::Stale("context"))
    }

    /// Sends a whole message at once if no other is queued before it.
    #[inline(always)]
    fn try_eager_now(
        &mut self,
        peer: u32,
        data: &[Memory],
        size: u64,
        tag: Tag,
        unexpected: bool,
    ) -> bool {
        let entry = &mut self.conversations.peers[peer];
        let Some(header) = entry.eager_now((data, size), tag, unexpected) else {
            return false;
        };
        let Some((method, handle)) = self.connections.link(peer) else {
            return false;
        };
        let method = self.methods.get(method);
        let sent = method.send_gather(handle, &header.encode(), data, &mut self.scratch);
        if let Err(error) = sent {
            self.not_sent(peer, error);
            return false;
        }
        let touched = &mut self.conversations.shared.touched;
        entry.eager_sent(touched, &header, size as usize);
        true
    }

    /// The result of a send whose packet the method has accepted. The send is pending if the method
    /// holds that packet, unless another send to the peer is pending for this reason already. So a
    /// process all of whose operations are complete has sent all of its messages.
    #[inline]
    fn sent(
        &mut self,
        peer: u32,
        (size, tag): (u64, Tag),
        caller: (u32, u64),
        unexpected: bool,
    ) -> Posted {
        let Conversations { peers, shared } = &mut self.conversations;
        let entry = &mut peers[peer];
        if entry.may_hold_next()
            && let Some((method, handle)) = self.connections.link(peer)
            && self.methods.holds_packets((method, handle))
        {
            let op = entry.hold_send(shared, size, tag, caller, unexpected);
            return Posted::Pending(self.conversations.id(op));
        }
        at_once(caller.1, Ok(size))
    }

    /// Announces a message of one fragment that is too large to travel whole, at once, if no other
    /// is queued before it. Returns its operation.
    fn try_announce_now(
        &mut self,
        peer: u32,
        data: &[Memory],
        (size, tag): (u64, Tag),
        caller: (u32, u64),
        unexpected: bool,
    ) -> Option<u32> {
        let [memory] = data else { return None };
        let Conversations { peers, shared } = &mut self.conversations;
        let entry = &mut peers[peer];
        shared.check_operations().ok()?;
        if !entry.announces_now(shared, (memory, size), unexpected) {
            return None;
        }
        let (method, handle) = self.connections.link(peer)?;
        let slot = self.methods.slot(method);
        let region = slot.grant(handle, memory, Access::Read).ok()?;
        let memory = (Fragments::share(data), size);
        let (op, packet, credit) =
            entry.announce_now(shared, memory, tag, caller, unexpected, region);
        let sent = slot.method.send(handle, &[&packet]);
        entry.announced_now(shared, (packet, credit), sent.is_ok());
        if let Err(error) = sent {
            self.not_sent(peer, error);
        }
        Some(op)
    }

    /// Writes a large message into an offered receive of the peer's, if there is one for it.
    /// Returns the operation unless the message is written at once.
    fn try_write(
        &mut self,
        peer: u32,
        data: &[Memory],
        (size, tag): (u64, Tag),
        caller: (u32, u64),
    ) -> Option<Option<u32>> {
        let Conversations { peers, shared } = &mut self.conversations;
        let entry = &mut peers[peer];
        if !entry.writes_now() || shared.check_operations().is_err() {
            return None;
        }
        let (method, handle) = self.connections.link(peer)?;
        let offer = entry.take_offer(shared, tag, size)?;
        let region = offer.region.part(0, size);
        let complete = send_complete(offer.receive, size);
        if let [memory] = data
            && let method = self.methods.get(method)
            && method.write_now(handle, memory, &region, &complete)
        {
            entry.written_now(shared, tag, size);
            return Some(None);
        }
        let op = entry.post_write(shared, (data, offer), (size, tag), caller);
        Some(Some(op))
    }

    /// Handles a packet that could not be sent now.
    #[cold]
    fn not_sent(&mut self, peer: u32, error: SendError) {
        match error {
            SendError::WouldBlock => self.conversations.handle_blocked(peer),
            SendError::Gone(cause) => self.conversations.handle_lost(peer, cause),
            error => self.conversations.protocol_error(peer, error.to_string()),
        }
    }

    /// Sets whether the large messages that wait for a peer are announced, or sent whole as usual.
    ///
    /// A message that waits alone may be one for which its caller waits, in a program that relies on
    /// its being stored at the receiver before there is a receive for it.
    #[cold]
    fn choose_how_to_send(&mut self, peer: u32) {
        let entry = &mut self.conversations.peers[peer];
        let from = match self.connections.link(peer) {
            Some((method, handle)) if entry.expected.len() > 1 => {
                self.methods.get(method).announces_from(handle)
            }
            _ => None,
        };
        entry.set_announces_from(from);
    }

    /// Sends what is queued for a peer, as far as there is room and credit.
    pub(super) fn transmit(&mut self, peer: u32) {
        if self.conversations.peers[peer].waits_with_large(&self.conversations.shared) {
            self.choose_how_to_send(peer);
        }
        let mut parts = 0;
        while let Some(what) = self.conversations.poll_transmit(peer)
            && self.transmit_one(peer, &what)
        {
            parts += u32::from(matches!(what, Transmit::Part { .. }));
            if parts == PARTS_AT_ONCE {
                return self.conversations.postpone(peer);
            }
        }
    }

    /// Sends the packets that precede all messages, such as refusals.
    pub(super) fn transmit_control(&mut self, peer: u32) {
        while self.conversations.peers[peer].has_control()
            && let Some(what @ Transmit::Control { .. }) = self.conversations.poll_transmit(peer)
            && self.transmit_one(peer, &what)
        {}
    }

    /// Sends one packet, or exports the memory that has to be exported first. Returns whether that
    /// was possible.
    fn transmit_one(&mut self, peer: u32, what: &Transmit) -> bool {
        let Some((method, handle)) = self.connections.link(peer) else {
            return false;
        };
        let sent = match what {
            Transmit::Control { .. } => {
                let packet = self.conversations.control_packet(peer);
                self.methods.get(method).send(handle, &[packet])
            }
            Transmit::Eager { header, op } => {
                let data = self.conversations.shared.ops[*op].fragments.as_slice();
                let method = self.methods.get(method);
                method.send_gather(handle, &header.encode(), data, &mut self.scratch)
            }
            Transmit::Part { header, op, len } => self.send_part(peer, header, (*op, *len)),
            Transmit::Export { op } => {
                self.export_memory(peer, *op);
                return true;
            }
        };
        match sent {
            Ok(()) => {
                let may_hold = self.conversations.peers[peer].may_hold();
                let holds = may_hold && self.methods.holds_packets((method, handle));
                self.conversations.shared.wants_flush |= may_hold;
                self.conversations.transmitted(peer, what, holds);
            }
            Err(error) => {
                self.not_sent(peer, error);
                return false;
            }
        }
        true
    }

    #[inline]
    pub(super) fn post_message(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        (queue, user): (Queue, u64),
        sending: Sending,
    ) -> Result<Posted, Error> {
        let (peer, queue) = (self.peer(to)?, self.queue_to_post(queue)?);
        let size = total(data)?;
        let unexpected = sending == Sending::Unexpected;
        let limit = self.conversations.shared.tuning.unexpected_limit as u64;
        if unexpected && size > limit {
            return Err(Error::UnexpectedTooLarge { size, limit });
        }
        let may_go_now = sending != Sending::Synchronous;
        let caller = (queue, user);
        if self.conversations.peers[peer].may_hold_next() {
            // Once the method has accepted the packet, it is too late to refuse the operation.
            self.conversations.shared.check_operations()?;
        }
        if may_go_now && self.try_eager_now(peer, data, size, tag, unexpected) {
            return Ok(self.sent(peer, (size, tag), caller, unexpected));
        }
        let entry = &self.conversations.peers[peer];
        let is_large = !entry.is_eager(data, size);
        if (is_large || !may_go_now) && !unexpected && entry.may_find_offer() {
            let peer = match is_large {
                true => self.look_for_offer(to, peer, tag)?,
                false => peer,
            };
            match self.try_write(peer, data, (size, tag), caller) {
                Some(None) => return Ok(at_once(user, Ok(size))),
                Some(Some(op)) => return Ok(self.posted(op, user)),
                None => {}
            }
        }
        if let Some(op) = self.try_announce_now(peer, data, (size, tag), caller, unexpected) {
            return Ok(self.posted(op, user));
        }
        // The attempt may just have discovered that the peer is gone.
        self.settle();
        if let Some(refused) = self.refuse_if_gone(peer, user) {
            return Ok(refused);
        }
        self.conversations.shared.check_operations()?;
        let memory = (Fragments::share(data), size);
        let op = (self.conversations).post_waiting(peer, memory, tag, caller, unexpected);
        self.conversations.shared.ops[op].synchronous = !may_go_now;
        self.connect(peer);
        Ok(self.posted(op, user))
    }

    /// Polls once if an offer from the peer is likely to have arrived unseen. Returns the peer's
    /// number.
    fn look_for_offer(&mut self, to: Addr, peer: u32, tag: Tag) -> Result<u32, Error> {
        if !self.conversations.peers[peer].expects_offer(tag) {
            return Ok(peer);
        }
        self.progress();
        self.peer(to)
    }

    /// Posts a receive that did not meet the conditions of the fast path.
    pub(super) fn receive(
        &mut self,
        pattern: M::Pattern,
        into: ReceiveBuffer<'_>,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        let caller = (self.queue_to_post(queue)?, user);
        if let ReceiveBuffer::Memory(list) = into {
            check_writable(list)?;
            total(list)?;
        }
        self.conversations.shared.check_operations()?;
        let peer = M::only_peer(pattern);
        if let Some(peer) = peer
            && let Some(refused) = self.refuse_if_gone(peer, user)
            && self.conversations.shared.matcher.find(pattern).is_none()
        {
            return Ok(refused);
        }
        match self.conversations.post_receive_into(pattern, into, caller) {
            Ok(result) => {
                self.settle();
                self.flush_control();
                Ok(at_once(user, result))
            }
            Err(op) => {
                if let Some(peer) = peer {
                    self.connect(peer);
                }
                let posted = self.posted(op, user);
                self.offer_or_watch();
                Ok(posted)
            }
        }
    }

    /// The completion of an operation whose peer is gone for good.
    pub(super) fn refuse_if_gone(&self, peer: u32, user: u64) -> Option<Posted> {
        let entry = &self.conversations.peers[peer];
        match &entry.phase {
            Phase::Gone(cause) => Some(at_once(user, Err(entry.lost(cause.clone())))),
            _ => None,
        }
    }

    /// What to return for an operation that was just added: it may be done already.
    pub(super) fn posted(&mut self, op: u32, user: u64) -> Posted {
        let id = self.conversations.id(op);
        self.settle();
        match self.conversations.shared.take_done(id) {
            Ok(Some(done)) => {
                self.flush_control();
                at_once(user, done.result)
            }
            _ => Posted::Pending(id),
        }
    }
}
