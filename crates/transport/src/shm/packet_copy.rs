//! How packets of more than some hundred bytes are copied into the ring.
//!
//! Vector instructions fetch the lines that they write from the receiver's cache, where the last
//! packet in these slots was read; the lines are prefetched while the packet before is on its way
//! ([`Producer`](super::ring::Producer)). The string copy instruction takes long to begin, but
//! writes whole lines without having read them. Non-temporal stores leave the lines in memory, from
//! where the receiver fetches them: between two processors without a common cache, that takes less
//! time than fetching a line from the other's cache. Which is fastest depends on the size, the
//! processor, and how far apart the two processors are; `docs/shm-engine.md` has measurements.
//!
//! For packets that the sender fills with many small pieces the choice is made separately. Their stores wait for one line after
//! the other, so that the kinds of copies differ by more: non-temporal stores take a tenth of the time far, and somewhat more time near
//! (`docs/mpi-messages.md`).

use causeway_sys::aliasing;
use causeway_sys::choice::ShortChoice;

use super::costs::Costs;

/// Packets of at most this many bytes are copied in the usual way. Non-temporal stores wait for
/// memory once in each packet: packets of 128 bytes stream at a seventh of the rate with them (an
/// EPYC of the fourth generation, near), those of 1 KiB at 0.8 of it near and at 3.3 times it far.
const FEW_BYTES: usize = 512;
/// For packets of at most this many bytes the choice is made separately.
const SHORT_BYTES: usize = 4608;

/// How a packet is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyKind {
    /// As the C library copies: a few hundred bytes by vector instructions, more by the string copy
    /// instruction.
    Usual,
    /// By vector instructions.
    Vectors,
    /// By non-temporal stores.
    Streamed,
}

impl CopyKind {
    /// Whether the lines of a packet of `len` bytes should be in the sender's cache before they are
    /// written.
    #[inline]
    pub(super) fn fetches_lines(self, len: usize) -> bool {
        match self {
            Self::Usual => len <= aliasing::STEP_BYTES,
            Self::Vectors => true,
            Self::Streamed => false,
        }
    }
}

/// Classes of packets by length; the choice is made separately for each.
enum Class {
    /// The C library copies them by vector instructions.
    Few,
    Short,
    Long,
    /// The sender fills them with small pieces.
    Filled,
}

impl Class {
    #[inline]
    fn of(len: usize, is_filled: bool) -> Self {
        if is_filled {
            Self::Filled
        } else if len <= aliasing::STEP_BYTES {
            Self::Few
        } else if len <= SHORT_BYTES {
            Self::Short
        } else {
            Self::Long
        }
    }
}

/// The alternatives for packets that the C library copies by vector instructions and for those that the sender fills, and after
/// it the alternatives for longer packets.
const FOR_FEW: [CopyKind; 2] = [CopyKind::Usual, CopyKind::Streamed];
const FOR_MANY: [CopyKind; 3] = [CopyKind::Usual, CopyKind::Vectors, CopyKind::Streamed];

/// See the module's page.
pub(super) struct CopyChoice {
    few: ShortChoice<{ FOR_FEW.len() }>,
    short: ShortChoice<{ FOR_MANY.len() }>,
    long: ShortChoice<{ FOR_MANY.len() }>,
    filled: ShortChoice<{ FOR_FEW.len() }>,
    /// What large packets cost, which may be read from the sender's memory instead.
    pub(super) costs: Costs,
}

impl Default for CopyChoice {
    fn default() -> Self {
        Self {
            few: ShortChoice::new(0),
            short: ShortChoice::new(1),
            long: ShortChoice::new(0),
            filled: ShortChoice::new(1),
            costs: Costs::default(),
        }
    }
}

impl CopyChoice {
    /// Whether the kinds of copies differ for a packet of `len` bytes.
    #[inline]
    pub(super) fn differ(len: usize) -> bool {
        len > FEW_BYTES
    }

    /// How to copy the next packet, of `len` bytes.
    #[inline]
    pub(super) fn next(&self, len: usize, is_filled: bool) -> CopyKind {
        match Class::of(len, is_filled) {
            Class::Filled => FOR_FEW[self.filled.way()],
            Class::Few => FOR_FEW[self.few.way()],
            Class::Short => FOR_MANY[self.short.way()],
            Class::Long => FOR_MANY[self.long.way()],
        }
    }

    /// Notes that this packet is in the ring.
    #[inline]
    pub(super) fn sent(&mut self, len: usize, is_filled: bool) {
        let units = len as u64;
        match Class::of(len, is_filled) {
            Class::Filled => self.filled.did(units),
            Class::Few => self.few.did(units),
            Class::Short => self.short.did(units),
            Class::Long => self.long.did(units),
        }
    }
}
