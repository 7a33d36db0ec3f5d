//! The ways that long reads into ordinary memory take, on the host of the I/O servers.
//!
//! - *Straight*: a server moves the bytes in two steps, from its file into a buffer of its own, and from there into the client's memory by a
//!   system call, which looks up each page of that memory and copies at a third of the rate of `memcpy` on many processors.
//! - *Through* memory of the client that the servers map: into that, a server reads in one step. The client copies each part of it to where
//!   the caller wants it as soon as its server has replied, while servers read the others.
//! - *Direct*: the client copies the bytes from the datafiles itself, where it can open them ([`super::direct`]).
//!
//! Which is fastest differs between machines, and with what else they do: the client measures all of them while it reads ([`Choice`]). But while
//! all processors are busy, it reads directly where it can: that costs the least processor time, of servers and client together, even where
//! another way is faster for this client because servers copy for it while others wait. `docs/io-engine.md` has figures.
//!
//! Servers access the caller's memory in straight reads alone. The buffer is used again unless a server may still access it: after a read
//! that has failed, or a call that a server has left unfinished, the next read has another one.

use causeway_bmi::Memory;
use causeway_sys::choice::{Choice, Sample};
use causeway_sys::copy_costs::CopyCosts;
use causeway_sys::runnable::Runnable;

/// Bytes of the buffer. Longer reads use it several times.
pub(super) const BUFFER_BYTES: u64 = 4 << 20;
/// Most bytes of one request. While the client copies them, servers read others. A server reads as many at once; smaller parts cost more in
/// messages and switches between processes than the copying of the last ones takes, when no server reads any more.
pub(super) const PART_BYTES: u64 = 1 << 20;
/// Shorter reads go straight to the caller's memory: a server has read them before another one could begin.
pub(super) const LEAST_BYTES: u64 = 64 << 10;
/// Up to this many bytes reads are short; the choice is made separately for short and long ones.
const SHORT_BYTES: u64 = 1 << 20;

/// A way that long reads take. See `docs/io-engine.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongReadWay {
    /// Servers write the caller's memory.
    Straight,
    /// Servers write a buffer of the client, which they map.
    Through,
    /// The client reads the datafiles itself, as far as it can open them; the rest straight.
    Direct,
}

/// The ways by their numbers in a [`Choice`].
const WAYS: [LongReadWay; 3] = [
    LongReadWay::Straight,
    LongReadWay::Through,
    LongReadWay::Direct,
];
const STRAIGHT: usize = 0;
const THROUGH: usize = 1;
/// A byte that another process has just written takes about as long as so many bytes to copy that this one has.
const FETCHED: f64 = 2.0;
/// After so many bytes the client looks again whether processors are busy.
const LOOK_BYTES: u64 = 4 << 20;
/// The last looks that count, and how many of them are most.
const LOOKS: u8 = 0b1111;
const MOST_LOOKS: u32 = 3;

/// The client's buffer, and which of the ways is fastest.
#[derive(Debug)]
pub(super) struct LongReads {
    /// The only way to take, if there is one.
    only: Option<LongReadWay>,
    buffer: Option<Memory>,
    /// Once the client has read enough for that to matter.
    measured: Option<Measured>,
}

/// The times of the ways: of the first two, and of all for files whose datafiles are open.
#[derive(Debug)]
struct Measured {
    by_servers: [Choice<2>; 2],
    of_all: [Choice<3>; 2],
    busyness: Busyness,
}

/// Whether all processors of this machine are busy, from time to time.
#[derive(Debug)]
struct Busyness {
    runnable: Option<Runnable>,
    /// What the last looks have found, a bit each, the latest in the lowest. None before the first.
    busy_looks: Option<u8>,
    /// Bytes read since the last look.
    unlooked: u64,
    /// Threads of servers that may still run, or poll for requests, since the last read.
    servers: u32,
}

impl Busyness {
    fn new() -> Self {
        Self {
            runnable: Runnable::open().ok(),
            busy_looks: None,
            unlooked: LOOK_BYTES,
            servers: 0,
        }
    }

    /// Looks, unless little was read since the last look, and returns whether the processors were busy most of the last times: for a moment they
    /// often are, when threads wake up. The first look counts as all of them, as a client that reads a file once makes few.
    fn look(&mut self) -> bool {
        if self.unlooked >= LOOK_BYTES
            && let Some(runnable) = &self.runnable
        {
            self.unlooked = 0;
            let is_busy = runnable.are_processors_busy(self.servers).unwrap_or(false);
            self.busy_looks = Some(match self.busy_looks {
                None if is_busy => LOOKS,
                looks => looks.unwrap_or(0) << 1 | u8::from(is_busy),
            });
        }
        (self.busy_looks.unwrap_or(0) & LOOKS).count_ones() >= MOST_LOOKS
    }
}

impl Measured {
    fn new() -> Self {
        let first = match CopyCosts::of_this_machine() {
            Some(costs) if costs.attach_byte < FETCHED * costs.copy_byte => STRAIGHT,
            _ => THROUGH,
        };
        Self {
            by_servers: std::array::from_fn(|_| Choice::new(first)),
            of_all: std::array::from_fn(|_| Choice::new(first)),
            busyness: Busyness::new(),
        }
    }

    /// The way of the next read of so many bytes from this number of servers, and its sample, if it is chosen by time.
    fn begin(
        &mut self,
        (len, servers): (u64, usize),
        class: usize,
        may_be_direct: bool,
    ) -> (LongReadWay, Option<Sample>) {
        if self.busyness.busy_looks.is_none() {
            // They have just opened the file, and may poll for the next request.
            self.busyness.servers = u32::try_from(servers).unwrap_or(u32::MAX);
        }
        let sample = match may_be_direct {
            true if self.busyness.look() => None,
            true => Some(self.of_all[class].begin()),
            false => Some(self.by_servers[class].begin()),
        };
        let way = match &sample {
            Some(sample) => WAYS[sample.way()],
            None => LongReadWay::Direct,
        };
        self.busyness.unlooked = self.busyness.unlooked.saturating_add(len);
        self.busyness.servers = match way {
            LongReadWay::Direct => 0,
            _ => u32::try_from(servers).unwrap_or(u32::MAX),
        };
        (way, sample)
    }
}

/// The way of a read.
#[derive(Debug)]
pub(super) enum Way {
    /// Servers write the caller's memory.
    Straight,
    /// Servers write this buffer.
    Through(Memory),
    /// The client reads the datafiles itself, as far as it has them open.
    Direct,
}

/// A read for which several ways are possible, whose time is a sample of the one that it takes.
#[derive(Debug)]
pub(super) struct TimedRead {
    /// None if the way was not chosen by time.
    sample: Option<Sample>,
    class: usize,
    is_of_all: bool,
    /// The way.
    pub(super) way: Way,
}

impl LongReads {
    /// `only`: the one way to take, instead of the fastest.
    pub(super) fn new(only: Option<LongReadWay>) -> Self {
        Self {
            only,
            buffer: None,
            measured: None,
        }
    }

    /// Decides which way a read of so many bytes from this number of servers takes; the direct one only if it `may_be_direct`. `allocate` makes
    /// a buffer that servers map. `None` if there is none.
    pub(super) fn begin(
        &mut self,
        read: (u64, usize),
        may_be_direct: bool,
        allocate: impl FnOnce() -> Option<Memory>,
    ) -> Option<TimedRead> {
        let class = usize::from(read.0 > SHORT_BYTES);
        let (way, sample) = match self.only {
            Some(way) => (way, None),
            None => {
                let measured = self.measured.get_or_insert_with(Measured::new);
                measured.begin(read, class, may_be_direct)
            }
        };
        let way = match way {
            LongReadWay::Straight => Way::Straight,
            LongReadWay::Through => Way::Through(self.mapped_buffer(allocate)?),
            LongReadWay::Direct => Way::Direct,
        };
        Some(TimedRead {
            sample,
            class,
            is_of_all: may_be_direct,
            way,
        })
    }

    /// Notes that a read of so many bytes has succeeded.
    pub(super) fn end(&mut self, timed: &TimedRead, bytes: u64) {
        let (Some(measured), Some(sample)) = (&mut self.measured, &timed.sample) else {
            return;
        };
        match timed.is_of_all {
            true => measured.of_all[timed.class].end(sample, bytes),
            false => measured.by_servers[timed.class].end(sample, bytes),
        }
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
