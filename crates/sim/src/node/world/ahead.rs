//! Fetching state into the cache before the events that use it.
//!
//! The state of a large cluster fits in no cache, and each event comes from another node than the one before: most of an event's time
//! would be waiting for memory. What an event will use is known when it is scheduled, a few hundred events before, and is fetched
//! then. Two or three steps are needed where one part of the state names the next: the transfer that waits third in an engine's queue,
//! then what that transfer names, then what the program has noted about it. Results do not depend on it.

use causeway_firmware::{Ahead, Engine as DmaEngine, Processor, Side, Tables, ViId};

use super::World;
use crate::node::host::State;
use crate::node::transfer::Purpose;

/// The processor's cache.
struct Cache;

impl Ahead for Cache {
    #[inline(always)]
    fn read<T: ?Sized>(&self, value: &T) {
        causeway_sys::prefetch::read(value);
    }
}

/// Puts tables into huge pages.
struct HugePages;

impl Tables for HugePages {
    fn table<T>(&self, table: &[T]) {
        causeway_sys::prefetch::gather(table);
    }
}

impl World {
    /// Puts the nodes' tables into huge pages once, when so much has happened that this is worth it.
    #[inline]
    pub(super) fn gather_after_many(&mut self) {
        if self.events.handled() >= self.gathers_after {
            self.gathers_after = u64::MAX;
            self.gather();
        }
    }

    #[cold]
    fn gather(&self) {
        for node in &self.nodes {
            node.firmware.tables(&HugePages);
            HugePages.table(&node.host.vis);
            HugePages.table(&node.host.memory);
        }
    }

    /// Fetches what the end of the job `next` of a host DMA engine needs, and some of what the jobs do that follow it, which are in the
    /// queue from this place on.
    pub(super) fn jobs_ahead(&self, node: u32, next: Option<u64>, after: usize) {
        if !self.fetches_ahead {
            return;
        }
        let place = &self.nodes[node as usize];
        let dma = &place.card.host_dma;
        // The queue itself is a round long, too.
        if let Some(later) = dma.waiting(after + 4) {
            Cache.read(later);
        }
        if let Some(third) = dma.waiting(after + 1) {
            Cache.read(place.card.transfers.place(third.token as u32));
        }
        if let Some(second) = dma.waiting(after)
            && let Some(transfer) = place.card.transfers.get(second.token as u32)
        {
            let token = transfer.token;
            place
                .firmware
                .transfer_ahead(DmaEngine::Host, token, &Cache);
            if let Some(vi) = place.host.vis.get(transfer.vi as usize) {
                Cache.read(vi);
            }
        }
        if let Some(next) = next {
            self.end_ahead(node, next as u32);
        }
    }

    /// Fetches what the end of a transfer needs, whose own record is in the cache.
    fn end_ahead(&self, node: u32, number: u32) {
        let place = &self.nodes[node as usize];
        let Some(transfer) = place.card.transfers.get(number) else {
            return;
        };
        let token = transfer.token;
        place.card.message_ahead(transfer.message, &Cache);
        place.firmware.purpose_ahead(DmaEngine::Host, token, &Cache);
        match transfer.purpose {
            Purpose::ReadDescriptor | Purpose::ReadData => {
                let (at, bytes) = (transfer.read_at, transfer.read_bytes);
                if bytes > 0 {
                    Cache.read(place.host.bytes_at(at, bytes));
                }
            }
            Purpose::WriteStatus => {
                Cache.read(place.host.next_status(transfer.vi, transfer.side));
            }
            Purpose::WriteData | Purpose::WriteCompletion => {}
        }
    }

    /// Fetches what the next turn of a node's processors needs.
    pub(super) fn turn_ahead(&self, node: u32) {
        if !self.fetches_ahead {
            return;
        }
        let firmware = &self.nodes[node as usize].firmware;
        firmware.turn_ahead(Processor::First, &Cache);
        if firmware.settings().two_processors {
            firmware.turn_ahead(Processor::Second, &Cache);
        }
    }

    /// Fetches what a doorbell needs that a process is about to ring, or has rung; and the interface that it will probably use next.
    pub(super) fn doorbell_ahead(&self, node: u32, process: u32) {
        if !self.fetches_ahead {
            return;
        }
        let place = &self.nodes[node as usize];
        let state = place.host.processes.get(process as usize);
        let Some(State::Ringing { vi, side, .. }) = state.map(|state| state.state) else {
            return;
        };
        place.firmware.vi_ahead(ViId(vi), &Cache);
        place.card.rung_ahead(vi, &Cache);
        let vis = &place.host.vis;
        if let Some(second) = vis.get(vi as usize + 2) {
            Cache.read(second);
        }
        if vis.len() > vi as usize + 1 {
            Cache.read(place.host.next_slot(vi + 1, side));
            Cache.read(place.host.next_slot(vi + 1, Side::Receive));
        }
    }

    /// Fetches where a doorbell that was just rung will be noted.
    pub(super) fn rung_ahead(&self, node: u32, vi: u32, side: Side) {
        if self.fetches_ahead {
            let place = &self.nodes[node as usize];
            place.firmware.doorbell_ahead(ViId(vi), side, &Cache);
            place.card.ring_ahead(vi, &Cache);
        }
    }

    /// Fetches the frame that is to be sent after the one that begins now.
    pub(super) fn next_frame_ahead(&self, node: u32) {
        if self.fetches_ahead
            && let Some(&next) = self.nodes[node as usize].card.net_queue.get(1)
        {
            Cache.read(self.frames.place(next));
        }
    }

    /// Fetches what a frame's having left needs.
    pub(super) fn sent_ahead(&self, node: u32, number: u32) {
        if self.fetches_ahead
            && let Some(frame) = self.frames.get(number)
        {
            let firmware = &self.nodes[node as usize].firmware;
            firmware.transfer_ahead(DmaEngine::NetSend, frame.token, &Cache);
            firmware.vi_ahead(ViId(frame.vi), &Cache);
        }
    }

    /// Fetches the interface that an arrived frame is for.
    pub(super) fn frame_ahead(&self, node: u32, number: u32) {
        if self.fetches_ahead
            && let Some(frame) = self.frames.get(number)
        {
            let firmware = &self.nodes[node as usize].firmware;
            firmware.frame_ahead(&frame.header, &Cache);
        }
    }
}
