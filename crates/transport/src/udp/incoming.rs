//! The peer's half of the stream: which numbers have arrived, and spans that arrived out of order.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_wire::datagram::{Ack, BITMAP_WORDS, FIRST_LIMIT};

use super::Time;
use crate::error::PeerError;

/// An acknowledgement waits for others at most this long.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(2);

/// This many datagrams are acknowledged at once.
const ACK_EVERY: u32 = 2;

/// The most out-of-order spans that are kept; further ones are treated as lost.
const MAX_HELD: usize = 1024;

/// Numbers that are remembered below the largest.
const REMEMBERED: u64 = 64 * BITMAP_WORDS as u64;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Incoming {
    largest: Option<u64>,
    largest_at: Time,
    bitmap: [u64; BITMAP_WORDS],
    /// The offset up to which the stream has been delivered.
    next: u64,
    /// How far ahead of that the peer may send.
    window_bytes: u64,
    /// The furthest offset that the peer may send, as announced to it.
    limit: u64,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Datagrams that have yet to be acknowledged.
    unacknowledged: u32,
    ack_at: Option<Time>,
}

impl Incoming {
    pub(super) fn new(window_bytes: usize) -> Self {
        Self {
            largest: None,
            largest_at: Time::ZERO,
            bitmap: [0; BITMAP_WORDS],
            next: 0,
            window_bytes: (window_bytes as u64).max(FIRST_LIMIT),
            limit: FIRST_LIMIT,
            held: BTreeMap::new(),
            held_bytes: 0,
            unacknowledged: 0,
            ack_at: None,
        }
    }

    /// Memory that is allocated now.
    pub(super) fn owned_bytes(&self) -> usize {
        self.held_bytes + self.held.len() * size_of::<(u64, Vec<u8>)>()
    }

    /// Whether a datagram of this number has not arrived before. A number that is too old to be
    /// remembered counts as having arrived.
    pub(super) fn is_new(&self, number: u64) -> bool {
        let Some(largest) = self.largest else {
            return true;
        };
        match largest.checked_sub(number) {
            None => true,
            Some(0) => false,
            Some(behind) if behind > REMEMBERED => false,
            Some(behind) => {
                let bit = behind - 1;
                let word = self.bitmap.get((bit / 64) as usize);
                word.is_some_and(|word| word >> (bit % 64) & 1 == 0)
            }
        }
    }

    /// Notes the arrival of a datagram with this number, which is new.
    pub(super) fn record(&mut self, number: u64, wants_ack: bool, now: Time) {
        match self.largest {
            Some(largest) if number < largest => {
                let bit = largest - number - 1;
                if let Some(word) = self.bitmap.get_mut((bit / 64) as usize) {
                    *word |= 1 << (bit % 64);
                }
                // It fills a gap, or arrived out of order: the sender should be notified soon.
                self.unacknowledged += u32::from(wants_ack) * ACK_EVERY;
            }
            _ => {
                let ahead = match self.largest {
                    Some(largest) => {
                        let ahead = number - largest;
                        self.shift(ahead);
                        ahead
                    }
                    None => number.saturating_add(1),
                };
                self.largest = Some(number);
                self.largest_at = now;
                let urgency = if ahead > 1 { ACK_EVERY } else { 1 };
                self.unacknowledged += u32::from(wants_ack) * urgency;
            }
        }
        if wants_ack && self.ack_at.is_none() {
            self.ack_at = Some(now + ACK_DELAY);
        }
    }

    /// Shifts the bitmap so that it is relative to a number that is larger by `ahead`; the number
    /// that it was relative to becomes one of its bits.
    fn shift(&mut self, ahead: u64) {
        if ahead > REMEMBERED {
            self.bitmap = [0; BITMAP_WORDS];
            return;
        }
        let words = (ahead / 64) as usize;
        let bits = ahead % 64;
        let old = self.bitmap;
        for (at, word) in self.bitmap.iter_mut().enumerate() {
            let low = at.checked_sub(words).and_then(|from| old.get(from));
            let below = at.checked_sub(words + 1).and_then(|from| old.get(from));
            let low = low.copied().unwrap_or(0);
            let below = below.copied().unwrap_or(0);
            *word = match bits {
                0 => low,
                _ => low << bits | below >> (64 - bits),
            };
        }
        let was = ahead - 1;
        if let Some(word) = self.bitmap.get_mut((was / 64) as usize) {
            *word |= 1 << (was % 64);
        }
    }

    /// Accepts a span of the stream: what continues the stream is passed to `deliver`, what is
    /// ahead is kept. Returns whether it was accepted; if not, the datagram must count as lost.
    pub(super) fn accept(
        &mut self,
        offset: u64,
        data: &[u8],
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), PeerError>,
    ) -> Result<bool, PeerError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.limit {
            return Err(PeerError::Protocol(
                "it sends more than it was allowed to".to_owned(),
            ));
        }
        if end <= self.next {
            return Ok(true);
        }
        if offset > self.next {
            return Ok(self.hold(offset, data));
        }
        let fresh = (self.next - offset) as usize;
        self.next = end;
        deliver(data.get(fresh..).unwrap_or_default())?;
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() > self.next {
                break;
            }
            let (offset, data) = entry.remove_entry();
            self.held_bytes -= data.len();
            let fresh = (self.next - offset) as usize;
            if let Some(fresh) = data.get(fresh..).filter(|fresh| !fresh.is_empty()) {
                self.next += fresh.len() as u64;
                deliver(fresh)?;
            }
        }
        Ok(true)
    }

    fn hold(&mut self, offset: u64, data: &[u8]) -> bool {
        let known = self.held.get(&offset).map_or(0, Vec::len);
        if known >= data.len() {
            return true;
        }
        let most = self.window_bytes as usize;
        if self.held.len() >= MAX_HELD || self.held_bytes - known + data.len() > most {
            return false;
        }
        self.held_bytes += data.len() - known;
        self.held.insert(offset, data.to_vec());
        true
    }

    /// Whether an acknowledgement is due.
    pub(super) fn owes_ack(&self, now: Time) -> bool {
        self.unacknowledged >= ACK_EVERY || self.ack_at.is_some_and(|at| at <= now)
    }

    /// Makes an acknowledgement due now.
    pub(super) fn ack_now(&mut self, now: Time) {
        self.ack_at = Some(now);
    }

    /// When an acknowledgement is due at the latest.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.ack_at
    }

    /// The acknowledgement, which is then no longer due; `None` if nothing has arrived since the
    /// last one. The peer may send a window ahead, from which `held` bytes are subtracted that were
    /// not consumed yet.
    pub(super) fn take_ack(&mut self, now: Time, held: usize) -> Option<Ack> {
        self.ack_at.take()?;
        self.unacknowledged = 0;
        let largest = self.largest?;
        let delay = now.saturating_sub(self.largest_at);
        self.limit = self
            .limit
            .max((self.next + self.window_bytes).saturating_sub(held as u64));
        Some(Ack {
            delay_us: u32::try_from(delay.as_micros()).unwrap_or(u32::MAX),
            largest,
            bitmap: self.bitmap,
            received: self.next,
            limit: self.limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    #[test]
    fn numbers_are_new_once_and_forgotten_ones_never() {
        let mut incoming = Incoming::new(1 << 20);
        let mut order: Vec<u64> = (0..600).collect();
        // Swapped in pairs, with a jump that forgets.
        order.chunks_mut(2).for_each(|pair| pair.reverse());
        order.extend([5000, 4745, 4744, 4743]);
        let mut seen = std::collections::HashSet::new();
        for &number in &order {
            let forgotten = number == 4743;
            assert_eq!(incoming.is_new(number), !forgotten, "{number}");
            if !forgotten {
                incoming.record(number, true, NOW);
                seen.insert(number);
            }
            assert!(!incoming.is_new(number));
            let ack = incoming.take_ack(NOW, 0);
            let Some(ack) = ack else { continue };
            for behind in 1..=REMEMBERED.min(ack.largest) {
                let bit = behind - 1;
                let told = ack.bitmap[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
                assert_eq!(told, seen.contains(&(ack.largest - behind)));
            }
        }
    }

    #[test]
    fn the_largest_number_there_is_may_come_first() {
        let mut incoming = Incoming::new(0);
        incoming.record(u64::MAX, true, NOW);
        assert!(!incoming.is_new(u64::MAX));
        assert!(incoming.is_new(u64::MAX - 1));
        incoming.record(u64::MAX - 1, true, NOW);
        let ack = incoming.take_ack(NOW, 0).unwrap();
        assert_eq!((ack.largest, ack.bitmap), (u64::MAX, [1, 0, 0, 0]));
    }

    #[test]
    fn spans_in_any_order_become_one_stream() {
        let stream: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let mut incoming = Incoming::new(1 << 20);
        let mut taken = Vec::new();
        let spans = [
            (2000, 3000),
            (500, 900),
            (500, 700),
            (800, 1200),
            (0, 600),
            (100, 300),
            (1100, 2500),
        ];
        for (from, to) in spans {
            let whole = incoming
                .accept(from as u64, &stream[from..to], &mut |bytes| {
                    taken.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
            assert!(whole);
        }
        assert!(taken == stream);
        assert_eq!(incoming.owned_bytes(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut incoming = Incoming::new(0);
        let mut nothing = |_: &[u8]| -> Result<(), PeerError> { Ok(()) };
        let mut refused = 0;
        for offset in (1..FIRST_LIMIT).step_by(2) {
            let taken = incoming.accept(offset, b"x", &mut nothing).unwrap();
            refused += usize::from(!taken);
        }
        assert_eq!(incoming.held.len(), MAX_HELD);
        assert!(refused > 30_000);
        let beyond = incoming.accept(FIRST_LIMIT, b"x", &mut nothing);
        assert!(matches!(beyond, Err(PeerError::Protocol(_))));
    }

    #[test]
    fn a_hole_is_told_at_once_and_the_usual_waits_for_company() {
        let mut incoming = Incoming::new(0);
        assert!(!incoming.owes_ack(NOW));
        incoming.record(0, true, NOW);
        assert!(!incoming.owes_ack(NOW));
        assert!(incoming.owes_ack(NOW + ACK_DELAY));
        incoming.record(1, true, NOW);
        assert!(incoming.owes_ack(NOW));
        assert!(incoming.take_ack(NOW, 0).is_some());
        assert!(incoming.take_ack(NOW, 0).is_none());
        incoming.record(2, false, NOW);
        assert!(incoming.take_ack(NOW, 0).is_none(), "nobody asked");
        incoming.record(4, true, NOW);
        assert!(incoming.owes_ack(NOW));
    }
}
