//! The reserve of a disk, which data leave free. A removal has to be noted before it frees anything, also by a metadata server on the
//! same disk, which keeps room of its own for that but can lose it: it gives its ballast up in pieces when the disk is full
//! (`meta/store/fjall/space.rs`), and programs that keep on writing would fill each of them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{SeekFrom, StatVfs, fstat, fstatvfs, seek};
use rustix::io::Errno;

const MIB: u64 = 1 << 20;
/// The reserve is the disk's size divided by this. It is more than the free space at which a metadata server gives a piece of its ballast up, and the room that
/// it requires for its next change, together: these are a 64th of the disk each, 8 and 16 MiB at most.
const RESERVE_PARTS: u64 = 32;
const RESERVE_BYTES: Range<u64> = 2 * MIB..24 * MIB;
/// Metadata are not stored on smaller disks.
const METADATA_BYTES: u64 = 16 * MIB;
/// A budget is the available bytes divided by the first number, as several servers may share a disk, and at most the reserve divided by the
/// second.
const BUDGET_PARTS: u64 = 16;
const BUDGET_PARTS_OF_RESERVE: u64 = 8;
/// Parts of a file that are looked at to find out whether a write needs room.
const MAX_PROBES: usize = 1024;
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;
/// What file systems allocate at least.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a disk, and how many of them are free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    pub(super) total: u64,
    free: u64,
}

impl From<StatVfs> for Disk {
    fn from(disk: StatVfs) -> Self {
        Self {
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
        }
    }
}

impl Disk {
    /// The disk that a file lies on.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(fstatvfs(file)?.into())
    }

    /// The bytes that data leave free.
    fn reserve(self) -> u64 {
        let part = self.total / RESERVE_PARTS;
        match self.total < METADATA_BYTES {
            true => part,
            false => part.clamp(RESERVE_BYTES.start, RESERVE_BYTES.end),
        }
    }

    /// The bytes that data may still take. Some file systems do not report their size: they decide themselves.
    pub(super) fn available(self) -> u64 {
        match self.total {
            0 => u64::MAX,
            _ => self.free.saturating_sub(self.reserve()),
        }
    }
}

/// How many bytes a store may write before it looks at the disk again.
#[derive(Debug, Default)]
pub(super) struct SpaceBudget {
    /// Bytes that may be written before the disk is looked at again.
    budget: AtomicU64,
}

impl SpaceBudget {
    /// Fails unless the disk has room for the bytes of these parts of the file, or they have room already.
    pub(super) fn admit(
        &self,
        file: &File,
        len: u64,
        parts: impl Iterator<Item = Range<u64>>,
    ) -> io::Result<()> {
        if self.is_in_budget(len) || self.look(Disk::of(file)?, len) {
            return Ok(());
        }
        match has_room(file, parts)? {
            true => Ok(()),
            false => Err(Errno::NOSPC.into()),
        }
    }

    /// Takes these bytes from the budget, if it has them.
    fn is_in_budget(&self, len: u64) -> bool {
        let less = |budget: u64| budget.checked_sub(len);
        self.budget.fetch_update(Relaxed, Relaxed, less).is_ok()
    }

    /// Whether the disk has room for these bytes.
    #[cold]
    fn look(&self, disk: Disk, len: u64) -> bool {
        let Some(rest) = disk.available().checked_sub(len) else {
            self.budget.store(0, Relaxed);
            return false;
        };
        let budget = (rest / BUDGET_PARTS).min(disk.reserve() / BUDGET_PARTS_OF_RESERVE);
        self.budget.store(budget, Relaxed);
        true
    }
}

/// Whether parts of a file have room: they were written, or so much was reserved for the file, wherever in it.
fn has_room(file: &File, parts: impl Iterator<Item = Range<u64>>) -> io::Result<bool> {
    let parts: Vec<_> = parts
        .map(|part| {
            let start = part.start / PAGE_BYTES * PAGE_BYTES;
            start..part.end.next_multiple_of(PAGE_BYTES)
        })
        .collect();
    let mut missing: u64 = parts.iter().map(|part| part.end - part.start).sum();
    let stat = fstat(file)?;
    let mut unused = (stat.st_blocks as u64).saturating_mul(SECTOR_BYTES);
    let mut at = 0;
    for _ in 0..MAX_PROBES {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(missing <= unused),
            // Where the file system cannot report holes, it decides itself.
            Err(Errno::INVAL) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.next_multiple_of(PAGE_BYTES),
            Err(Errno::NXIO) => return Ok(missing <= unused),
            Err(error) => return Err(error.into()),
        };
        unused = unused.saturating_sub(end - start);
        for part in &parts {
            missing -= part.end.min(end).saturating_sub(part.start.max(start));
        }
        if missing == 0 {
            return Ok(true);
        }
        at = end;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{FallocateFlags, fallocate};

    use super::*;

    /// Several servers fill a disk of any size, each of which has looked at it at another moment.
    #[test]
    fn several_servers_that_fill_a_disk_leave_its_reserve() {
        for total in [16 * MIB, 96 * MIB, 1 << 30, 1 << 40] {
            let rooms: [SpaceBudget; 4] = Default::default();
            let mut disk = Disk { total, free: total };
            let mut full = [false; 4];
            // The last of them has looked long ago.
            assert!(rooms[3].look(disk, 1));
            for round in 0.. {
                let room = &rooms[round % 4];
                // Almost all of a large disk is filled by others.
                if round == 8 {
                    disk.free = disk.free.min(64 * MIB);
                }
                let len = [4096, 65_536, 300_000][round % 3].min(disk.free);
                match room.is_in_budget(len) || room.look(disk, len) {
                    true => disk.free -= len,
                    false => full[round % 4] = true,
                }
                if full == [true; 4] {
                    break;
                }
            }
            let left = disk.reserve();
            assert!(disk.free >= left / 2, "{} of {left}, {total}", disk.free);
            assert!(disk.free <= left + 4 * 300_000, "{} of {left}", disk.free);
        }
    }

    #[test]
    fn what_has_room_can_be_written_when_the_disk_is_full() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 10_000], 0).unwrap();
        file.write_all_at(&[1; 10_000], 1 << 20).unwrap();
        let has_room = |parts: &[(u64, u64)]| {
            let parts = parts.iter().map(|(start, end)| *start..*end);
            has_room(&file, parts).unwrap()
        };
        assert!(has_room(&[(0, 10_000)]));
        assert!(has_room(&[
            (1, 2),
            (4096, 12_000),
            (1 << 20, (1 << 20) + 10_000)
        ]));
        assert!(!has_room(&[(100_000, 900_000)]));
        assert!(!has_room(&[(2 << 20, 3 << 20)]));
        let how = FallocateFlags::KEEP_SIZE;
        fallocate(&file, how, 100_000, 400_000).unwrap();
        assert!(has_room(&[(100_000, 500_000)]));
        assert!(!has_room(&[(100_000, 900_000)]));
    }
}
