//! Whole messages that a method writes straight into the memory of the receive that waits for them.
//!
//! A message is matched when its first bytes have arrived: it is the next of its peer, and no other
//! arrives before it is complete. Only its header is decoded then; credit and flags in the header,
//! and the cost of the message, count when the whole message has arrived, as for every other. A
//! receive that is cancelled in between releases its memory at once, and the message is then
//! handled as one that was never matched: it goes to the next receive, or to early memory.

use causeway_transport::{Cursor, Spans};
use causeway_wire::bmi::{Header, Kind};

use super::Conversation;
use super::eager::SENDS_TOO_MUCH;
use super::receiving::post_again;
use crate::credit::cost;
use crate::matcher::Matcher;
use crate::operation::State;
use crate::shared::{Shared, Work};

impl Conversation {
    /// A packet of a header and `size` bytes is arriving. If it is a message that a receive waits
    /// for, puts the receive's memory for it into `into`.
    pub(crate) fn handle_placement<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
        size: usize,
        into: &mut Spans,
    ) -> bool {
        if !self.is_up() || header.kind != Kind::Eager || !self.grant.allows(cost(size)) {
            return false;
        }
        let Some(op) = self.match_receive(shared, header.word) else {
            return false;
        };
        let size = size as u64;
        let entry = &shared.ops[op];
        if size > entry.size || entry.fragments.is_in_pieces() {
            // It fails, or is unpacked, when the whole message has arrived.
            self.ops.remove(&mut shared.ops, op);
            post_again(shared, self, op);
            return false;
        }
        let entry = &mut shared.ops[op];
        into.extend(Cursor::default().spans(entry.fragments.as_slice(), size));
        entry.state = State::Placed { size };
        self.placement = Some(shared.ops.key(op));
        true
    }

    /// The message that [`Conversation::handle_placement`] gave memory for is complete.
    pub(crate) fn handle_placement_done<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
    ) {
        let placement = self.placement.take();
        let Some(op) = placement.and_then(|key| shared.ops.find(key)) else {
            return;
        };
        if !self.is_up() || !self.take_credit_and_flags(shared, header) {
            return;
        }
        let State::Placed { size } = shared.ops[op].state else {
            return;
        };
        let cost = cost(size as usize);
        if !self.grant.allows(cost) {
            return self.protocol_error(shared, SENDS_TOO_MUCH);
        }
        self.offers.arrived();
        self.grant.pass(cost, &mut shared.budget);
        self.traffic
            .received(size as usize, self.id, &mut shared.touched);
        if self.grant.is_due() || self.starved {
            self.mark_dirty(shared);
        }
        self.complete(shared, op, Ok(size));
    }

    /// Has the method keep the message that it is writing into memory.
    pub(super) fn cancel_placement<M>(&mut self, shared: &mut Shared<M>) {
        self.placement = None;
        shared.work.push_back(Work::CancelPlacement(self.key));
    }
}
