//! A message whose caller waits for it inside of the engine: it goes from its packet into the caller's memory, without a receive.
//!
//! A receive that is posted, found, done and taken costs more than all else that happens to a short message. Where the caller
//! waits for one message anyhow, nobody can see the difference, for as long as three things hold: the message finds no receive that
//! was posted before; none is held that would have to come first; and it fits. Otherwise it is held, which ends this kind of waiting:
//! the receive is posted, and gets it. So it is, too, before the caller yields or sleeps: observers see receives, and a
//! peer's loss ends them.

use causeway_transport::Packet;
use causeway_wire::bmi as wire;

use super::Conversation;
use crate::credit::cost;
use crate::matcher::Matcher;
use crate::shared::Shared;
use crate::types::{Envelope, Tag};

impl Conversation {
    /// A whole message has arrived that no receive waits for.
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
        if is_due || self.starving {
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
