//! Receives, and whole messages that find one.
//!
//! The memory of a waiting receive is held by a reference that many receives share
//! ([`HeldSpans`](causeway_sys::memory::HeldSpans)); an operation that needs more than one copy
//! gets a reference of its own.

use causeway_sys::memory::Memory;
use causeway_transport::Packet;
use causeway_wire::bmi as wire;

use super::Conversation;
use super::eager::{SENDS_TOO_MUCH, deliver};
use crate::credit::cost;
use crate::fragments::{Fragments, ReceiveBuffer, scatter};
use crate::lists::NONE;
use crate::matcher::Matcher;
use crate::operation::{OpKind, State};
use crate::shared::{EarlyBody, NO_QUEUE, Shared, UNLISTED};
use crate::types::{Envelope, OpError, Tag};

/// Posts a receive again, before all others. It was matched, and is in no list.
pub(crate) fn post_again<M: Matcher>(shared: &mut Shared<M>, peer: &mut Conversation, op: u32) {
    let entry = &mut shared.ops[op];
    entry.state = State::Posted;
    if entry.any_peer {
        entry.peer = NONE;
    } else {
        peer.receives += 1;
    }
    shared.matcher.post_again(op);
}

/// How a waiting receive holds its memory.
pub(crate) enum Keep<'a> {
    /// One fragment, by a shared reference.
    Shared(&'a Memory),
    /// By references of its own.
    Own(Fragments),
}

/// Adds a waiting receive; if one peer alone can satisfy its pattern, that is `peer`. Returns its
/// key.
#[inline(always)]
pub(crate) fn add_receive<M: Matcher>(
    shared: &mut Shared<M>,
    peer: Option<&mut Conversation>,
    caller: (u32, u64),
    pattern: M::Pattern,
    room: u64,
    keep: Keep<'_>,
) -> u64 {
    let id = peer.as_ref().map_or(NONE, |peer| peer.id);
    let (key, op) = shared.ops.reuse();
    let index = key as u32;
    op.renew(OpKind::Receive, id, caller, M::tag(pattern), room);
    op.any_peer = id == NONE;
    op.wait_for_message();
    match keep {
        Keep::Shared(memory) => shared.references.hold(memory, &mut op.held),
        Keep::Own(fragments) => op.fragments = fragments,
    }
    shared.matcher.post(index, pattern);
    if let Some(peer) = peer {
        peer.receives += 1;
        peer.touch(shared);
        if room > peer.eager_max {
            peer.consider_offering(shared, index);
        }
    }
    key
}

impl Conversation {
    /// Marks a receive matched with a message of this peer: it no longer waits, and is in no list.
    /// Returns whether it was offered, so that its memory may be exported.
    fn matched<M>(&mut self, shared: &mut Shared<M>, op: u32, tag: Tag) -> bool {
        let entry = &mut shared.ops[op];
        entry.tag = tag;
        let offered = std::mem::take(&mut entry.offered);
        if offered {
            self.offers.was_unused();
        }
        if entry.any_peer {
            entry.peer = self.id;
        } else {
            self.receives -= 1;
        }
        offered
    }

    /// Takes the receive for a message that has yet to be moved. It no longer waits.
    pub(super) fn match_receive<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
    ) -> Option<u32> {
        let op = shared.matcher.arrive(self.id, tag)?;
        self.matched(shared, op, tag);
        self.ops.push_back(&mut shared.ops, op);
        shared.own_memory(op);
        Some(op)
    }

    /// Takes a waiting receive that only this peer can satisfy out of matching: it is to be
    /// completed.
    pub(super) fn withdraw_receive<M: Matcher>(&mut self, shared: &mut Shared<M>, op: u32) {
        shared.matcher.withdraw(op);
        self.receives -= 1;
        self.ops.push_back(&mut shared.ops, op);
    }

    /// Handles a whole expected message.
    #[inline(always)]
    pub(super) fn eager<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        packet: Packet<'_>,
    ) {
        let len = packet.len() - wire::HEADER_BYTES;
        let cost = cost(len);
        if !self.grant.allows(cost) {
            return self.protocol_error(shared, SENDS_TOO_MUCH);
        }
        self.offers.arrived();
        let Some(op) = shared.matcher.arrive(self.id, tag) else {
            return self.eager_without_receive(shared, tag, packet);
        };
        let is_due = self.grant.pass(cost, &mut shared.budget);
        self.traffic.received(len, self.id, &mut shared.touched);
        if is_due || self.starved {
            self.mark_dirty(shared);
        }
        let entry = &mut shared.ops[op];
        let size = len as u64;
        let is_usual = !entry.offered
            && !entry.held.is_empty()
            && size <= entry.size
            && entry.queue != NO_QUEUE;
        if !is_usual {
            return self.eager_otherwise(shared, op, tag, packet);
        }
        entry.tag = tag;
        match entry.any_peer {
            true => entry.peer = self.id,
            false => self.receives -= 1,
        }
        let into = shared.references.get(&entry.held);
        packet.copy_part_to(wire::HEADER_BYTES, len, &into);
        shared.references.release(&mut entry.held);
        entry.moved = size;
        entry.mark_done();
        shared.completions += 1;
        if entry.queue != UNLISTED {
            let queue = &mut shared.queues[entry.queue];
            if let Some(before) = queue.append(op, &mut entry.links) {
                shared.ops[before].links.set_next(op);
            }
        }
        self.release_if_unused(shared);
    }

    /// Handles a whole message for a receive that was offered, has several fragments, or has too
    /// little room.
    #[inline(never)]
    fn eager_otherwise<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        tag: Tag,
        packet: Packet<'_>,
    ) {
        let offered = self.matched(shared, op, tag);
        self.release_if_unused(shared);
        match offered {
            true => self.eager_into_offered(shared, op, packet),
            false => scatter_eager(shared, op, packet),
        }
    }

    /// Handles a whole message for a receive that was offered: the sender has not used the offer.
    #[cold]
    fn eager_into_offered<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        packet: Packet<'_>,
    ) {
        self.ops.push_back(&mut shared.ops, op);
        let entry = &mut shared.ops[op];
        entry.state = State::Finishing;
        let size = (packet.len() - wire::HEADER_BYTES) as u64;
        let room = entry.size;
        let result = match size <= room {
            true => {
                scatter(&packet, wire::HEADER_BYTES, entry.fragments.as_slice());
                Ok(size)
            }
            false => Err(OpError::TooLarge { size, room }),
        };
        self.complete(shared, op, result);
    }

    /// Posts a receive whose message, or the announcement of it, has arrived before:
    /// [`Matcher::take`] has returned it. Returns its result, or the operation.
    pub(crate) fn receive_early<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        (message, pattern): (u32, M::Pattern),
        into: ReceiveBuffer<'_>,
        caller: (u32, u64),
    ) -> Result<Result<u64, OpError>, u32> {
        let room = into.bytes();
        let tag = shared.early[message].tag;
        match self.take_early(shared, message) {
            Some(EarlyBody::Announced(incoming)) => {
                let memory = (into.keep(), room);
                let op = self.add_op(
                    shared,
                    OpKind::Receive,
                    caller,
                    tag,
                    memory,
                    State::Finishing,
                );
                shared.ops[op].any_peer = M::only_peer(pattern).is_none();
                shared.matcher.remember(op, pattern);
                self.match_announced(shared, op, incoming);
                Err(op)
            }
            Some(EarlyBody::Whole(data)) => {
                shared.envelope = Envelope {
                    peer: self.id,
                    tag,
                    size: data.len() as u64,
                };
                let result = deliver(&data, room, |data| into.write(data));
                shared.buffers.put(data);
                Ok(result)
            }
            None => unreachable!("the matcher holds messages that are in the table"),
        }
    }
}

/// Completes a receive with several fragments, with pieces, or with too little room.
fn scatter_eager<M: Matcher>(shared: &mut Shared<M>, op: u32, packet: Packet<'_>) {
    let entry = &mut shared.ops[op];
    let size = (packet.len() - wire::HEADER_BYTES) as u64;
    let room = entry.size;
    if size <= room {
        match &entry.fragments {
            Fragments::Pieces(pieces) => pieces.unpack(0, packet.source(wire::HEADER_BYTES)),
            list => scatter(&packet, wire::HEADER_BYTES, list.as_slice()),
        }
    } else {
        entry.error = Some(Box::new(OpError::TooLarge { size, room }));
    }
    shared.release_memory(op);
    shared.set_done(op, size);
}
