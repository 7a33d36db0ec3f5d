//! The host's memory: the costs of a processor's accesses, and the bus that DMA shares with them.

use super::shared::{Shared, Span};
use crate::engine::{Rate, Time};

/// Speeds and sizes of the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Time of one access that hits the cache.
    pub cache_access: Time,
    /// Time to fetch one line from memory.
    pub line_access: Time,
    /// Bytes in a line of the cache.
    pub line_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes per second that the memory bus moves.
    pub bytes_per_second: u64,
}

/// The memory of one host.
#[derive(Clone, Debug)]
pub struct Memory {
    spec: MemorySpec,
    rate: Rate,
    bus: Shared,
}

impl Memory {
    /// Bytes of a machine word, the unit of a processor's accesses.
    const WORD_BYTES: u64 = 4;

    /// Idle memory.
    pub fn new(spec: MemorySpec) -> Self {
        Self {
            rate: Rate::new(spec.bytes_per_second),
            spec,
            bus: Shared::default(),
        }
    }

    /// The memory's parameters.
    pub fn spec(&self) -> &MemorySpec {
        &self.spec
    }

    /// Processor time to read or write `bytes` that are in its cache.
    pub fn cached(&self, bytes: u64) -> Time {
        bytes.div_ceil(Self::WORD_BYTES) * self.spec.cache_access
    }

    /// Processor time to read or write `bytes` that are not: a line from memory for each line's worth, and the
    /// accesses themselves.
    pub fn uncached(&self, bytes: u64) -> Time {
        bytes.div_ceil(self.spec.line_bytes) * self.spec.line_access + self.cached(bytes)
    }

    /// Processor time to copy `bytes` from outside its cache to memory whose lines are in it.
    pub fn copy(&self, bytes: u64) -> Time {
        self.uncached(bytes) + self.cached(bytes)
    }

    /// Moves `bytes` over the memory bus, as DMA does.
    pub fn transfer(&mut self, now: Time, bytes: u64) -> Span {
        let time = self.rate.duration(bytes);
        self.bus.occupy(now, time)
    }

    /// The memory bus as a resource.
    pub fn bus(&self) -> &Shared {
        &self.bus
    }
}
