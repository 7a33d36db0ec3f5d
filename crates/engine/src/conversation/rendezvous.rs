//! Messages that stay at their sender until a receive has been found (Yu et al. §4.2, §5).
//!
//! ```text
//! pull:  sender ──Announce──► receiver         the receiver reads the sender's memory;
//!        sender ◄──Read────── receiver         `Read` travels with the transfer
//!
//! push:  sender ──Announce──► receiver         the receiver opens its memory;
//!        sender ◄─ClearToSend─ receiver        the sender writes it;
//!        sender ──Written───► receiver         `Written` travels with the transfer
//! ```
//! A list of fragments that does not fit into a packet is moved in parts, by push, each with its own
//! `ClearToSend`; the operations still complete once.

use causeway_sys::memory::Memory;
use causeway_transport::{Access, Cursor, Error as TransportError, Spans, TransferError};
use causeway_wire::bmi::{self as wire, Announcement, Clearance, Header, Kind, Refusal};
use causeway_wire::region::{RegionDescriptor, Regions};

use super::Conversation;
use super::eager::{deliver, send_of};
use crate::fragments::{Fragments, sum};
use crate::matcher::Matcher;
use crate::operation::{Incoming, OpKind, State};
use crate::sends::MessageLocation;
use crate::shared::{EarlyBody, Shared, Work};
use crate::types::{OpError, RendezvousPolicy, Tag};

/// A server with this many transfers in progress or waiting is under load (Yu et al. §5.1).
const HEAVY_LOAD: usize = 4;

/// The most regions of an announcement that are kept while no receive has been found for it. Longer
/// lists are dropped, so that a peer's announcements take little memory here; such a message is
/// pushed.
const KEPT_REGIONS: usize = 8;

/// The most unmatched announcements of one kind (expected or unexpected) whose memory is exported
/// for the peer to read; the messages of further announcements are pushed. This leaves half of the
/// 8,192 regions that a method exports to a peer for receives whose messages arrive.
const MAX_EXPORTED: u32 = 4000;

/// Drops the list of an announcement's memory if it is too long to be kept.
pub(super) fn drop_long_list(incoming: &mut Incoming) {
    let regions = &mut incoming.announcement.regions;
    if regions.len() > KEPT_REGIONS {
        *regions = Regions::new();
    }
}

pub(super) fn refusal(op: u64, refusal: Refusal) -> Vec<u8> {
    wire::encode_refusal(Header::new(Kind::Refuse, op), refusal, Vec::new())
}

impl<M: Matcher> Shared<M> {
    pub(super) fn is_busy_server(&self) -> bool {
        self.tuning.server && self.load() >= HEAVY_LOAD
    }
}

impl Conversation {
    /// How many fragments are certain to fit into a packet.
    pub(super) fn fragments_per_packet(&self) -> usize {
        let room = self.limits.max_packet;
        room.saturating_sub(wire::HEADER_BYTES + wire::BODY_FIXED_BYTES) / wire::MAX_REGION_BYTES
    }

    /// Announces a send that was just taken from the queue. `starved`: only for lack of credit.
    /// Returns whether its memory is to be exported first.
    pub(super) fn announce<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        starved: bool,
    ) -> bool {
        shared.ops[op].state = State::ToAnnounce { starved };
        let pushes = shared.tuning.policy == RendezvousPolicy::Push
            || shared.ops[op].fragments.is_in_pieces();
        let unexpected = shared.ops[op].kind == OpKind::SendUnexpected;
        let exports = !pushes && *self.announced_count(unexpected) < MAX_EXPORTED;
        if exports && self.memory_to_export(shared, op).is_some() {
            return true;
        }
        // Without exports only this side can move the message.
        self.send_announcement(shared, op, starved, Regions::new());
        false
    }

    /// The memory of an operation that is to be exported now: all of it, or `None`.
    pub(crate) fn memory_to_export<M: Matcher>(
        &self,
        shared: &Shared<M>,
        op: u32,
    ) -> Option<(Spans, Access)> {
        let entry = &shared.ops[op];
        let most = self.fragments_per_packet();
        let list = entry.fragments.as_slice();
        let mut cursor = entry.cursor;
        match &entry.state {
            State::ToAnnounce { .. } => {
                let parts = cursor.take_spans(list, entry.size, most);
                // With too long a list, only this side can move it.
                let fits = sum(&parts) == entry.size && !parts.is_empty();
                fits.then_some((parts, Access::Read))
            }
            // A receive that is to be offered, whole.
            State::Posted if entry.offered => Some((list.iter().cloned().collect(), Access::Write)),
            State::ToClear(incoming) => {
                let left = incoming.announcement.size - entry.moved;
                Some((cursor.take_spans(list, left, most), Access::Write))
            }
            _ => None,
        }
    }

    /// Continues with an operation after [`Conversation::memory_to_export`], once its memory was
    /// exported: it has the keys already.
    pub(crate) fn handle_exported<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        result: Result<Regions, TransportError>,
    ) {
        match &shared.ops[op].state {
            State::ToAnnounce { starved } => {
                let starved = *starved;
                self.send_announcement(shared, op, starved, result.unwrap_or_default());
            }
            State::Posted => self.send_offer(shared, op, &result.unwrap_or_default()),
            State::ToClear(_) => match result {
                Ok(regions) => self.send_clearance(shared, op, regions),
                Err(error) => self.cannot_clear(shared, op, &error),
            },
            _ => {}
        }
    }

    fn send_announcement<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        starved: bool,
        regions: Regions,
    ) {
        let packet = self.announcement(shared, op, starved, regions);
        self.queue_control(shared, packet);
    }

    /// Whether a message that is too large to travel whole can be announced at once, because no
    /// other is queued before it.
    pub(crate) fn announces_now<M>(
        &self,
        shared: &Shared<M>,
        (data, size): (&Memory, u64),
        unexpected: bool,
    ) -> bool {
        let (queue, announced) = if unexpected {
            (&self.unexpected, self.announced_unexpected)
        } else {
            (&self.expected, self.announced)
        };
        self.is_up()
            && !self.is_eager(std::slice::from_ref(data), size)
            && !self.blocked
            && queue.is_empty()
            && (unexpected || !self.offers.is_writing())
            && self.control.is_empty()
            && announced < shared.tuning.max_announced(unexpected).min(MAX_EXPORTED)
            && self.fragments_per_packet() > 0
            && shared.tuning.policy != RendezvousPolicy::Push
    }

    /// Adds a send whose memory was exported as `region`. Returns the operation, and the packet
    /// that announces it with the credit that the packet carries.
    pub(crate) fn announce_now<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        data: (Fragments, u64),
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
        region: RegionDescriptor,
    ) -> (u32, Vec<u8>, u32) {
        let what = send_of(unexpected);
        let op = self.add_op(shared, what, caller, tag, data, State::Announced);
        shared.ops[op].exports.push(region.key);
        let regions = std::iter::once(region).collect();
        let packet = self.announcement(shared, op, false, regions);
        (op, packet, self.grant.owed())
    }

    /// Reports whether the method has accepted what [`Conversation::announce_now`] returned.
    pub(crate) fn announced_now<M>(
        &mut self,
        shared: &mut Shared<M>,
        (packet, credit): (Vec<u8>, u32),
        is_sent: bool,
    ) {
        if is_sent {
            self.grant.grant(credit);
            shared.buffers.put(packet);
        } else {
            self.queue_control(shared, packet);
        }
    }

    /// The packet that announces a send, whose memory is exported.
    fn announcement<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        starved: bool,
        regions: Regions,
    ) -> Vec<u8> {
        let entry = &mut shared.ops[op];
        let unexpected = entry.kind == OpKind::SendUnexpected;
        entry.state = State::Announced;
        entry.announced = true;
        let (size, tag) = (entry.size, entry.tag);
        let is_in_pieces = entry.fragments.is_in_pieces();
        let kind = if unexpected {
            Kind::AnnounceUnexpected
        } else {
            Kind::Announce
        };
        let mut header = Header::new(kind, tag);
        header.credit = self.grant.owed();
        if shared.is_busy_server() {
            header.flags |= wire::FLAG_BUSY_SERVER;
        }
        if starved {
            header.flags |= wire::FLAG_STARVED;
        }
        if is_in_pieces {
            header.flags |= wire::FLAG_IN_PARTS;
        }
        let body = Announcement {
            send: shared.ops.key(op),
            size,
            load: u32::try_from(shared.load()).unwrap_or(u32::MAX),
            regions,
        };
        *self.announced_count(unexpected) += 1;
        if !unexpected {
            self.offers.left(tag);
        }
        wire::encode_announcement(header, &body, shared.buffers.take())
    }

    /// Handles the announcement of an expected message.
    pub(super) fn announced<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
        announcement: Announcement,
    ) {
        let mut incoming = Incoming {
            from_busy_server: header.flags & wire::FLAG_BUSY_SERVER != 0,
            in_parts: header.flags & wire::FLAG_IN_PARTS != 0,
            announcement,
        };
        if incoming.in_parts && !self.takes_parts() {
            return self.protocol_error(shared, "it announces a message in parts");
        }
        let tag = header.word;
        self.offers.arrived();
        if let Some(op) = self.match_receive(shared, tag) {
            shared.watch.found(shared.ops.key(op));
            return self.match_announced(shared, op, incoming);
        }
        if self.announcements >= shared.tuning.announced_limit {
            return self.protocol_error(shared, "it announces too many messages at once");
        }
        self.announcements += 1;
        drop_long_list(&mut incoming);
        let send = incoming.announcement.send;
        let message = self.add_early(shared, tag, EarlyBody::Announced(incoming));
        self.note_location(send, MessageLocation::Early(message));
        shared.matcher.hold(message, self.id, tag);
    }

    /// Joins a receive with its message, which is still at the sender, and starts to move it.
    pub(super) fn match_announced<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        incoming: Incoming,
    ) {
        let room = shared.ops[op].size;
        let Announcement { send, size, .. } = incoming.announcement;
        self.note_location(send, MessageLocation::Op(shared.ops.key(op)));
        if size > room {
            self.queue_control(shared, refusal(send, Refusal::TooLarge { room }));
            return self.complete(shared, op, Err(OpError::TooLarge { size, room }));
        }
        if size == 0 {
            self.queue_bare(shared, Kind::Read, send);
            return self.complete(shared, op, Ok(0));
        }
        if incoming.in_parts || shared.ops[op].fragments.is_in_pieces() {
            self.clear_for_parts(shared, op, incoming);
        } else if self.should_pull(shared, &incoming) {
            shared.ops[op].state = State::Matched(incoming);
            shared.start_transfer(op);
        } else {
            self.clear(shared, op, incoming);
        }
    }

    /// Decides which side copies (Yu et al., figure 6): not a server under load, unless both sides
    /// are; otherwise the side with less to do. When both have the same load the receiver pulls,
    /// which saves a message. It also pulls where both sides copy in any case, unless it is a
    /// server with others to serve.
    fn should_pull<M: Matcher>(&self, shared: &Shared<M>, incoming: &Incoming) -> bool {
        if incoming.announcement.regions.is_empty() {
            return false;
        }
        match shared.tuning.policy {
            RendezvousPolicy::Pull => true,
            RendezvousPolicy::Push => false,
            RendezvousPolicy::Adaptive => {
                let both_copy = self.limits.shares_copies;
                let busy = if both_copy {
                    self.is_busy_with_others(shared)
                } else {
                    shared.is_busy_server()
                };
                match (incoming.from_busy_server, busy) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => both_copy || shared.load() as u64 <= u64::from(incoming.announcement.load),
                }
            }
        }
    }

    /// Whether this process is a server under load, leaving out what is in progress with this peer:
    /// a peer that waits has another transfer in progress itself.
    pub(super) fn is_busy_with_others<M>(&self, shared: &Shared<M>) -> bool {
        let own = self.transfers as usize;
        shared.tuning.server && shared.transfers.active.saturating_sub(own) >= HEAVY_LOAD
    }

    /// Starts to export the next part of a receive's memory to the sender.
    pub(super) fn clear<M>(&mut self, shared: &mut Shared<M>, op: u32, incoming: Incoming) {
        shared.ops[op].state = State::ToClear(incoming);
        let key = shared.ops.key(op);
        shared.work.push_back(Work::Export(key));
    }

    /// Notifies the sender that the next part of a receive's memory has been exported to it.
    fn send_clearance<M>(&mut self, shared: &mut Shared<M>, op: u32, regions: Regions) {
        let key = shared.ops.key(op);
        let most = self.fragments_per_packet();
        let entry = &mut shared.ops[op];
        let State::ToClear(incoming) = std::mem::replace(&mut entry.state, State::Finishing) else {
            unreachable!("the caller has found it in this state");
        };
        let (offset, send) = (entry.moved, incoming.announcement.send);
        let left = incoming.announcement.size - offset;
        let parts = entry.cursor.spans(entry.fragments.as_slice(), left);
        let len = parts.take(most).map(|part| part.len() as u64).sum::<u64>();
        let end = offset + len;
        entry.state = State::Cleared { incoming, end };
        let clearance = Clearance {
            receive: key,
            offset,
            len,
            regions,
        };
        let header = Header::new(Kind::ClearToSend, send);
        let packet = wire::encode_clearance(header, &clearance, shared.buffers.take());
        self.queue_control(shared, packet);
    }

    /// Handles the method's refusal to export our memory: pulls if that is still possible, waits
    /// for the end of other exports to this peer if their number is the reason, and fails
    /// otherwise.
    fn cannot_clear<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        error: &TransportError,
    ) {
        let key = shared.ops.key(op);
        let entry = &mut shared.ops[op];
        let State::ToClear(incoming) = std::mem::replace(&mut entry.state, State::Finishing) else {
            unreachable!("the caller has found it in this state");
        };
        if entry.moved == 0 && !incoming.announcement.regions.is_empty() {
            entry.state = State::Matched(incoming);
            return shared.start_transfer(op);
        }
        if let TransportError::Limit { .. } = error {
            entry.state = State::ToClear(incoming);
            return self.rare.get_or_insert_default().uncleared.push_back(key);
        }
        let send = incoming.announcement.send;
        self.queue_control(shared, refusal(send, Refusal::Failed));
        let error = TransferError::Copy(error.to_string());
        self.finish(shared, op, Err(error.into()));
    }

    /// Called when exports of an operation have ended: retries an operation whose memory could not
    /// be exported because there were too many exports. While such operations wait, there are other
    /// exports that will end, because announcements take only a part of all regions.
    #[inline]
    pub(crate) fn clear_next<M>(&mut self, shared: &mut Shared<M>) {
        let Some(rare) = &mut self.rare else {
            return;
        };
        while let Some(key) = rare.uncleared.pop_front() {
            if shared.ops.find(key).is_some() {
                return shared.work.push_back(Work::Export(key));
            }
        }
    }

    /// The operation of ours that the peer names, if it still exists. To name an operation of
    /// another peer is a protocol error.
    pub(super) fn named<M>(&mut self, shared: &mut Shared<M>, key: u64) -> Option<u32> {
        let op = shared.ops.find(key)?;
        if shared.ops[op].peer != self.id {
            self.protocol_error(shared, "it names an operation of another peer");
            return None;
        }
        Some(op)
    }

    /// One of our announcements is no longer unmatched at the peer.
    pub(super) fn withdraw_announcement<M>(&mut self, shared: &mut Shared<M>, op: u32) {
        let entry = &mut shared.ops[op];
        if std::mem::take(&mut entry.announced) {
            let count = self.announced_count(entry.kind == OpKind::SendUnexpected);
            *count = count.saturating_sub(1);
            if !self.expected.is_empty() || !self.unexpected.is_empty() {
                self.mark_dirty(shared);
            }
        }
    }

    /// The receiver has exported its memory for a send of ours.
    pub(super) fn cleared<M>(&mut self, shared: &mut Shared<M>, send: u64, clearance: Clearance)
    where
        M: Matcher,
    {
        let Some(op) = self.named(shared, send) else {
            return;
        };
        let entry = &mut shared.ops[op];
        if !matches!(entry.state, State::Announced) {
            // A cancelled send whose exports are being ended.
            return;
        }
        // Its receive has been found: it cannot be recalled any more.
        entry.withdrawn = false;
        let Clearance { offset, len, .. } = clearance;
        if clearance.regions.is_empty() {
            return match self.takes_parts() {
                true => self.cleared_for_parts(shared, op, &clearance),
                false => self.protocol_error(
                    shared,
                    "it clears a message without a region to write it into, but its format has no messages in parts",
                ),
            };
        }
        if entry.fragments.is_in_pieces() {
            return self.protocol_error(
                shared,
                "it clears a message for being written, which was announced as one in parts",
            );
        }
        if offset != entry.moved || len == 0 || len > entry.size - offset {
            return self.protocol_error(shared, "it clears a part that is not the next one");
        }
        entry.state = State::ToPush(clearance);
        self.withdraw_announcement(shared, op);
        shared.start_transfer(op);
    }

    /// The sender has written into memory that was cleared for it.
    pub(super) fn written<M: Matcher>(&mut self, shared: &mut Shared<M>, receive: u64) {
        let Some(op) = self.named(shared, receive) else {
            return;
        };
        let entry = &mut shared.ops[op];
        let State::Cleared { incoming, end } = &entry.state else {
            return;
        };
        let (size, end) = (incoming.announcement.size, *end);
        entry.moved = end;
        if end == size {
            return self.finish(shared, op, Ok(size));
        }
        if let State::Cleared { incoming, .. } =
            std::mem::replace(&mut entry.state, State::Finishing)
        {
            self.clear(shared, op, incoming);
        }
    }

    /// The receiver has read a send of ours.
    pub(super) fn read<M: Matcher>(&mut self, shared: &mut Shared<M>, send: u64) {
        let Some(op) = self.named(shared, send) else {
            return;
        };
        if matches!(shared.ops[op].state, State::Announced) {
            self.withdraw_announcement(shared, op);
            let size = shared.ops[op].size;
            self.finish(shared, op, Ok(size));
        }
    }

    /// The other side cannot complete the operation that both sides share.
    pub(super) fn refused<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        key: u64,
        refusal: Refusal,
    ) {
        let Some(op) = self.named(shared, key) else {
            return;
        };
        let entry = &mut shared.ops[op];
        let error = match refusal {
            Refusal::TooLarge { room } => OpError::TooLarge {
                size: entry.size,
                room,
            },
            Refusal::Failed => {
                TransferError::Copy("the peer could not move the bytes".into()).into()
            }
            // The receiver agrees to a recall.
            Refusal::Cancelled if entry.withdrawn && entry.kind == OpKind::Send => {
                OpError::Cancelled
            }
            Refusal::Cancelled => OpError::Withdrawn,
        };
        match entry.state {
            State::Announced | State::ToPush(_) => {
                self.withdraw_announcement(shared, op);
                self.finish(shared, op, Err(error));
            }
            State::Cleared { .. } | State::Collecting(_) | State::ToClear(_) => {
                self.finish(shared, op, Err(error));
            }
            State::Retracting => {
                self.offers.was_unused();
                self.finish(shared, op, Err(OpError::Cancelled));
            }
            // A transfer in progress fails by itself or is complete already.
            State::Pushing { .. } => entry.withdrawn = refusal == Refusal::Cancelled,
            _ => {}
        }
    }

    /// Takes the withdrawn message from a receive, whose exports have been ended. Returns whether
    /// the receive is to be matched again; then it is in no list.
    pub(crate) fn begin_rematch<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) -> bool {
        let entry = &mut shared.ops[op];
        if !has_withdrawable_message(&entry.state) {
            return false;
        }
        entry.moved = 0;
        entry.cursor = Cursor::default();
        entry.withdrawn = false;
        if entry.kind == OpKind::Fetch {
            self.complete(shared, op, Err(OpError::Withdrawn));
            return false;
        }
        entry.state = State::Finishing;
        self.unlist(shared, op);
        true
    }

    /// Joins a receive that is in no list with a message of this peer that the matcher held.
    pub(crate) fn join<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32, message: u32) {
        let entry = &mut shared.ops[op];
        (entry.peer, entry.tag) = (self.id, shared.early[message].tag);
        self.ops.push_back(&mut shared.ops, op);
        match self.take_early(shared, message) {
            Some(EarlyBody::Whole(data)) => {
                let entry = &shared.ops[op];
                let result = deliver(&data, entry.size, |data| entry.fragments.write(data));
                shared.buffers.put(data);
                self.complete(shared, op, result);
            }
            Some(EarlyBody::Announced(incoming)) => self.match_announced(shared, op, incoming),
            None => unreachable!("the matcher holds messages that are in the table"),
        }
    }

    /// Passes a message that was matched, and of which nothing was moved, to the next receive.
    pub(super) fn unmatch<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        mut incoming: Incoming,
    ) {
        if let Some(op) = self.match_receive(shared, tag) {
            return self.match_announced(shared, op, incoming);
        }
        self.announcements += 1;
        drop_long_list(&mut incoming);
        let send = incoming.announcement.send;
        let message = self.add_early(shared, tag, EarlyBody::Announced(incoming));
        self.note_location(send, MessageLocation::Early(message));
        // It arrived before all messages that are held now.
        shared.matcher.hold_first(message, self.id, tag);
    }
}

/// Whether a receive has a message that the sender can still withdraw.
pub(crate) fn has_withdrawable_message(state: &State) -> bool {
    matches!(
        state,
        State::Matched(_)
            | State::Pulling(_)
            | State::Collecting(_)
            | State::ToClear(_)
            | State::Cleared { .. }
    )
}
