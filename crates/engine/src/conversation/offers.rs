//! Receives into whose memory the sender may write at once, without announcing its message (Gu,
//! chapter 3).
//!
//! ```text
//! receiver ──ReadyToReceive──► sender     a receive waits, and its memory is open to the sender
//!          ◄──SendComplete──── sender     the sender has written its next message of the tag
//!
//! receiver ──Retract─────────► sender     the receive is cancelled
//!          ◄──Refuse────────── sender     the sender does not write any more
//! ```
//! Unless [`Config::offers`](crate::types::Config::offers) is off, offers are made by a process
//! that was found busy elsewhere when large messages arrived ([`Watch`](crate::offers::Watch)), at
//! times when it has nothing else to do. A sender whose message is posted after the offer has
//! arrived does not wait for the receiver: neither announcing nor matching is on the message's path
//! then.
//!
//! An offer changes nothing about which receive gets which message:
//! - A receive is offered only if it gets the next message of one peer and one tag, whatever other
//!   receives wait ([`Matcher::is_next_for`]), and only while no earlier receive of that tag has a
//!   message that may still be withdrawn.
//! - The offer states how many expected messages from the sender have arrived. If the sender has
//!   sent more, or has some in its queue, one of these may belong to the receive, and the sender
//!   drops the offer. The receiver finds the receive matched by a message that was announced or
//!   that came whole, and ends its export.
//! - A message of the tag that leaves in any other way, because it is short, too large for the
//!   receive, or to be read by the receiver, ends the offer at the sender in the same way.
//! - While a message is being written, no later expected one leaves: it would overtake it.
//!
//! So both sides agree on whether an offer is valid without exchanging a packet, except for a
//! receive that is cancelled. Only the sender's reply shows what it has written by then: the
//! receive ends with the message if it was written, and cancelled otherwise, and the message goes
//! to the next receive. In either case the memory is free only when the export has ended.

use causeway_sys::memory::Memory;
use causeway_transport::TransferError;
use causeway_wire::bmi::{self as wire, Header, Kind, MAX_OFFERED, OFFERING, Offer, Refusal};
use causeway_wire::region::Regions;

use super::Conversation;
use super::rendezvous::refusal;
use crate::fragments::Fragments;
use crate::matcher::Matcher;
use crate::operation::{OpKind, State};
use crate::shared::{Shared, Work};
use crate::types::{RendezvousPolicy, Tag};

/// This many of a peer's operations are compared with a receive before it is offered. Where more
/// are in progress, an offer would save no wait.
const COMPARED: usize = 8;

impl Conversation {
    /// Whether the two sides have agreed on a format with offers.
    pub(super) fn may_offer(&self) -> bool {
        self.greeting.format >= OFFERING
    }

    /// Whether receives can be offered on this connection at all.
    fn offers<M>(&self, shared: &Shared<M>) -> bool {
        self.is_up()
            && self.limits.one_sided
            && self.may_offer()
            && self.offers.out < MAX_OFFERED as u32
            && shared.tuning.policy != RendezvousPolicy::Pull
            && self.fragments_per_packet() > 0
            && self.greeting.id() != Some(shared.own.introduction.id)
    }

    /// Considers offering a receive from this peer with room for a large message: it is offered if
    /// there is nothing else to do before its message arrives.
    #[inline(never)]
    pub(super) fn consider_offering<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        if !shared.tuning.offers || shared.ops[op].fragments.is_in_pieces() {
            return;
        }
        let is_due = shared.watch.count(self.receives == 1);
        let is_busy = shared.watch.is_busy();
        if !(is_due || is_busy) || !self.offers(shared) {
            return;
        }
        if is_due {
            shared.watch.begin(shared.ops.key(op));
        }
        match self.offers.skip {
            _ if !is_busy => {}
            0 => shared.note_to_offer(op),
            _ => self.offers.skip -= 1,
        }
    }

    /// Offers a receive, if it qualifies: its memory is to be exported.
    pub(crate) fn offer<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        let entry = &shared.ops[op];
        if !matches!(entry.state, State::Posted) || entry.offered || !self.offers(shared) {
            return;
        }
        let Some((peer, tag)) = shared.matcher.is_next_for(op) else {
            return;
        };
        if peer != self.id || !self.is_free_of(shared, tag) {
            return;
        }
        shared.own_memory(op);
        let entry = &mut shared.ops[op];
        if !matches!(entry.fragments, Fragments::One(_)) {
            return;
        }
        (entry.tag, entry.offered) = (tag, true);
        self.offers.out += 1;
        let key = shared.ops.key(op);
        shared.work.push_back(Work::Export(key));
    }

    /// Whether no receive has a message of this tag that may yet be withdrawn, or passed to the
    /// next receive.
    fn is_free_of<M>(&mut self, shared: &mut Shared<M>, tag: Tag) -> bool {
        let mut at = self.ops.first();
        for _ in 0..COMPARED {
            let Some(op) = at else { return true };
            let entry = &shared.ops[op];
            let is_decided = matches!(entry.state, State::Finishing);
            if entry.kind == OpKind::Receive && entry.tag == tag && !is_decided {
                return false;
            }
            at = entry.links.next();
        }
        at.is_none()
    }

    /// Notifies the sender that the memory of a receive has been exported to it.
    pub(super) fn send_offer<M>(&mut self, shared: &mut Shared<M>, op: u32, regions: &Regions) {
        let receive = shared.ops.key(op);
        let entry = &mut shared.ops[op];
        let [region] = regions[..] else {
            entry.offered = false;
            return self.offers.was_unused();
        };
        let offer = Offer {
            receive,
            seen: self.offers.seen,
            region,
        };
        let header = Header::new(Kind::ReadyToReceive, entry.tag);
        let packet = wire::encode_offer(header, &offer, shared.buffers.take());
        self.queue_control(shared, packet);
    }

    /// The sender has written a message into a receive that was offered.
    pub(super) fn send_completed<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        receive: u64,
        size: u64,
    ) {
        let offered = shared.ops.find(receive).filter(|op| {
            let entry = &shared.ops[*op];
            let waits = matches!(entry.state, State::Posted | State::Retracting);
            let is_open = entry.offered && !entry.exports.is_empty();
            entry.peer == self.id && waits && is_open && size <= entry.size
        });
        let Some(op) = offered else {
            let reason = "it reports a message written into memory that was not offered for it";
            return self.protocol_error(shared, reason);
        };
        self.offers.arrived();
        self.offers.was_used();
        shared.watch.found(receive);
        if matches!(shared.ops[op].state, State::Posted) {
            self.withdraw_receive(shared, op);
        }
        shared.ops[op].offered = false;
        self.finish(shared, op, Ok(size));
    }

    /// Retracts the offer of a receive that is cancelled. The receive ends when the sender has
    /// replied.
    pub(super) fn retract<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        self.withdraw_receive(shared, op);
        shared.ops[op].state = State::Retracting;
        let key = shared.ops.key(op);
        self.queue_bare(shared, Kind::Retract, key);
    }

    /// Receives that wait for the next connection are no longer offered: their exports have been
    /// ended.
    pub(super) fn end_offers<M: Matcher>(&mut self, shared: &mut Shared<M>) {
        if self.offers.out > 0 {
            for op in shared.matcher.receives_of(self.id, usize::MAX) {
                shared.ops[op].offered = false;
            }
        }
        self.offers.restart();
    }

    /// Handles a peer's offer of a receive.
    pub(super) fn offered<M>(&mut self, shared: &mut Shared<M>, tag: Tag, offer: Offer) {
        if self.offers.usable.len() >= MAX_OFFERED {
            return self.protocol_error(shared, "it offers too many receives at once");
        }
        if offer.seen == self.offers.sent && self.expected.is_empty() {
            self.offers.usable.push((tag, offer));
        } else {
            self.offers.expected = true;
        }
    }

    /// The peer retracts an offer.
    pub(super) fn retracted<M>(&mut self, shared: &mut Shared<M>, receive: u64) {
        self.offers
            .usable
            .retain(|(_, offer)| offer.receive != receive);
        if self.offers.is_writing() {
            for op in self.ops.to_vec(&mut shared.ops) {
                let entry = &mut shared.ops[op];
                if let State::ToWrite(offer) | State::Writing(offer) = &entry.state
                    && offer.receive == receive
                {
                    // The result of the write is the reply, or decides about it.
                    entry.withdrawn = true;
                    return;
                }
            }
        }
        self.queue_control(shared, refusal(receive, Refusal::Cancelled));
    }

    /// Whether the peer has offered receives, or an offer is likely to be on its way.
    #[inline(always)]
    pub(crate) fn may_find_offer(&self) -> bool {
        self.offers.expected || !self.offers.usable.is_empty()
    }

    /// Whether a large message to be posted now would be the next to leave, and may find an offer that has just come.
    pub(crate) fn expects_offer(&self, tag: Tag) -> bool {
        let offers = &self.offers;
        self.writes_now()
            && offers.expected
            && !offers.usable.iter().any(|(other, _)| *other == tag)
    }

    /// Whether no message has to be written before one that goes into an offered receive now.
    pub(crate) fn writes_now(&self) -> bool {
        self.is_up()
            && !self.blocked
            && self.control.is_empty()
            && self.expected.is_empty()
            && !self.offers.is_writing()
    }

    /// Takes the offer that a message uses. An offer that does not fit the message ends, as the
    /// message leaves in another way.
    #[inline]
    pub(crate) fn take_offer<M: Matcher>(
        &mut self,
        shared: &Shared<M>,
        tag: Tag,
        size: u64,
    ) -> Option<Offer> {
        let usable = &mut self.offers.usable;
        let at = usable.iter().position(|(other, _)| *other == tag);
        self.offers.expected = at.is_some();
        let (_, offer) = self.offers.usable.swap_remove(at?);
        let fits = (1..=offer.region.len).contains(&size);
        (fits && self.should_write(shared)).then_some(offer)
    }

    /// Whether this side shall copy, as in [`Conversation::should_pull`].
    fn should_write<M: Matcher>(&self, shared: &Shared<M>) -> bool {
        match shared.tuning.policy {
            RendezvousPolicy::Pull => false,
            RendezvousPolicy::Push => true,
            RendezvousPolicy::Adaptive => match self.limits.shares_copies {
                true => !self.is_busy_with_others(shared),
                false => !shared.is_busy_server(),
            },
        }
    }

    /// Accounts for a message that was written and whose receiver was notified.
    pub(crate) fn written_now<M>(&mut self, shared: &mut Shared<M>, tag: Tag, size: u64) {
        self.offers.left(tag);
        self.traffic.finished(OpKind::Send, size);
        self.touch(shared);
    }

    /// Adds a send that is to be written into a receive that is offered.
    pub(crate) fn post_write<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        (data, offer): (&[Memory], Offer),
        (size, tag): (u64, Tag),
        caller: (u32, u64),
    ) -> u32 {
        let memory = (Fragments::share(data), size);
        let state = State::ToWrite(offer);
        let op = self.add_op(shared, OpKind::Send, caller, tag, memory, state);
        self.offers.begin_write();
        shared.start_transfer(op);
        op
    }

    /// Starts to write a send from the front of the queue, if there is an offer for it.
    pub(super) fn write_queued<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) -> bool {
        let (tag, size) = (shared.ops[op].tag, shared.ops[op].size);
        let Some(offer) = self.take_offer(shared, tag, size) else {
            return false;
        };
        shared.ops[op].state = State::ToWrite(offer);
        self.offers.begin_write();
        shared.start_transfer(op);
        true
    }

    /// A message was written. Messages that waited behind it may leave.
    pub(super) fn write_succeeded<M>(&mut self, shared: &mut Shared<M>) {
        self.offers.writing = self.offers.writing.saturating_sub(1);
        self.mark_dirty(shared);
    }

    /// A message was not written because of `error`, mostly because the receive was cancelled. It
    /// is the next to leave.
    pub(super) fn write_failed<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        error: TransferError,
    ) {
        self.abandon_write(shared, op);
        if let TransferError::Peer(cause) = error {
            let error = self.lost(cause);
            return self.finish(shared, op, Err(error));
        }
        let entry = &mut shared.ops[op];
        entry.cursor = causeway_transport::Cursor::default();
        entry.withdrawn = false;
        entry.state = State::Queued;
        self.expected.push_front(op);
    }

    /// How many offers of the peer's can be used.
    #[cfg(test)]
    pub(crate) fn kept_offers(&self) -> usize {
        self.offers.usable.len()
    }

    /// A measure of unused offers, which grows with each.
    #[cfg(test)]
    pub(crate) fn offer_penalty(&self) -> u32 {
        self.offers.penalty
    }

    /// Gives up writing a send. The receiver is notified if it has asked to retract the offer.
    pub(super) fn abandon_write<M>(&mut self, shared: &mut Shared<M>, op: u32) {
        self.offers.abandon_write();
        let entry = &shared.ops[op];
        if let State::ToWrite(offer) | State::Writing(offer) = &entry.state
            && entry.withdrawn
        {
            let packet = refusal(offer.receive, Refusal::Cancelled);
            self.queue_control(shared, packet);
        }
        self.mark_dirty(shared);
    }
}
