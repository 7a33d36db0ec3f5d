//! Reads and writes of a few bytes of one block, by way of the thread's [`BlockCache`](super::block_cache::BlockCache).

use causeway_wire::datafile::{BLOCK_BYTES, Trust, physical, sums_offset};
use causeway_wire::fs::Region;

use super::block_cache::{Change, Content, Stamp};
use super::blocks::{Blocks, set_latest};
use super::datafile::Datafile;
use super::disk::put;
use super::fault::Result;
use super::pieces::{Cursor, Scratch};
use super::types::Wait;

/// The block that contains all bytes of a part, unless the part is a whole block.
fn block_of(part: Region) -> Option<u64> {
    let block = part.offset / BLOCK_BYTES;
    let inside = part.offset - block * BLOCK_BYTES;
    (part.len < BLOCK_BYTES && inside + part.len <= BLOCK_BYTES).then_some(block)
}

impl Datafile {
    /// Reads some bytes of a block; returns where the data ended. `stamp` is the file's when the request
    /// began. `None`, and nothing is done, if the part is not of that kind.
    pub(super) fn read_small(
        &self,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        wait: Wait,
        stamp: Stamp,
    ) -> Result<Option<u64>> {
        let Some(block) = block_of(part).filter(|_| self.trust() == Trust::Latest) else {
            return Ok(None);
        };
        let blocks = Blocks::of(part);
        let changes = self.changes.count_if_idle();
        let slot = scratch.cache.slot(self.number, block);
        let cached = slot.find(self.number, block, changes);
        if cached.is_none_or(|content| content.stamp != Some(stamp)) {
            slot.content = None;
            slot.found = self.fetch(blocks, &mut slot.bytes[..], &mut slot.sums, wait)?;
            slot.content = changes.map(|changes| Content {
                datafile: self.number,
                block,
                changes,
                stamp: Some(stamp),
            });
        }
        let start = (part.offset - blocks.offset()) as usize;
        memory.copy_in(&slot.bytes[start..start + part.len as usize]);
        Ok(Some(blocks.offset() + slot.found as u64))
    }

    /// Writes some bytes of a block, which is locked, as the whole of this change. Returns whether it did:
    /// nothing is done if the part is of another kind.
    pub(super) fn write_small(
        &self,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        change: &Change<'_>,
    ) -> Result<bool> {
        let Some(block) = block_of(part).filter(|_| self.trust() == Trust::Latest) else {
            return Ok(false);
        };
        let blocks = Blocks::of(part);
        let is_begun = self.groups.has(blocks.group());
        let slot = scratch.cache.slot(self.number, block);
        // The sums of a group that was not begun would have to change as well.
        let before = change.before.filter(|_| is_begun);
        let cached = slot.find(self.number, block, before).is_some();
        slot.content = None;
        self.begin_group(blocks.group())?;
        if !cached {
            slot.found = self.fetch_held(blocks, &mut slot.bytes[..], &mut slot.sums)?;
        }
        self.begin_write()?;
        let start = (part.offset - blocks.offset()) as usize;
        let end = start + part.len as usize;
        memory.copy_out(&mut slot.bytes[start..end]);
        set_latest(
            &mut slot.sums,
            self.block_binding(blocks).sum(0, &slot.bytes[..]),
        );
        let written = put(&self.file, &slot.sums, sums_offset(block))
            .and_then(|()| put(&self.file, &slot.bytes[start..end], physical(part.offset)));
        if let Err(error) = written {
            self.recompute_sums(blocks, &mut slot.bytes[..], &mut slot.sums);
            return Err(error.into());
        }
        slot.found = slot.found.max(end);
        if let (Some(before), Some(after)) = (change.before, change.after()) {
            slot.content = Some(Content {
                datafile: self.number,
                block,
                changes: after,
                stamp: None,
            });
            scratch.cache.carry_over(self.number, before, after);
        }
        Ok(true)
    }
}
