//! Posting sends and receives, of memory in fragments and in pieces.

use causeway_sys::blocks::Target;
use causeway_sys::memory::Memory;

use super::Conversations;
use crate::conversation::Conversation;
use crate::conversation::receiving::Keep;
use crate::fragments::{Fragments, ReceiveBuffer};
use crate::lists::NONE;
use crate::matcher::Matcher;
use crate::pieces::Pieces;
use crate::types::{OpError, OpId, Tag, Taken};

impl<M: Matcher> Conversations<M> {
    /// Asks for a send back, if it still exists.
    pub fn recall(&mut self, op: OpId) {
        if let Some(op) = self.shared.ops.find(op.0) {
            let Self { peers, shared } = self;
            match shared.ops[op].peer {
                NONE => {}
                peer => peers[peer].recall(shared, op),
            }
        }
    }

    /// Posts a receive for a message that was taken out of matching. Returns its result if the
    /// message was whole, or the operation; `None` if the message is gone.
    pub(crate) fn receive_taken(
        &mut self,
        (taken, pattern): (Taken, M::Pattern),
        into: ReceiveBuffer<'_>,
        caller: (u32, u64),
    ) -> Option<Result<Result<u64, OpError>, u32>> {
        let Self { peers, shared } = self;
        let message = shared.early.find(taken.0)?;
        let peer = &mut peers[shared.early[message].peer];
        Some(peer.receive_early(shared, (message, pattern), into, caller))
    }

    /// Posts a receive. Returns its result if its message was held and whole, or the operation.
    pub fn post_receive(
        &mut self,
        pattern: M::Pattern,
        into: &[Memory],
        caller: (u32, u64),
    ) -> Result<Result<u64, OpError>, u32> {
        self.post_receive_into(pattern, ReceiveBuffer::Memory(into), caller)
    }

    /// The same for memory in pieces, with room for `size` bytes.
    pub fn post_receive_pieces(
        &mut self,
        pattern: M::Pattern,
        (pieces, room): (Box<dyn Pieces>, u64),
        caller: (u32, u64),
    ) -> Result<Result<u64, OpError>, u32> {
        self.post_receive_into(pattern, ReceiveBuffer::Pieces(pieces, room), caller)
    }

    /// The same for any memory.
    pub(crate) fn post_receive_into(
        &mut self,
        pattern: M::Pattern,
        into: ReceiveBuffer<'_>,
        caller: (u32, u64),
    ) -> Result<Result<u64, OpError>, u32> {
        let Self { peers, shared } = self;
        if let Some(message) = shared.matcher.take(pattern) {
            let peer = &mut peers[shared.early[message].peer];
            return peer.receive_early(shared, (message, pattern), into, caller);
        }
        let room = into.bytes();
        let key = self.add_receive(caller, pattern, room, Keep::Own(into.keep()));
        Err(key as u32)
    }

    /// Posts a send, behind those that wait.
    pub fn post_send(
        &mut self,
        peer: u32,
        data: &[Memory],
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
    ) -> u32 {
        let size = data.iter().map(|memory| memory.len() as u64).sum();
        let data = (Fragments::share(data), size);
        self.post_waiting(peer, data, tag, caller, unexpected)
    }

    /// The same for memory in pieces, of `size` bytes.
    pub fn post_send_pieces(
        &mut self,
        peer: u32,
        (pieces, size): (Box<dyn Pieces>, u64),
        tag: Tag,
        caller: (u32, u64),
    ) -> u32 {
        let memory = (Fragments::Pieces(pieces), size);
        self.post_waiting(peer, memory, tag, caller, false)
    }

    /// Posts a send that cannot leave at once.
    pub(crate) fn post_waiting(
        &mut self,
        peer: u32,
        data: (Fragments, u64),
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
    ) -> u32 {
        let Self { peers, shared } = self;
        peers[peer].post_waiting(shared, data, tag, caller, unexpected)
    }

    /// Copies the bytes that [`Transmit::Part`](crate::Transmit::Part) means.
    pub fn part(&self, op: u32, len: usize) -> Vec<u8> {
        let entry = &self.shared.ops[op];
        match &entry.fragments {
            Fragments::Pieces(pieces) => {
                let mut part = vec![0; len];
                pieces.pack(entry.moved, Target::from(&mut part[..]));
                part
            }
            _ => {
                let spans = Conversation::part_of_fragments(&self.shared, op, len);
                spans.iter().flat_map(Memory::to_vec).collect()
            }
        }
    }
}
