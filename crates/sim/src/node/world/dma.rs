//! Host DMA engines: when the jobs of their channels end, whoever uses the bus meanwhile.

use super::World;
use crate::engine::Time;
use crate::hardware::{Advance, Wake};
use crate::node::events::Event;

impl World {
    /// Carries out the steps of all host DMA engines before `before`, which no event may precede.
    pub(super) fn catch_up(&mut self, before: Time) {
        for node in &mut self.nodes {
            let steps = node.card.catch_up((before, 0));
            if steps > 0 {
                self.events.carried_out(steps);
                self.events.pass(node.card.host_dma.last());
            }
        }
    }

    /// Schedules what the channels of a host DMA engine do next, where that has changed.
    pub(super) fn plan_host_dma(&mut self, node: u32) {
        let card = &mut self.nodes[node as usize].card;
        for channel in 0..card.host_dma.channels() {
            if let Some(Wake { at, channel }) = card.plan(channel) {
                let channel = channel as u32;
                self.events.at(at, Event::HostDma { node, channel });
            }
        }
    }

    /// Has a host DMA engine begin a job: at once, if nothing happens before and no frame waits for its data.
    pub(super) fn begin_host_dma(&mut self, node: u32) {
        let card = &mut self.nodes[node as usize].card;
        if card.host_dma.channels() > 1 {
            self.plan_host_dma(node);
        } else if let Some(Wake { at, channel }) = card.plan(0) {
            if !card.holds_frames() && self.events.goes_on(at) {
                self.host_dma(node, channel);
            } else {
                let channel = channel as u32;
                self.events.at(at, Event::HostDma { node, channel });
            }
        }
    }

    /// Handles a wake of a host DMA engine: the last step of a channel's job before its end, or its end.
    pub(super) fn host_dma(&mut self, node: u32, channel: usize) {
        let card = &mut self.nodes[node as usize].card;
        let holds_frames = card.holds_frames();
        let job = loop {
            let advance = card.advance(self.events.now(), channel);
            self.events.visited(advance.map_or(0, |of| of.steps));
            let Some(Advance { finished, .. }) = advance else {
                return;
            };
            if finished.is_none() && !holds_frames {
                card.advance_while(channel, |at| self.events.goes_on(at));
            }
            if let Some(Wake { at, channel }) = card.plan(channel) {
                if finished.is_none() && !holds_frames && self.events.goes_on(at) {
                    continue;
                }
                let channel = channel as u32;
                self.events.at(at, Event::HostDma { node, channel });
            }
            match finished {
                Some(job) => break job,
                None => {
                    self.job_ahead(node, channel);
                    return;
                }
            }
        };
        if card.host_dma.is_shared() {
            self.plan_host_dma(node);
        }
        let card = &mut self.nodes[node as usize].card;
        let number = job.token as u32;
        if let Some(frame) = card.piece_done(number, job.bytes) {
            self.filled(node, frame);
        }
        let card = &mut self.nodes[node as usize].card;
        let Some(transfer) = card.transfers.get(number) else {
            return;
        };
        if transfer.pieces_left > 0 {
            return;
        }
        let follows = transfer.follows;
        if follows.is_some_and(|buffer| card.coming.iter().any(|coming| coming.buffer == buffer)) {
            card.short.push(number);
        } else if let Some(transfer) = card.transfers.remove(number) {
            self.host_transfer_done(node, &transfer);
        }
    }
}
