//! Receives that wait for their message.
//!
//! They are matched first in, first out by (peer, tag). Mostly messages come in the order in which their
//! receives were posted: a new receive is only put behind the others of its peer (`fresh`), and the first of
//! these is looked at when a message comes. If that is not the one, all of them are filed in the table
//! ([`crate::matching`]), once each, so that no order of tags costs more than a look into the table. What is
//! in the table is always older than what is fresh.
//!
//! The memory of a receive that waits is with the [keeper](causeway_sys::memory::Keeper); an operation
//! that something slower than a copy happens to has a reference of its own.

use causeway_transport::Packet;
use causeway_wire::bmi as wire;

use crate::core::{Core, Task};
use crate::credit::cost;
use crate::eager::SENDS_TOO_MUCH;
use crate::fragments::{Fragments, scatter};
use crate::op::{Op, What};
use crate::types::{OpError, Tag};

impl Core {
    /// Adds a receive that waits. Its memory is left to the caller.
    #[inline(always)]
    pub(crate) fn add_receive(
        &mut self,
        peer: u32,
        caller: (u32, u64),
        tag: Tag,
        room: u64,
    ) -> u32 {
        let index = self.ops.reuse(Op::blank);
        let op = &mut self.ops[index];
        op.renew(What::Receive, peer, caller, tag, room);
        op.wait_for_message();
        let entry = &mut self.peers[peer];
        entry.fresh.push_back(&mut self.ops, index);
        entry.traffic.touch(peer, &mut self.touched);
        index
    }

    /// Takes out the oldest receive of (`peer`, `tag`). It is in no list then.
    #[inline(always)]
    fn take_receive(&mut self, peer: u32, tag: Tag) -> Option<u32> {
        let entry = &mut self.peers[peer];
        match entry.fresh.first() {
            Some(first) if entry.filed == 0 && self.ops[first].tag == tag => {
                entry.fresh.remove(&mut self.ops, first);
                Some(first)
            }
            _ => self.take_filed(peer, tag),
        }
    }

    #[inline(never)]
    fn take_filed(&mut self, peer: u32, tag: Tag) -> Option<u32> {
        let mut op = self.posted.pop(&mut self.ops, peer, tag);
        if op.is_none() {
            let fresh = &mut self.peers[peer].fresh;
            let first = fresh.first()?;
            if self.ops[first].tag == tag {
                fresh.remove(&mut self.ops, first);
                return Some(first);
            }
            self.file_receives(peer);
            op = self.posted.pop(&mut self.ops, peer, tag);
        }
        let op = op?;
        let entry = &mut self.peers[peer];
        entry.filed -= 1;
        entry.ops.remove(&mut self.ops, op);
        Some(op)
    }

    /// Puts the fresh receives of a peer into the table.
    pub(crate) fn file_receives(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        while let Some(op) = entry.fresh.first() {
            entry.fresh.remove(&mut self.ops, op);
            entry.ops.push_back(&mut self.ops, op);
            self.posted.push_back(&mut self.ops, op);
            entry.filed += 1;
        }
    }

    /// Takes a receive that waits out of the table, which it is in.
    pub(crate) fn unfile(&mut self, op: u32) {
        let peer = self.ops[op].peer;
        self.posted.remove(&mut self.ops, op);
        self.peers[peer].filed -= 1;
    }

    /// Puts a receive that was matched, and whose message was withdrawn, before all others.
    pub(crate) fn file_first(&mut self, op: u32) {
        let peer = self.ops[op].peer;
        self.file_receives(peer);
        self.posted.push_front(&mut self.ops, op);
        self.peers[peer].filed += 1;
    }

    /// The oldest receive of (`peer`, `tag`), for a message that has yet to be moved. It waits no more.
    pub(crate) fn match_receive(&mut self, peer: u32, tag: Tag) -> Option<u32> {
        let op = self.take_receive(peer, tag)?;
        self.peers[peer].ops.push_back(&mut self.ops, op);
        let entry = &mut self.ops[op];
        if !entry.kept.is_empty() {
            entry.fragments = Fragments::One(self.keeper.look(&entry.kept).clone());
            self.keeper.give_back(&mut entry.kept);
        }
        Some(op)
    }

    /// A whole expected message has arrived.
    #[inline]
    pub(crate) fn eager(&mut self, peer: u32, tag: Tag, packet: Packet<'_>) {
        let len = packet.len() - wire::HEADER_BYTES;
        let cost = cost(len);
        if !self.peers[peer].grant.allows(cost) {
            return self.condemn(peer, SENDS_TOO_MUCH);
        }
        let Some(op) = self.take_receive(peer, tag) else {
            return self.eager_early(peer, tag, packet);
        };
        let entry = &mut self.peers[peer];
        entry.grant.pass(cost, &mut self.budget);
        entry.traffic.received(len, peer, &mut self.touched);
        let is_last = entry.refs == 0 && !entry.has_operations();
        if entry.grant.is_due() || entry.starving {
            self.mark_dirty(peer);
        }
        if is_last {
            self.tasks.push_back(Task::Release(self.peers.key(peer)));
        }
        let entry = &mut self.ops[op];
        let size = len as u64;
        if entry.kept.is_empty() || size > entry.size {
            return self.scatter_eager(op, packet);
        }
        let into = self.keeper.look(&entry.kept);
        packet.copy_part_to(wire::HEADER_BYTES, len, &into);
        self.keeper.give_back(&mut entry.kept);
        self.set_done(op, size);
    }

    /// Ends a receive that is not the usual one: it has several fragments, or too little room.
    #[inline(never)]
    fn scatter_eager(&mut self, op: u32, packet: Packet<'_>) {
        let entry = &mut self.ops[op];
        let size = (packet.len() - wire::HEADER_BYTES) as u64;
        let room = entry.size;
        if size <= room {
            scatter(&packet, wire::HEADER_BYTES, entry.fragments.as_slice());
        } else {
            entry.error = Some(Box::new(OpError::TooLarge { size, room }));
        }
        entry.fragments = Fragments::None;
        if !entry.kept.is_empty() {
            self.keeper.give_back(&mut entry.kept);
        }
        self.set_done(op, size);
    }
}
