//! Blocks that a thread has read, verified or written lately, for accesses to a few bytes at a time.
//!
//! A read of some bytes must sum the whole block, and a write must read and sum it first. Programs that go through a
//! file in small steps touch the same block again and again: it is cached here, and is used as long as nothing has
//! changed the datafile since ([`Changes`]). A read also needs the file's time stamps to be the same: what changes
//! the file behind the server's back is read from the file, and noticed. A write needs no such thing: its block's sum is
//! that of the block as it should be, so that a change from elsewhere does not match it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_wire::datafile::{BLOCK_BYTES, Trust, physical, size_of_file, sums_offset};
use causeway_wire::fs::Region;

use super::blocks::{Blocks, set_latest};
use super::datafile::{Datafile, Wait};
use super::disk::put;
use super::fault::Result;
use super::pieces::{Cursor, Scratch};
use super::sums::{BLOCK, SUMS};

/// Blocks that a thread caches: those of several clients that go through a file each, and a share of the processor's
/// second-level cache.
const SLOTS: usize = 32;

/// Counts the changes of a datafile's blocks and sums: when they begin and when they end.
#[derive(Debug, Default)]
pub(super) struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A change in progress, until this is dropped.
#[derive(Debug)]
pub(super) struct Change<'a> {
    changes: &'a Changes,
    /// Changes before this one, if all of them had ended when it began.
    before: Option<u64>,
}

impl Changes {
    /// Notes that blocks or sums are about to change.
    pub(super) fn begin(&self) -> Change<'_> {
        let ended = self.ended.load(Ordering::Acquire);
        let before = self.begun.fetch_add(1, Ordering::AcqRel);
        Change {
            changes: self,
            before: (before == ended).then_some(before),
        }
    }

    /// How many changes there were, if none is in progress.
    fn settled(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire) == ended).then_some(ended)
    }
}

impl Change<'_> {
    /// The count of changes when this one has ended, if none has been in progress beside it so far.
    fn after(&self) -> Option<u64> {
        let after = self.before? + 1;
        (self.changes.begun.load(Ordering::Acquire) == after).then_some(after)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.changes.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// What the kernel says of a file when a request for it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The size of the datafile in the file.
    pub fn size(&self) -> u64 {
        size_of_file(self.len)
    }

    pub(super) fn of(file: &Metadata) -> Self {
        Self {
            len: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The blocks that a thread has cached, each in the slot that its place gives it.
#[derive(Debug, Default)]
pub(super) struct BlockCache {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Which block it is, and after how many changes of the datafile; `None` if there is none.
    content: Option<Content>,
    bytes: Box<[u8; BLOCK]>,
    sums: [u8; SUMS],
    /// Bytes of the block that lie before the datafile's end.
    found: usize,
}

#[derive(Debug, Clone, Copy)]
struct Content {
    datafile: u64,
    block: u64,
    changes: u64,
    /// What the kernel said of the file before the block was read from it; `None` of a block that was written.
    stamp: Option<Stamp>,
}

impl BlockCache {
    /// The slot of a datafile's block.
    fn slot(&mut self, datafile: u64, block: u64) -> &mut Slot {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || Slot {
                content: None,
                bytes: Box::new([0; BLOCK]),
                sums: [0; SUMS],
                found: 0,
            });
        }
        // Blocks that follow each other have different slots.
        let slot = block.wrapping_add(datafile.wrapping_mul(SLOTS as u64 / 2 + 1));
        &mut self.slots[(slot % SLOTS as u64) as usize]
    }

    /// Keeps a datafile's blocks valid after a change that was of none of them.
    fn carry_over(&mut self, datafile: u64, before: u64, after: u64) {
        for content in self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.content.as_mut())
        {
            if (content.datafile, content.changes) == (datafile, before) {
                content.changes = after;
            }
        }
    }
}

impl Slot {
    /// The content, if it is this block after so many changes.
    fn find(&self, datafile: u64, block: u64, changes: Option<u64>) -> Option<Content> {
        self.content.filter(|content| {
            let found = (content.datafile, content.block, Some(content.changes));
            found == (datafile, block, changes)
        })
    }
}

/// The block that all bytes of a part lie in, if it is no whole block.
fn block_of(part: Region) -> Option<u64> {
    let block = part.offset / BLOCK_BYTES;
    let inside = part.offset - block * BLOCK_BYTES;
    (part.len < BLOCK_BYTES && inside + part.len <= BLOCK_BYTES).then_some(block)
}

impl Datafile {
    /// Reads some bytes of a block; returns where the data ended. `stamp` is what the kernel said of the file when the
    /// request began. `None`, and nothing is done, if the part is not of that kind.
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
        let changes = self.changes.settled();
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

    /// Writes some bytes of a block, which is locked, as all that this change consists of. Returns whether it did:
    /// nothing is done if the part is not of that kind.
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
        // The sums of a group that was not begun are about to change.
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
        set_latest(&mut slot.sums, self.place(blocks).sum(0, &slot.bytes[..]));
        let written = put(&self.file, &slot.sums, sums_offset(block))
            .and_then(|()| put(&self.file, &slot.bytes[start..end], physical(part.offset)));
        if let Err(error) = written {
            self.settle(blocks, &mut slot.bytes[..], &mut slot.sums);
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
