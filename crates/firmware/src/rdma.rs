//! The target's and the reader's side of RDMA: writes into memory, read requests and their data.

use causeway_wire::vi::{FrameHeader, RefuseReason, status};

use crate::card::{Breakage, Card, Step};
use crate::engines::HostWork;
use crate::memory::Right;
use crate::pool::NONE;
use crate::receive::{Processed, takes_receive};
use crate::state::{Arrival, Destination, Firmware};
use crate::vi::ReadContext;

impl Firmware {
    /// Processes a frame of an RDMA write.
    pub(crate) fn process_write(
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
        let mut op = NONE;
        if takes_receive(header, bytes) {
            // Earlier writes must be in memory when the message is reported, and no frame may
            // overtake it.
            if self.vi(vi).rx.writes_open > 0 {
                return Processed::Later;
            }
            op = match self.descriptor_for(vi, buffer, card) {
                Ok(op) => op,
                Err(processed) => return processed,
            };
        }
        card.charge(Step::CheckRemote, 1);
        let attributes = self.vi(vi).attributes;
        let (address, handle) = (header.address, header.handle);
        let allowed = attributes.rdma_write
            && self
                .memory
                .allows(handle, address, bytes, attributes.tag, Right::RdmaWrite);
        if !allowed {
            self.drop_incoming(vi, buffer, card);
            if self.vi(vi).is_reliable() {
                self.break_vi(vi, Breakage::Remote, RefuseReason::Protection, card);
            }
            return Processed::Yes;
        }
        self.place_write(vi, buffer, op, header, card);
        Processed::Yes
    }

    /// Starts writing the data of a permitted write; `op` is the receive that it completes, or [`NONE`].
    fn place_write(
        &mut self,
        vi: u32,
        buffer: u32,
        op: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) {
        self.take_incoming(vi);
        let Arrival { bytes, stamp, .. } = self.arrivals[buffer];
        self.vi_mut(vi).rx.assembling = Some((header.message, header.offset + bytes));
        if op != NONE {
            self.ops[op].stamp = stamp;
            self.fill(vi, op, header, status::REMOTE_RDMA_WRITE);
        }
        if bytes == 0 {
            self.nothing_to_place(vi, buffer, header, card);
            if op != NONE {
                self.finish_op_if_done(op, card);
            }
            return;
        }
        self.arrivals[buffer].destination = Destination::Region {
            address: header.address,
            handle: header.handle,
        };
        self.arrivals[buffer].told = op;
        self.vi_mut(vi).rx.writes_open += 1;
        if op != NONE {
            self.ops[op].writes_open += 1;
        }
        self.submit_host(HostWork::WriteData { buffer }, stamp, card);
    }

    /// Processes a peer's read request: queues it for the sending half.
    pub(crate) fn process_request(
        &mut self,
        vi: u32,
        buffer: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) -> Processed {
        card.charge(Step::CheckRemote, 1);
        let attributes = self.vi(vi).attributes;
        let (address, handle, total) = (header.address, header.handle, header.total);
        let stamp = self.arrivals[buffer].stamp;
        self.drop_incoming(vi, buffer, card);
        let allowed = attributes.rdma_read
            && self
                .memory
                .allows(handle, address, total, attributes.tag, Right::RdmaRead);
        if !allowed {
            self.break_vi(vi, Breakage::Remote, RefuseReason::Protection, card);
            return Processed::Yes;
        }
        self.placed(vi, header, card);
        self.vi_mut(vi).rx.reads.push_back(ReadContext {
            message: header.message,
            address,
            handle,
            base: header.offset,
            total,
            sent: 0,
            stamp,
        });
        self.advance_sends(vi, card);
        Processed::Yes
    }

    /// Processes a reply to a read of this end.
    pub(crate) fn process_reply(
        &mut self,
        vi: u32,
        buffer: u32,
        header: &FrameHeader,
        card: &mut impl Card,
    ) -> Processed {
        card.charge(Step::MatchReceive, 1);
        let bytes = self.arrivals[buffer].bytes;
        let fits = self.vi(vi).tx.reads.front().copied().filter(|&op| {
            let op = &self.ops[op];
            op.number == header.message
                && op.read_bytes == header.offset
                && bytes > 0
                && bytes <= op.framed - op.read_bytes
        });
        let Some(op) = fits else {
            return self.reject_out_of_place(vi, buffer, card);
        };
        self.take_incoming(vi);
        self.advance_read(vi, op, bytes);
        self.place(buffer, op, header.offset, card);
        self.advance_sends(vi, card);
        Processed::Yes
    }

    /// Counts bytes of a read that have arrived, and completes the requests that they belong to.
    fn advance_read(&mut self, vi: u32, number: u32, bytes: u32) {
        let op = &mut self.ops[number];
        op.read_bytes += bytes;
        op.reply_done += bytes;
        loop {
            let (_, _, left) = self.slots.remote(op, number, op.reply_at, 0);
            if op.reply_done < left || op.reply_at >= op.remote_segments() {
                break;
            }
            op.reply_done -= left;
            op.reply_at += 1;
            if left > 0 {
                let tx = &mut self.vis[vi as usize].tx;
                let others = tx.requests.checked_sub(1);
                tx.requests = others.expect("a request whose reply has come is counted");
            }
        }
        if op.read_bytes == op.total {
            self.vis[vi as usize].tx.reads.pop_front();
        }
    }
}
