//! The end of a connection, in error or not: everything that was posted is completed as flushed.

use causeway_wire::vi::{RefuseReason, status};

use crate::card::{Breakage, Card, Report};
use crate::descriptor::Phase;
use crate::pool::NONE;
use crate::setup::{Side, ViId};
use crate::state::Firmware;
use crate::vi::State;

impl Firmware {
    /// Puts a virtual interface into the error state, until it is disconnected. The reason is sent
    /// to the peer.
    pub(crate) fn break_vi(
        &mut self,
        vi: u32,
        breakage: Breakage,
        reason: RefuseReason,
        card: &mut impl Card,
    ) {
        let owner = self.vi_mut(vi);
        let was_connected = owner.state == State::Connected;
        if !was_connected && owner.state != State::Idle {
            return;
        }
        owner.state = State::Broken;
        card.report(Report::Broken(ViId(vi), breakage));
        if was_connected {
            self.notify_peer(vi, reason, card);
        }
        self.flush(vi, card);
        // Descriptors whose doorbells were noticed, but which were not taken up, are flushed later.
        self.request_service(vi);
    }

    /// Notifies the peer that this end is closed.
    pub(crate) fn notify_peer(&mut self, vi: u32, reason: RefuseReason, card: &mut impl Card) {
        let control = &mut self.vi_mut(vi).control;
        control.refuse = Some(reason);
        control.ack = false;
        control.gap = false;
        control.probe = false;
        self.send_control(vi, card);
    }

    /// Handles the next virtual interface that has something to flush or to announce.
    pub(crate) fn service_next(&mut self, card: &mut impl Card) {
        let Some(vi) = self.service_queue.pop_front() else {
            return;
        };
        self.vi_mut(vi).needs_service = false;
        if core::mem::take(&mut self.vi_mut(vi).overrun) {
            self.break_vi(vi, Breakage::Overrun, RefuseReason::Closed, card);
        }
        match self.vi(vi).state {
            State::Absent | State::Idle => {}
            State::Connected => self.offer_credit(vi, card),
            State::Closing | State::Broken => {
                if self.vi(vi).state == State::Closing && self.vi(vi).parting {
                    self.vi_mut(vi).parting = false;
                    self.notify_peer(vi, RefuseReason::Closed, card);
                }
                self.flush(vi, card);
                for side in [Side::Send, Side::Receive] {
                    self.take_posted(vi, side, card);
                }
            }
        }
        self.finish_closing(vi);
    }

    /// Drops the connection's frames, and ends operations in progress.
    fn flush(&mut self, vi: u32, card: &mut impl Card) {
        let owner = self.vi_mut(vi);
        owner.tx.overdue_at = None;
        owner.tx.starved = false;
        owner.tx.reads.clear();
        owner.tx.requests = 0;
        owner.rx.ack_at = None;
        owner.rx.reads.clear();
        owner.rx.assembling = None;
        self.set_timer(vi);
        self.drop_frames(vi, card);
        self.drop_arrivals(vi, card);
        for side in [Side::Send, Side::Receive] {
            // Completing an operation never takes another out of the list at once: its status is
            // written first.
            for at in 0..self.vi(vi).queue(side).ops.len() {
                let Some(&op) = self.vi(vi).queue(side).ops.get(at) else {
                    break;
                };
                self.flush_op(op, card);
            }
        }
    }

    fn flush_op(&mut self, number: u32, card: &mut impl Card) {
        let op = &mut self.ops[number];
        op.tail = None;
        if op.done {
            return;
        }
        let complete = op.is_finished() || (op.receives && op.filled);
        if !op.failed() && !complete {
            op.bits |= status::FLUSHED;
            op.length = 0;
        }
        if op.failed() && op.touched {
            op.bits |= status::PARTIAL;
        }
        if op.phase == Phase::Tailgating {
            op.phase = Phase::Given;
        }
        self.finish_op_if_done(number, card);
    }

    fn drop_frames(&mut self, vi: u32, card: &mut impl Card) {
        loop {
            let tx = &mut self.vis[vi as usize].tx;
            let popped = tx.unsent.pop(&mut self.frames);
            let Some(frame) = popped.or_else(|| tx.unacked.pop(&mut self.frames)) else {
                return;
            };
            let frame_ref = &mut self.frames[frame];
            frame_ref.cancelled = true;
            frame_ref.unacked = false;
            if frame_ref.is_over() {
                self.release_frame(frame, card);
            }
        }
    }

    fn drop_arrivals(&mut self, vi: u32, card: &mut impl Card) {
        loop {
            let rx = &mut self.vis[vi as usize].rx;
            let held = rx.held.iter_mut().find(|held| **held != NONE);
            let held = held.map(|held| core::mem::replace(held, NONE));
            self.held -= u32::from(held.is_some());
            let Some(buffer) = held.or_else(|| rx.incoming.pop(&mut self.arrivals)) else {
                return;
            };
            self.free_arrival(buffer, card);
        }
    }
}
