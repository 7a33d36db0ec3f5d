//! How packets of more than 2 KiB are copied into the ring.
//!
//! Vector instructions fetch the lines that they write from the receiver's cache, where the last packet in these slots was
//! read; they are asked for while the packet before is on its way ([`Producer`](super::ring::Producer)). The instruction
//! that copies strings takes long to begin, but writes whole lines without having read them. Which of the two is faster depends on the
//! size, the processor, and how far apart the two processors are. On an EPYC of the fifth generation, streaming 3,000 B, 4 KiB and 8,000 B takes
//! 100, 149 and 258 ns with vector instructions where a line takes 32 ns from one processor to the other, and 165, 161
//! and 195 ns with the instruction; where a line takes 220 ns, 3,000 B and 8,000 B take 493 and 1,165 ns, and 412 and 540 ns.

use causeway_sys::aliasing;
use causeway_sys::choice::ShortChoice;

/// Longer packets are chosen for apart from shorter ones.
const SHORT_BYTES: usize = 4608;

/// See the module's page.
pub(super) struct Ways {
    short: ShortChoice,
    long: ShortChoice,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            short: ShortChoice::new(true),
            long: ShortChoice::new(false),
        }
    }
}

impl Ways {
    /// Whether it makes a difference for a packet of `len` bytes.
    #[inline]
    pub(super) fn differ(len: usize) -> bool {
        len > aliasing::STEP_BYTES
    }

    /// Whether the next packet, of `len` bytes, is to be copied by vector instructions.
    pub(super) fn in_vectors(&mut self, len: usize) -> bool {
        self.choice(len).is_second()
    }

    /// That packet is in the ring.
    pub(super) fn sent(&mut self, len: usize) {
        self.choice(len).did(len as u64);
    }

    fn choice(&mut self, len: usize) -> &mut ShortChoice {
        match len <= SHORT_BYTES {
            true => &mut self.short,
            false => &mut self.long,
        }
    }
}
