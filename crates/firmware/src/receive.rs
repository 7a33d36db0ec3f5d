//! From a frame in a card buffer to its data in host memory.

use causeway_wire::vi::{CONTROL_BYTES, FrameHeader, FrameKind, RefuseReason, flag, status};

use crate::card::{Breakage, Card, Step};
use crate::descriptor::Phase;
use crate::engines::HostWork;
use crate::pool::NONE;
use crate::settings::MAX_WINDOW;
use crate::setup::Side;
use crate::state::{Destination, Firmware};
use crate::vi::State;

/// The outcome for a frame that was next in its connection's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processed {
    /// The frame was removed from the list; the next may follow.
    Yes,
    /// The frame waits: for a descriptor that is being read, or for data before it.
    Later,
}

impl Firmware {
    /// Handles a frame that has arrived.
    pub(crate) fn arrival(&mut self, card: &mut impl Card) {
        let Some(buffer) = self.arrived.pop_front() else {
            return;
        };
        card.charge(Step::CheckNetReceive, 1);
        self.arm_receives(card);
        card.charge(Step::DemuxFrame, 1);
        let arrival = &self.arrivals[buffer];
        let known = arrival.header.filter(|header| {
            let vi = self.vis.get(header.to_vi as usize);
            let is_of_vi =
                vi.is_some_and(|vi| vi.state != State::Absent && vi.is_from_peer(header));
            is_of_vi && !arrival.broken
        });
        let Some(header) = known else {
            self.free_arrival(buffer, card);
            return;
        };
        let vi = header.to_vi;
        self.arrivals[buffer].vi = vi;
        if self.vi(vi).state != State::Connected {
            self.free_arrival(buffer, card);
            if header.has(flag::SEQUENCED) {
                self.refuse_again(vi, card);
            }
            return;
        }
        if header.has(flag::ACK) && self.vi(vi).is_reliable() {
            self.take_ack(vi, &header, card);
        }
        self.sort(vi, buffer, &header, card);
    }

    /// Dispatches a frame by its kind.
    fn sort(&mut self, vi: u32, buffer: u32, header: &FrameHeader, card: &mut impl Card) {
        let reliable = self.vi(vi).is_reliable();
        let unsequenced_data = matches!(header.kind, FrameKind::Send | FrameKind::Write);
        match header.kind {
            FrameKind::Ack => {
                self.free_arrival(buffer, card);
                if reliable && header.has(flag::HURRY) {
                    self.send_ack(vi, card);
                }
            }
            FrameKind::Refuse => {
                self.free_arrival(buffer, card);
                self.refused(vi, RefuseReason::from_code(header.immediate), card);
            }
            _ if header.has(flag::SEQUENCED) != reliable => self.free_arrival(buffer, card),
            _ if reliable => self.sequenced(vi, buffer, card),
            _ if unsequenced_data => self.accept(vi, buffer, card),
            _ => self.free_arrival(buffer, card),
        }
    }

    /// Handles a refusal: the peer reports that its end has broken.
    fn refused(&mut self, vi: u32, reason: RefuseReason, card: &mut impl Card) {
        let (bits, breakage) = match reason {
            RefuseReason::Protection => (status::RDMA_PROTECTION_ERROR, Breakage::Remote),
            RefuseReason::Descriptor => (status::REMOTE_DESCRIPTOR_ERROR, Breakage::Remote),
            RefuseReason::Closed | RefuseReason::Protocol => {
                (status::TRANSPORT_ERROR, Breakage::Peer)
            }
        };
        self.fail_first(vi, bits);
        self.break_vi(vi, breakage, RefuseReason::Closed, card);
    }

    /// Whether a frame that is next in sequence can be accepted; if not, the peer sends it again.
    pub(crate) fn may_accept(&self, vi: u32, buffer: u32) -> bool {
        let (rx, arrival) = (&self.vi(vi).rx, &self.arrivals[buffer]);
        let Some(header) = arrival.header else {
            return false;
        };
        if rx.expected.wrapping_sub(rx.unplaced) >= MAX_WINDOW {
            return false;
        }
        match header.kind {
            FrameKind::ReadRequest => rx.reads.len() < self.settings.limits.reads as usize,
            _ if takes_receive(&header, arrival.bytes) => rx.offered != rx.taken,
            _ => true,
        }
    }

    /// Accepts a frame that is next in the connection's order.
    pub(crate) fn accept(&mut self, vi: u32, buffer: u32, card: &mut impl Card) {
        let arrival = &self.arrivals[buffer];
        let takes = arrival
            .header
            .is_some_and(|header| takes_receive(&header, arrival.bytes));
        let stamp = self.incoming_stamp(vi, buffer, card);
        self.arrivals[buffer].stamp = stamp;
        let rx = &mut self.vis[vi as usize].rx;
        if takes {
            rx.taken = rx.taken.wrapping_add(1);
        }
        rx.incoming.push(&mut self.arrivals, buffer);
        self.process_incoming(vi, card);
    }

    /// VirtualClock at the receiving end: a message is stamped by its first frame.
    fn incoming_stamp(&mut self, vi: u32, buffer: u32, card: &mut impl Card) -> u64 {
        if !self.is_qos_aware() {
            return 0;
        }
        let now = self.now;
        let header = self.arrivals[buffer].header;
        let first = header.is_some_and(|header| header.offset == 0);
        let reserved = self.vi(vi).incoming.is_reserved();
        if !first {
            return self.vi(vi).rx.stamp.max(now);
        }
        card.charge(Step::StampVirtualClock, 1);
        let stamp = match reserved {
            true => self.vi_mut(vi).incoming.stamp(now),
            false => self.shared_incoming.stamp(now),
        };
        self.vi_mut(vi).rx.stamp = stamp;
        stamp
    }

    /// Continues with the connection's frames, in order.
    pub(crate) fn process_incoming(&mut self, vi: u32, card: &mut impl Card) {
        loop {
            let buffer = self.vi(vi).rx.incoming.first();
            if buffer == NONE {
                return;
            }
            let arrival = &self.arrivals[buffer];
            let processed = match arrival.header.filter(|_| !arrival.broken) {
                Some(header) => match header.kind {
                    FrameKind::Send => self.process_send(vi, buffer, &header, card),
                    FrameKind::Write => self.process_write(vi, buffer, &header, card),
                    FrameKind::ReadRequest => self.process_request(vi, buffer, &header, card),
                    FrameKind::ReadReply => self.process_reply(vi, buffer, &header, card),
                    FrameKind::Ack | FrameKind::Refuse => self.drop_incoming(vi, buffer, card),
                },
                None => self.drop_incoming(vi, buffer, card),
            };
            if processed == Processed::Later {
                return;
            }
        }
    }

    /// Removes the first frame from the list.
    pub(crate) fn take_incoming(&mut self, vi: u32) {
        let rx = &mut self.vis[vi as usize].rx;
        rx.incoming.pop(&mut self.arrivals);
    }

    /// Drops the first frame of the list.
    pub(crate) fn drop_incoming(
        &mut self,
        vi: u32,
        buffer: u32,
        card: &mut impl Card,
    ) -> Processed {
        self.take_incoming(vi);
        self.free_arrival(buffer, card);
        Processed::Yes
    }

    /// Drops a frame that contradicts those before it. On an unreliable interface a frame before it was lost; on a reliable one this is a
    /// protocol error and breaks the connection.
    pub(crate) fn reject_out_of_place(
        &mut self,
        vi: u32,
        buffer: u32,
        card: &mut impl Card,
    ) -> Processed {
        self.vi_mut(vi).rx.assembling = None;
        self.drop_incoming(vi, buffer, card);
        if self.vi(vi).is_reliable() {
            self.break_vi(vi, Breakage::Protocol, RefuseReason::Protocol, card);
        }
        Processed::Yes
    }

    /// The next receive descriptor, if it is on the card.
    fn receive_descriptor(&mut self, vi: u32, card: &mut impl Card) -> Result<u32, Processed> {
        loop {
            let owner = self.vi(vi);
            if let Some(&op) = owner.receive.ops.get(owner.rx.filled) {
                return match self.ops[op].phase {
                    Phase::Ready if !self.ops[op].failed() => Ok(op),
                    _ => Err(Processed::Later),
                };
            }
            let limit = self.settings.limits.descriptors_per_queue as usize;
            if owner.receive.noticed == 0 {
                return Err(Processed::Yes);
            }
            if owner.receive.open >= limit {
                return Err(Processed::Later);
            }
            let first = owner.rx.incoming.first();
            self.take_one(vi, Side::Receive, card);
            if self.vi(vi).rx.incoming.first() != first {
                // The descriptor was found at once, and this frame has been processed with it.
                return Err(Processed::Yes);
            }
        }
    }

    /// Finds the receive descriptor for the next frame. If none is posted, the message is dropped (§4.1.2).
    pub(crate) fn descriptor_for(
        &mut self,
        vi: u32,
        buffer: u32,
        card: &mut impl Card,
    ) -> Result<u32, Processed> {
        match self.receive_descriptor(vi, card) {
            Err(Processed::Yes) if self.vi(vi).rx.incoming.first() == buffer => {
                Err(self.reject_out_of_place(vi, buffer, card))
            }
            found => found,
        }
    }

    /// Whether a frame begins a message or continues the one that is coming in, and stays within it.
    pub(crate) fn follows(&self, vi: u32, header: &FrameHeader, bytes: u32) -> bool {
        let expected = self.vi(vi).rx.assembling;
        let end = header.offset.checked_add(bytes);
        (header.offset == 0 || expected == Some((header.message, header.offset)))
            && end.is_some_and(|end| end <= header.total)
    }

    /// Processes a frame of a message for a receive descriptor.
    fn process_send(
        &mut self,
        vi: u32,
        buffer: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) -> Processed {
        let bytes = self.arrivals[buffer].bytes;
        if !self.follows(vi, header, bytes) {
            return self.reject_out_of_place(vi, buffer, card);
        }
        let op = match self.descriptor_for(vi, buffer, card) {
            Ok(op) => op,
            Err(processed) => return processed,
        };
        if header.offset == 0 && self.ops[op].writes_open > 0 {
            // Data of a message that never arrived completely is still being written to the same
            // memory.
            return Processed::Later;
        }
        card.charge(Step::MatchReceive, 1);
        let inside = header.has(flag::PAYLOAD)
            && bytes == header.total
            && bytes <= self.settings.payload_bytes
            && self.reach_of(op) >= CONTROL_BYTES + bytes as usize;
        if !inside && header.total > self.ops[op].total {
            return self.message_too_long(vi, buffer, op, header, card);
        }
        self.take_incoming(vi);
        let end = header.offset + bytes;
        let stamp = self.arrivals[buffer].stamp;
        self.ops[op].stamp = stamp;
        self.vi_mut(vi).rx.assembling = Some((header.message, end));
        if end == header.total {
            self.fill(vi, op, header, status::RECEIVE);
        }
        if inside && bytes > 0 {
            self.ops[op].bits |= status::PAYLOAD;
            self.ops[op].payload = Some((buffer, bytes));
            self.finish_op_if_done(op, card);
        } else if bytes == 0 {
            self.nothing_to_place(vi, buffer, header, card);
            self.finish_op_if_done(op, card);
        } else {
            self.place(buffer, op, header.offset, card);
        }
        Processed::Yes
    }

    /// Starts writing an arrived frame's data to an operation's segments.
    pub(crate) fn place(&mut self, buffer: u32, op: u32, offset: u32, card: &mut impl Card) {
        let arrival = &mut self.arrivals[buffer];
        arrival.destination = Destination::Segments { op, offset };
        let stamp = arrival.stamp;
        self.ops[op].writes_open += 1;
        self.ops[op].touched = true;
        self.submit_host(HostWork::WriteData { buffer }, stamp, card);
    }

    /// Completes a receive descriptor whose message has arrived.
    pub(crate) fn fill(&mut self, vi: u32, op: u32, header: &FrameHeader, operation: u32) {
        let owner = self.vi_mut(vi);
        owner.rx.filled += 1;
        owner.rx.assembling = None;
        let op = &mut self.ops[op];
        op.filled = true;
        op.length = header.total;
        op.bits |= operation;
        if header.has(flag::IMMEDIATE) {
            op.bits |= status::IMMEDIATE;
            op.immediate = header.immediate;
        }
    }

    /// The message is longer than its receive descriptor, which completes with that error.
    fn message_too_long(
        &mut self,
        vi: u32,
        buffer: u32,
        op: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) -> Processed {
        self.drop_incoming(vi, buffer, card);
        self.fill(vi, op, header, status::RECEIVE);
        self.ops[op].bits |= status::LENGTH_ERROR;
        self.ops[op].length = 0;
        if self.vi(vi).is_reliable() {
            self.break_vi(vi, Breakage::Protocol, RefuseReason::Descriptor, card);
        }
        self.finish_op_if_done(op, card);
        Processed::Yes
    }

    /// Counts a frame without data as written at once.
    pub(crate) fn nothing_to_place(
        &mut self,
        vi: u32,
        buffer: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) {
        self.free_arrival(buffer, card);
        self.placed(vi, header, card);
    }

    /// Handles a frame that turned out broken after its data was passed on: the receive's message
    /// is lost. If the frame is known to be the whole message, the receive fails; if not, the rest
    /// is dropped, and the next message uses the descriptor.
    fn lose_message(&mut self, vi: u32, op: u32, message: u32) {
        if self.ops[op].filled {
            self.ops[op].bits |= status::TRANSPORT_ERROR;
            self.ops[op].length = 0;
        } else {
            let assembling = &mut self.vi_mut(vi).rx.assembling;
            assembling.take_if(|(of, _)| *of == message);
        }
    }

    /// Handles an arrived frame's data being in host memory.
    pub(crate) fn data_placed(&mut self, buffer: u32, card: &mut impl Card) {
        let arrival = &self.arrivals[buffer];
        let (vi, header, told) = (arrival.vi, arrival.header, arrival.told);
        let (destination, broken) = (arrival.destination, arrival.broken);
        if let (true, Destination::Segments { op, .. }, Some(header)) =
            (broken, destination, header)
        {
            self.lose_message(vi, op, header.message);
        }
        self.free_arrival(buffer, card);
        let op = match destination {
            Destination::Segments { op, .. } => op,
            Destination::Region { .. } => {
                self.vi_mut(vi).rx.writes_open -= 1;
                told
            }
            Destination::Undecided => NONE,
        };
        if let Some(header) = header {
            self.placed(vi, &header, card);
        }
        if op != NONE {
            self.ops[op].writes_open -= 1;
            self.finish_op_if_done(op, card);
        }
        self.process_incoming(vi, card);
        self.advance_sends(vi, card);
        self.finish_closing(vi);
    }

    /// Handles a message that travelled in descriptors being in host memory, together with its status.
    pub(crate) fn payload_placed(&mut self, buffer: u32, card: &mut impl Card) {
        let (vi, header) = (self.arrivals[buffer].vi, self.arrivals[buffer].header);
        self.free_arrival(buffer, card);
        if let Some(header) = header {
            self.placed(vi, &header, card);
        }
    }
}

/// Whether the frame uses up a receive descriptor: the first of a send, the last of an RDMA write with
/// immediate data.
pub(crate) fn takes_receive(header: &FrameHeader, bytes: u32) -> bool {
    match header.kind {
        FrameKind::Send => header.offset == 0,
        FrameKind::Write => {
            header.has(flag::IMMEDIATE) && header.offset.checked_add(bytes) == Some(header.total)
        }
        _ => false,
    }
}
