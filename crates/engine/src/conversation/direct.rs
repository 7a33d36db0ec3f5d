//! Messages for which the caller waits inside the engine: copied from the packet into the caller's
//! memory, without a receive.
//!
//! Posting, finding, completing and testing a receive costs more than everything else that is done
//! for a short message. Where the caller waits for one message anyhow, leaving the receive out
//! changes nothing that can be observed, as long as three conditions hold: no receive that was
//! posted before matches the message; no held message has to be received before it; and the message
//! fits. Otherwise the message is held, which ends this kind of waiting: the receive is posted, and
//! gets it. The receive is also posted before the caller yields or sleeps, so that observers see it
//! and the loss of the peer ends it.

use causeway_transport::Packet;
use causeway_wire::bmi as wire;

use super::Conversation;
use crate::credit::cost;
use crate::matcher::Matcher;
use crate::shared::Shared;
use crate::types::{Envelope, Tag};

impl Conversation {
    /// Handles a whole message that matches no posted receive.
    #[inline(never)]
    pub(super) fn eager_without_receive<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        packet: Packet<'_>,
    ) {
        let len = packet.len() - wire::HEADER_BYTES;
        let is_awaited = shared.matcher.is_awaited_directly(self.id, tag)
            && !shared.direct.has_come()
            && !shared.matcher.holds_messages()
            && len <= shared.direct.room();
        if !is_awaited {
            return self.eager_early(shared, tag, packet);
        }
        let is_due = self.grant.pass(cost(len), &mut shared.budget);
        self.traffic.received(len, self.id, &mut shared.touched);
        if is_due || self.starved {
            self.mark_dirty(shared);
        }
        let into = shared.direct.memory(&shared.references);
        packet.copy_part_to(wire::HEADER_BYTES, len, &into);
        shared.direct.arrived(&mut shared.references, len as u64);
        shared.envelope = Envelope {
            peer: self.id,
            tag,
            size: len as u64,
        };
    }
}
