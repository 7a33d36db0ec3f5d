//! Lists of regions and lists of memory fragments, and how they are split into accesses.
//!
//! A [`Piece`] pairs datafile regions with memory of the same number of bytes, both in order. Where
//! regions are many and small and lie close together, one larger access replaces them: reading takes
//! the whole span and copies what is wanted; writing reads the span, patches it and writes it back, while
//! other writers wait (data sieving, as ROMIO does it, but at the server, where it needs no network and no distributed
//! lock).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES};
use causeway_wire::fs::Region;

use super::block_cache::BlockCache;
use super::fault::{Fault, Result};
use super::history::Origin;
use crate::cutter::Cutter;
use crate::sabotage::{self, Sabotage};

/// Regions at least this long are read and written by a call of their own, in bytes.
pub(super) const DIRECT_LEN: u64 = 8 << 10;
/// Reading or writing gaps of up to this many bytes costs less than a further system call.
const SIEVE_GAP: u64 = 2 << 10;
/// Longest span of one sieved access, in bytes, which fits into the second-level cache.
pub(super) const SIEVE_SPAN: u64 = 256 << 10;
/// Longest part of an access with checksums, in bytes, a multiple of the block: its bytes are still in the
/// second-level cache when they are copied after their sums were computed.
pub(super) const PART_BYTES: u64 = 256 << 10;
/// Fewest regions that are worth sieving.
const SIEVE_REGIONS: usize = 3;

/// Regions of a datafile and the memory that goes with them.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    /// Datafile regions in the order of the memory.
    pub regions: Vec<Region>,
    /// Memory fragments with as many bytes in all.
    pub memory: Vec<Memory>,
    /// Nothing changes the memory before the piece is written, so that the stored bytes are those whose
    /// sums were computed.
    pub stable: bool,
    /// Set once the client no longer waits for the piece.
    pub abandoned: Abandoned,
    /// The request that the piece belongs to.
    pub origin: Origin,
}

impl Piece {
    /// The part of the piece outside these ascending spans.
    pub(super) fn outside(&self, spans: &[(u64, u64)]) -> Self {
        let mut memory = Cutter::new(self.memory.iter().cloned());
        let mut left = Self {
            regions: Vec::new(),
            memory: Vec::new(),
            ..self.clone()
        };
        for region in &self.regions {
            let (mut at, end) = (region.offset, region.offset.saturating_add(region.len));
            for part in subtract(*region, spans) {
                memory.take(part.offset - at);
                left.memory.extend(memory.take(part.len));
                at = part.offset + part.len;
                left.regions.push(part);
            }
            memory.take(end - at);
        }
        left
    }

    /// Fails if the client no longer waits for the piece: its memory may serve another purpose by then.
    pub(super) fn check_wanted(&self) -> Result<()> {
        self.abandoned.check()
    }
}

/// The parts of a region outside ascending spans.
pub(super) fn subtract(region: Region, spans: &[(u64, u64)]) -> Vec<Region> {
    let end = region.offset.saturating_add(region.len);
    let mut left = Vec::new();
    let mut at = region.offset;
    for &(from, to) in spans {
        if from >= end || to <= at {
            continue;
        }
        if from > at {
            left.push(Region {
                offset: at,
                len: from - at,
            });
        }
        at = to;
    }
    if at < end {
        left.push(Region {
            offset: at,
            len: end - at,
        });
    }
    left
}

/// Whether the client has abandoned the request that a piece belongs to. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Records that the client has abandoned the request.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Fails if the client has abandoned the request.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Acquire) && !sabotage::is_on(Sabotage::StaleWrites) {
            true => Err(Fault::Abandoned),
            false => Ok(()),
        }
    }
}

/// A thread's buffer for accesses that do not move bytes directly, and its cached blocks.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    pub(super) cache: BlockCache,
}

impl Scratch {
    /// The first `len` bytes, with their previous content.
    pub(super) fn take(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }
}

/// Regions that one access serves: ascending, without overlap, inside the span. A single region is the
/// span itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) regions: &'a [Region],
    pub(super) span: Region,
}

impl<'a> Window<'a> {
    /// Cuts the span where a group of blocks ends, and into parts of at most [`PART_BYTES`] that end at
    /// blocks' borders.
    pub(super) fn parts(self) -> impl Iterator<Item = Region> + use<'a> {
        let end = self.span.offset + self.span.len;
        let mut offset = self.span.offset;
        std::iter::from_fn(move || {
            let group = offset / GROUP_BYTES * GROUP_BYTES + GROUP_BYTES;
            let block = offset / BLOCK_BYTES * BLOCK_BYTES;
            let len = end.min(group).min(block + PART_BYTES) - offset;
            let part = Region { offset, len };
            offset += len;
            (len > 0).then_some(part)
        })
    }

    /// The parts of the regions inside a part of the window.
    pub(super) fn inside(self, part: Region) -> impl Iterator<Item = Region> + use<'a> {
        let end = part.offset + part.len;
        self.regions.iter().filter_map(move |region| {
            let from = region.offset.max(part.offset);
            let to = (region.offset + region.len).min(end);
            (from < to).then(|| Region {
                offset: from,
                len: to - from,
            })
        })
    }
}

/// Cuts a list of regions into windows.
pub(super) fn windows(regions: &[Region]) -> impl Iterator<Item = Window<'_>> {
    let mut rest = regions;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut end = first.offset + first.len;
        let close = rest.iter().skip(1).take_while(|next| {
            let near = first.len < DIRECT_LEN
                && next.len < DIRECT_LEN
                && next.offset >= end
                && next.offset - end <= SIEVE_GAP
                && next.offset + next.len - first.offset <= SIEVE_SPAN;
            if near {
                end = next.offset + next.len;
            }
            near
        });
        let count = 1 + close.count();
        if count < SIEVE_REGIONS {
            let (one, behind) = rest.split_at(1);
            rest = behind;
            return Some(Window {
                regions: one,
                span: *first,
            });
        }
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        let span = Region {
            offset: first.offset,
            len: end - first.offset,
        };
        Some(Window {
            regions: taken,
            span,
        })
    })
}

/// Walks memory fragments from first to last. The caller never takes more than there is.
pub(crate) struct Cursor<'a> {
    memory: &'a [Memory],
    at: causeway_bmi::Cursor,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(memory: &'a [Memory]) -> Self {
        let at = causeway_bmi::Cursor::default();
        Self { memory, at }
    }

    /// Bytes that are left of the current fragment.
    pub(crate) fn current_len(&self) -> usize {
        let rest = { self.at }.next_in(self.memory, usize::MAX);
        rest.map_or(0, |(_, range)| range.len())
    }

    /// The next `len` bytes, which stay to be taken, if the current fragment has as many.
    pub(super) fn peek(&self, len: usize) -> Option<Memory> {
        let (fragment, range) = { self.at }.next_in(self.memory, len)?;
        (range.len() == len).then(|| fragment.slice(range))
    }

    /// At most `most` bytes of the current fragment.
    pub(crate) fn take(&mut self, most: usize) -> Memory {
        match self.at.next_in(self.memory, most) {
            Some((fragment, range)) => fragment.slice(range),
            None => Memory::from_vec(Vec::new()),
        }
    }

    /// Leaves out the next `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) {
        self.take_each(len, drop);
    }

    /// Sets the next `len` bytes to zero.
    pub(crate) fn clear(&mut self, len: u64) {
        self.take_each(len, |part| part.clear());
    }

    fn take_each(&mut self, len: u64, act: impl Fn(Memory)) {
        self.at.spans(self.memory, len).for_each(act);
    }

    /// Fills `into` with the next bytes.
    pub(crate) fn copy_out(&mut self, mut into: &mut [u8]) {
        while let Some((fragment, range)) = self.at.next_in(self.memory, into.len()) {
            let (head, tail) = into.split_at_mut(range.len());
            fragment.read_uncached_at(range.start, head);
            into = tail;
        }
    }

    /// Puts `from` into the next bytes.
    pub(crate) fn copy_in(&mut self, from: &[u8]) {
        self.at.write(self.memory, from);
    }
}
