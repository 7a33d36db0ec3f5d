//! The end of a descriptor: writing its status and its completion queue's entry, and releasing its slot.

use crate::card::{Card, Step};
use crate::engines::HostWork;
use crate::setup::{QueueId, Side};
use crate::state::Firmware;

impl Firmware {
    /// Completes an operation for which nothing more will happen.
    pub(crate) fn finish_op_if_done(&mut self, op: u32, card: &mut impl Card) {
        if self.ops[op].done || !self.ops[op].is_finished() {
            return;
        }
        self.ops[op].done = true;
        let (vi, side) = (self.ops[op].vi, self.ops[op].side());
        self.report_first(vi, side, card);
    }

    /// Writes the status of a work queue's first descriptor if that is done: one at a time, so that they
    /// complete in order even if the engine finishes writes in another one.
    fn report_first(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        let queue = self.vi(vi).queue(side);
        let Some(&op) = queue.ops.front() else {
            return;
        };
        if queue.reporting || !self.ops[op].done {
            return;
        }
        self.vi_mut(vi).queue_mut(side).reporting = true;
        card.charge(Step::BuildStatus, 1);
        let stamp = self.ops[op].stamp;
        self.submit_host(HostWork::WriteStatus { op }, stamp, card);
    }

    /// A descriptor's status is in host memory: the host can see that it is complete.
    pub(crate) fn status_written(&mut self, op: u32, card: &mut impl Card) {
        let (vi, side) = (self.ops[op].vi, self.ops[op].side());
        if let Some((buffer, _)) = self.ops[op].payload.take() {
            self.payload_placed(buffer, card);
        }
        let owner = self.vi_mut(vi);
        // A receive that was flushed before its frames were made, or before its message came, was not counted.
        match side {
            Side::Send => owner.tx.made = owner.tx.made.saturating_sub(1),
            Side::Receive => owner.rx.filled = owner.rx.filled.saturating_sub(1),
        }
        let queue = owner.queue_mut(side);
        queue.reporting = false;
        queue.ops.pop_front();
        self.wake_work_queue(vi, side, card);
        match self.completion_queue_of(vi, side) {
            Some(queue) => self.write_completion(op, queue, card),
            None => self.close_op(op, card),
        }
        self.report_first(vi, side, card);
    }

    fn completion_queue_of(&self, vi: u32, side: Side) -> Option<QueueId> {
        let attributes = &self.vi(vi).attributes;
        match side {
            Side::Send => attributes.send_queue,
            Side::Receive => attributes.receive_queue,
        }
    }

    fn write_completion(&mut self, op: u32, queue: QueueId, card: &mut impl Card) {
        let Some(Some(completions)) = self.queues.get_mut(queue.0 as usize) else {
            self.close_op(op, card);
            return;
        };
        let (entry, round) = (completions.next, completions.round);
        completions.next += 1;
        if completions.next == completions.entries {
            completions.next = 0;
            completions.round = !round;
        }
        card.charge(Step::BuildCompletion, 1);
        let stamp = self.ops[op].stamp;
        let work = HostWork::WriteCompletion {
            op,
            queue: queue.0,
            entry,
            round,
        };
        self.submit_host(work, stamp, card);
    }

    /// Frees a completed descriptor's slot; a posted descriptor that waited for a slot is taken up.
    pub(crate) fn close_op(&mut self, number: u32, card: &mut impl Card) {
        let op = &self.ops[number];
        assert!(
            op.tail.is_none(),
            "a descriptor waits for data that was moved"
        );
        let (vi, side) = (op.vi, op.side());
        if op.best_effort {
            self.best_effort_open -= 1;
        }
        self.ops.free(number);
        self.vi_mut(vi).queue_mut(side).open -= 1;
        self.take_posted(vi, side, card);
        if side == Side::Receive {
            self.process_incoming(vi, card);
        }
        self.finish_closing(vi);
    }
}
