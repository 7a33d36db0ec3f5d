//! The host's memory: its pages, and the bus that DMA takes.

use super::shared::{Shared, Span};
use crate::engine::{Rate, Time};

/// Speeds and sizes of the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySpec {
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
