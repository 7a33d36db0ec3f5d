//! Access with checksums: every block that is read matches its sum, every block that is written has one.
//!
//! A write stores the new sums beside the previous ones before the data. A process that is killed in between
//! leaves blocks that match one of both: a block is copied into the page cache in one step.

use std::io;

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{
    BLOCK_BYTES, GROUP_BLOCKS, GROUP_BYTES, Sums, Trust, physical, sums_offset,
};
use causeway_wire::fs::{Region, WantedSums};

use super::datafile::{Datafile, ReadOptions};
use super::disk::{put, put_memory, read_padded};
use super::fault::{Fault, Result};
use super::pieces::{Cursor, PART_BYTES, Scratch, Window};
use super::sums::{BLOCK, BlockBinding, SUMS, both, crc_in, stored};
use super::types::Wait;
use crate::sabotage::{self, Sabotage};

/// Most blocks that one part touches.
const PART_BLOCKS: usize = PART_BYTES as usize / BLOCK;
/// Blocks that are brought into the cache together, to be summed there: most of the first level.
const CACHED_BLOCKS: usize = 8;

/// Consecutive blocks of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    first: u64,
    count: usize,
}

impl Blocks {
    /// The blocks that a part touches.
    pub(super) fn of(part: Region) -> Self {
        let first = part.offset / BLOCK_BYTES;
        let end = (part.offset + part.len).div_ceil(BLOCK_BYTES);
        Self {
            first,
            count: (end - first) as usize,
        }
    }

    /// So many blocks from this one on.
    pub(super) fn run(first: u64, count: usize) -> Self {
        Self { first, count }
    }

    /// How many blocks there are.
    pub(super) fn count(self) -> usize {
        self.count
    }

    /// First data byte.
    pub(super) fn offset(self) -> u64 {
        self.first * BLOCK_BYTES
    }

    pub(super) fn group(self) -> u64 {
        self.first / GROUP_BLOCKS
    }

    fn end(self) -> u64 {
        self.offset() + (self.count * BLOCK) as u64
    }

    /// The position of its bytes within those of a range of blocks that it belongs to.
    fn span_in(self, all: Self) -> std::ops::Range<usize> {
        let start = (self.first - all.first) as usize * BLOCK;
        start..start + self.count * BLOCK
    }
}

impl Datafile {
    /// Reads and verifies a part into the memory; returns where the data ended. Whole blocks whose sums are
    /// wanted may be left to the caller to verify.
    pub(super) fn read_blocks(
        &self,
        window: Window<'_>,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        options: &ReadOptions,
        sums: &mut Vec<u32>,
    ) -> Result<u64> {
        let wait = options.wait;
        // Holes may have to be found by reading from the device.
        if wait == Wait::Allowed && options.sums == WantedSums::None && self.is_in_hole(part)? {
            window
                .inside(part)
                .for_each(|region| memory.clear(region.len));
            return Ok(self.size()?.clamp(part.offset, part.offset + part.len));
        }
        // The memory of several regions has no room for what lies between them.
        if window.regions.len() == 1
            && let Some(end) = self.read_whole_blocks(part, memory, options, sums)?
        {
            return Ok(end);
        }
        if let Some(stamp) = options.stamp
            && window.regions.len() == 1
            && let Some(end) = self.read_small(part, memory, scratch, wait, stamp)?
        {
            return Ok(end);
        }
        let blocks = Blocks::of(part);
        let bytes = scratch.take(blocks.count * BLOCK);
        let found = self.fetch(blocks, bytes, &mut [0; PART_BLOCKS * SUMS], wait)?;
        for region in window.inside(part) {
            let start = (region.offset - blocks.offset()) as usize;
            memory.copy_in(&bytes[start..start + region.len as usize]);
        }
        if options.sums != WantedSums::None {
            let binding = self.block_binding(blocks);
            let whole = bytes.chunks_exact(BLOCK).take(part.len as usize / BLOCK);
            let found = whole.enumerate();
            sums.extend(found.map(|(index, block)| binding.sum(index, block)));
        }
        Ok(blocks.offset() + found as u64)
    }

    /// Reads a part of whole blocks straight into the memory, and verifies it there, a block at a time while it is
    /// in the cache. Returns `None` and leaves the memory's cursor where it was, if that is not possible or the sums do not match.
    fn read_whole_blocks(
        &self,
        part: Region,
        memory: &mut Cursor<'_>,
        options: &ReadOptions,
        sums: &mut Vec<u32>,
    ) -> Result<Option<u64>> {
        let trust = self.trust();
        let direct = match options.sums {
            WantedSums::None => true,
            WantedSums::Stored => trust == Trust::Latest,
            WantedSums::Sent | WantedSums::Only => false,
        };
        let into = memory.peek(part.len as usize);
        let Some(into) = into.filter(|_| direct && is_whole(part)) else {
            return Ok(None);
        };
        let blocks = Blocks::of(part);
        let must = self.must_have_sums(blocks);
        let mut slots = [0; PART_BLOCKS * SUMS];
        self.load_sums(blocks, &mut slots, options.wait)?;
        if first_without(&slots, must).is_some() {
            return Ok(None);
        }
        let count = self.read_part(&into, part.offset, options.wait)?;
        into.slice(count..into.len()).clear();
        // The process that owns this memory may write it meanwhile; it harms only itself.
        let binding = self.block_binding(blocks);
        let mut blocks = (0..into.len() / BLOCK).zip(stored(&slots));
        if options.sums == WantedSums::Stored {
            sums.extend(blocks.map(|(index, sums)| binding.effective(index, sums.latest)));
        } else if !sabotage::is_on(Sabotage::SkipChecksum)
            && !blocks.all(|(index, sums)| {
                let found = binding.sum_of(index, crc_in(&into, index * BLOCK));
                binding.is_sum(index, found, sums, trust)
            })
        {
            return Ok(None);
        }
        memory.take(into.len());
        Ok(Some(part.offset + count as u64))
    }

    /// Reads and verifies blocks, and reads their sums; bytes behind the datafile's end are zeros. Returns how many bytes
    /// lay before the end.
    pub(super) fn fetch(
        &self,
        blocks: Blocks,
        bytes: &mut [u8],
        sums: &mut [u8],
        wait: Wait,
    ) -> Result<usize> {
        let (trust, must) = (self.trust(), self.must_have_sums(blocks));
        let found = self.load(blocks, bytes, sums, wait)?;
        if first_bad(bytes, sums, self.block_binding(blocks), trust, must).is_none() {
            return Ok(found);
        }
        // A write may be between its sums and its data: the blocks are verified while no write is in progress.
        if wait == Wait::Refused {
            return Err(io::Error::from(io::ErrorKind::WouldBlock).into());
        }
        let _held = self.ranges.lock(blocks.offset(), blocks.end());
        self.fetch_held(blocks, bytes, sums)
    }

    /// As [`Datafile::fetch`], while the caller keeps other threads from writing the blocks.
    pub(super) fn fetch_held(
        &self,
        blocks: Blocks,
        bytes: &mut [u8],
        sums: &mut [u8],
    ) -> Result<usize> {
        let must = self.must_have_sums(blocks);
        let found = self.load(blocks, bytes, sums, Wait::Allowed)?;
        self.verify_held(blocks, bytes, sums, must)?;
        Ok(found)
    }

    /// Fails if a block that was read with its sums, while no other thread could write it, does not match them.
    fn verify_held(&self, blocks: Blocks, bytes: &[u8], sums: &[u8], must: usize) -> Result<()> {
        let trust = self.trust();
        let Some(bad) = first_bad(bytes, sums, self.block_binding(blocks), trust, must) else {
            return Ok(());
        };
        if trust == Trust::Unsynced {
            tracing::warn!(
                object = self.object().0,
                offset = blocks.offset() + (bad * BLOCK) as u64,
                "bytes that were not synced before power was lost are read as the disk has them"
            );
            return Ok(());
        }
        Err(Fault::Damaged {
            offset: blocks.offset() + (bad * BLOCK) as u64,
            len: BLOCK_BYTES,
        })
    }

    fn load(
        &self,
        blocks: Blocks,
        bytes: &mut [u8],
        sums: &mut [u8],
        wait: Wait,
    ) -> io::Result<usize> {
        self.load_sums(blocks, sums, wait)?;
        read_padded(&self.file, bytes, physical(blocks.offset()), wait)
    }

    /// The binding of the blocks' sums.
    pub(super) fn block_binding(&self, blocks: Blocks) -> BlockBinding {
        BlockBinding::new(self.binding, blocks.first)
    }

    /// How many of the blocks, from the first on, must have sums: all blocks of a written group. To be called
    /// before the sums are read.
    pub(super) fn must_have_sums(&self, blocks: Blocks) -> usize {
        match self.groups.has(blocks.group()) {
            true => blocks.count,
            false => 0,
        }
    }

    pub(super) fn load_sums(&self, blocks: Blocks, sums: &mut [u8], wait: Wait) -> io::Result<()> {
        let wanted = &mut sums[..blocks.count * SUMS];
        read_padded(&self.file, wanted, sums_offset(blocks.first), wait).map(drop)
    }

    /// Writes a part from the memory, whose blocks are held. `stable` memory does not change before the write has ended.
    pub(super) fn write_blocks(
        &self,
        window: Window<'_>,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        stable: bool,
    ) -> Result<()> {
        let blocks = Blocks::of(part);
        let trust = self.trust();
        self.begin_group(blocks.group())?;
        // The memory of several regions has no bytes for what lies between them.
        let direct = stable && window.regions.len() == 1 && trust == Trust::Latest;
        let from = memory.peek(part.len as usize);
        if let Some(from) = from.filter(|_| direct && is_whole(part)) {
            memory.take(part.len as usize);
            return self.write_whole_blocks(blocks, &from, scratch);
        }
        let bytes = scratch.take(blocks.count * BLOCK);
        let mut sums = [0; PART_BLOCKS * SUMS];
        match window.regions.len() {
            1 => self.fetch_edges(part, trust, bytes, &mut sums)?,
            _ => self.fetch_held(blocks, bytes, &mut sums).map(drop)?,
        }
        let stored = &mut sums[..blocks.count * SUMS];
        let binding = self.block_binding(blocks);
        if trust != Trust::Latest {
            // The block may match either sum: the one that it matches must stay valid.
            set_all_latest(stored, bytes, binding, 0);
        }
        self.begin_write()?;
        if window.regions.len() > 1 {
            for region in window.inside(part) {
                let start = (region.offset - blocks.offset()) as usize;
                memory.copy_out(&mut bytes[start..start + region.len as usize]);
            }
        }
        let mut start = blocks.offset();
        for (number, (sums, cached)) in stored
            .chunks_mut(CACHED_BLOCKS * SUMS)
            .zip(bytes.chunks_mut(CACHED_BLOCKS * BLOCK))
            .enumerate()
        {
            let end = start + cached.len() as u64;
            if window.regions.len() == 1 {
                let from = part.offset.max(start);
                let to = (part.offset + part.len).min(end);
                memory.copy_out(&mut cached[(from - start) as usize..(to - start) as usize]);
            }
            set_all_latest(sums, cached, binding, number * CACHED_BLOCKS);
            start = end;
        }
        let start = (part.offset - blocks.offset()) as usize;
        let changed = &bytes[start..start + part.len as usize];
        let written = put(&self.file, stored, sums_offset(blocks.first))
            .and_then(|()| put(&self.file, changed, physical(part.offset)));
        if let Err(error) = written {
            self.recompute_sums(blocks, bytes, stored);
            return Err(error.into());
        }
        Ok(())
    }

    /// Reads what a write of a part of blocks must keep: the sums of all of them, and the content of those that the part
    /// covers only partly, which is verified; the content of all of them if blocks may also match their previous sums.
    fn fetch_edges(
        &self,
        part: Region,
        trust: Trust,
        bytes: &mut [u8],
        sums: &mut [u8],
    ) -> Result<()> {
        let blocks = Blocks::of(part);
        if trust == Trust::Latest {
            self.load_sums(blocks, sums, Wait::Allowed)?;
            for edge in edges(part) {
                let bytes = &mut bytes[edge.span_in(blocks)];
                read_padded(&self.file, bytes, physical(edge.offset()), Wait::Allowed)?;
            }
        } else {
            self.load(blocks, bytes, sums, Wait::Allowed)?;
        }
        for edge in edges(part) {
            let span = edge.span_in(blocks);
            let its_sums = &sums[span.start / BLOCK * SUMS..][..SUMS];
            let must = self.must_have_sums(edge);
            self.verify_held(edge, &bytes[span], its_sums, must)?;
        }
        Ok(())
    }

    /// Writes whole blocks straight from the memory. The caller keeps other threads from writing the blocks, of
    /// which only the latest sums are valid.
    fn write_whole_blocks(
        &self,
        blocks: Blocks,
        from: &Memory,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut sums = [0; PART_BLOCKS * SUMS];
        self.load_sums(blocks, &mut sums, Wait::Allowed)?;
        let stored = &mut sums[..blocks.count * SUMS];
        let binding = self.block_binding(blocks);
        self.begin_write()?;
        for (index, sums) in stored.chunks_exact_mut(SUMS).enumerate() {
            if index.is_multiple_of(CACHED_BLOCKS) {
                let start = index * BLOCK;
                from.fetch(start, (CACHED_BLOCKS * BLOCK).min(from.len() - start));
            }
            set_latest(sums, binding.sum_of(index, crc_in(from, index * BLOCK)));
        }
        let written = put(&self.file, stored, sums_offset(blocks.first))
            .and_then(|()| put_memory(&self.file, from, physical(blocks.offset())));
        if let Err(error) = written {
            self.recompute_sums(blocks, scratch.take(blocks.count * BLOCK), stored);
            return Err(error.into());
        }
        Ok(())
    }

    /// Recomputes sums after a failed write: each block then has its former content, or the content
    /// that should have been written, or a mixture, and its sum becomes that of its present content.
    pub(super) fn recompute_sums(&self, blocks: Blocks, bytes: &mut [u8], sums: &mut [u8]) {
        let stored = read_padded(&self.file, bytes, physical(blocks.offset()), Wait::Allowed)
            .and_then(|_| {
                let binding = self.block_binding(blocks);
                let slots = sums.chunks_exact_mut(SUMS).zip(bytes.chunks_exact(BLOCK));
                for (index, (sums, block)) in slots.enumerate() {
                    sums.copy_from_slice(&both(binding.sum(index, block)).to_bytes());
                }
                put(&self.file, sums, sums_offset(blocks.first))
            });
        if let Err(error) = stored {
            tracing::warn!(object = self.object().0, %error, "cannot rewrite the checksums after a failed write: reads of these blocks may report damage");
        }
    }

    /// Verifies a part and returns its damaged spans (offset and length). Blocks that an interruption has left
    /// with another sum than their latest get a new one.
    pub(super) fn verify(&self, part: Region, scratch: &mut Scratch) -> Result<Vec<(u64, u64)>> {
        let blocks = Blocks::of(part);
        let bytes = scratch.take(blocks.count * BLOCK);
        let binding = self.block_binding(blocks);
        let must = self.must_have_sums(blocks);
        let mut sums = [0; PART_BLOCKS * SUMS];
        self.load(blocks, bytes, &mut sums, Wait::Allowed)?;
        if first_bad(bytes, &sums, binding, Trust::Latest, must).is_none() {
            if must == 0 && stored(&sums).any(|sums| sums != Sums::default()) {
                // The group was written, but the list of written groups was lost or full.
                let _held = self.ranges.lock(blocks.offset(), blocks.end());
                let _change = self.changes.begin();
                self.begin_group(blocks.group())?;
            }
            return Ok(Vec::new());
        }
        let _held = self.ranges.lock(blocks.offset(), blocks.end());
        let _change = self.changes.begin();
        self.begin_group(blocks.group())?;
        let must = self.must_have_sums(blocks);
        self.load(blocks, bytes, &mut sums, Wait::Allowed)?;
        let trust = self.trust();
        let stored = &mut sums[..blocks.count * SUMS];
        let (mut damaged, mut changed) = (Vec::<(u64, u64)>::new(), false);
        for (index, (block, raw)) in bytes
            .chunks_exact(BLOCK)
            .zip(stored.chunks_exact_mut(SUMS))
            .enumerate()
        {
            let Some(sums) = super::sums::stored(raw).next() else {
                continue;
            };
            let is_lost = sums == Sums::default() && index < must;
            if binding.matches(index, block, sums, Trust::Latest) && !is_lost {
                continue;
            }
            if trust == Trust::Unsynced || (binding.matches(index, block, sums, trust) && !is_lost)
            {
                raw.copy_from_slice(&both(binding.sum(index, block)).to_bytes());
                changed = true;
                continue;
            }
            let offset = blocks.offset() + (index * BLOCK) as u64;
            match damaged.last_mut() {
                Some((start, len)) if *start + *len == offset => *len += BLOCK_BYTES,
                _ => damaged.push((offset, BLOCK_BYTES)),
            }
        }
        if changed {
            self.begin_write()?;
            put(&self.file, stored, sums_offset(blocks.first))?;
        }
        Ok(damaged)
    }

    /// The sums that blocks of one group will have as part of a hole, whose latest is that of zeros, in the front of
    /// `sums`. The caller keeps other threads from writing the blocks.
    pub(super) fn sums_with_zeros<'a>(
        &self,
        blocks: Blocks,
        sums: &'a mut [u8; BLOCK],
        scratch: &mut Scratch,
    ) -> io::Result<&'a mut [u8]> {
        let binding = self.block_binding(blocks);
        if self.trust() == Trust::Latest {
            self.load_sums(blocks, sums, Wait::Allowed)?;
        } else {
            let bytes = scratch.take(blocks.count * BLOCK);
            self.load(blocks, bytes, sums, Wait::Allowed)?;
            set_all_latest(sums, bytes, binding, 0);
        }
        let stored = &mut sums[..blocks.count * SUMS];
        for (index, sums) in stored.chunks_exact_mut(SUMS).enumerate() {
            set_latest(sums, binding.zeros(index));
        }
        Ok(stored)
    }

    /// The first of these blocks of a written group, which are a hole in the file, that would not read
    /// as zeros.
    pub(super) fn first_lost(&self, blocks: Blocks) -> io::Result<Option<u64>> {
        let mut sums = [0; BLOCK];
        self.load_sums(blocks, &mut sums, Wait::Allowed)?;
        let binding = self.block_binding(blocks);
        let lost = stored(&sums[..blocks.count * SUMS])
            .enumerate()
            .position(|(index, sums)| sums.latest != binding.zeros(index));
        Ok(lost.map(|index| blocks.offset() + (index * BLOCK) as u64))
    }

    /// Sets the sums of the last group's blocks, before the datafile is truncated to `size`, to those that the
    /// blocks will have then. The caller holds all ranges.
    pub(super) fn truncate_sums(&self, size: u64) -> Result<()> {
        let end = size.div_ceil(GROUP_BYTES) * GROUP_BYTES;
        let whole = Region {
            offset: size,
            len: end - size,
        };
        let window = Window {
            regions: std::slice::from_ref(&whole),
            span: whole,
        };
        let mut scratch = Scratch::default();
        let trust = self.trust();
        for part in window.parts() {
            let blocks = Blocks::of(part);
            let mut sums = [0; PART_BLOCKS * SUMS];
            let (binding, kept) = (
                self.block_binding(blocks),
                (part.offset - blocks.offset()) as usize,
            );
            self.begin_group(blocks.group())?;
            if trust != Trust::Latest {
                let bytes = scratch.take(blocks.count * BLOCK);
                self.fetch_held(blocks, bytes, &mut sums)?;
                set_all_latest(&mut sums, bytes, binding, 0);
            } else {
                self.load_sums(blocks, &mut sums, Wait::Allowed)?;
            }
            let stored = &mut sums[..blocks.count * SUMS];
            for (index, sums) in stored.chunks_exact_mut(SUMS).enumerate() {
                set_latest(sums, binding.zeros(index));
            }
            if kept > 0 {
                let block = scratch.take(BLOCK);
                let mut unused = [0; PART_BLOCKS * SUMS];
                self.fetch_held(Blocks::run(blocks.first, 1), block, &mut unused)?;
                block[kept..].fill(0);
                stored[SUMS / 2..SUMS].copy_from_slice(&binding.sum(0, block).to_le_bytes());
            }
            put(&self.file, stored, sums_offset(blocks.first))?;
        }
        Ok(())
    }
}

/// The blocks that a part covers only partly: its first, its last or both.
fn edges(part: Region) -> impl Iterator<Item = Blocks> {
    let end = part.offset + part.len;
    let (first, last) = (part.offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
    let starts_inside = !part.offset.is_multiple_of(BLOCK_BYTES);
    let ends_inside = !end.is_multiple_of(BLOCK_BYTES);
    let start = (starts_inside || (ends_inside && first == last)).then_some(first);
    let end = (ends_inside && first != last).then_some(last);
    start
        .into_iter()
        .chain(end)
        .map(|block| Blocks::run(block, 1))
}

/// Whether a part consists of whole blocks.
fn is_whole(part: Region) -> bool {
    part.offset.is_multiple_of(BLOCK_BYTES) && part.len.is_multiple_of(BLOCK_BYTES)
}

/// Makes the latest sum the previous one, and sets the latest.
pub(super) fn set_latest(sums: &mut [u8], latest: u32) {
    let (previous, last) = sums.split_at_mut(SUMS / 2);
    previous.copy_from_slice(last);
    last.copy_from_slice(&latest.to_le_bytes());
}

/// The same for whole blocks, the first of which has this index.
fn set_all_latest(sums: &mut [u8], bytes: &[u8], binding: BlockBinding, first: usize) {
    let slots = sums.chunks_exact_mut(SUMS).zip(bytes.chunks_exact(BLOCK));
    for (index, (sums, block)) in slots.enumerate() {
        set_latest(sums, binding.sum(first + index, block));
    }
}

/// The first block that does not match its sums, or has none though it is one of the `must` first ones.
fn first_bad(
    bytes: &[u8],
    sums: &[u8],
    binding: BlockBinding,
    trust: Trust,
    must: usize,
) -> Option<usize> {
    if sabotage::is_on(Sabotage::SkipChecksum) {
        return None;
    }
    let blocks = bytes.chunks_exact(BLOCK).zip(stored(sums));
    let bad = blocks
        .enumerate()
        .find(|(index, (block, sums))| !binding.matches(*index, block, *sums, trust))
        .map(|(index, _)| index);
    match (bad, first_without(sums, must)) {
        (Some(bad), Some(without)) => Some(bad.min(without)),
        (bad, without) => bad.or(without),
    }
}

/// The first of the `must` first blocks that has no sum, and had none before its last write.
pub(super) fn first_without(sums: &[u8], must: usize) -> Option<usize> {
    stored(sums)
        .take(must)
        .position(|sums| sums == Sums::default())
}
