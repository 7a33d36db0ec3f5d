//! Parts of split copies that the helper sends through its ring, instead of writing them into the initiator's memory.
//!
//! Where system calls copy slowly, two copies by the processors take less time than one by the
//! kernel: the helper copies a part into its ring while the initiator copies the one before out of
//! it. As in any split copy the initiator does not depend on its helper: where no piece arrives for
//! some microseconds ([`PATIENCE`]), it reads a part of the helper's memory itself. It does so at once
//! while the helper copies transfers of its own: each processor then has enough to do, and a byte
//! that its receiver reads is copied once.
//!
//! Time of one message, and time per message in a window of 64 where that was measured, too, on an EPYC of the fifth generation whose kernel copies
//! 16 bytes a nanosecond and whose processes 130; a line takes 40 ns (near) and 220 ns (far):
//!
//! | bytes | near, both write | near, pieces | far, both write | far, pieces |
//! |---|---|---|---|---|
//! | 66,000 | 5.0 and 3.2 µs | 2.5 and 1.6 | 9.3 and 3.5 | 5.8 |
//! | 100,000 | 6.1 and 4.3 | 3.2 and 2.2 | 11.8 and 4.5 | 7.2 |
//! | 256 KiB | 11.9 and 8.0 | 6.5 and 5.2 | 19.6 and 8.5 | 14.5 |
//! | 1 MiB | 37 and 30 | 25 and 19 | 65 and 31 | 47 and 43 |
//! | 4 MiB | 140 and 122 | 100 and 80 | 262 and 129 | 180 and 163 |
//!
//! So which of the two is faster is measured while messages are moved ([`PieceChoice`]).

use std::time::Duration;

use causeway_sys::choice::{Choice, Sample};
use causeway_sys::copy_costs::CopyCosts;
use causeway_wire::shm::PairLayout;
use causeway_wire::shm::split_copy::{PieceHeader, UNIT_BYTES};

use super::eager::COPIES;

/// How long an initiator waits for pieces before it copies a part itself: longer than a helper
/// takes for a piece between far processors, and about as long as it takes to read the shortest
/// such transfer.
pub(super) const PATIENCE: Duration = Duration::from_micros(5);

/// In how many polls a helper finds no room in its ring before it copies a part into the
/// initiator's memory: with 0, streams of 100,000 B take 3.4 µs instead of 2.1.
pub(super) const ROOM_POLLS: u32 = 500;

/// Bytes that an initiator copies itself before it looks for pieces again. If there are none, it
/// continues in steps of the size that it uses without pieces.
pub(super) const OWN_BYTES: u64 = 64 << 10;

/// Room in the ring that pieces leave for the helper's own packets.
const LEFT_BYTES: u64 = 4 << 10;

/// Room that a helper requires for a piece. In the smallest rings, which limit the size of packets,
/// that leaves less.
pub(super) fn room_bytes(layout: PairLayout) -> u64 {
    let most = layout.max_packet() - PieceHeader::BYTES;
    (piece_bytes(layout) + LEFT_BYTES).min(most as u64)
}

/// Only shorter transfers may be sent in pieces, as the format defines.
const MOST_BYTES: u64 = UNIT_BYTES << 31;

/// Pieces that a helper sends at once.
pub(super) const BURST: usize = 4;

/// Bytes of a piece, such that four fit into a ring: with pieces of 32 KiB streams of 100,000 B
/// take 2.7 µs instead of 2.1, with pieces of 16 KiB 3.8.
pub(super) fn piece_bytes(layout: PairLayout) -> u64 {
    let quarter = layout.ring_bytes as u64 / 4 / UNIT_BYTES;
    quarter.saturating_sub(1).max(1) * UNIT_BYTES
}

/// Classes of transfers, by size up to this many bytes, for each of which the choice is made
/// separately.
const CLASSES: [u64; 2] = [256 << 10, 2 << 20];

/// Transfers after which a stream that never ends begins a new period, with some of the last one in
/// progress.
const MAX_TRANSFERS_PER_SAMPLE: u32 = 256;

/// Whether the helpers of this side's transfers send pieces. The choice holds for all transfers
/// that are in progress at the same time.
pub(super) struct PieceChoice {
    choices: [Choice<2>; CLASSES.len() + 1],
    period: Option<Period>,
}

/// A period in which transfers are in progress.
struct Period {
    sample: Sample,
    class: usize,
    /// Transfers that have begun, and those that are in progress.
    begun: u32,
    open: u32,
    bytes: u64,
    /// A transfer has failed, or belongs to another class, or both sides copied: the time is not
    /// used.
    is_spoilt: bool,
}

impl Default for PieceChoice {
    fn default() -> Self {
        Self::preferring(CopyCosts::of_this_machine().is_some_and(pieces_are_faster))
    }
}

/// The choice before any measurement: a piece takes two copies and the fetching of lines
/// ([`COPIES`]); with system calls, both sides write at once.
fn pieces_are_faster(costs: CopyCosts) -> bool {
    2.0 * COPIES * costs.copy_byte < costs.attach_byte
}

fn class_of(len: u64) -> usize {
    CLASSES.iter().filter(|&&most| len > most).count()
}

impl PieceChoice {
    /// Prefers pieces, or not, until the other way is found to be faster.
    pub(super) fn preferring(pieces: bool) -> Self {
        Self {
            choices: std::array::from_fn(|_| Choice::new(usize::from(pieces))),
            period: None,
        }
    }

    /// Whether the helper of the next transfer, of `len` bytes, should send pieces. The caller
    /// calls [`PieceChoice::end`] afterwards.
    pub(super) fn begin(&mut self, len: u64) -> bool {
        let class = class_of(len);
        let ended = self
            .period
            .take_if(|period| period.begun >= MAX_TRANSFERS_PER_SAMPLE);
        if let Some(period) = &ended {
            self.end_sample(period);
        }
        let period = self.period.get_or_insert_with(|| Period {
            sample: self.choices[class].begin(),
            class,
            begun: 0,
            open: ended.map_or(0, |period| period.open),
            bytes: 0,
            is_spoilt: false,
        });
        period.begun += 1;
        period.open += 1;
        period.is_spoilt |= period.class != class;
        period.sample.way() == 1 && len < MOST_BYTES
    }

    /// Notes the end of a transfer of `len` bytes; `copied`: all of it was copied.
    pub(super) fn end(&mut self, len: u64, copied: bool) {
        let Some(period) = &mut self.period else {
            return;
        };
        period.bytes += len;
        period.is_spoilt |= !copied;
        period.open -= 1;
        if let Some(period) = self.period.take_if(|period| period.open == 0) {
            self.end_sample(&period);
        }
    }

    /// Notes that this side copies by itself for now, whether or not pieces were chosen: the time of
    /// the present period tells nothing about the choice.
    pub(super) fn spoil(&mut self) {
        if let Some(period) = &mut self.period {
            period.is_spoilt = true;
        }
    }

    fn end_sample(&mut self, period: &Period) {
        if !period.is_spoilt {
            self.choices[period.class].end(&period.sample, period.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_pieces_fit_into_a_ring() {
        for ring_bytes in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let layout = PairLayout::new(ring_bytes, 128).unwrap();
            let bytes = piece_bytes(layout) as usize + PieceHeader::BYTES;
            let room = room_bytes(layout) as usize + PieceHeader::BYTES;
            assert!(bytes <= room && room <= layout.max_packet());
            let slots = causeway_wire::shm::slots_of(bytes) as usize;
            let fit = ring_bytes / causeway_wire::shm::SLOT_BYTES / slots;
            assert!(fit >= 4 || ring_bytes == 16 << 10 && fit == 3, "{fit}");
        }
    }

    /// A way whose transfers fail does not count as fast.
    #[test]
    fn failed_transfers_do_not_change_the_choice() {
        let mut choice = PieceChoice::preferring(true);
        let mut pieces = 0;
        for _ in 0..1000 {
            let in_pieces = choice.begin(1 << 20);
            pieces += u32::from(in_pieces);
            if in_pieces {
                std::hint::black_box(vec![1u8; 1 << 16]);
            }
            choice.end(1 << 20, in_pieces);
        }
        assert!(pieces > 900, "{pieces}");
    }

    #[test]
    fn the_first_choice_follows_the_measured_costs() {
        let costs = |attach: f64, copy: f64| CopyCosts {
            attach_call: 1000.0,
            attach_byte: 1.0 / attach,
            copy_byte: 1.0 / copy,
        };
        assert!(pieces_are_faster(costs(16.0, 130.0)));
        assert!(!pieces_are_faster(costs(50.0, 45.0)));
        assert!(!pieces_are_faster(costs(42.0, 42.0)));
    }
}
