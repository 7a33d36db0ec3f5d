//! Space that removals and the engine's own work need: kept free, and a part of it held in a file.
//!
//! A log-structured store needs room to free room: a removal is written to the journal, then to a table, and only
//! the merge of tables, for whose output there must be room beside its input, forgets what was removed. So what
//! needs space is refused while there is still enough for all of that. Other programs may fill the same disk; for
//! that case a ballast file takes up room that can be freed, piece by piece.
//!
//! Measured by `crates/fs/tests/meta_full.rs`, which prints it (debug build, a disk in memory that is filled with
//! files of 3,000 bytes and emptied), in MiB:
//!
//! | disk | in use when full | least free while filled | least free while emptied |
//! |-----:|-----------------:|------------------------:|-------------------------:|
//! |   16 |               4.4 |                     3.9 |                     11.3 |
//! |   24 |               7.1 |                     8.8 |                     16.7 |
//! |   64 |              20.6 |                    22.0 |                     32.6 |
//! |  256 |              81.7 |                    48.0 |                    129.6 |
//!
//! Twice the tables are reserved for merges. With once, a disk of 24 MiB filled up entirely: a merge that
//! this module had requested waited for one of the engine's own, whose input still stood there beside its output.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::super::FreeSpace;
use crate::files::open_or_create;

const MIB: u64 = 1 << 20;
/// The most that is merged while requests wait, and about the most that the engine merges at once: a level
/// holds at most ten times what the one above it holds, so that a table of [`MAX_TABLE_BYTES`] is merged
/// with eleven of the next level.
pub(super) const MAX_MERGE_BYTES: u64 = 256 * MIB;
/// The engine begins a new journal behind this many bytes, and removes the old one when its last table
/// in memory is written out.
const ENGINE_JOURNAL_BYTES: u64 = 64 * MIB;
/// On disks from this size on, the engine's journals are left to grow to their usual size.
const LARGE_DISK_BYTES: u64 = 1 << 30;
/// Tables are not made larger than this.
const MAX_TABLE_BYTES: u64 = 16 * MIB;
/// The smallest disk on which metadata are made: it has room for some hundred files beside all that is
/// kept free.
const MIN_DISK_BYTES: u64 = 16 * MIB;
/// A merge that this module requests beside one of the engine's own.
const CONCURRENT_MERGES: u64 = 2;
/// Tables in memory that removals may fill before the first of them is merged.
const WAITING_TABLES: u64 = 3;

/// Sizes adapted to a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// A table in memory is written out at this size.
    pub(super) memtable: u64,
    /// Tables are made of about this size.
    pub(super) table: u64,
    /// The size up to which the journals may grow.
    pub(super) journal: u64,
    /// Whether this module must free the journals at that size, rather than the engine.
    pub(super) bounds_journal: bool,
    /// The size of the ballast file.
    pub(super) ballast: u64,
}

impl Sizes {
    pub(super) fn of_disk(total: u64) -> Self {
        let large = total >= LARGE_DISK_BYTES;
        let memtable = (total / 64).clamp(MIB, 16 * MIB);
        Self {
            memtable,
            table: (total / 16).clamp(2 * MIB, MAX_TABLE_BYTES),
            journal: match large {
                true => ENGINE_JOURNAL_BYTES + WAITING_TABLES * memtable,
                false => (total / 8).max(2 * memtable),
            },
            bounds_journal: !large,
            ballast: (total / 16).clamp(MIB, 32 * MIB),
        }
    }
}

/// Bytes of the file system in which `directory` lies, and how many of them this process may use.
pub(super) fn disk(directory: &Path) -> io::Result<(u64, u64)> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok((
        disk.f_blocks.saturating_mul(disk.f_frsize),
        disk.f_bavail.saturating_mul(disk.f_frsize),
    ))
}

/// The sizes of a store's parts, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) tables: u64,
    /// Tables in memory, which are on the disk only as journals so far.
    pub(super) memory: u64,
    pub(super) journals: u64,
}

/// The space of one store.
#[derive(Debug)]
pub(super) struct Space {
    directory: PathBuf,
    pub(super) sizes: Sizes,
}

impl Space {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let (total, _) = disk(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            sizes: Sizes::of_disk(total),
        })
    }

    fn ballast(&self) -> PathBuf {
        self.directory.join("ballast")
    }

    /// Fails if no file system can be made here: the disk is too small, or too little of it is free.
    pub(super) fn check_new(&self) -> Result<(), String> {
        let (total, free) = disk(&self.directory).map_err(|error| error.to_string())?;
        let needed = self.needed(Used::default()) + self.sizes.ballast;
        // Some file systems do not report their size.
        if total > 0 && total < MIN_DISK_BYTES {
            return Err(format!(
                "its disk has {} MiB, and metadata need one of at least {} MiB",
                total / MIB,
                MIN_DISK_BYTES / MIB
            ));
        }
        if total > 0 && free < needed {
            return Err(format!(
                "its disk has {} MiB free of {} MiB, and metadata need at least {} MiB of that",
                free / MIB,
                total / MIB,
                needed.div_ceil(MIB)
            ));
        }
        Ok(())
    }

    /// What must stay free so that everything can be removed. Writing tables out and freeing journals changes
    /// the free space and this by the same amount: neither makes room, or takes it.
    fn needed(&self, used: Used) -> u64 {
        let sizes = &self.sizes;
        let merged = used.tables + used.memory;
        used.memory
            + CONCURRENT_MERGES * merged.min(MAX_MERGE_BYTES)
            + WAITING_TABLES * sizes.memtable
            + sizes.journal.saturating_sub(used.journals)
    }

    /// How much room there is, with at least `reserve` bytes to be kept free. Shrinks the ballast, or restores it.
    pub(super) fn check_room(&self, used: Used, reserve: u64) -> FreeSpace {
        let Ok((_, free)) = disk(&self.directory) else {
            // The next write reports what is wrong more exactly.
            return FreeSpace::Enough;
        };
        let held = self.held();
        let needed = self.needed(used).max(reserve);
        let missing = self.sizes.ballast.saturating_sub(held);
        if self.release_if_short(free, held) {
            // The space that this has freed counts from the next check on.
        } else if missing > 0 && free >= needed.saturating_add(missing) {
            self.resize(self.sizes.ballast);
        }
        if free.saturating_add(held) < self.sizes.memtable {
            return FreeSpace::Nothing(format!(
                "the metadata server's disk ({}) is full: {} KiB are free of {} KiB that the next change \
                 may need; others use it up: make room on it",
                self.directory.display(),
                free >> 10,
                self.sizes.memtable >> 10
            ));
        }
        match free < needed.saturating_add(missing) {
            true => FreeSpace::Removals(format!(
                "the metadata server's disk ({}) has {} MiB free; the last {} MiB are its reserve for \
                 removals and for freeing space: remove files, or make the disk larger",
                self.directory.display(),
                free / MIB,
                needed.saturating_add(missing) / MIB
            )),
            false => FreeSpace::Enough,
        }
    }

    /// Makes room for what opening a store writes, on a disk that others have filled.
    pub(super) fn prepare_to_open(&self) {
        if let Ok((_, free)) = disk(&self.directory) {
            self.release_if_short(free, self.held());
        }
    }

    /// Bytes of the ballast.
    fn held(&self) -> u64 {
        std::fs::metadata(self.ballast()).map_or(0, |file| file.len())
    }

    /// Frees a piece of the ballast if less than `bytes` is free. Returns whether it tried.
    fn release_if_short(&self, free: u64, held: u64) -> bool {
        let piece = self.sizes.ballast / 4;
        let is_short = free < piece && held > 0;
        if is_short {
            self.resize(held.saturating_sub(piece));
        }
        is_short
    }

    /// Sets the ballast's length. A failure is ignored: there is less ballast then.
    fn resize(&self, len: u64) {
        let resized = open_or_create(&self.ballast()).and_then(|file| resize(&file, len));
        if let Err(error) = resized {
            tracing::debug!(%error, "the ballast cannot be resized to {len} bytes");
        }
    }
}

fn resize(file: &File, len: u64) -> io::Result<()> {
    if file.metadata()?.len() > len {
        return file.set_len(len);
    }
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)?;
    Ok(())
}
