//! Blocks that a thread has read, verified or written lately, for accesses to a few bytes at a time.
//!
//! A read of some bytes must compute the checksum of the whole block, and a write must read and verify it first.
//! Programs that go through a file in small steps access the same block again and again: it is cached here, and is valid
//! until the datafile changes ([`Changes`]). A read also requires unchanged time stamps of the
//! file, so that changes by another program are noticed. A write does not: it stores the checksum
//! of the block as the server last stored it, which a change by another program does not match.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_wire::datafile::size_of_file;

use super::sums::{BLOCK, SUMS};

/// Blocks that a thread caches: enough for several clients that each go through a file, and a fraction of the
/// processor's second-level cache.
const SLOTS: usize = 32;

/// Counts the changes of a datafile's blocks and sums: when they begin and when they end.
#[derive(Debug, Default)]
pub(super) struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A change, which is in progress until this value is dropped.
#[derive(Debug)]
pub(super) struct Change<'a> {
    changes: &'a Changes,
    /// Changes before this one, if all of them had ended when it began.
    pub(super) before: Option<u64>,
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

    /// The number of changes so far, if none is in progress.
    pub(super) fn count_if_idle(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::Acquire) == ended).then_some(ended)
    }
}

impl Change<'_> {
    /// The number of changes after this one has ended, if no other has been in progress beside it.
    pub(super) fn after(&self) -> Option<u64> {
        let after = self.before? + 1;
        (self.changes.begun.load(Ordering::Acquire) == after).then_some(after)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.changes.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// A file's length and times when a request for it begins.
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
pub(super) struct Slot {
    /// The block's index, and the number of changes of the datafile after which it is valid; `None` if the slot is empty.
    pub(super) content: Option<Content>,
    pub(super) bytes: Box<[u8; BLOCK]>,
    pub(super) sums: [u8; SUMS],
    /// Bytes of the block that lie before the datafile's end.
    pub(super) found: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub(super) datafile: u64,
    pub(super) block: u64,
    pub(super) changes: u64,
    /// The file's stamp before the block was read from it; `None` for a block that was written.
    pub(super) stamp: Option<Stamp>,
}

impl BlockCache {
    /// The slot of a datafile's block.
    pub(super) fn slot(&mut self, datafile: u64, block: u64) -> &mut Slot {
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

    /// Keeps a datafile's blocks valid after a change that concerned none of them.
    pub(super) fn carry_over(&mut self, datafile: u64, before: u64, after: u64) {
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
    /// The content, if the slot holds this block after this number of changes.
    pub(super) fn find(&self, datafile: u64, block: u64, changes: Option<u64>) -> Option<Content> {
        self.content.filter(|content| {
            let found = (content.datafile, content.block, Some(content.changes));
            found == (datafile, block, changes)
        })
    }
}
