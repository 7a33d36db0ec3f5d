//! Whole messages that their method writes straight into the memory of the receive that waits for them.
//!
//! A message is matched when its first bytes have come: it is the next of its peer, and no other comes before it
//! is complete. Only its header is looked at then; what the header tells, and what the message costs, count when
//! all of it is here, as for every other. A receive that is cancelled in between lets go of its memory at once,
//! and the message goes on as one that nothing was known of: to the next receive, or to early memory.

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
    /// A packet of a header and `size` bytes is arriving: if it is a message that a receive waits for, puts the
    /// receive's memory for it into `into`.
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
            // It fails, or is unpacked, when the message is here.
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
        if self.grant.is_due() || self.starving {
            self.mark_dirty(shared);
        }
        self.complete(shared, op, Ok(size));
    }

    /// The message that is being written into memory is to be kept by the method instead.
    pub(super) fn cancel_placement<M>(&mut self, shared: &mut Shared<M>) {
        self.placement = None;
        shared.work.push_back(Work::CancelPlacement(self.key));
    }
}
