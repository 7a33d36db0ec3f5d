//! The host DMA engine's program: when a transfer is passed to the engine, what that costs, and how
//! the message continues when it has finished.

use causeway_wire::vi::{
    COMPLETION_BYTES, Completion, STATUS_BYTES, STATUS_OFFSET, Status, status,
};

use crate::card::{Card, DmaRequest, Engine, Step, Token, Transfer};
use crate::descriptor::Phase;
use crate::engines::{Frame, HostJob, HostWork, Source};
use crate::pool::NONE;
use crate::settings::Discipline;
use crate::setup::{BufferId, QueueId, Side, Time, ViId};
use crate::state::{Destination, Firmware};

impl Firmware {
    /// Submits a transfer to the host DMA engine: starts it if the engine is free, queues it if not.
    pub(crate) fn submit_host(&mut self, work: HostWork, stamp: Time, card: &mut impl Card) {
        let (vi, message, side) = self.on_behalf(work);
        let job = HostJob {
            work,
            stamp,
            vi,
            message,
            processor: self.processor_of(side),
            running: false,
        };
        let Some(job) = self.host_jobs.take(job) else {
            panic!("more host transfers than were counted at set-up");
        };
        if self.host.has_room() && self.host.waiting.is_empty() {
            self.start_host(job, card);
        } else {
            let passed = self.host.waiting.push(stamp, job);
            self.charge_waiting(passed, card);
        }
    }

    /// Charges for queueing a transfer in software.
    pub(crate) fn charge_waiting(&self, passed: u32, card: &mut impl Card) {
        match self.settings.discipline {
            Discipline::Sequential => {}
            Discipline::EventDriven => card.charge(Step::EnqueueSoftware, 1),
            Discipline::QosAware => {
                card.charge(Step::EnqueueSoftware, 1);
                card.charge(Step::InsertByStamp, 1);
                charge_some(Step::PassQueued, passed, card);
            }
        }
    }

    /// Passes the transfers that have waited longest, or have the smallest stamps, to the engine
    /// while it has room.
    pub(crate) fn next_host(&mut self, card: &mut impl Card) {
        while self.host.has_room() {
            let Some(job) = self.host.waiting.pop() else {
                return;
            };
            if !self.is_sequential() {
                card.charge(Step::DequeueSoftware, 1);
            }
            self.start_host(job, card);
        }
    }

    /// The virtual interface, message and side that a transfer is for.
    fn on_behalf(&self, work: HostWork) -> (u32, u64, Side) {
        let of_op = |op: u32| {
            let op = &self.ops[op];
            (op.vi, op.message, op.side())
        };
        match work {
            HostWork::Nothing => (NONE, 0, Side::Send),
            HostWork::ReadDescriptor { op }
            | HostWork::WriteStatus { op }
            | HostWork::WriteCompletion { op, .. } => of_op(op),
            HostWork::ReadData { frame, .. } => {
                let frame = &self.frames[frame];
                (frame.vi, frame.message, Side::Send)
            }
            HostWork::WriteData { buffer } => {
                let arrival = &self.arrivals[buffer];
                let message = match arrival.destination {
                    Destination::Segments { op, .. } => self.ops[op].message,
                    _ => 0,
                };
                (arrival.vi, message, Side::Receive)
            }
        }
    }

    /// Passes a transfer to the engine, which has room.
    fn start_host(&mut self, job: u32, card: &mut impl Card) {
        self.pieces.clear();
        self.tail_pieces.clear();
        let work = self.host_jobs[job].work;
        if let HostWork::ReadData { frame, .. } = work {
            if self.frames[frame].cancelled {
                self.host_jobs.free(job);
                self.frames[frame].reading = false;
                self.release_frame(frame, card);
                return;
            }
            self.attach_tailgating(job, frame);
        }
        self.translate(self.host_jobs[job].work);
        self.charge_host(job, card);
        let HostJob {
            work,
            stamp,
            vi,
            message,
            ..
        } = self.host_jobs[job];
        self.host_jobs[job].running = true;
        let mut status = [0; STATUS_BYTES];
        let mut entry = [0; COMPLETION_BYTES];
        let transfer = self.transfer_of(work, &mut status, &mut entry);
        let request = DmaRequest {
            token: Token(job),
            stamp,
            vi: ViId(vi),
            message,
            transfer,
        };
        card.start_dma(Engine::Host, request);
        self.follow_fill(card);
    }

    /// Cut-through: if the engine is reading a frame's data now, the frame may follow it onto the wire. A transfer that waits in
    /// the engine's own queue is not followed: it would block the frames that may overtake it in the network engine.
    fn follow_fill(&mut self, card: &mut impl Card) {
        if !self.settings.cut_through {
            return;
        }
        let Some(job) = self.host.in_service() else {
            return;
        };
        let HostWork::ReadData { frame, .. } = self.host_jobs[job].work else {
            return;
        };
        if self.frames[frame].fill == NONE {
            self.frames[frame].fill = job;
            self.pump(self.frames[frame].vi, card);
        }
    }

    /// Attaches a waiting descriptor to the transfer of this message's last data (tailgating).
    fn attach_tailgating(&mut self, job: u32, frame: u32) {
        let Frame { op, last, .. } = self.frames[frame];
        if op == NONE || !last {
            return;
        }
        self.ops[op].last_begun = true;
        let Some(next) = self.ops[op].tail.take() else {
            return;
        };
        let (first, reach) = (self.slots.first_bytes(), self.reach_of(next));
        let op = &mut self.ops[next];
        op.phase = Phase::Fetching;
        op.wanted = first.min(reach);
        let (handle, address, bytes) = (op.handle, op.address, op.wanted as u32);
        self.memory
            .translate(handle, address, bytes, &mut self.tail_pieces);
        self.host_jobs[job].work = HostWork::ReadData { frame, tail: next };
    }

    /// Fills `pieces` with the bus addresses of the transfer's bytes.
    fn translate(&mut self, work: HostWork) {
        let (memory, out) = (&self.memory, &mut self.pieces);
        match work {
            HostWork::Nothing => {}
            HostWork::ReadDescriptor { op } => {
                let op = &self.ops[op];
                let from = op.address + op.fetched as u64;
                let bytes = op.left_to_fetch() as u32;
                memory.translate(op.handle, from, bytes, out);
            }
            HostWork::ReadData { frame, .. } => {
                let frame = &self.frames[frame];
                match frame.source {
                    Source::Segments(offset) => {
                        let (op, span) = (&self.ops[frame.op], (offset, frame.bytes));
                        self.slots.translate(op, frame.op, span, memory, out);
                    }
                    Source::Region { address, handle } => {
                        memory.translate(handle, address, frame.bytes, out);
                    }
                    Source::Nothing | Source::Descriptor => {}
                }
            }
            HostWork::WriteData { buffer } => {
                let arrival = &self.arrivals[buffer];
                match arrival.destination {
                    Destination::Segments { op, offset } => {
                        let span = (offset, arrival.bytes);
                        self.slots.translate(&self.ops[op], op, span, memory, out);
                    }
                    Destination::Region { address, handle } => {
                        memory.translate(handle, address, arrival.bytes, out);
                    }
                    Destination::Undecided => {}
                }
            }
            HostWork::WriteStatus { op } => {
                let op = &self.ops[op];
                let bytes = STATUS_BYTES as u32 + op.payload.map_or(0, |(_, bytes)| bytes);
                memory.translate(op.handle, op.address + STATUS_OFFSET as u64, bytes, out);
            }
            HostWork::WriteCompletion { queue, entry, .. } => {
                if let Some(Some(queue)) = self.queues.get(queue as usize) {
                    let bytes = COMPLETION_BYTES as u32;
                    let address = queue.address + u64::from(entry) * u64::from(bytes);
                    memory.translate(queue.handle, address, bytes, out);
                }
            }
        }
    }

    /// Charges for translating the pieces and describing them to the engine.
    fn charge_host(&mut self, job: u32, card: &mut impl Card) {
        let pieces = (self.pieces.len() + self.tail_pieces.len()) as u32;
        card.charge(Step::TranslatePage, pieces);
        card.charge(Step::ProgramPiece, pieces);
        let passed = self.host.begin(self.host_jobs[job].stamp, job);
        if !self.host.hardware {
            card.charge(Step::ProgramHostDma, 1);
            return;
        }
        card.charge(Step::EnqueueHostHardware, pieces);
        if self.is_qos_aware() {
            card.charge(Step::InsertByStamp, pieces);
            charge_some(Step::PassQueued, passed, card);
        }
    }

    /// The transfer in the engine's form.
    fn transfer_of<'a>(
        &'a self,
        work: HostWork,
        status: &'a mut [u8; STATUS_BYTES],
        entry: &'a mut [u8; COMPLETION_BYTES],
    ) -> Transfer<'a> {
        let pieces = &self.pieces[..];
        match work {
            HostWork::Nothing => Transfer::ReadDescriptor {
                side: Side::Send,
                pieces,
            },
            HostWork::ReadDescriptor { op } => Transfer::ReadDescriptor {
                side: self.ops[op].side(),
                pieces,
            },
            HostWork::ReadData { frame, .. } => Transfer::ReadData {
                pieces,
                into: BufferId(self.frames[frame].buffer),
                tail: &self.tail_pieces,
            },
            HostWork::WriteData { buffer } => Transfer::WriteData {
                pieces,
                from: BufferId(buffer),
                follows: self.arrivals[buffer].awaited,
            },
            HostWork::WriteStatus { op } => {
                let op = &self.ops[op];
                *status = Status {
                    immediate: op.immediate,
                    length: op.length,
                    bits: op.bits | status::DONE,
                }
                .to_bytes();
                Transfer::WriteStatus {
                    side: op.side(),
                    pieces,
                    status,
                    payload: op.payload.map(|(buffer, bytes)| (BufferId(buffer), bytes)),
                }
            }
            HostWork::WriteCompletion {
                op, queue, round, ..
            } => {
                let op = &self.ops[op];
                *entry = Completion {
                    descriptor: op.address,
                    vi: op.vi,
                    receive: op.receives,
                    round,
                }
                .to_bytes();
                Transfer::WriteCompletion {
                    queue: QueueId(queue),
                    pieces,
                    entry,
                }
            }
        }
    }

    /// Handles the end of a transfer of the host DMA engine.
    pub(crate) fn host_finished(&mut self, job: u32, card: &mut impl Card) {
        card.charge(Step::CheckHostDma, 1);
        let work = self.host_jobs[job].work;
        self.host_jobs.free(job);
        self.next_host(card);
        self.charge_switch(card);
        match work {
            HostWork::Nothing => {}
            HostWork::ReadDescriptor { op } => self.descriptor_fetched(op, card),
            HostWork::ReadData { frame, tail } => {
                self.data_fetched(frame, card);
                if tail != NONE {
                    self.descriptor_fetched(tail, card);
                }
            }
            HostWork::WriteData { buffer } => self.data_placed(buffer, card),
            HostWork::WriteStatus { op } => self.status_written(op, card),
            HostWork::WriteCompletion { op, queue, .. } => {
                self.wake_queue(queue, card);
                self.close_op(op, card);
            }
        }
        self.follow_fill(card);
    }

    /// Charges for resuming a suspended message, where the discipline suspends messages.
    pub(crate) fn charge_switch(&self, card: &mut impl Card) {
        if !self.is_sequential() {
            card.charge(Step::SwitchState, 1);
        }
    }
}

/// Charges for a step unless its count is zero.
pub(crate) fn charge_some(step: Step, times: u32, card: &mut impl Card) {
    if times > 0 {
        card.charge(step, times);
    }
}
