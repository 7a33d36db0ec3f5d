//! Messages that come in parts, because the memory of one side at least lies in many pieces ([`Pieces`](crate::Pieces)).
//!
//! ```text
//! sender ──Announce──────► receiver    `FLAG_IN_PARTS` if the sender's memory is the one in pieces
//!        ◄─ClearToSend───              without memory: the receive has been found
//!        ──Part, Part, …─►             all of the message
//! ```
//! The sender copies a part into a packet while the receiver copies the preceding part out of an
//! earlier packet: neither side needs memory for the whole message, and both copy at the same time.
//! The method's room for packets bounds how far the sender gets ahead. A part costs no credit,
//! because its receive is posted.
//!
//! Neither side can cancel after the clearance: both operations complete as soon as the sender
//! makes progress.

use causeway_transport::{Packet, Spans};
use causeway_wire::bmi::{self as wire, Clearance, Header, IN_PARTS, Kind};
use causeway_wire::region::Regions;

use super::Conversation;
use super::eager::Transmit;
use crate::fragments::{Fragments, scatter};
use crate::matcher::Matcher;
use crate::operation::{Incoming, State};
use crate::shared::Shared;

/// A message has at least this many parts, so that both sides have something to copy most of the
/// time, unless parts would be smaller than a quarter of the largest packet.
const PARTS: u64 = 16;

/// Parts begin at multiples of this many bytes of the message, so that words and small pieces are not divided, and are aligned
/// to words in packets.
const PART_STEP: usize = 64;

impl Conversation {
    /// Whether the two sides have agreed on a format with parts.
    pub(super) fn takes_parts(&self) -> bool {
        self.greeting.format >= IN_PARTS
    }

    /// Has the sender of a message send it in parts to its receive.
    pub(super) fn clear_for_parts<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        incoming: Incoming,
    ) {
        let clearance = Clearance {
            receive: shared.ops.key(op),
            offset: 0,
            len: incoming.announcement.size,
            regions: Regions::new(),
        };
        let header = Header::new(Kind::ClearToSend, incoming.announcement.send);
        shared.ops[op].state = State::Collecting(incoming);
        let packet = wire::encode_clearance(header, &clearance, shared.buffers.take());
        self.queue_control(shared, packet);
    }

    /// The receiver requests all of an announced send, in parts.
    pub(super) fn cleared_for_parts<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        clearance: &Clearance,
    ) {
        if clearance.offset != 0 || clearance.len != shared.ops[op].size {
            return self.protocol_error(shared, "it clears only some parts of a message");
        }
        let receive = clearance.receive;
        shared.ops[op].state = State::SendingParts { receive };
        let rare = self.rare.get_or_insert_default();
        rare.sending_parts.push_back(op);
        self.mark_dirty(shared);
        self.withdraw_announcement(shared, op);
    }

    /// The next part of the first message that is sent in parts.
    pub(super) fn next_part<M>(&self, shared: &Shared<M>) -> Option<Transmit> {
        let op = *self.rare.as_ref()?.sending_parts.front()?;
        let entry = &shared.ops[op];
        let State::SendingParts { receive } = entry.state else {
            return None;
        };
        let most = self.limits.max_packet.saturating_sub(wire::HEADER_BYTES);
        let wanted = usize::try_from(entry.size / PARTS).unwrap_or(usize::MAX);
        let left = usize::try_from(entry.size - entry.moved).unwrap_or(usize::MAX);
        let mut header = Header::new(Kind::Part, receive);
        header.credit = self.grant.owed();
        let len = wanted.clamp(most / 4, most);
        let len = match len % PART_STEP {
            rest if rest < len => len - rest,
            _ => len.max(1),
        };
        let len = left.min(len);
        Some(Transmit::Part { header, op, len })
    }

    /// The method has accepted this many bytes of a message, and `holds` them or has sent them.
    pub(super) fn part_sent<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        len: usize,
        holds: bool,
    ) {
        let entry = &mut shared.ops[op];
        entry.moved += len as u64;
        let mut cursor = entry.cursor;
        cursor.take_spans(entry.fragments.as_slice(), len as u64, usize::MAX);
        entry.cursor = cursor;
        if entry.moved == entry.size {
            self.traffic.finished(entry.kind, entry.size);
            self.touch(shared);
            if let Some(rare) = &mut self.rare {
                rare.sending_parts.pop_front();
            }
            self.taken(shared, op, holds);
        }
    }

    /// Handles the next part of a message that is received in parts.
    pub(super) fn part<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        receive: u64,
        packet: Packet<'_>,
    ) {
        let Some(op) = self.named(shared, receive) else {
            return;
        };
        let entry = &mut shared.ops[op];
        let State::Collecting(incoming) = &entry.state else {
            return self.protocol_error(shared, "it sends a part that was not asked for");
        };
        let (size, len) = (
            incoming.announcement.size,
            packet.len() - wire::HEADER_BYTES,
        );
        if len == 0 || len as u64 > size - entry.moved {
            return self.protocol_error(shared, "it sends a part of another size than is left");
        }
        match &entry.fragments {
            Fragments::Pieces(pieces) => {
                pieces.unpack(entry.moved, packet.source(wire::HEADER_BYTES));
            }
            fragments => {
                let mut cursor = entry.cursor;
                let into = cursor.take_spans(fragments.as_slice(), len as u64, usize::MAX);
                scatter(&packet, wire::HEADER_BYTES, &into);
                entry.cursor = cursor;
            }
        }
        entry.moved += len as u64;
        if entry.moved == size {
            self.finish(shared, op, Ok(size));
        }
    }

    /// The memory of the next bytes of a message that lies in fragments.
    pub(crate) fn part_of_fragments<M>(shared: &Shared<M>, op: u32, len: usize) -> Spans {
        let entry = &shared.ops[op];
        let mut cursor = entry.cursor;
        cursor.take_spans(entry.fragments.as_slice(), len as u64, usize::MAX)
    }
}
