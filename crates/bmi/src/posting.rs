//! What the calls of [`Bmi`] share: handles, sends and receives that go the usual way, and those that
//! have to wait.

use crate::core::{Core, MAX_OPERATIONS};
use crate::eager::Sent;
use crate::fragments::{Fragments, total};
use crate::op::{State, What};
use crate::peer::{EarlyBody, Phase};
use crate::types::{Addr, Context, Error, OpId, Posted, Tag};
use crate::{Bmi, Memory, at_once};

/// The first two do what a small message needs and answer little, so that
/// their callers in other crates can be inlined: an answer with room for every error is slow to hand on.
impl Bmi {
    /// Sends a message if it can leave at once and whole; answers its size.
    #[inline(never)]
    pub(crate) fn send_now(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
    ) -> Option<u64> {
        let peer = self.core.peers.find(to.0)?;
        self.core.contexts.find(context.0)?;
        let size = total(data).ok()?;
        let (core, methods) = (&mut self.core, &mut self.methods);
        let sent = core.try_eager_now(methods, peer, data, size, tag, false);
        (sent == Sent::Yes).then_some(size)
    }

    /// Posts a receive of one fragment from a peer that is there, if no message waits anywhere.
    #[inline(never)]
    pub(crate) fn receive_later(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Option<OpId> {
        let core = &mut self.core;
        let [memory] = into else { return None };
        let peer = core.peers.find(from.0)?;
        let context = core.contexts.find(context.0)?;
        let usual = core.early_table.is_empty()
            && core.peers[peer].is_up()
            && memory.is_writable()
            && memory.len() as u64 <= causeway_wire::bmi::MAX_MESSAGE_BYTES
            && core.ops.len() < MAX_OPERATIONS;
        if !usual {
            return None;
        }
        let room = memory.len() as u64;
        let op = core.add_receive(peer, (context, user), tag, room);
        core.keeper.keep(memory, &mut core.ops[op].kept);
        Some(OpId(core.ops.key(op)))
    }

    #[inline]
    pub(crate) fn peer(&self, addr: Addr) -> Result<u32, Error> {
        self.core.peers.find(addr.0).ok_or(Error::Stale("address"))
    }

    #[inline]
    pub(crate) fn handles(&self, addr: Addr, context: Context) -> Result<(u32, u32), Error> {
        let context = self.core.contexts.find(context.0);
        Ok((self.peer(addr)?, context.ok_or(Error::Stale("context"))?))
    }

    #[inline]
    pub(crate) fn post_message(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
        unexpected: bool,
    ) -> Result<Posted, Error> {
        let (peer, context) = self.handles(to, context)?;
        let size = total(data)?;
        let limit = self.core.tuning.unexpected_limit as u64;
        if unexpected && size > limit {
            return Err(Error::UnexpectedTooLarge { size, limit });
        }
        let methods = &mut self.methods;
        let sent = self
            .core
            .try_eager_now(methods, peer, data, size, tag, unexpected);
        if sent == Sent::Yes {
            return Ok(at_once(user, Ok(size)));
        }
        self.post_waiting(peer, data, size, tag, (context, user), unexpected)
    }

    /// A send that cannot go at once.
    pub(crate) fn post_waiting(
        &mut self,
        peer: u32,
        data: &[Memory],
        size: u64,
        tag: Tag,
        caller: (u32, u64),
        unexpected: bool,
    ) -> Result<Posted, Error> {
        let user = caller.1;
        // The attempt may just have found out that the peer is gone.
        self.settle();
        if let Some(refused) = self.reachable(peer, user) {
            return Ok(refused);
        }
        let what = if unexpected {
            What::SendUnexpected
        } else {
            What::Send
        };
        let memory = (Fragments::share(data), size);
        let op = self.add(what, peer, caller, tag, memory, State::Queued)?;
        let entry = &mut self.core.peers[peer];
        if unexpected {
            entry.unexpected.push_back(op);
        } else {
            entry.expected.push_back(op);
        }
        self.core.connect(&mut self.methods, peer);
        if self.core.peers[peer].is_up() {
            self.core.mark_dirty(peer);
        }
        Ok(self.posted(op, user))
    }

    /// Refuses one operation more than there may be.
    #[inline]
    pub(crate) fn check_operations(&self) -> Result<(), Error> {
        if self.core.ops.len() >= MAX_OPERATIONS {
            return Err(Error::Limit {
                what: "operations in progress",
                limit: MAX_OPERATIONS,
            });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn add(
        &mut self,
        what: What,
        peer: u32,
        caller: (u32, u64),
        tag: Tag,
        memory: (Fragments, u64),
        state: State,
    ) -> Result<u32, Error> {
        self.check_operations()?;
        Ok(self.core.add_op(what, peer, caller, tag, memory, state))
    }

    /// A receive whose message, or its announcement, may have come before it.
    #[inline(never)]
    pub(crate) fn receive_early(
        &mut self,
        peer: u32,
        into: &[Memory],
        room: u64,
        tag: Tag,
        caller: (u32, u64),
    ) -> Result<Option<Posted>, Error> {
        let core = &mut self.core;
        let Some(index) = core.early_table.pop(&mut core.early, peer, tag) else {
            return Ok(None);
        };
        Ok(match core.take_early(index) {
            Some(EarlyBody::Whole(data)) => {
                let result = Core::deliver(&data, into, room);
                self.settle();
                Some(at_once(caller.1, result))
            }
            Some(EarlyBody::Announced(incoming)) => {
                let memory = (Fragments::share(into), room);
                let op = self.add(What::Receive, peer, caller, tag, memory, State::Queued)?;
                self.core.match_announced(op, incoming);
                Some(self.posted(op, caller.1))
            }
            None => None,
        })
    }

    /// The completion of an operation whose peer is gone for good.
    pub(crate) fn reachable(&self, peer: u32, user: u64) -> Option<Posted> {
        match &self.core.peers[peer].phase {
            Phase::Gone(cause) => {
                let error = self.core.peer_error(peer, cause.clone());
                Some(at_once(user, Err(error)))
            }
            _ => None,
        }
    }

    /// What to answer for an operation that was just added: it may be done already.
    pub(crate) fn posted(&mut self, op: u32, user: u64) -> Posted {
        let id = OpId(self.core.ops.key(op));
        self.settle();
        match self.core.take_done(id) {
            Ok(Some(done)) => at_once(user, done.result),
            _ => Posted::Pending(id),
        }
    }
}
