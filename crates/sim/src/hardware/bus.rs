//! The bus between the host and its cards.
//!
//! A transaction costs arbitration, an address phase and one cycle for each width of data. Writes are
//! posted: the writer is free when the last word is on the bus, and the bridge delivers after its
//! latency. A read of host memory is refused at once (the *retry*); the bridge fetches the data from
//! memory meanwhile, the bus is free for others, and the second try finds the data.

use super::memory::Memory;
use super::shared::{Shared, Span};
use crate::engine::{Rate, Time, duration_at};

/// Speeds of an I/O bus and of the bridge between it and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoBusSpec {
    /// Cycles per second.
    pub clock_hz: u64,
    /// Bytes that move in one cycle.
    pub width_bytes: u64,
    /// Cycles from requesting the idle bus to having it.
    pub arbitration_cycles: u64,
    /// Cycles of a transaction in addition to its data.
    pub address_cycles: u64,
    /// Cycles of a refused read, in addition to arbitration and address.
    pub retry_cycles: u64,
    /// Most bytes that a card moves in one transaction.
    pub burst_bytes: u64,
    /// The time that the bridge adds to each crossing.
    pub bridge_latency: Time,
}

impl IoBusSpec {
    /// Bytes per second while data flows: nothing on the bus is faster.
    pub fn peak_bytes_per_second(&self) -> u64 {
        self.clock_hz.saturating_mul(self.width_bytes)
    }
}

/// A programmed write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// When the processor may continue.
    pub accepted: Time,
    /// When the card has it.
    pub delivered: Time,
}

/// The I/O bus of one host.
#[derive(Clone, Debug)]
pub struct IoBus {
    spec: IoBusSpec,
    /// Cycles each second, for transactions of as many bytes as a burst mostly has.
    clock: Rate,
    /// How long a word takes, in a processor's store or a refused read.
    word: Time,
    refusal: Time,
    bus: Shared,
    retries: u64,
}

impl IoBus {
    /// An idle bus.
    pub fn new(spec: IoBusSpec) -> Self {
        let cycles = |cycles| duration_at(cycles, spec.clock_hz);
        let overhead = spec.arbitration_cycles + spec.address_cycles;
        Self {
            clock: Rate::new(spec.clock_hz),
            word: cycles(overhead + 1),
            refusal: cycles(overhead + spec.retry_cycles),
            spec,
            bus: Shared::default(),
            retries: 0,
        }
    }

    /// The bus's parameters.
    pub fn spec(&self) -> &IoBusSpec {
        &self.spec
    }

    /// The bus as a resource.
    pub fn bus(&self) -> &Shared {
        &self.bus
    }

    /// How many reads were refused and tried again.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    fn transaction(&mut self, bytes: u64) -> Time {
        let data = bytes.div_ceil(self.spec.width_bytes);
        let overhead = self.spec.arbitration_cycles + self.spec.address_cycles;
        self.clock.duration(overhead + data)
    }

    /// Writes `bytes` from the host's processor to the card, in as many transactions as its stores make.
    pub fn programmed_write(&mut self, now: Time, bytes: u64) -> Posted {
        // A processor's stores are combined up to the width of the bus, no further.
        let stores = bytes.div_ceil(self.spec.width_bytes).max(1);
        let span = self.bus.occupy(now, self.word * stores);
        Posted {
            // The bridge's write buffer accepts the store; the processor waits only while the bus
            // is behind.
            accepted: span.start,
            delivered: span.end + self.spec.bridge_latency,
        }
    }

    /// Writes a burst of `bytes` from a card to host memory; the span's `end` is when the bus is free again.
    /// The bytes are in memory at [`Self::landed`].
    pub fn burst_write(&mut self, now: Time, bytes: u64, memory: &mut Memory) -> Span {
        let time = self.transaction(bytes);
        let span = self.bus.occupy(now, time);
        memory.transfer(span.end, bytes);
        span
    }

    /// When a burst that left the bus at `end` has been written to memory.
    pub fn landed(&self, end: Time) -> Time {
        end + self.spec.bridge_latency
    }

    /// Requests for a card to read a burst of `bytes` of host memory, which is refused; returns when the bridge will have
    /// the data, which is when to call [`Self::burst_read`].
    pub fn burst_read_refused(&mut self, now: Time, bytes: u64, memory: &mut Memory) -> Time {
        self.retries += 1;
        let refused = self.bus.occupy(now, self.refusal).end;
        let at_memory = refused + self.spec.bridge_latency;
        memory.transfer(at_memory, bytes).end + self.spec.bridge_latency
    }

    /// The second try, which finds the data.
    pub fn burst_read(&mut self, now: Time, bytes: u64) -> Span {
        let time = self.transaction(bytes);
        self.bus.occupy(now, time)
    }
}
