//! This side's half of the stream: what was sent, what has arrived, what must be sent again.
//!
//! Bytes stay in one buffer until they are acknowledged. Spans of it are sent, each in a datagram
//! with a new number; the span of a lost datagram is sent again, perhaps split differently.

use std::collections::{BTreeMap, VecDeque};

use causeway_wire::datagram::{Ack, BITMAP_WORDS, FIRST_LIMIT};

use super::Time;
use super::congestion::Window;
use super::rtt::Rtt;
use crate::error::PeerError;

/// A datagram that this many later ones have overtaken is lost (RFC 9002, 6.1.1).
const OVERTAKEN_BY: u64 = 3;

/// Datagrams that are sent again when nothing was acknowledged within the timeout.
const PROBES_PER_TIMEOUT: usize = 2;

/// After this many timeouts in a row the window collapses, and smaller datagrams are tried.
pub(super) const TIMEOUTS_TO_COLLAPSE: u32 = 3;

/// A datagram in flight that its receiver has to acknowledge.
#[derive(Debug, Clone, Copy)]
struct SentDatagram {
    number: u64,
    offset: u64,
    len: usize,
    /// Of the whole datagram.
    bytes: usize,
    sent_at: Time,
    /// Neither acknowledged nor lost.
    in_flight: bool,
}

/// A buffer of at most this size is kept when all of it has arrived: a packet with a message of 1 KiB and its headers fits, so that such
/// messages need no other buffer. 2 MiB for 1,000 connections that have sent such packets.
const KEPT_BYTES: usize = 2048;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Outgoing {
    buffer: VecDeque<u8>,
    /// The offset in the stream at which `buffer` begins: everything before was acknowledged.
    start: u64,
    /// The offset up to which the stream was sent.
    next: u64,
    /// The offset up to which the peer permits sending.
    limit: u64,
    /// Ordered by number.
    sent: VecDeque<SentDatagram>,
    bytes_in_flight: usize,
    /// Lost spans by offset.
    again: BTreeMap<u64, usize>,
    next_number: u64,
    largest_acknowledged: u64,
    /// Timeouts since something was last acknowledged.
    timeouts: u32,
    /// Datagrams that may be sent regardless of the window.
    probes: usize,
    last_sent: Time,
    /// When a datagram that was overtaken counts as lost.
    overtaken_at: Option<Time>,
    /// Whether the window has limited sending since the last acknowledgement.
    limited: bool,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            buffer: VecDeque::new(),
            start: 0,
            next: 0,
            limit: FIRST_LIMIT,
            sent: VecDeque::new(),
            bytes_in_flight: 0,
            again: BTreeMap::new(),
            next_number: 0,
            largest_acknowledged: 0,
            timeouts: 0,
            probes: 0,
            last_sent: Time::ZERO,
            overtaken_at: None,
            limited: false,
        }
    }

    /// Bytes that are kept until they are acknowledged.
    pub(super) fn kept_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Memory that is allocated now.
    pub(super) fn owned_bytes(&self) -> usize {
        self.buffer.capacity()
            + self.sent.capacity() * size_of::<SentDatagram>()
            + self.again.len() * size_of::<(u64, usize)>()
    }

    /// Whether everything has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Timeouts in a row.
    pub(super) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Appends bytes to the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// The offset up to which the stream was sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The offset at which the stream ends so far.
    pub(super) fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Takes the next number.
    pub(super) fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Whether there is a span to be sent now.
    pub(super) fn has_span(&mut self, window: &Window) -> bool {
        let waits = !self.again.is_empty() || self.next < self.end().min(self.limit);
        if waits && self.probes == 0 && self.bytes_in_flight >= window.bytes() {
            self.limited = true;
            return false;
        }
        waits
    }

    /// Whether a datagram should be sent now even without data.
    pub(super) fn wants_probe(&self) -> bool {
        self.probes > 0
    }

    /// Has a datagram sent soon, with or without data.
    pub(super) fn ping(&mut self) {
        self.probes = self.probes.max(1);
    }

    /// The next span to be sent, of at most `most` bytes: offset and length.
    pub(super) fn next_span(&mut self, most: usize) -> Option<(u64, usize)> {
        if let Some((offset, len)) = self.again.pop_first() {
            let now = len.min(most);
            self.send_again(offset + now as u64, len - now);
            return Some((offset, now));
        }
        let room = self.end().min(self.limit).saturating_sub(self.next);
        let len = most.min(usize::try_from(room).unwrap_or(most));
        if len == 0 {
            return None;
        }
        let offset = self.next;
        self.next += len as u64;
        Some((offset, len))
    }

    /// Appends the bytes of a span.
    pub(super) fn copy(&self, (offset, len): (u64, usize), out: &mut Vec<u8>) {
        let from = offset.saturating_sub(self.start) as usize;
        let (front, back) = self.buffer.as_slices();
        let head = front.get(from..).unwrap_or_default();
        let head = head.get(..len.min(head.len())).unwrap_or_default();
        out.extend_from_slice(head);
        let rest = len - head.len();
        if rest > 0 {
            let from = from.saturating_sub(front.len());
            out.extend_from_slice(back.get(from..from + rest).unwrap_or_default());
        }
    }

    /// Notes that a datagram of `bytes` was sent which has to be acknowledged.
    pub(super) fn sent(
        &mut self,
        number: u64,
        span: Option<(u64, usize)>,
        bytes: usize,
        now: Time,
    ) {
        let (offset, len) = span.unwrap_or_default();
        self.sent.push_back(SentDatagram {
            number,
            offset,
            len,
            bytes,
            sent_at: now,
            in_flight: true,
        });
        self.bytes_in_flight += bytes;
        self.last_sent = now;
        self.probes = self.probes.saturating_sub(1);
    }

    /// Handles an acknowledgement. The error states that the peer acknowledges what was never sent.
    pub(super) fn acknowledge(
        &mut self,
        ack: &Ack,
        now: Time,
        rtt: &mut Rtt,
        window: &mut Window,
    ) -> Result<(), PeerError> {
        if ack.largest >= self.next_number || ack.received > self.next {
            return Err(PeerError::Protocol(
                "it acknowledges what was not sent".to_owned(),
            ));
        }
        self.limit = self.limit.max(ack.limit);
        let mut arrived_bytes = 0;
        let least = ack.largest.saturating_sub(64 * BITMAP_WORDS as u64);
        let from = self
            .sent
            .partition_point(|datagram| datagram.number < least);
        for datagram in self.sent.range_mut(from..) {
            if datagram.number > ack.largest {
                break;
            }
            if !datagram.in_flight || !covers(ack, datagram.number) {
                continue;
            }
            datagram.in_flight = false;
            arrived_bytes += datagram.bytes;
            if datagram.number == ack.largest {
                let delay = Time::from_micros(ack.delay_us.into());
                rtt.sample(now.saturating_sub(datagram.sent_at), delay);
            }
        }
        arrived_bytes += self.release(ack.received, ack.largest);
        self.bytes_in_flight -= arrived_bytes;
        if arrived_bytes > 0 {
            self.timeouts = 0;
            self.probes = 0;
            window.acknowledged(arrived_bytes, ack.largest, self.limited);
            self.limited = false;
        }
        self.largest_acknowledged = self.largest_acknowledged.max(ack.largest);
        self.find_lost(now, rtt, window);
        Ok(())
    }

    /// Removes everything before `received`, which has arrived. Returns the bytes of the datagrams
    /// up to number `largest` that still counted as in flight.
    fn release(&mut self, received: u64, largest: u64) -> usize {
        let Some(count) = received.checked_sub(self.start).filter(|&count| count > 0) else {
            return 0;
        };
        self.start = received;
        self.buffer.drain(..(count as usize).min(self.buffer.len()));
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = VecDeque::new();
        }
        while let Some((&offset, &len)) = self.again.first_key_value() {
            if offset >= received {
                break;
            }
            self.again.pop_first();
            self.send_again(offset, len);
        }
        let mut bytes = 0;
        for datagram in &mut self.sent {
            if datagram.number > largest {
                break;
            }
            if datagram.in_flight
                && datagram.len > 0
                && datagram.offset + datagram.len as u64 <= received
            {
                datagram.in_flight = false;
                bytes += datagram.bytes;
            }
        }
        bytes
    }

    /// Finds datagrams that later ones have overtaken.
    fn find_lost(&mut self, now: Time, rtt: &Rtt, window: &mut Window) {
        let largest = self.largest_acknowledged;
        let patience = rtt.overtaken_for();
        self.overtaken_at = None;
        let mut lost = Vec::new();
        for datagram in &mut self.sent {
            if datagram.number >= largest {
                break;
            }
            if !datagram.in_flight {
                continue;
            }
            let late_at = datagram.sent_at + patience;
            if largest - datagram.number >= OVERTAKEN_BY || now >= late_at {
                datagram.in_flight = false;
                lost.push(*datagram);
            } else if self.overtaken_at.is_none() {
                self.overtaken_at = Some(late_at);
            }
        }
        for datagram in lost {
            window.lost(datagram.number, self.next_number);
            self.bytes_in_flight -= datagram.bytes;
            self.send_again(datagram.offset, datagram.len);
        }
        while self
            .sent
            .front()
            .is_some_and(|datagram| !datagram.in_flight)
        {
            self.sent.pop_front();
        }
        if self.sent.is_empty() && self.sent.capacity() > 64 {
            self.sent = VecDeque::new();
        }
    }

    /// Notes that a span must be sent again, as far as it has not arrived.
    fn send_again(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let offset = offset.max(self.start);
        if offset < end {
            let len = (end - offset) as usize;
            let known = self.again.entry(offset).or_default();
            *known = len.max(*known);
        }
    }

    /// When to check whether something is lost.
    pub(super) fn deadline(&self, rtt: &Rtt) -> Option<Time> {
        let timeout =
            (self.bytes_in_flight > 0).then(|| self.last_sent + rtt.timeout(self.timeouts));
        [timeout, self.overtaken_at].into_iter().flatten().min()
    }

    /// Handles the timer.
    pub(super) fn expire(&mut self, now: Time, rtt: &Rtt, window: &mut Window) {
        if self.overtaken_at.is_some_and(|at| at <= now) {
            self.find_lost(now, rtt, window);
        }
        if self.bytes_in_flight == 0 || self.last_sent + rtt.timeout(self.timeouts) > now {
            return;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.probes = PROBES_PER_TIMEOUT;
        if self.timeouts == TIMEOUTS_TO_COLLAPSE {
            window.collapse();
        }
        // The oldest spans are sent again; it is not certain that they are lost, so the rest stays
        // in flight.
        let mut found = 0;
        let mut spans = [(0, 0); PROBES_PER_TIMEOUT];
        for datagram in self.sent.iter_mut().filter(|datagram| datagram.in_flight) {
            let Some(slot) = spans.get_mut(found) else {
                break;
            };
            *slot = (datagram.offset, datagram.len);
            datagram.in_flight = false;
            self.bytes_in_flight -= datagram.bytes;
            found += 1;
        }
        for (offset, len) in spans.into_iter().take(found) {
            self.send_again(offset, len);
        }
        self.last_sent = now;
    }
}

fn covers(ack: &Ack, number: u64) -> bool {
    let Some(behind) = ack.largest.checked_sub(number) else {
        return false;
    };
    let Some(bit) = behind.checked_sub(1) else {
        return true;
    };
    let word = ack.bitmap.get((bit / 64) as usize);
    word.is_some_and(|word| word >> (bit % 64) & 1 == 1)
}
