//! Lists of regions and lists of memory fragments, and how they are split into accesses.
//!
//! A [`Piece`] pairs datafile regions with memory of the same number of bytes, both in order. Where
//! regions are many and small and lie close together, one larger access replaces them: reading takes
//! the whole span and copies what is wanted; writing reads the span, patches it and writes it back, while other writers wait (data
//! sieving, as ROMIO does it, but at the server, where it needs no network and no
//! distributed lock).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES};
use causeway_wire::fs::Region;

use super::block_cache::BlockCache;
use super::fault::{Fault, Result};
use super::history::Origin;
use crate::sabotage::{self, Sabotage};

/// Regions at least this long are read and written by a call of their own, in bytes.
pub(super) const DIRECT_LEN: u64 = 8 << 10;
/// Gaps up to this many bytes are cheaper to move along than a further system call.
const SIEVE_GAP: u64 = 2 << 10;
/// Longest span of one sieved access, in bytes: what stays in the second-level cache.
pub(super) const SIEVE_SPAN: u64 = 256 << 10;
/// Longest part of an access with checksums, in bytes, a multiple of the block: what is summed is still in the
/// second-level cache when it is copied.
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
    /// Nothing changes the memory before the piece is written, so that what is summed is what is stored.
    pub stable: bool,
    /// Set once the client does not wait for it any more.
    pub abandoned: Abandoned,
    /// The request that it is of.
    pub origin: Origin,
}

impl Piece {
    /// What of it lies in these regions, which are parts of its own in their order.
    pub(super) fn part(&self, regions: Vec<Region>) -> Self {
        let mut memory = Vec::new();
        // Bytes of memory before the region's.
        let mut before = 0;
        let mut parts = regions.iter().peekable();
        for region in &self.regions {
            let end = region.offset.saturating_add(region.len);
            while let Some(part) = parts.next_if(|part| {
                part.offset >= region.offset && part.offset.saturating_add(part.len) <= end
            }) {
                slice(
                    &self.memory,
                    before + (part.offset - region.offset),
                    part.len,
                    &mut memory,
                );
            }
            before += region.len;
        }
        Self {
            regions,
            memory,
            ..self.clone()
        }
    }

    /// Fails once the client does not wait for the piece any more: its memory may serve another purpose by then.
    pub(super) fn check_wanted(&self) -> Result<()> {
        match self.abandoned.is_set() && !sabotage::is_on(Sabotage::StaleWrites) {
            true => Err(Fault::Abandoned),
            false => Ok(()),
        }
    }
}

/// Adds `len` bytes from `start` on of fragments behind each other to `into`.
fn slice(fragments: &[Memory], start: u64, len: u64, into: &mut Vec<Memory>) {
    let (mut start, mut len) = (start as usize, len as usize);
    for fragment in fragments {
        let here = fragment.len().saturating_sub(start).min(len);
        if here > 0 {
            into.push(fragment.slice(start..start + here));
        }
        start = start.saturating_sub(fragment.len());
        len -= here;
    }
}

/// Whether the client that a piece belongs to has given up. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Notes that the client has given up.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a thread keeps for accesses that do not move bytes directly: a buffer, and blocks that it had lately.
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

/// Regions that are served by one access: ascending, without overlap, inside the span. One region is the
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

    /// What of the regions lies inside a part.
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
pub(super) struct Cursor<'a> {
    rest: std::slice::Iter<'a, Memory>,
    current: Option<&'a Memory>,
    /// Bytes of the current fragment that were taken.
    used: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(memory: &'a [Memory]) -> Self {
        let mut rest = memory.iter();
        let current = rest.next();
        let mut cursor = Self {
            rest,
            current,
            used: 0,
        };
        cursor.skip_used();
        cursor
    }

    /// Moves on to the next fragment that has bytes left.
    fn skip_used(&mut self) {
        while let Some(current) = self.current
            && self.used == current.len()
        {
            self.current = self.rest.next();
            self.used = 0;
        }
    }

    pub(super) fn current_len(&self) -> usize {
        self.current.map_or(0, |current| current.len() - self.used)
    }

    /// The next `len` bytes, which stay to be taken, if the current fragment has as many.
    pub(super) fn peek(&self, len: usize) -> Option<Memory> {
        let current = self.current.filter(|_| self.current_len() >= len)?;
        Some(current.slice(self.used..self.used + len))
    }

    /// At most `most` bytes of the current fragment.
    pub(super) fn take(&mut self, most: usize) -> Memory {
        let Some(current) = self.current else {
            return Memory::from_vec(Vec::new());
        };
        let len = most.min(current.len() - self.used);
        let part = current.slice(self.used..self.used + len);
        self.used += len;
        self.skip_used();
        part
    }

    /// Sets the next `len` bytes to zero.
    pub(super) fn clear(&mut self, len: u64) {
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        while left > 0 {
            let part = self.take(left);
            if part.is_empty() {
                break;
            }
            part.clear();
            left -= part.len();
        }
    }

    pub(super) fn copy_out(&mut self, mut into: &mut [u8]) {
        while let Some(current) = self.current
            && !into.is_empty()
        {
            let len = into.len().min(current.len() - self.used);
            let (head, tail) = into.split_at_mut(len);
            current.read_uncached_at(self.used, head);
            into = tail;
            self.used += len;
            self.skip_used();
        }
    }

    pub(super) fn copy_in(&mut self, mut from: &[u8]) {
        while let Some(current) = self.current
            && !from.is_empty()
        {
            let len = from.len().min(current.len() - self.used);
            let (head, tail) = from.split_at(len);
            current.write_at(self.used, head);
            from = tail;
            self.used += len;
            self.skip_used();
        }
    }
}
