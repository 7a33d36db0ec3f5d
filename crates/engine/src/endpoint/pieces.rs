//! Messages in pieces: posting them, and sending their parts.

use causeway_sys::blocks::Target;
use causeway_transport::SendError;
use causeway_wire::bmi::{Header, MAX_MESSAGE_BYTES};

use super::Endpoint;
use super::posting::at_once;
use crate::conversation::Conversation;
use crate::fragments::{Fragments, ReceiveBuffer};
use crate::matcher::Matcher;
use crate::pieces::Pieces;
use crate::types::{Addr, Error, OpError, Posted, Queue, Tag, Taken};

impl<M: Matcher> Endpoint<M> {
    /// The largest message that travels whole to a peer, in bytes; 0 before there is a connection.
    pub fn largest_whole(&self, to: Addr) -> u64 {
        self.find(to)
            .map_or(0, |peer| self.conversations.peers[peer].eager_max)
    }

    /// Sends a message of this many bytes that lies in pieces. It completes when its receive has
    /// been found and all of it was copied. Both instances need to support parts
    /// ([`Config::in_parts`](crate::types::Config::in_parts)).
    pub fn post_send_pieces(
        &mut self,
        to: Addr,
        message: (Box<dyn Pieces>, u64),
        tag: Tag,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        let (peer, queue) = (self.peer(to)?, self.queue_to_post(queue)?);
        check_size(message.1)?;
        self.settle();
        if let Some(refused) = self.refuse_if_gone(peer, user) {
            return Ok(refused);
        }
        self.conversations.shared.check_operations()?;
        let op = (self.conversations).post_send_pieces(peer, message, tag, (queue, user));
        self.connect(peer);
        Ok(self.posted(op, user))
    }

    /// Receives the next message that matches `pattern` into pieces that have room for `size` bytes, otherwise as
    /// [`Endpoint::post_receive`] does.
    pub fn post_receive_pieces(
        &mut self,
        pattern: M::Pattern,
        (pieces, size): (Box<dyn Pieces>, u64),
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        check_size(size)?;
        self.receive(pattern, ReceiveBuffer::Pieces(pieces, size), queue, user)
    }

    /// The same for a message that was taken ([`Endpoint::receive_taken`]).
    pub fn receive_taken_pieces(
        &mut self,
        (taken, pattern): (Taken, M::Pattern),
        (pieces, size): (Box<dyn Pieces>, u64),
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        check_size(size)?;
        self.receive_taken_into(
            (taken, pattern),
            ReceiveBuffer::Pieces(pieces, size),
            queue,
            user,
        )
    }

    /// Receives a message that was taken.
    pub(super) fn receive_taken_into(
        &mut self,
        message: (Taken, M::Pattern),
        into: ReceiveBuffer<'_>,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        let caller = (self.queue_to_post(queue)?, user);
        self.conversations.shared.check_operations()?;
        match self.conversations.receive_taken(message, into, caller) {
            None => Ok(at_once(user, Err(OpError::Withdrawn))),
            Some(Ok(result)) => {
                self.settle();
                self.flush_control();
                Ok(at_once(user, result))
            }
            Some(Err(op)) => Ok(self.posted(op, user)),
        }
    }

    /// Sends the next part of a message.
    pub(super) fn send_part(
        &mut self,
        peer: u32,
        header: &Header,
        (op, len): (u32, usize),
    ) -> Result<(), SendError> {
        let Some((method, handle)) = self.connections.link(peer) else {
            return Err(SendError::WouldBlock);
        };
        let shared = &self.conversations.shared;
        let method = self.methods.get(method);
        let entry = &shared.ops[op];
        let Fragments::Pieces(pieces) = &entry.fragments else {
            let part = Conversation::part_of_fragments(shared, op, len);
            return method.send_gather(handle, &header.encode(), &part, &mut self.scratch);
        };
        let fill = |into: Target<'_>| pieces.pack(entry.moved, into);
        method.send_filled(handle, &header.encode(), (len, &fill), &mut self.scratch)
    }
}

fn check_size(size: u64) -> Result<(), Error> {
    match size <= MAX_MESSAGE_BYTES {
        true => Ok(()),
        false => Err(Error::Limit {
            what: "bytes of a message",
            limit: i64::MAX as usize,
        }),
    }
}
