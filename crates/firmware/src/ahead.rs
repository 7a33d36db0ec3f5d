//! Naming the state that an input or a turn is going to use, so that a driver of many cards, whose state fits in no cache, can have it
//! fetched in time. Nothing depends on whether it does.
//!
//! What is named is found by reading what was named before: first transfers and interfaces, then what these refer to.

use causeway_wire::vi::FrameHeader;

use crate::card::{Engine, Token};
use crate::doorbells::Bells;
use crate::engines::{HostWork, NetWork};
use crate::pool::NONE;
use crate::setup::{Processor, Side, ViId};
use crate::state::{Destination, Firmware};
use crate::vi::Vi;

/// Fetches values into the processor's cache, without waiting.
pub trait Ahead {
    /// Begins to fetch `value`.
    fn read<T: ?Sized>(&self, value: &T);
}

/// Does something with the memory of tables.
pub trait Tables {
    /// A table.
    fn table<T>(&self, table: &[T]);
}

impl Firmware {
    /// Names all tables that grow with the settings' limits.
    pub fn tables(&self, tables: &impl Tables) {
        tables.table(&self.vis);
        tables.table(self.ops.places());
        tables.table(self.frames.places());
        tables.table(self.host_jobs.places());
        tables.table(&self.arrivals.0);
        tables.table(self.slots.bytes());
    }

    /// Names a virtual interface that an input will concern.
    pub fn vi_ahead(&self, vi: ViId, ahead: &impl Ahead) {
        if let Some(vi) = self.vis.get(vi.0 as usize) {
            ahead.read(vi);
        }
    }

    /// Names what a doorbell of an interface, named before, will write to.
    pub fn doorbell_ahead(&self, vi: ViId, side: Side, ahead: &impl Ahead) {
        if let Some(vi) = self.vis.get(vi.0 as usize) {
            let queue = vi.queue(side);
            ahead.read(queue.posted.as_slices().0);
        }
    }

    /// Names the record of a transfer that an engine will finish.
    pub fn transfer_ahead(&self, engine: Engine, token: Token, ahead: &impl Ahead) {
        match engine {
            Engine::Host => {
                if let Some(job) = self.host_jobs.get(token.0) {
                    ahead.read(job);
                }
            }
            Engine::NetSend => {
                if let NetWork::Frame(frame) = NetWork::of_token(token.0)
                    && let Some(frame) = self.frames.get(frame)
                {
                    ahead.read(frame);
                }
            }
            Engine::NetReceive => {}
        }
    }

    /// Names what a transfer, whose record was named before, is for.
    pub fn purpose_ahead(&self, engine: Engine, token: Token, ahead: &impl Ahead) {
        match engine {
            Engine::Host => {
                if let Some(job) = self.host_jobs.get(token.0) {
                    self.vi_ahead(ViId(job.vi), ahead);
                    self.work_ahead(job.work, ahead);
                }
            }
            Engine::NetSend => {
                if let NetWork::Frame(frame) = NetWork::of_token(token.0)
                    && let Some(frame) = self.frames.get(frame)
                {
                    self.vi_ahead(ViId(frame.vi), ahead);
                    self.op_ahead(frame.op, ahead);
                }
            }
            Engine::NetReceive => {}
        }
    }

    /// Names the interface that a frame of this header is for.
    pub fn frame_ahead(&self, header: &[u8], ahead: &impl Ahead) {
        if let Ok(header) = FrameHeader::decode(header) {
            self.vi_ahead(ViId(header.to_vi), ahead);
        }
    }

    /// Names what the next turn of a processor will use, as far as it is known.
    pub fn turn_ahead(&self, processor: Processor, ahead: &impl Ahead) {
        let processor = match processor {
            Processor::First => 0,
            Processor::Second => 1,
        };
        if let Some(&job) = self.host.finished[processor].front()
            && let Some(job) = self.host_jobs.get(job)
        {
            self.work_ahead(job.work, ahead);
            if let Some(vi) = self.vis.get(job.vi as usize) {
                vi.queues_ahead(ahead);
            }
        }
        if let Some(&NetWork::Frame(frame)) = self.net.finished[processor].front()
            && let Some(frame) = self.frames.get(frame)
        {
            self.op_ahead(frame.op, ahead);
            self.vi_ahead(ViId(frame.vi), ahead);
        }
        if let Some(&buffer) = self.arrived.front()
            && let Some(header) = self.arrivals[buffer].header
            && let Some(vi) = self.vis.get(header.to_vi as usize)
        {
            vi.queues_ahead(ahead);
        }
        let rung = match &self.bells[processor] {
            Bells::Queued(queue) => queue.front().copied(),
            Bells::Polled(bells) => bells.rung_ahead(),
        };
        if let Some((vi, _)) = rung {
            self.vi_ahead(ViId(vi), ahead);
        }
    }

    fn op_ahead(&self, op: u32, ahead: &impl Ahead) {
        if op != NONE
            && let Some(of) = self.ops.get(op)
        {
            ahead.read(of);
        }
    }

    fn work_ahead(&self, work: HostWork, ahead: &impl Ahead) {
        match work {
            HostWork::Nothing => {}
            HostWork::ReadDescriptor { op } => {
                self.op_ahead(op, ahead);
                ahead.read(self.slots.get(op));
            }
            HostWork::ReadData { frame, tail } => {
                if let Some(frame) = self.frames.get(frame) {
                    ahead.read(frame);
                }
                self.op_ahead(tail, ahead);
            }
            HostWork::WriteData { buffer } => {
                let arrival = &self.arrivals[buffer];
                ahead.read(arrival);
                if let Destination::Segments { op, .. } = arrival.destination {
                    self.op_ahead(op, ahead);
                }
            }
            HostWork::WriteStatus { op } | HostWork::WriteCompletion { op, .. } => {
                self.op_ahead(op, ahead);
            }
        }
    }
}

impl Vi {
    /// Names the rings of both work queues.
    fn queues_ahead(&self, ahead: &impl Ahead) {
        for queue in [&self.send, &self.receive] {
            ahead.read(queue.posted.as_slices().0);
            ahead.read(queue.ops.as_slices().0);
        }
    }
}
