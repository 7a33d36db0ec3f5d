//! From a rung doorbell to a descriptor on the card that has been checked.

use causeway_wire::vi::{CONTROL_BYTES, DESCRIPTOR_ALIGN, RefuseReason, status};

use crate::card::{Breakage, Card, Report, Step};
use crate::descriptor::{Op, Phase, Rules, Verdict};
use crate::engines::HostWork;
use crate::memory::Right;
use crate::settings::ReceiveDescriptors;
use crate::setup::{Side, ViId};
use crate::state::Firmware;

impl Firmware {
    /// Handles a doorbell that was found rung.
    pub(crate) fn doorbell(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        card.charge(Step::DequeueDoorbell, 1);
        self.notice(vi, side, card);
        let queue = self.vi(vi).queue(side);
        let still_rung = queue.noticed < queue.posted.len();
        let processor = self.processor_of(side);
        self.bells[processor].noticed(vi, side, still_rung);
        self.take_posted(vi, side, card);
    }

    /// Counts one more posted descriptor as noticed, and stamps it.
    fn notice(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        let (now, qos) = (self.now, self.is_qos_aware());
        self.messages += 1;
        let message = self.messages;
        let vi = self.vi_mut(vi);
        let clock = match side {
            Side::Send => &mut vi.outgoing,
            Side::Receive => &mut vi.incoming,
        };
        // Best effort is stamped when its descriptor is taken up. For a receive's doorbell only the
        // descriptor is fetched; its message is stamped when it arrives.
        let is_reserved = side == Side::Send && clock.is_reserved();
        let stamp = match (is_reserved, qos) {
            (true, _) => clock.stamp(now),
            (false, true) => now,
            (false, false) => 0,
        };
        let queue = vi.queue_mut(side);
        let Some(posted) = queue.posted.get_mut(queue.noticed) else {
            return;
        };
        posted.message = message;
        posted.stamp = stamp;
        queue.noticed += 1;
        if is_reserved {
            card.charge(Step::StampVirtualClock, 1);
        }
        if side == Side::Receive {
            vi.rx.offered = vi.rx.offered.wrapping_add(1);
        }
    }

    /// Notices a receive without its doorbell: the program reads it when a message needs one.
    pub(crate) fn notice_silently(&mut self, vi: u32) {
        self.messages += 1;
        let message = self.messages;
        let vi = self.vi_mut(vi);
        if let Some(posted) = vi.receive.posted.get_mut(vi.receive.noticed) {
            posted.message = message;
            vi.receive.noticed += 1;
            vi.rx.offered = vi.rx.offered.wrapping_add(1);
        }
    }

    /// Takes up posted descriptors that have been noticed, while there is room.
    pub(crate) fn take_posted(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        let limit = self.settings.limits.descriptors_per_queue as usize;
        let on_arrival = self.settings.receive_descriptors == ReceiveDescriptors::OnArrival;
        loop {
            let works = self.vi(vi).executes(side);
            let queue = self.vi(vi).queue(side);
            if queue.noticed == 0 || queue.open >= limit {
                break;
            }
            if works && side == Side::Receive && on_arrival {
                break;
            }
            if works && side == Side::Send && self.waits_for_best_effort(vi) {
                break;
            }
            self.take_one(vi, side, card);
        }
        if side == Side::Receive {
            self.offer_credit(vi, card);
        }
    }

    /// Whether the next send is best effort and has to wait until others end. If so, it is queued.
    fn waits_for_best_effort(&mut self, vi: u32) -> bool {
        if !self.is_qos_aware()
            || self.vi(vi).outgoing.is_reserved()
            || self.best_effort_open < self.settings.best_effort.in_progress
        {
            return false;
        }
        if !core::mem::replace(&mut self.vi_mut(vi).tx.queued_best_effort, true) {
            self.best_effort.push_back(vi);
        }
        true
    }

    /// Lets the longest-waiting best-effort message begin.
    pub(crate) fn admit_best_effort(&mut self, card: &mut impl Card) {
        if let Some(vi) = self.best_effort.pop_front() {
            self.vi_mut(vi).tx.queued_best_effort = false;
            // A message that finds no room goes to the end of the queue.
            self.take_posted(vi, Side::Send, card);
            self.finish_closing(vi);
        }
    }

    /// Whether a waiting best-effort message may begin.
    pub(crate) fn may_admit_best_effort(&self) -> bool {
        !self.best_effort.is_empty()
            && self.best_effort_open < self.settings.best_effort.in_progress
    }

    /// Takes up the first posted descriptor.
    pub(crate) fn take_one(&mut self, vi: u32, side: Side, card: &mut impl Card) {
        let places = self.settings.limits.posted_per_queue as usize;
        let queue = self.vi_mut(vi).queue_mut(side);
        let Some(posted) = queue.posted.pop_front() else {
            return;
        };
        queue.noticed -= 1;
        let place = queue.shadow_front;
        queue.shadow_front = (place + 1) % places;
        let (works, tag) = (self.vi(vi).executes(side), self.vi(vi).attributes.tag);
        let reachable = posted.address.is_multiple_of(DESCRIPTOR_ALIGN)
            && self
                .memory
                .reach(posted.handle, posted.address, tag, Right::Local)
                .is_some_and(|reach| reach >= CONTROL_BYTES as u64);
        let op = Op {
            vi,
            receives: side == Side::Receive,
            phase: Phase::Fetching,
            address: posted.address,
            handle: posted.handle,
            stamp: posted.stamp,
            message: posted.message,
            ..Op::default()
        };
        let taken = if reachable { self.ops.take(op) } else { None };
        let Some(op) = taken else {
            card.report(Report::Unreachable {
                vi: ViId(vi),
                side,
                address: posted.address,
            });
            self.break_vi(vi, Breakage::DescriptorAddress, RefuseReason::Closed, card);
            self.finish_closing(vi);
            return;
        };
        let queue = self.vi_mut(vi).queue_mut(side);
        let before = queue.ops.back().copied();
        queue.open += 1;
        queue.ops.push_back(op);
        if !works {
            self.ops[op].phase = Phase::Given;
            self.ops[op].bits |= status::FLUSHED;
            self.finish_op_if_done(op, card);
            return;
        }
        self.stamp_best_effort(op, card);
        if posted.shadowed > 0 {
            self.take_shadow(op, place, posted.shadowed as usize, card);
        } else if side == Side::Send && self.can_tailgate(before) {
            self.ops[op].phase = Phase::Tailgating;
            if let Some(before) = before {
                self.ops[before].tail = Some(op);
            }
        } else {
            self.fetch(op, card);
        }
    }

    fn stamp_best_effort(&mut self, op: u32, card: &mut impl Card) {
        let vi = self.ops[op].vi;
        let reserved = self.vi(vi).outgoing.is_reserved();
        if self.is_qos_aware() && !self.ops[op].receives && !reserved {
            card.charge(Step::StampVirtualClock, 1);
            self.ops[op].stamp = self.shared_outgoing.stamp(self.now);
            self.ops[op].best_effort = true;
            self.best_effort_open += 1;
        }
    }

    fn take_shadow(&mut self, op: u32, place: usize, bytes: usize, card: &mut impl Card) {
        card.charge(Step::ReadShadow, 1);
        let Op { vi, receives, .. } = self.ops[op];
        let queue = match receives {
            true => &self.vis[vi as usize].receive,
            false => &self.vis[vi as usize].send,
        };
        let at = place * self.slots.slot_bytes();
        let shadow = queue.shadow.get(at..at + bytes).unwrap_or(&[]);
        self.ops[op].fetched = self.slots.fill(op, 0, shadow);
        self.descriptor_fetched(op, card);
    }

    /// Whether the data of the message before has yet to be read, so that a descriptor can be read along with it.
    fn can_tailgate(&self, before: Option<u32>) -> bool {
        let Some(before) = before.filter(|_| self.settings.tailgating) else {
            return false;
        };
        let op = &self.ops[before];
        match op.phase {
            Phase::Fetching | Phase::Tailgating => true,
            // The last frame of that message is not made yet, or waits for the engine.
            Phase::Ready => op.has_host_data() && !op.failed() && !op.last_begun,
            Phase::Given => false,
        }
    }

    /// How many bytes from the descriptor's beginning may be read.
    pub(crate) fn reach_of(&self, op: u32) -> usize {
        let op = &self.ops[op];
        let tag = self.vi(op.vi).attributes.tag;
        let reach = self
            .memory
            .reach(op.handle, op.address, tag, Right::Local)
            .unwrap_or(0);
        reach.min(self.slots.slot_bytes() as u64) as usize
    }

    /// Reads the descriptor onto the card.
    fn fetch(&mut self, op: u32, card: &mut impl Card) {
        let wanted = self.slots.first_bytes().min(self.reach_of(op));
        let stamp = self.ops[op].stamp;
        self.ops[op].phase = Phase::Fetching;
        self.ops[op].wanted = wanted;
        self.submit_host(HostWork::ReadDescriptor { op }, stamp, card);
    }

    /// Handles a descriptor whose bytes are on the card: all of them, or the first.
    pub(crate) fn descriptor_fetched(&mut self, op: u32, card: &mut impl Card) {
        let Op { vi, receives, .. } = self.ops[op];
        let side = self.ops[op].side();
        if !self.vi(vi).executes(side) || self.ops[op].failed() {
            // A descriptor that waits to be read along with its data is flushed with the rest of the queue.
            self.ops[op].tail = None;
            self.ops[op].phase = Phase::Given;
            self.ops[op].bits |= status::FLUSHED;
            self.finish_op_if_done(op, card);
            return;
        }
        card.charge(Step::ParseDescriptor, 1);
        match self.verdict(op) {
            Verdict::Good => {
                self.ops[op].phase = Phase::Ready;
                self.ops[op].immediate = self.ops[op].control.immediate;
                self.ops[op].length = self.ops[op].total;
                if receives {
                    self.process_incoming(vi, card);
                } else {
                    self.begin_send(op, card);
                }
            }
            Verdict::Longer(bytes) => {
                self.ops[op].wanted = bytes;
                let stamp = self.ops[op].stamp;
                self.submit_host(HostWork::ReadDescriptor { op }, stamp, card);
            }
            Verdict::Bad(bits) => {
                self.ops[op].phase = Phase::Given;
                self.ops[op].bits |= bits;
                self.break_vi(vi, Breakage::Descriptor, RefuseReason::Closed, card);
                self.finish_op_if_done(op, card);
            }
        }
    }

    fn verdict(&mut self, number: u32) -> Verdict {
        let reach = self.reach_of(number);
        let vi = self.vi(self.ops[number].vi);
        let rules = Rules {
            memory: &self.memory,
            tag: vi.attributes.tag,
            reliable: vi.is_reliable(),
            payload_bytes: self.settings.payload_bytes,
            segments: self.settings.limits.segments as usize,
        };
        let op = &mut self.ops[number];
        let short = op.fetched < op.wanted;
        match rules.check(op, number, &self.slots) {
            Verdict::Longer(_) if short => Verdict::Bad(status::FORMAT_ERROR),
            Verdict::Longer(bytes) if bytes > reach => Verdict::Bad(status::PROTECTION_ERROR),
            verdict => verdict,
        }
    }

    /// Begins to carry out a checked descriptor of the send queue.
    fn begin_send(&mut self, op: u32, card: &mut impl Card) {
        let Op { vi, total, .. } = self.ops[op];
        if self.is_qos_aware() {
            self.vi_mut(vi).outgoing.charge_excess(total);
        }
        if !self.ops[op].has_host_data()
            && let Some(next) = self.ops[op].tail.take()
        {
            self.fetch(next, card);
        }
        self.advance_sends(vi, card);
    }
}
