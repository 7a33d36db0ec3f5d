//! Whole messages that their method writes straight into the memory of the receive that waits for them.
//!
//! A message is matched when its first bytes have come: it is the next of its peer, and no other comes before it
//! is complete. Only its header is looked at then; what the header tells, and what the message costs, count when
//! all of it is here, as for every other. A receive that is cancelled in between lets go of its memory at once,
//! and the message goes on as one that nothing was known of: to the next receive, or to early memory.

use causeway_sys::memory::Memory;
use causeway_wire::bmi::{Header, Kind};

use crate::core::Core;
use crate::credit::cost;
use crate::eager::SENDS_TOO_MUCH;
use crate::fragments::Cursor;
use crate::methods::Methods;
use crate::op::State;

impl Core {
    /// A packet of a header and `size` bytes is arriving: if it is a message that a receive waits for, puts the
    /// receive's memory for it into `into`.
    pub(crate) fn place(
        &mut self,
        peer: u32,
        header: &Header,
        size: usize,
        into: &mut Vec<Memory>,
    ) -> bool {
        let entry = &self.peers[peer];
        if !entry.is_up() || header.kind != Kind::Eager || !entry.grant.allows(cost(size)) {
            return false;
        }
        let Some(op) = self.match_receive(peer, header.word) else {
            return false;
        };
        let entry = &mut self.ops[op];
        let size = size as u64;
        if size > entry.size {
            // It fails when the message is here.
            self.file_first(op);
            return false;
        }
        into.extend(Cursor::default().take(entry.fragments.as_slice(), size, usize::MAX));
        entry.state = State::Landing { size };
        self.peers[peer].landing = Some(self.ops.key(op));
        true
    }

    /// The message that [`Core::place`] gave memory for is complete.
    pub(crate) fn placed(&mut self, peer: u32, header: &Header) {
        let landing = self.peers[peer].landing.take();
        let Some(op) = landing.and_then(|key| self.ops.find(key)) else {
            return;
        };
        if !self.peers[peer].is_up() || !self.take_news(peer, header) {
            return;
        }
        let State::Landing { size } = self.ops[op].state else {
            return;
        };
        let cost = cost(size as usize);
        if !self.peers[peer].grant.allows(cost) {
            return self.condemn(peer, SENDS_TOO_MUCH);
        }
        let entry = &mut self.peers[peer];
        entry.grant.pass(cost, &mut self.budget);
        entry
            .traffic
            .received(size as usize, peer, &mut self.touched);
        if entry.grant.is_due() || entry.starving {
            self.mark_dirty(peer);
        }
        self.complete(op, Ok(size));
    }

    /// Has the method keep what was landing in a receive of this peer's.
    pub(crate) fn take_back(&mut self, methods: &mut Methods, peer: u32) {
        self.peers[peer].landing = None;
        if let Some((method, handle)) = self.peers[peer].link {
            methods.get(method).take_back(handle);
        }
    }
}
