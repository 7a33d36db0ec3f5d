//! Arriving frames: they are stored in a buffer when they are complete, or from their header on, so
//! that a host transfer may follow.

use causeway_firmware::{BufferId, Engine as DmaEngine, Input, Side};
use causeway_wire::vi::FrameHeader;

use super::World;
use crate::engine::duration_at;
use crate::node::card::{Begun, CardState, Coming};
use crate::node::events::Event;
use crate::node::record::{Mark, Slice, Stage, Track};

impl World {
    /// With receive-side cut-through: schedules the moment at which a frame that is being sent is
    /// reported to the receiver.
    pub(super) fn announce(&mut self, number: u32, sent: Begun) {
        let Some((arrives, frame)) = sent.arrives.zip(self.frames.get(number)) else {
            return;
        };
        let node = frame.to.0;
        let takes_early = self.nodes.get(node as usize).is_some_and(|node| {
            let settings = node.firmware.settings();
            settings.receive_cut_through && frame.bytes > 0
        });
        if takes_early {
            let body = self
                .network
                .arriving_time(node as usize, u64::from(frame.bytes));
            let header = arrives.saturating_sub(body) + self.profile.net_dma.receive_startup;
            let frame = number;
            self.events.at(header, Event::Begun { node, frame });
        }
    }

    /// Handles the header of a frame. If there is a buffer, and no frame waits for one, it is
    /// reported to the program.
    pub(super) fn begun(&mut self, node: u32, number: u32) {
        let now = self.events.now();
        let card = &mut self.nodes[node as usize].card;
        let Some(frame) = self.frames.get_mut(number).filter(|frame| !frame.has_come) else {
            return;
        };
        if !card.arrived.is_empty() {
            return;
        }
        let Some(buffer) = card.armed.pop_front() else {
            return;
        };
        frame.into = Some(buffer);
        let frame = *frame;
        let bytes = u64::from(frame.bytes);
        let body = self.network.arriving_time(node as usize, bytes);
        card.coming.push(Coming {
            buffer,
            bytes,
            begins: now,
            ends: now + body,
        });
        self.will_be_noticed(Mark {
            at: now,
            node,
            vi: frame.vi,
            side: Side::Receive,
            message: frame.message,
            stage: Stage::Deposited,
        });
        let begun = Input::FrameBegun {
            buffer,
            header: &frame.header,
            bytes: frame.bytes,
        };
        self.input(node, Some(DmaEngine::NetReceive), begun);
    }

    /// Handles a frame that has arrived completely.
    pub(super) fn arrived(&mut self, node: u32, number: u32) {
        let into = self.frames.get_mut(number).and_then(|frame| {
            frame.has_come = true;
            frame.into
        });
        match into {
            Some(buffer) => self.deposit(node, number, buffer),
            None => {
                self.frame_ahead(node, number);
                self.nodes[node as usize].card.arrived.push_back(number);
                self.receive(node);
            }
        }
    }

    fn deposit(&mut self, node: u32, frame: u32, buffer: BufferId) {
        let received = Event::Received {
            node,
            frame,
            buffer: buffer.0,
        };
        self.events
            .after(self.profile.net_dma.receive_startup, received);
    }

    /// Notes that the program will notice a frame, whether complete or begun.
    fn will_be_noticed(&mut self, mark: Mark) {
        if self.record.marks.is_some() {
            let stage = Stage::FrameNoticed;
            let unnoticed = &mut self.nodes[mark.node as usize].card.unnoticed;
            unnoticed.net_receive.push_back(Mark { stage, ..mark });
        }
    }

    /// Lets host transfers move the last burst of a frame that they have caught up with, as it is
    /// complete now.
    fn release_followers(&mut self, node: u32, buffer: BufferId) {
        let card = &mut self.nodes[node as usize].card;
        card.coming.retain(|coming| coming.buffer != buffer);
        let burst = card.bus.spec().burst_bytes;
        let burst = duration_at(burst, card.host_dma.spec().bytes_per_second);
        let CardState {
            transfers, short, ..
        } = card;
        short.retain(|&transfer| {
            let is_of_it = transfers
                .get(transfer)
                .is_none_or(|of| of.follows == Some(buffer));
            if is_of_it {
                self.events.after(burst, Event::Followed { node, transfer });
            }
            !is_of_it
        });
    }

    /// Handles the end of a host transfer that was short of data.
    pub(super) fn followed(&mut self, node: u32, transfer: u32) {
        if let Some(transfer) = self.nodes[node as usize].card.transfers.remove(transfer) {
            self.host_transfer_done(node, &transfer);
        }
    }

    /// Stores a waiting frame in a free buffer.
    pub(super) fn receive(&mut self, node: u32) {
        let card = &mut self.nodes[node as usize].card;
        if card.armed.is_empty() || card.arrived.is_empty() {
            return;
        }
        if let (Some(buffer), Some(frame)) = (card.armed.pop_front(), card.arrived.pop_front()) {
            self.deposit(node, frame, buffer);
        }
    }

    pub(super) fn received(&mut self, node: u32, frame: u32, buffer: u32) {
        let now = self.events.now();
        let Some(frame) = self.frames.remove(frame) else {
            return;
        };
        let mark = Mark {
            at: now,
            node,
            vi: frame.vi,
            side: Side::Receive,
            message: frame.message,
            stage: Stage::Deposited,
        };
        if frame.into.is_none() {
            self.will_be_noticed(mark);
        }
        self.record.mark(mark);
        if self.record.slices.is_some() {
            let message = (frame.message != 0).then_some((frame.from, frame.message));
            let header = FrameHeader::decode(&frame.header).ok();
            let first = header.filter(|header| header.offset == 0);
            if let (Some(message), Some(header)) = (message, first) {
                let card = &mut self.nodes[node as usize].card;
                card.incoming
                    .entry(header.to_vi)
                    .or_default()
                    .push_back(message);
            }
            self.record.slice(Slice {
                node,
                track: Track::NetReceive,
                name: "frame in",
                start: now - self.profile.net_dma.receive_startup,
                end: now,
                message,
            });
        }
        let arrived = Input::FrameArrived {
            buffer: BufferId(buffer),
            header: &frame.header,
            bytes: frame.bytes,
        };
        self.input(node, Some(DmaEngine::NetReceive), arrived);
        if frame.into.is_some() {
            self.release_followers(node, BufferId(buffer));
        }
    }
}
