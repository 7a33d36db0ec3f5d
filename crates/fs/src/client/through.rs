//! Reads into ordinary memory by way of memory that the I/O servers on this host map.
//!
//! A server moves bytes into ordinary memory of a client in two steps: from its file into a buffer of its own, and from there into the
//! client's memory by a system call, which looks up each page of that memory and copies at a third of the rate of `memcpy` on many processors.
//! Into memory that it maps, it reads in one step. So the client has servers read into a buffer of its own that they map, and copies
//! each part of it to where the caller wants it as soon as its server has replied, while servers read the others. Which of the two ways is
//! faster differs between machines, and with what else they do: the client measures both while it reads ([`Choice`]).
//! `docs/io-engine.md` has figures.
//!
//! Servers do not access the caller's memory in these reads. The buffer is used again unless a server may still access it: after a read that
//! has failed, or a call that a server has left unfinished, the next read has another one.

use causeway_bmi::Memory;
use causeway_sys::choice::{Choice, Sample};
use causeway_sys::copy_costs::CopyCosts;

/// Bytes of the buffer. Longer reads use it several times.
pub(super) const BUFFER_BYTES: u64 = 4 << 20;
/// Most bytes of one request. While the client copies them, servers read others. A server reads as many at once; smaller parts cost more in
/// messages and switches between processes than the copying of the last ones takes, when no server reads any more.
pub(super) const PART_BYTES: u64 = 1 << 20;
/// Shorter reads go straight to the caller's memory: a server has read them before another one could begin.
pub(super) const LEAST_BYTES: u64 = 64 << 10;
/// Up to this many bytes reads are short; the choice is made separately for short and long ones.
const SHORT_BYTES: u64 = 1 << 20;
/// The number of this way among the two of a [`Choice`].
const THROUGH: usize = 1;
/// A byte that another process has just written takes about as long as so many bytes to copy that this one has.
const FETCHED: f64 = 2.0;

/// The client's buffer, and which of the two ways is faster.
#[derive(Debug)]
pub(super) struct Through {
    buffer: Option<Memory>,
    choices: [Choice<2>; 2],
}

impl Default for Through {
    fn default() -> Self {
        let first = match CopyCosts::of_this_machine() {
            Some(costs) if costs.attach_byte < FETCHED * costs.copy_byte => 1 - THROUGH,
            _ => THROUGH,
        };
        Self {
            buffer: None,
            choices: std::array::from_fn(|_| Choice::new(first)),
        }
    }
}

/// A read for which both ways are possible, whose time is a sample of the way that it takes.
#[derive(Debug)]
pub(super) struct TimedRead {
    sample: Sample,
    class: usize,
    /// The buffer, if it goes through it.
    pub(super) buffer: Option<Memory>,
}

impl Through {
    /// Decides which way a read of so many bytes takes. `allocate` makes a buffer that servers map. `None` if there is none.
    pub(super) fn begin(
        &mut self,
        len: u64,
        allocate: impl FnOnce() -> Option<Memory>,
    ) -> Option<TimedRead> {
        let class = usize::from(len > SHORT_BYTES);
        let sample = self.choices[class].begin();
        let buffer = match sample.way() == THROUGH {
            true => Some(self.mapped_buffer(allocate)?),
            false => None,
        };
        Some(TimedRead {
            sample,
            class,
            buffer,
        })
    }

    /// Notes that a read of so many bytes has succeeded.
    pub(super) fn end(&mut self, timed: &TimedRead, bytes: u64) {
        self.choices[timed.class].end(&timed.sample, bytes);
    }

    /// Has the next read allocate another buffer, as a server may still access this one.
    pub(super) fn forget_buffer(&mut self) {
        self.buffer = None;
    }

    /// The buffer, or a new one if a server may still access it.
    fn mapped_buffer(&mut self, allocate: impl FnOnce() -> Option<Memory>) -> Option<Memory> {
        let is_free = |buffer: &Memory| buffer.object().is_some() && buffer.sharers() == 1;
        let known = self.buffer.take().filter(is_free);
        let buffer = known.or_else(allocate)?;
        self.buffer = Some(buffer.clone());
        buffer.object().is_some().then_some(buffer)
    }
}
