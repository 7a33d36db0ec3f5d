//! Cutting messages into frames, as many at a time as windows, credit and card memory allow, and
//! sending them in order.

use causeway_wire::vi::{FrameHeader, FrameKind, RefuseReason, control, flag};

use crate::buffers::Use;
use crate::card::{Breakage, Card, Step};
use crate::descriptor::Phase;
use crate::engines::{Frame, HostWork, NetWork, Source};
use crate::memory::Right;
use crate::pool::NONE;
use crate::setup::Side;
use crate::state::Firmware;
use crate::vi::State;

/// The result of trying to make a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// A frame was made, or an operation ended without one.
    Yes,
    /// Nothing can be made until something else has happened.
    No,
}

impl Firmware {
    /// Makes frames while that is possible, alternating between replies to the peer's reads and messages of its own.
    pub(crate) fn advance_sends(&mut self, vi: u32, card: &mut impl Card) {
        while self.vi(vi).state == State::Connected {
            let reply = self.make_reply(vi, card);
            let message = self.make_message_frame(vi, card);
            if reply == Made::No && message == Made::No {
                return;
            }
        }
    }

    /// Whether the connection's window admits another frame.
    fn window_is_open(&self, vi: u32) -> bool {
        let owner = self.vi(vi);
        let used_up = owner.is_reliable() && owner.window_used() >= self.settings.reliable.window;
        let busy = self.is_sequential() && owner.tx.moving > 0;
        !used_up && !busy
    }

    /// Takes a slot for a frame, and a card buffer if it has data. If there is none, the virtual
    /// interface is queued for it.
    fn frame_room(&mut self, vi: u32, wants_buffer: bool) -> bool {
        if self.frames.has_room() && (!wants_buffer || self.buffers.has_for_sending()) {
            return true;
        }
        if !core::mem::replace(&mut self.vi_mut(vi).tx.stalled, true) {
            let owner = self.vi(vi);
            let next = owner.send.ops.get(owner.tx.made);
            let stamp = next.map_or(0, |&op| self.ops[op].stamp);
            self.stalled.push(stamp, vi);
        }
        false
    }

    /// Whether there is room for a virtual interface that waits for room.
    pub(crate) fn may_resume(&self) -> bool {
        !self.stalled.is_empty() && self.frames.has_room() && self.buffers.has_for_sending()
    }

    /// Resumes a virtual interface that waited for room.
    pub(crate) fn resume(&mut self, card: &mut impl Card) {
        if let Some(vi) = self.stalled.pop() {
            self.vi_mut(vi).tx.stalled = false;
            self.charge_switch(card);
            self.advance_sends(vi, card);
            self.finish_closing(vi);
        }
    }

    /// The header that all frames of this connection begin with.
    fn header(&mut self, vi: u32, kind: FrameKind) -> FrameHeader {
        let node = self.settings.node;
        let window = self.settings.reliable.window;
        let owner = self.vi_mut(vi);
        let mut header = FrameHeader::new(kind);
        if let Some(connection) = owner.connection {
            header.to_vi = connection.vi.0;
            header.from_node = node.0;
            header.from_vi = vi;
            header.key = connection.key;
        }
        if owner.is_reliable() {
            header.flags |= flag::SEQUENCED;
            header.sequence = owner.tx.next_sequence;
            owner.tx.next_sequence = owner.tx.next_sequence.wrapping_add(1);
            if owner.window_used() >= window {
                header.flags |= flag::HURRY;
            }
        }
        header
    }

    /// Adds a frame: fetches its data, or marks it as ready.
    fn add_frame(&mut self, frame: Frame, card: &mut impl Card) {
        let Frame { vi, op, stamp, .. } = frame;
        let reads = matches!(frame.source, Source::Segments(_) | Source::Region { .. });
        let mut frame = frame;
        frame.reading = reads;
        if reads {
            match self.buffers.take(Use::Sending) {
                Some(buffer) => frame.buffer = buffer,
                None => panic!("a frame without a buffer that was counted for it"),
            }
            card.charge(Step::TakeBuffer, 1);
        }
        let Some(number) = self.frames.take(frame) else {
            panic!("a frame without the room that was counted for it");
        };
        let tx = &mut self.vis[vi as usize].tx;
        tx.frames += 1;
        tx.moving += 1;
        tx.unsent.push(&mut self.frames, number);
        if op != NONE {
            self.ops[op].frames_open += 1;
            self.ops[op].moving += 1;
        }
        if reads {
            let work = HostWork::ReadData {
                frame: number,
                tail: NONE,
            };
            self.submit_host(work, stamp, card);
        } else {
            self.pump(vi, card);
        }
    }

    /// Handles a frame's data being on the card.
    pub(crate) fn data_fetched(&mut self, frame: u32, card: &mut impl Card) {
        self.frames[frame].reading = false;
        if self.frames[frame].is_over() {
            self.release_frame(frame, card);
            return;
        }
        let vi = self.frames[frame].vi;
        self.pump(vi, card);
    }

    /// Moves frames to the network engine's queue in the order in which they were made.
    pub(crate) fn pump(&mut self, vi: u32, card: &mut impl Card) {
        loop {
            let first = self.vi(vi).tx.unsent.first();
            if first == NONE || !self.frames[first].may_leave() {
                return;
            }
            let reliable = self.vi(vi).is_reliable();
            let tx = &mut self.vis[vi as usize].tx;
            tx.unsent.pop(&mut self.frames);
            if reliable {
                tx.unacked.push(&mut self.frames, first);
                self.frames[first].unacked = true;
            }
            self.submit_net(NetWork::Frame(first), card);
        }
    }

    /// Makes the next frame of a reply to the peer's reads.
    fn make_reply(&mut self, vi: u32, card: &mut impl Card) -> Made {
        let tag = self.vi(vi).attributes.tag;
        let Some(&read) = self.vi(vi).rx.reads.front() else {
            return Made::No;
        };
        if !self.window_is_open(vi) || !self.frame_room(vi, true) {
            return Made::No;
        }
        let address = read.address.wrapping_add(read.sent.into());
        let bytes = (read.total - read.sent).min(self.settings.frame_bytes);
        let handle = read.handle;
        if !self
            .memory
            .allows(handle, address, bytes, tag, Right::RdmaRead)
        {
            self.break_vi(vi, Breakage::Remote, RefuseReason::Protection, card);
            return Made::No;
        }
        let last = read.sent + bytes == read.total;
        let mut header = self.header(vi, FrameKind::ReadReply);
        header.message = read.message;
        header.offset = read.base.wrapping_add(read.sent);
        header.total = read.total;
        if last {
            header.flags |= flag::HURRY;
        }
        let reads = &mut self.vi_mut(vi).rx.reads;
        if last {
            reads.pop_front();
        } else if let Some(read) = reads.front_mut() {
            read.sent += bytes;
        }
        let frame = Frame {
            vi,
            header,
            source: match bytes {
                0 => Source::Nothing,
                _ => Source::Region { address, handle },
            },
            bytes,
            stamp: read.stamp,
            last,
            ..Frame::default()
        };
        self.add_frame(frame, card);
        Made::Yes
    }

    /// Makes the next frame of the virtual interface's own messages.
    fn make_message_frame(&mut self, vi: u32, card: &mut impl Card) -> Made {
        let tx = &self.vi(vi).tx;
        let Some(&op) = self.vi(vi).send.ops.get(tx.made) else {
            return Made::No;
        };
        if self.ops[op].phase != Phase::Ready || self.ops[op].failed() {
            return Made::No;
        }
        if !self.ops[op].begun && !self.may_begin(vi, op) {
            return Made::No;
        }
        if !self.window_is_open(vi)
            || self.ops[op].moving >= self.settings.limits.frames_per_message
            || (self.ops[op].is_read() && self.vi(vi).tx.requests >= self.settings.limits.reads)
            || !self.frame_room(vi, self.ops[op].has_host_data())
        {
            return Made::No;
        }
        if !core::mem::replace(&mut self.ops[op].begun, true) {
            self.begin_message(vi, op);
        }
        if self.ops[op].is_read() {
            self.make_request(vi, op, card);
        } else {
            self.make_data_frame(vi, op, card);
        }
        if self.ops[op].all_made {
            self.vi_mut(vi).tx.made += 1;
        }
        // Reads of no bytes are complete by now.
        self.finish_op_if_done(op, card);
        Made::Yes
    }

    /// Whether fences and credit allow a message to begin.
    fn may_begin(&mut self, vi: u32, op: u32) -> bool {
        let wants_receive = self.ops[op].wants_receive();
        let fenced = self.ops[op].has(control::FENCE);
        let owner = self.vi_mut(vi);
        if fenced && !owner.tx.reads.is_empty() {
            return false;
        }
        if owner.is_reliable() && wants_receive && owner.tx.credit == owner.tx.spent {
            owner.tx.starved = true;
            self.await_ack(vi);
            return false;
        }
        true
    }

    fn begin_message(&mut self, vi: u32, number: u32) {
        let op = &mut self.ops[number];
        let tx = &mut self.vis[vi as usize].tx;
        op.number = tx.next_message;
        tx.next_message = tx.next_message.wrapping_add(1);
        if op.wants_receive() {
            tx.spent = tx.spent.wrapping_add(1);
        }
        if op.is_read() && op.total > 0 {
            tx.reads.push_back(number);
        }
    }

    /// Skips remote segments of no bytes, and returns where the next byte is to be written:
    /// address, handle, bytes that may follow.
    fn remote(&mut self, number: u32) -> (u64, u32, u32) {
        let op = &mut self.ops[number];
        loop {
            let span = self.slots.remote(op, number, op.remote_at, op.remote_done);
            if span.2 > 0 || op.remote_at + 1 >= op.remote_segments() {
                return span;
            }
            op.remote_at += 1;
            op.remote_done = 0;
        }
    }

    /// Makes the read request for the next remote segment.
    fn make_request(&mut self, vi: u32, number: u32, card: &mut impl Card) {
        let (address, handle, bytes) = self.remote(number);
        let op = &mut self.ops[number];
        if bytes == 0 {
            op.all_made = true;
            return;
        }
        let (message, offset, stamp) = (op.number, op.framed, op.stamp);
        let trace = op.message;
        op.framed += bytes;
        op.remote_done += bytes;
        op.all_made = op.framed == op.total;
        let mut header = self.header(vi, FrameKind::ReadRequest);
        header.message = message;
        header.offset = offset;
        header.total = bytes;
        header.address = address;
        header.handle = handle;
        self.vi_mut(vi).tx.requests += 1;
        let frame = Frame {
            vi,
            op: number,
            header,
            stamp,
            message: trace,
            ..Frame::default()
        };
        self.add_frame(frame, card);
    }

    /// Makes a frame of a send or an RDMA write.
    fn make_data_frame(&mut self, vi: u32, number: u32, card: &mut impl Card) {
        let is_write = self.ops[number].is_write();
        let (address, handle, span) = match is_write {
            true => self.remote(number),
            false => (0, 0, u32::MAX),
        };
        let kind = match is_write {
            true => FrameKind::Write,
            false => FrameKind::Send,
        };
        let mut header = self.header(vi, kind);
        let op = &mut self.ops[number];
        let bytes = (op.total - op.framed)
            .min(span)
            .min(self.settings.frame_bytes);
        let offset = op.framed;
        op.framed += bytes;
        op.remote_done += bytes;
        op.all_made = op.framed == op.total;
        header.message = op.number;
        header.offset = offset;
        header.total = op.total;
        header.address = address;
        header.handle = handle;
        if op.has(control::IMMEDIATE) {
            header.flags |= flag::IMMEDIATE;
            header.immediate = op.control.immediate;
        }
        if op.has(control::PAYLOAD) {
            header.flags |= flag::PAYLOAD;
        }
        if op.all_made {
            header.flags |= flag::HURRY;
        }
        let source = match bytes {
            0 => Source::Nothing,
            _ if op.has(control::PAYLOAD) => Source::Descriptor,
            _ => Source::Segments(offset),
        };
        let frame = Frame {
            vi,
            op: number,
            header,
            source,
            bytes,
            stamp: op.stamp,
            message: op.message,
            last: op.all_made,
            ..Frame::default()
        };
        assert_eq!(op.side(), Side::Send, "a receive is sent");
        self.add_frame(frame, card);
    }
}
