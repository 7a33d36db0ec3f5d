//! How packets of more than some hundred bytes are copied into the ring.
//!
//! Vector instructions fetch the lines that they write from the receiver's cache, where the last packet in these slots was
//! read; they are asked for while the packet before is on its way ([`Producer`](super::ring::Producer)). The instruction
//! that copies strings takes long to begin, but writes whole lines without having read them. Stores past the caches leave the lines in memory, from
//! where the receiver fetches them: of two processors without a common cache, that takes less time than asking one for what lies in the
//! other's. Which is fastest depends on the size, the processor, and how far apart the two processors are; `docs/shm-engine.md` has
//! measurements.

use causeway_sys::aliasing;
use causeway_sys::choice::ShortChoice;

/// Packets of at most so many bytes are copied in the usual way. Stores past the caches wait for memory once a packet: packets of 128 bytes stream
/// at a seventh of the rate with them (an EPYC of the fourth generation, near), those of 1 KiB at 0.8 of it near and at 3.3 times it far.
const FEW_BYTES: usize = 512;
/// Packets of at most so many bytes have a choice of their own.
const SHORT_BYTES: usize = 4608;

/// How a packet is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As the C library copies: a few hundred bytes by vector instructions, much by that for strings.
    Usual,
    /// By vector instructions.
    Vectors,
    /// By stores past the caches.
    Streamed,
}

impl Way {
    /// Whether the sender's cache should have the lines of a packet of `len` bytes before they are written.
    #[inline]
    pub(super) fn fetches_lines(self, len: usize) -> bool {
        match self {
            Self::Usual => len <= aliasing::STEP_BYTES,
            Self::Vectors => true,
            Self::Streamed => false,
        }
    }
}

/// Packets of a length with a choice of its own.
enum Class {
    /// The C library copies them by vector instructions.
    Few,
    Short,
    Long,
}

impl Class {
    #[inline]
    fn of(len: usize) -> Self {
        if len <= aliasing::STEP_BYTES {
            Self::Few
        } else if len <= SHORT_BYTES {
            Self::Short
        } else {
            Self::Long
        }
    }
}

/// The alternatives for packets that the C library copies by vector instructions, and for longer ones.
const FOR_FEW: [Way; 2] = [Way::Usual, Way::Streamed];
const FOR_MANY: [Way; 3] = [Way::Usual, Way::Vectors, Way::Streamed];

/// See the module's page.
pub(super) struct Ways {
    few: ShortChoice<{ FOR_FEW.len() }>,
    short: ShortChoice<{ FOR_MANY.len() }>,
    long: ShortChoice<{ FOR_MANY.len() }>,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            few: ShortChoice::new(0),
            short: ShortChoice::new(1),
            long: ShortChoice::new(0),
        }
    }
}

impl Ways {
    /// Whether they differ for a packet of `len` bytes.
    #[inline]
    pub(super) fn differ(len: usize) -> bool {
        len > FEW_BYTES
    }

    /// How the next packet, of `len` bytes, is to be copied.
    #[inline]
    pub(super) fn next(&self, len: usize) -> Way {
        match Class::of(len) {
            Class::Few => FOR_FEW[self.few.way()],
            Class::Short => FOR_MANY[self.short.way()],
            Class::Long => FOR_MANY[self.long.way()],
        }
    }

    /// That packet is in the ring.
    #[inline]
    pub(super) fn sent(&mut self, len: usize) {
        let units = len as u64;
        match Class::of(len) {
            Class::Few => self.few.did(units),
            Class::Short => self.short.did(units),
            Class::Long => self.long.did(units),
        }
    }
}
