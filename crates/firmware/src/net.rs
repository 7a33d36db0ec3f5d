//! The network send engine's program: when a frame is passed to the engine, what its header
//! contains, and what happens when it has been sent.

use causeway_wire::vi::{CONTROL_BYTES, FrameHeader, FrameKind, flag};

use crate::card::{Body, Card, DmaRequest, Engine, Step, Token, Transfer};
use crate::engines::{NetWork, Source};
use crate::host::charge_some;
use crate::pool::NONE;
use crate::setup::{BufferId, NodeId, ViId};
use crate::state::Firmware;

impl Firmware {
    /// Submits a frame to the network send engine: starts it if the engine is free, queues it if not.
    pub(crate) fn submit_net(&mut self, work: NetWork, card: &mut impl Card) {
        let stamp = match work {
            NetWork::Frame(frame) => {
                let frame = &mut self.frames[frame];
                frame.queued = true;
                if frame.buffer != NONE {
                    self.buffers.share(frame.buffer);
                }
                frame.stamp
            }
            NetWork::Control(vi) => {
                let stamp = if self.is_qos_aware() { self.now } else { 0 };
                let control = &mut self.vi_mut(vi).control;
                control.queued = true;
                control.stamp = stamp;
                stamp
            }
        };
        if self.net.has_room() && self.net.waiting.is_empty() {
            self.start_net(work, card);
        } else {
            let passed = self.net.waiting.push(stamp, work);
            self.charge_waiting(passed, card);
        }
    }

    /// Passes the next frames to the engine while it has room.
    pub(crate) fn next_net(&mut self, card: &mut impl Card) {
        while self.net.has_room() {
            let Some(work) = self.net.waiting.pop() else {
                return;
            };
            if !self.is_sequential() {
                card.charge(Step::DequeueSoftware, 1);
            }
            self.start_net(work, card);
        }
    }

    fn start_net(&mut self, work: NetWork, card: &mut impl Card) {
        match work {
            NetWork::Frame(frame) => self.start_frame(frame, card),
            NetWork::Control(vi) => self.start_control(vi, card),
        }
    }

    fn start_frame(&mut self, number: u32, card: &mut impl Card) {
        let frame = &self.frames[number];
        let acknowledged = frame.header.has(flag::SEQUENCED) && !frame.unacked;
        if frame.cancelled || acknowledged {
            self.frame_left(number, card);
            return;
        }
        let (vi, stamp) = (frame.vi, frame.stamp);
        let mut header = frame.header;
        self.carry_ack(vi, &mut header);
        let header = header.to_bytes();
        self.charge_net(stamp, NetWork::Frame(number), card);
        self.frames[number].running = true;
        let frame = &self.frames[number];
        let body = match frame.source {
            Source::Nothing => Body::Inline(&[]),
            Source::Descriptor => {
                let bytes = &self.slots.get(frame.op)[CONTROL_BYTES..];
                Body::Inline(&bytes[..(frame.bytes as usize).min(bytes.len())])
            }
            Source::Segments(_) | Source::Region { .. } => {
                Body::Buffer(BufferId(frame.buffer), frame.bytes)
            }
        };
        let follows = (frame.fill != NONE).then_some(Token(frame.fill));
        let request = DmaRequest {
            token: Token(NetWork::Frame(number).token()),
            stamp,
            vi: ViId(vi),
            message: frame.message,
            transfer: Transfer::Transmit {
                to: self.peer_of(vi),
                header: &header,
                body,
                follows,
            },
        };
        card.start_dma(Engine::NetSend, request);
    }

    fn start_control(&mut self, vi: u32, card: &mut impl Card) {
        let Some(connection) = self.vi(vi).connection else {
            self.vi_mut(vi).control.queued = false;
            return;
        };
        let node = self.settings.node;
        let control = &mut self.vi_mut(vi).control;
        let (refuse, wanted) = (
            control.refuse.take(),
            control.ack | control.gap | control.probe,
        );
        let mut header = FrameHeader {
            to_vi: connection.vi.0,
            from_node: node.0,
            from_vi: vi,
            key: connection.key,
            ..FrameHeader::new(FrameKind::Ack)
        };
        if let Some(reason) = refuse {
            header.kind = FrameKind::Refuse;
            header.immediate = reason as u32;
            control.refused = refuse;
        } else if !wanted {
            // A data frame has carried the content of the control frame: that is not sent.
            control.queued = false;
            self.finish_closing(vi);
            return;
        } else if core::mem::take(&mut control.probe) {
            header.flags |= flag::HURRY;
        }
        if core::mem::take(&mut control.gap) {
            header.flags |= flag::GAP;
        }
        control.running = true;
        let stamp = control.stamp;
        self.carry_ack(vi, &mut header);
        let header = header.to_bytes();
        self.charge_net(stamp, NetWork::Control(vi), card);
        let request = DmaRequest {
            token: Token(NetWork::Control(vi).token()),
            stamp,
            vi: ViId(vi),
            message: 0,
            transfer: Transfer::Transmit {
                to: connection.node,
                header: &header,
                body: Body::Inline(&[]),
                follows: None,
            },
        };
        card.start_dma(Engine::NetSend, request);
    }

    fn peer_of(&self, vi: u32) -> NodeId {
        self.vi(vi)
            .connection
            .map_or(NodeId(NONE), |connection| connection.node)
    }

    fn charge_net(&mut self, stamp: u64, work: NetWork, card: &mut impl Card) {
        card.charge(Step::BuildHeader, 1);
        let passed = self.net.begin(stamp, work);
        if !self.net.hardware {
            card.charge(Step::ProgramNetSend, 1);
            return;
        }
        card.charge(Step::EnqueueNetHardware, 1);
        if self.is_qos_aware() {
            card.charge(Step::InsertByStamp, 1);
            charge_some(Step::PassQueued, passed, card);
        }
    }

    /// Handles the end of a transfer of the network send engine.
    pub(crate) fn net_finished(&mut self, work: NetWork, card: &mut impl Card) {
        card.charge(Step::CheckNetSend, 1);
        self.next_net(card);
        self.charge_switch(card);
        match work {
            NetWork::Frame(frame) => self.frame_left(frame, card),
            NetWork::Control(vi) => {
                let control = &mut self.vi_mut(vi).control;
                control.queued = false;
                if control.ack | control.gap | control.probe || control.refuse.is_some() {
                    self.submit_net(NetWork::Control(vi), card);
                }
                self.finish_closing(vi);
            }
        }
    }

    /// A frame has been sent, and is out of the engine's queue.
    fn frame_left(&mut self, number: u32, card: &mut impl Card) {
        let frame = &mut self.frames[number];
        frame.queued = false;
        let (vi, buffer) = (frame.vi, frame.buffer);
        if buffer != NONE {
            self.buffers.release(buffer);
        }
        self.frame_moved(number);
        let frame = &self.frames[number];
        if frame.is_over() {
            self.release_frame(number, card);
        } else if frame.unacked {
            self.await_ack(vi);
            self.advance_sends(vi, card);
        }
    }

    /// Counts a frame as neither being fetched nor being sent.
    pub(crate) fn frame_moved(&mut self, number: u32) {
        let frame = &mut self.frames[number];
        if core::mem::replace(&mut frame.moved, true) {
            return;
        }
        let (vi, op) = (frame.vi, frame.op);
        self.vi_mut(vi).tx.moving -= 1;
        if op != NONE {
            self.ops[op].moving -= 1;
        }
    }

    /// Frees a frame that is acknowledged, or never will be.
    pub(crate) fn release_frame(&mut self, number: u32, card: &mut impl Card) {
        let frame = &self.frames[number];
        assert!(
            !frame.queued && !frame.reading,
            "an engine has frame {number}"
        );
        self.frame_moved(number);
        let frame = &self.frames[number];
        let (vi, op, buffer) = (frame.vi, frame.op, frame.buffer);
        if buffer != NONE {
            self.buffers.release(buffer);
            card.charge(Step::FreeBuffer, 1);
        }
        self.frames.free(number);
        self.vi_mut(vi).tx.frames -= 1;
        if op != NONE {
            self.ops[op].frames_open -= 1;
            self.finish_op_if_done(op, card);
        }
        self.advance_sends(vi, card);
        self.finish_closing(vi);
    }
}
