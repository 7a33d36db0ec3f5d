//! Messages that travel whole; which packet is sent next; and the credit that bounds how many messages may wait
//! for their receives.

use causeway_sys::memory::Memory;
use causeway_transport::Packet;
use causeway_wire::bmi::{self as wire, Header, Kind};

use super::Conversation;
use crate::credit::cost;
use crate::fragments::Fragments;
use crate::lists::Links;
use crate::matcher::Matcher;
use crate::operation::{OpKind, State};
use crate::shared::{Early, EarlyBody, Shared, Tuning};
use crate::traffic::Touched;
use crate::types::{OpError, Tag};

/// The protocol error of a peer that sends without credit.
pub(super) const SENDS_TOO_MUCH: &str = "it sends more than it was granted";

/// What to send next. Once the method has accepted it, the driver calls
/// [`Conversations::transmitted`](crate::conversations::Conversations::transmitted).
#[derive(Debug)]
pub enum Transmit {
    /// A packet that carries no message.
    Control {
        /// The credit that it carries.
        credit: u32,
    },
    /// This header, then the memory of an operation.
    Eager {
        /// The header.
        header: Header,
        /// The operation.
        op: u32,
    },
    /// This header, then the next bytes of an operation's message.
    Part {
        /// The header.
        header: Header,
        /// The operation.
        op: u32,
        /// How many bytes.
        len: usize,
    },
    /// Nothing: memory of this operation is to be exported first, see
    /// [`Conversations::memory_to_export`](crate::conversations::Conversations::memory_to_export).
    Export {
        /// The operation.
        op: u32,
    },
}

impl Conversation {
    /// The header of a message that can leave at once and whole, because no other is queued before
    /// it.
    #[inline]
    pub(crate) fn eager_now(
        &self,
        (data, size): (&[Memory], u64),
        tag: Tag,
        unexpected: bool,
    ) -> Option<Header> {
        let queue = if unexpected {
            &self.unexpected
        } else {
            &self.expected
        };
        let may_go = self.is_up()
            && self.is_eager(data, size)
            && !self.blocked
            && queue.is_empty()
            && self.control.is_empty()
            && self.account.affords(cost(size as usize), unexpected);
        let may_go = may_go && (unexpected || !self.offers.is_writing());
        may_go.then(|| self.eager_header(tag, unexpected))
    }

    #[inline]
    fn eager_header(&self, tag: Tag, unexpected: bool) -> Header {
        let kind = if unexpected {
            Kind::Unexpected
        } else {
            Kind::Eager
        };
        let mut header = Header::new(kind, tag);
        header.credit = self.grant.worth_carrying();
        header
    }

    /// Accounts for a message of `size` bytes with this header that the method has accepted.
    #[inline]
    pub(crate) fn eager_sent(&mut self, touched: &mut Touched, header: &Header, size: usize) {
        self.account.spend(cost(size));
        if header.kind == Kind::Eager {
            self.offers.left(header.word);
        }
        self.grant.grant(header.credit);
        self.traffic.sent(size, self.id, touched);
    }

    /// Returns what to send next; `None` if there is nothing to send, no room or no credit.
    pub(crate) fn poll_transmit<M: Matcher>(&mut self, shared: &mut Shared<M>) -> Option<Transmit> {
        loop {
            if self.blocked {
                return None;
            }
            if let Some(packet) = self.control.front_mut() {
                let credit = self.grant.owed();
                packet[4..8].copy_from_slice(&credit.to_le_bytes());
                return Some(Transmit::Control { credit });
            }
            if !self.is_up() {
                return None;
            }
            for unexpected in [false, true] {
                match self.next_of_queue(shared, unexpected) {
                    Next::Transmit(transmit) => return Some(transmit),
                    Next::Control | Next::Nothing => {}
                }
                if !self.control.is_empty() {
                    break;
                }
            }
            if self.control.is_empty() {
                if let Some(part) = self.next_part(shared) {
                    return Some(part);
                }
                self.send_credit(shared);
            }
            if self.control.is_empty() {
                return None;
            }
        }
    }

    /// Whether packets without a message are queued.
    pub(crate) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// The packet that [`Transmit::Control`] means.
    pub(crate) fn control_packet(&self) -> &[u8] {
        self.control.front().map_or(&[], Vec::as_slice)
    }

    /// The method has accepted what [`Conversation::poll_transmit`] returned, and `holds` it or has
    /// sent it.
    pub(crate) fn transmitted<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        what: &Transmit,
        holds: bool,
    ) {
        match what {
            Transmit::Control { credit } => {
                self.grant.grant(*credit);
                if let Some(packet) = self.control.pop_front() {
                    shared.buffers.put(packet);
                }
            }
            Transmit::Eager { header, op } => {
                let size = shared.ops[*op].size;
                self.eager_sent(&mut shared.touched, header, size as usize);
                self.dequeue(header.kind == Kind::Unexpected);
                self.taken(shared, *op, holds);
            }
            Transmit::Part { header, op, len } => {
                self.grant.grant(header.credit);
                self.part_sent(shared, *op, *len, holds);
            }
            Transmit::Export { .. } => {}
        }
    }

    /// The method has accepted all of a send's message, and `holds` the end of it or has sent it.
    pub(super) fn taken<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32, holds: bool) {
        if holds && self.held_send.is_none() {
            shared.release_memory(op);
            shared.ops[op].state = State::Held;
            self.await_leaving(shared, op);
        } else {
            let size = shared.ops[op].size;
            self.complete(shared, op, Ok(size));
        }
    }

    /// Adds the operation of a send whose packet the method has accepted and holds.
    pub(crate) fn hold_send<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        size: u64,
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
    ) -> u32 {
        let memory = (Fragments::None, size);
        let op = self.add_op(
            shared,
            send_of(unexpected),
            caller,
            tag,
            memory,
            State::Held,
        );
        self.await_leaving(shared, op);
        op
    }

    fn await_leaving<M>(&mut self, shared: &mut Shared<M>, op: u32) {
        self.held_send = Some(op);
        shared.holding.push(self.id);
    }

    /// The method no longer holds any packet to this peer.
    pub(crate) fn packets_left<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        if let Some(op) = self.held_send.take() {
            let size = shared.ops[op].size;
            self.complete(shared, op, Ok(size));
        }
    }

    /// Whether the method may hold packets, and no send waits for held packets to leave.
    #[inline]
    pub(crate) fn may_hold_next(&self) -> bool {
        self.limits.holds_packets && self.held_send.is_none()
    }

    /// Whether the method may hold packets.
    #[inline]
    pub(crate) fn may_hold(&self) -> bool {
        self.limits.holds_packets
    }

    /// Posts a send that cannot leave at once.
    pub(crate) fn post_waiting<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        data: (Fragments, u64),
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
    ) -> u32 {
        let what = send_of(unexpected);
        let op = self.add_op(shared, what, caller, tag, data, State::Queued);
        if unexpected {
            self.unexpected.push_back(op);
        } else {
            self.expected.push_back(op);
        }
        if self.is_up() {
            self.mark_dirty(shared);
        }
        op
    }

    /// Returns what one queue has to send next.
    fn next_of_queue<M: Matcher>(&mut self, shared: &mut Shared<M>, unexpected: bool) -> Next {
        if !unexpected && self.offers.is_writing() {
            return Next::Nothing;
        }
        let queue = if unexpected {
            &mut self.unexpected
        } else {
            &mut self.expected
        };
        let Some(&op) = queue.front() else {
            return Next::Nothing;
        };
        let (size, tag) = (shared.ops[op].size, shared.ops[op].tag);
        let cost = cost(usize::try_from(size).unwrap_or(usize::MAX));
        let fragments = &shared.ops[op].fragments;
        let is_in_pieces = fragments.is_in_pieces();
        let is_whole = unexpected || size < self.announces_from.into();
        let is_eager = is_whole && !is_in_pieces && self.is_eager(fragments.as_slice(), size);
        let eager = is_eager && !shared.ops[op].synchronous;
        if !unexpected && !eager && !is_in_pieces && self.write_queued(shared, op) {
            self.dequeue(unexpected);
            return Next::Nothing;
        }
        if eager && self.account.affords(cost, unexpected) {
            let header = self.eager_header(tag, unexpected);
            return Next::Transmit(Transmit::Eager { header, op });
        }
        if unexpected && eager && self.account.will_afford(cost) {
            self.report_starved(shared);
            return Next::Nothing;
        }
        if *self.announced_count(unexpected) < shared.tuning.max_announced(unexpected) {
            self.dequeue(unexpected);
            return match self.announce(shared, op, eager) {
                true => Next::Transmit(Transmit::Export { op }),
                false => Next::Control,
            };
        }
        Next::Nothing
    }

    fn dequeue(&mut self, unexpected: bool) {
        if unexpected {
            self.unexpected.pop_front();
        } else {
            self.expected.pop_front();
        }
    }

    /// Queues a packet with credit if credit is due that no other packet has carried.
    fn send_credit<M>(&mut self, shared: &mut Shared<M>) {
        let wanted = self.starved && self.grant.owed() > 0;
        if wanted || self.window_update_due || self.grant.is_due() {
            self.window_update_due = false;
            self.starved = false;
            let window = self.grant.window().into();
            let packet = (shared.buffers).holding(&Header::new(Kind::Credit, window).encode());
            self.control.push_back(packet);
        }
    }

    /// Notifies the peer, once, that messages wait for credit.
    fn report_starved<M>(&mut self, shared: &mut Shared<M>) {
        if !self.account.reported_starved {
            self.account.reported_starved = true;
            let mut header = Header::new(Kind::Credit, self.grant.window().into());
            header.flags = wire::FLAG_STARVED;
            let packet = shared.buffers.holding(&header.encode());
            self.control.push_back(packet);
        }
    }

    /// Adds credit that the peer has granted; `false` if the amount was invalid.
    #[inline]
    pub(super) fn credit<M>(&mut self, shared: &mut Shared<M>, credit: u32) -> bool {
        if !self.account.receive(credit) {
            self.protocol_error(shared, "it grants too much credit");
            return false;
        }
        if !self.unexpected.is_empty() || !self.expected.is_empty() {
            self.mark_dirty(shared);
        }
        true
    }

    /// The peer has reported that it waits for credit.
    pub(super) fn starved<M>(&mut self, shared: &mut Shared<M>) {
        self.starved = true;
        if self.grant.enlarge(&mut shared.budget) {
            self.window_update_due = true;
        } else if self.grant.is_below_share(&shared.budget) {
            shared.request_shrink(self.id, self.grant.window());
        }
        self.mark_dirty(shared);
    }

    /// The peer shrinks our window.
    pub(super) fn reclaimed<M>(&mut self, shared: &mut Shared<M>, window: u64) {
        let back = self.account.reclaim(window);
        if back > 0 {
            self.queue_bare(shared, Kind::Return, back.into());
        }
        // Messages that wait for credit may have to be announced instead.
        self.mark_dirty(shared);
    }

    /// Takes back credit that the peer has returned.
    pub(super) fn returned<M>(&mut self, shared: &mut Shared<M>, bytes: u64) {
        if !self.grant.reclaim(bytes, &mut shared.budget) {
            self.protocol_error(shared, "it returns more credit than it has");
        }
    }

    /// Charges the cost of a message that has arrived; `false` if the peer had no credit for it.
    #[inline]
    pub(super) fn charge<M>(&mut self, shared: &mut Shared<M>, packet: &Packet<'_>) -> bool {
        let len = packet.len() - wire::HEADER_BYTES;
        let allowed = self.grant.arrive(cost(len));
        self.traffic.received(len, self.id, &mut shared.touched);
        if !allowed {
            self.protocol_error(shared, SENDS_TOO_MUCH);
        }
        allowed
    }

    /// Accounts for early memory of a message that has been freed.
    #[inline]
    pub(super) fn early_freed<M>(&mut self, shared: &mut Shared<M>, len: usize) {
        self.grant.leave(cost(len), &mut shared.budget);
        if (self.grant.is_due() || self.starved) && self.is_up() {
            self.mark_dirty(shared);
        }
    }

    /// Keeps a whole message that has arrived before its receive.
    #[inline(never)]
    pub(super) fn eager_early<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        packet: Packet<'_>,
    ) {
        if self.charge(shared, &packet) {
            let mut data = shared.buffers.take();
            packet.copy_into(wire::HEADER_BYTES, &mut data);
            let message = self.add_early(shared, tag, EarlyBody::Whole(data));
            shared.matcher.hold(message, self.id, tag);
        }
    }

    /// Keeps a message until its receive is posted. The caller passes it to the matcher.
    pub(super) fn add_early<M>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        body: EarlyBody,
    ) -> u32 {
        let index = shared.early.insert(Early {
            links: Links::default(),
            peer: self.id,
            tag,
            taken: false,
            body,
        });
        self.early.push_back(&mut shared.early, index);
        shared.arrivals += 1;
        index
    }

    /// Forgets an early message, which will not be delivered.
    pub(super) fn forget_early<M: Matcher>(&mut self, shared: &mut Shared<M>, index: u32) {
        if !shared.early[index].taken {
            shared.matcher.discard(index);
        }
        self.take_early(shared, index);
    }

    /// Removes an early message that is no longer in the matcher, and settles its accounts.
    pub(crate) fn take_early<M>(
        &mut self,
        shared: &mut Shared<M>,
        index: u32,
    ) -> Option<EarlyBody> {
        self.early.remove(&mut shared.early, index);
        let body = shared.early.remove(index)?.body;
        match &body {
            EarlyBody::Whole(data) => self.early_freed(shared, data.len()),
            EarlyBody::Announced(_) => {
                self.announcements = self.announcements.saturating_sub(1);
            }
        }
        Some(body)
    }
}

/// What one queue has to send.
enum Next {
    /// This packet.
    Transmit(Transmit),
    /// A control packet was queued.
    Control,
    /// Nothing that can be sent now.
    Nothing,
}

/// Has `write` copy an early message into a receive's memory.
pub(crate) fn deliver(data: &[u8], room: u64, write: impl Fn(&[u8])) -> Result<u64, OpError> {
    let size = data.len() as u64;
    if size > room {
        return Err(OpError::TooLarge { size, room });
    }
    write(data);
    Ok(size)
}

/// The operation of a send of one of the two kinds.
pub(super) fn send_of(unexpected: bool) -> OpKind {
    if unexpected {
        OpKind::SendUnexpected
    } else {
        OpKind::Send
    }
}

impl Tuning {
    /// How many announcements of one kind may be unmatched at the peer.
    pub(super) fn max_announced(&self, unexpected: bool) -> u32 {
        if unexpected {
            wire::MAX_ANNOUNCED_UNEXPECTED
        } else {
            self.announced_limit
        }
    }
}
