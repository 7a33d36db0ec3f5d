//! The reliable levels: sequence numbers, acknowledgements, credit, frames sent again.

use causeway_wire::vi::{FrameHeader, RefuseReason, flag, status};

use crate::card::{Breakage, Card, Step};
use crate::engines::NetWork;
use crate::pool::NONE;
use crate::settings::{MAX_WINDOW, Retransmission};
use crate::setup::{Reliability, Side};
use crate::state::Firmware;
use crate::vi::{State, Vi};

/// The largest stretch of a timeout, in doublings.
const MOST_DOUBLINGS: u32 = 6;

impl Vi {
    /// Everything before this sequence number has arrived, or (reliable reception) is in place.
    fn ack(&self) -> u32 {
        match self.attributes.reliability {
            Reliability::Reception => self.rx.unplaced,
            Reliability::Delivery | Reliability::Unreliable => self.rx.expected,
        }
    }

    /// Which frames beyond [`Vi::ack`] have arrived.
    fn ahead(&self) -> u32 {
        let held = self.rx.held.iter().enumerate();
        let bits = held.fold(0_u32, |bits, (at, &buffer)| {
            bits | u32::from(buffer != NONE) << at
        });
        let shift = self.rx.expected.wrapping_sub(self.ack());
        bits.checked_shl(shift).unwrap_or(0)
    }
}

impl Firmware {
    /// Puts the latest acknowledgement into an outgoing frame.
    pub(crate) fn carry_ack(&mut self, vi: u32, header: &mut FrameHeader) {
        let owner = self.vi_mut(vi);
        if !owner.is_reliable() || owner.state != State::Connected {
            owner.control.ack = false;
            return;
        }
        header.flags |= flag::ACK;
        header.ack = owner.ack();
        header.ahead = owner.ahead();
        header.credit = owner.rx.offered;
        owner.rx.told = owner.rx.offered;
        owner.rx.unacknowledged = 0;
        owner.rx.ack_at = None;
        owner.control.ack = false;
        self.set_timer(vi);
    }

    /// Queues a frame with nothing but the content of `control`.
    pub(crate) fn send_control(&mut self, vi: u32, card: &mut impl Card) {
        if !self.vi(vi).control.queued && self.vi(vi).connection.is_some() {
            self.submit_net(NetWork::Control(vi), card);
        }
    }

    pub(crate) fn send_ack(&mut self, vi: u32, card: &mut impl Card) {
        self.vi_mut(vi).control.ack = true;
        self.send_control(vi, card);
    }

    /// Repeats the reason why this end is broken.
    pub(crate) fn refuse_again(&mut self, vi: u32, card: &mut impl Card) {
        let control = &mut self.vi_mut(vi).control;
        control.refuse = control.refused.or(Some(RefuseReason::Closed));
        self.send_control(vi, card);
    }

    /// Announces new receive descriptors to the peer, if it may be waiting for them or there are many.
    pub(crate) fn offer_credit(&mut self, vi: u32, card: &mut impl Card) {
        let many = self.settings.limits.posted_per_queue / 2;
        let owner = self.vi(vi);
        if !owner.is_reliable() || owner.state != State::Connected {
            return;
        }
        let news = owner.rx.offered.wrapping_sub(owner.rx.told);
        let left = owner.rx.told.wrapping_sub(owner.rx.taken);
        if news > 0 && (left == 0 || news >= many) {
            self.send_ack(vi, card);
        }
    }

    /// Makes an acknowledgement due after a while, unless one is due already.
    pub(crate) fn await_ack(&mut self, vi: u32) {
        let doublings = self.vi(vi).tx.silent.min(MOST_DOUBLINGS);
        let timeout = self
            .settings
            .reliable
            .timeout
            .saturating_mul(1 << doublings);
        let at = self.now.saturating_add(timeout);
        self.vi_mut(vi).tx.overdue_at.get_or_insert(at);
        self.set_timer(vi);
    }

    /// Processes a frame's acknowledgement of frames of this end.
    pub(crate) fn take_ack(&mut self, vi: u32, header: &FrameHeader, card: &mut impl Card) {
        card.charge(Step::TakeAck, 1);
        let tx = &self.vi(vi).tx;
        let first_unsent = match tx.unsent.first() {
            NONE => tx.next_sequence,
            frame => self.frames[frame].header.sequence,
        };
        let news = header.ack.wrapping_sub(tx.acked);
        let progress = news <= first_unsent.wrapping_sub(tx.acked);
        if progress && news > 0 {
            self.drop_acked(vi, header.ack, card);
        }
        if self.vi(vi).state != State::Connected {
            return;
        }
        let tx = &mut self.vi_mut(vi).tx;
        if tx.unacked.is_empty() {
            // A peer that acknowledges is alive, even if it has no credit to grant.
            tx.silent = 0;
        }
        if header.credit.wrapping_sub(tx.credit) < 1 << 31 && header.credit != tx.credit {
            tx.credit = header.credit;
            tx.starved = false;
        }
        if tx.unacked.is_empty() {
            tx.overdue_at = None;
            if tx.starved {
                self.await_ack(vi);
            }
        }
        self.set_timer(vi);
        if progress && header.has(flag::GAP) {
            self.fill_gap(vi, header, card);
        }
        self.advance_sends(vi, card);
    }

    /// Frees frames that the peer has.
    fn drop_acked(&mut self, vi: u32, ack: u32, card: &mut impl Card) {
        let tx = &mut self.vi_mut(vi).tx;
        tx.acked = ack;
        tx.silent = 0;
        tx.overdue_at = None;
        tx.filled_gap = None;
        loop {
            let tx = &mut self.vis[vi as usize].tx;
            let first = tx.unacked.first();
            if first == NONE {
                return;
            }
            let beyond = self.frames[first].header.sequence.wrapping_sub(ack);
            if beyond < 1 << 31 {
                break;
            }
            tx.unacked.pop(&mut self.frames);
            self.frames[first].unacked = false;
            if self.frames[first].is_over() {
                self.release_frame(first, card);
            }
        }
        self.await_ack(vi);
    }

    /// Sends again the frames that the peer misses, once for each gap.
    fn fill_gap(&mut self, vi: u32, header: &FrameHeader, card: &mut impl Card) {
        match self.settings.reliable.retransmission {
            Retransmission::GoBack => {
                if self.vi(vi).tx.filled_gap == Some(header.ack) {
                    return;
                }
                self.vi_mut(vi).tx.filled_gap = Some(header.ack);
                self.resend(vi, u32::MAX, false, card);
            }
            Retransmission::Selective => {
                let beyond = 32 - header.ahead.leading_zeros();
                self.mark_ahead(vi, header);
                self.resend(vi, beyond, false, card);
            }
        }
    }

    /// Notes which frames the peer has beyond the gap.
    fn mark_ahead(&mut self, vi: u32, header: &FrameHeader) {
        let mut at = self.vi(vi).tx.unacked.first();
        while at != NONE {
            let frame = &mut self.frames[at];
            let bit = frame
                .header
                .sequence
                .wrapping_sub(header.ack)
                .wrapping_sub(1);
            if bit < MAX_WINDOW && header.ahead >> bit & 1 == 1 {
                frame.ahead = true;
            }
            at = frame.next;
        }
    }

    /// Sends unacknowledged frames again: those that the peer is not known to have, and whose sequence number is at most `count` above
    /// that of the first unacknowledged frame. After a timeout no frame beyond it is known to have
    /// arrived: a peer without room may have dropped frames that it had acknowledged out of order.
    fn resend(&mut self, vi: u32, count: u32, timeout: bool, card: &mut impl Card) {
        let selective = self.settings.reliable.retransmission == Retransmission::Selective;
        let acked = self.vi(vi).tx.acked;
        let mut at = self.vi(vi).tx.unacked.first();
        while at != NONE {
            let frame = &mut self.frames[at];
            let next = frame.next;
            let within = frame.header.sequence.wrapping_sub(acked) <= count;
            if timeout {
                frame.resent = false;
                frame.ahead = false;
            }
            let spared = selective && (frame.ahead || frame.resent);
            if within && !frame.queued && !frame.reading && !spared {
                frame.resent = true;
                frame.header.flags |= flag::HURRY;
                card.charge(Step::Retransmit, 1);
                self.submit_net(NetWork::Frame(at), card);
            }
            at = next;
        }
    }

    /// Handles a deadline of this virtual interface.
    pub(crate) fn timer(&mut self, vi: u32, card: &mut impl Card) {
        card.charge(Step::HandleTimer, 1);
        let now = self.now;
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if is_due(self.vi(vi).rx.ack_at) {
            self.vi_mut(vi).rx.ack_at = None;
            self.send_ack(vi, card);
        }
        if is_due(self.vi(vi).tx.overdue_at) {
            self.vi_mut(vi).tx.overdue_at = None;
            self.acknowledgement_overdue(vi, card);
        }
        self.set_timer(vi);
    }

    /// Handles an acknowledgement that has not arrived in time.
    fn acknowledgement_overdue(&mut self, vi: u32, card: &mut impl Card) {
        let tx = &self.vi(vi).tx;
        if self.vi(vi).state != State::Connected || (tx.unacked.is_empty() && !tx.starved) {
            return;
        }
        let mut at = tx.unacked.first();
        let nothing_to_resend = at == NONE;
        let mut all_queued = at != NONE;
        while at != NONE {
            all_queued &= self.frames[at].queued || self.frames[at].reading;
            at = self.frames[at].next;
        }
        if all_queued {
            // Nothing has been sent yet: this end's own network is slow.
            self.await_ack(vi);
            return;
        }
        let retries = self.settings.reliable.retries;
        let tx = &mut self.vi_mut(vi).tx;
        tx.silent += 1;
        if tx.silent > retries {
            self.fail_first(vi, status::TRANSPORT_ERROR);
            self.break_vi(vi, Breakage::Silence, RefuseReason::Closed, card);
            return;
        }
        tx.filled_gap = None;
        if nothing_to_resend {
            self.vi_mut(vi).control.probe = true;
            self.send_control(vi, card);
        } else {
            self.resend(vi, u32::MAX, true, card);
        }
        self.await_ack(vi);
    }

    /// Fails the first send that is not done, for this reason.
    pub(crate) fn fail_first(&mut self, vi: u32, bits: u32) {
        let ops = &self.vis[vi as usize].queue(Side::Send).ops;
        if let Some(&op) = ops.iter().find(|&&op| !self.ops[op].done) {
            self.ops[op].bits |= bits;
        }
    }

    /// Handles a frame with a sequence number.
    pub(crate) fn sequenced(&mut self, vi: u32, buffer: u32, card: &mut impl Card) {
        let Some(header) = self.arrivals[buffer].header else {
            self.free_arrival(buffer, card);
            return;
        };
        let rx = &self.vi(vi).rx;
        let beyond = header.sequence.wrapping_sub(rx.expected);
        if beyond == 0 {
            self.in_sequence(vi, buffer, card);
            return;
        }
        let selective = self.settings.reliable.retransmission == Retransmission::Selective;
        // Of the buffers reserved for receiving, one more than the network engine holds stays free for
        // new frames: the missing frame may be among them.
        let limits = &self.settings.limits;
        let room = self.held + self.settings.net_receive + 1 < limits.receive_buffers;
        let place = beyond.wrapping_sub(1);
        let is_ahead = beyond < 1 << 31;
        if is_ahead && selective && room && place < MAX_WINDOW - 1 {
            let held = &mut self.vi_mut(vi).rx.held[place as usize];
            if *held == NONE {
                *held = buffer;
                self.held += 1;
            } else {
                self.free_arrival(buffer, card);
            }
        } else {
            self.free_arrival(buffer, card);
        }
        // A frame ahead of the expected one means that a frame was lost; one behind it, that an
        // acknowledgement was.
        self.vi_mut(vi).control.gap |= is_ahead;
        self.send_ack(vi, card);
    }

    /// Handles the expected frame, and those that were held behind it.
    fn in_sequence(&mut self, vi: u32, buffer: u32, card: &mut impl Card) {
        let mut next = buffer;
        while next != NONE {
            if self.vi(vi).state != State::Connected || !self.may_accept(vi, next) {
                self.free_arrival(next, card);
                return;
            }
            let rx = &mut self.vi_mut(vi).rx;
            rx.expected = rx.expected.wrapping_add(1);
            rx.unacknowledged += 1;
            let accepted = core::mem::replace(&mut next, rx.held[0]);
            rx.held.rotate_left(1);
            rx.held[MAX_WINDOW as usize - 1] = NONE;
            self.held -= u32::from(next != NONE);
            let header = self.arrivals[accepted].header;
            self.accept(vi, accepted, card);
            if self.vi(vi).state != State::Connected {
                if next != NONE {
                    self.free_arrival(next, card);
                }
                return;
            }
            if let Some(header) = header
                && self.vi(vi).attributes.reliability == Reliability::Delivery
            {
                self.acknowledge(vi, header.has(flag::HURRY), card);
            }
        }
    }

    /// Acknowledges: at once if the sender waits or many frames are unacknowledged, else after a while.
    fn acknowledge(&mut self, vi: u32, hurry: bool, card: &mut impl Card) {
        let at = self.now.saturating_add(self.settings.reliable.ack_delay);
        let many = self.settings.reliable.window.div_ceil(2);
        let rx = &mut self.vi_mut(vi).rx;
        if hurry || rx.unacknowledged >= many {
            self.send_ack(vi, card);
        } else {
            rx.ack_at.get_or_insert(at);
            self.set_timer(vi);
        }
    }

    /// Handles an accepted frame's data being in memory: acknowledgements of reliable reception extend to there.
    pub(crate) fn placed(&mut self, vi: u32, header: &FrameHeader, card: &mut impl Card) {
        let owner = self.vi_mut(vi);
        if !owner.is_reliable() || owner.state != State::Connected {
            return;
        }
        let rx = &mut owner.rx;
        let bit = header.sequence.wrapping_sub(rx.unplaced);
        if bit < u32::BITS {
            rx.placed |= 1 << bit;
        }
        let run = rx.placed.trailing_ones();
        rx.placed = rx.placed.checked_shr(run).unwrap_or(0);
        rx.unplaced = rx.unplaced.wrapping_add(run);
        if owner.attributes.reliability == Reliability::Reception {
            self.acknowledge(vi, header.has(flag::HURRY), card);
        }
    }
}
