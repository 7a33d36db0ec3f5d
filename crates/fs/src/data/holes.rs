//! Where datafiles have holes: groups of blocks that were never written, and blocks of others with the sum of zeros that
//! take no room on the disk.

use std::io;

use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES, physical, size_of_file, sums_offset};
use causeway_wire::fs::{ObjectId, Region};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::blocks::Blocks;
use super::datafile::Datafile;
use super::fault::{Fault, Result};
use super::store::Store;
use crate::sabotage::{self, Sabotage};

/// Blocks of a file for which its disk needs at most one more, as long as it is not in pieces of single blocks.
const BLOCKS_BY_BLOCK: u64 = 256;
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;
/// Groups and holes that one request examines.
const MAX_PROBES: usize = 256;

impl Store {
    /// The first bytes of a datafile at or behind `offset` that may be other than zeros. Bytes that it lacks of
    /// `at_least` count as data: reading them reports the fault.
    pub fn find_data(
        &self,
        object: ObjectId,
        offset: u64,
        at_least: u64,
    ) -> Result<Option<Region>> {
        match self.find(object)? {
            Some(datafile) => Ok(datafile.find_data(offset, at_least)?),
            None if at_least > 0 && !sabotage::is_on(Sabotage::IgnoreLength) => {
                Err(Fault::Absent { wanted: at_least })
            }
            None => Ok(None),
        }
    }
}

impl Store {
    /// How many bytes of a datafile are stored, holes not counted and reserved room counted, in whole blocks; 0 if there is
    /// none.
    pub fn stored(&self, object: ObjectId) -> Result<u64> {
        match self.find(object)? {
            Some(datafile) => Ok(datafile.stored()?),
            None => Ok(0),
        }
    }
}

impl Datafile {
    /// What its file takes on the disk, without the header, and without the page of sums that each group of blocks has
    /// beside it. An estimate by the blocks that the disk's file system counts: groups with holes have fewer blocks beside their page; what the file system
    /// sets aside behind the end by itself counts as reserved; one that compresses counts less than there is. What the disk needs to find the blocks of a file may be counted as well: so little more than there can be is not
    /// taken for reserved room.
    fn stored(&self) -> io::Result<u64> {
        let on_disk = rustix::fs::fstat(&self.file)?.st_blocks as u64 * SECTOR_BYTES;
        let blocks = on_disk.div_ceil(BLOCK_BYTES).saturating_sub(1);
        let sums = match self.has_sums() {
            true => blocks.div_ceil(GROUP_BYTES / BLOCK_BYTES + 1),
            false => 0,
        };
        let (data, whole) = (blocks - sums, self.size()?.div_ceil(BLOCK_BYTES));
        let bookkeeping = 1 + data / BLOCKS_BY_BLOCK;
        let counted = match data.checked_sub(whole) {
            Some(excess) if excess <= bookkeeping => whole,
            _ => data,
        };
        Ok(counted * BLOCK_BYTES)
    }

    fn find_data(&self, offset: u64, at_least: u64) -> io::Result<Option<Region>> {
        let size = self.size()?;
        let wanted = self.min_size(at_least);
        let mut span = None;
        if offset < size {
            let start = self.next_byte(offset, size)?;
            if start < size {
                span = Some((start, self.end_of_data(start, size)?));
            }
        }
        if wanted > size.max(offset) {
            span = match span {
                Some((start, end)) if end >= size => Some((start, wanted)),
                None => Some((size.max(offset), wanted)),
                span => span,
            };
        }
        Ok(span.map(|(start, end)| Region {
            offset: start,
            len: end - start,
        }))
    }

    /// How far the data extend from a byte that is in no hole, or less if that is far.
    pub(super) fn end_of_data(&self, start: u64, size: u64) -> io::Result<u64> {
        let mut end = start;
        for _ in 0..MAX_PROBES {
            let next_block = (end / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let hole = match rustix::fs::seek(&self.file, SeekFrom::Hole(physical(end))) {
                Ok(hole) => size_of_file(hole).next_multiple_of(BLOCK_BYTES),
                // The datafile has become shorter.
                Err(Errno::NXIO) => return Ok(size),
                // Where the file system cannot report holes, everything is read.
                Err(Errno::INVAL) => size,
                Err(error) => return Err(error.into()),
            };
            end = hole.max(next_block);
            if end >= size || self.next_byte(end, size)? > end {
                break;
            }
        }
        Ok(end.min(size))
    }

    /// The first byte from `offset` on, and in front of `size`, that is in no hole; `size` if there is none. Blocks of a hole that
    /// should hold something count as data. It may be in a hole if there are many before.
    pub(super) fn next_byte(&self, offset: u64, size: u64) -> io::Result<u64> {
        let mut at = offset;
        for _ in 0..MAX_PROBES {
            if at >= size {
                return Ok(size);
            }
            at = at.max(self.next_data(at / GROUP_BYTES * GROUP_BYTES, size)?);
            if at >= size {
                return Ok(size);
            }
            let end = (at / GROUP_BYTES + 1) * GROUP_BYTES;
            if let Some(found) = self.next_in_group(at, end.min(size))? {
                return Ok(found);
            }
            at = end;
        }
        Ok(at.min(size))
    }

    /// The same in a group that is no hole as a whole.
    fn next_in_group(&self, at: u64, end: u64) -> io::Result<Option<u64>> {
        let is_written = self.groups.has(at / GROUP_BYTES);
        if self.has_sums() && !is_written {
            return Ok(Some(at));
        }
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(physical(at))) {
            Ok(data) if data > physical(end - 1) => end,
            Ok(data) => size_of_file(data).max(at),
            Err(Errno::NXIO) => end,
            Err(Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let first = at / BLOCK_BYTES * BLOCK_BYTES;
        let stop = match data < end {
            true => data / BLOCK_BYTES * BLOCK_BYTES,
            false => end,
        };
        if is_written && first < stop {
            let hole = Blocks::of(Region {
                offset: first,
                len: stop - first,
            });
            if let Some(lost) = self.first_lost(hole)? {
                return Ok(Some(lost.max(at)));
            }
        }
        Ok((data < end).then_some(data))
    }

    /// Whether the group that a part lies in is a hole, with its sums: then the part reads as zeros.
    pub(super) fn is_in_hole(&self, part: Region) -> io::Result<bool> {
        let group = part.offset / GROUP_BYTES * GROUP_BYTES;
        if self.groups.has(group / GROUP_BYTES) {
            return Ok(false);
        }
        Ok(self.next_data(group, group + GROUP_BYTES)? > group)
    }

    /// The first group from `offset` on, where a group begins, that was written or is not a hole together with its
    /// sums.
    pub(super) fn next_data(&self, offset: u64, size: u64) -> io::Result<u64> {
        let written = self.groups.next(offset / GROUP_BYTES);
        let size = match written.map(|group| group.checked_mul(GROUP_BYTES)) {
            Some(Some(start)) => size.min(start),
            _ => size,
        };
        let start = sums_offset(offset / BLOCK_BYTES);
        match rustix::fs::seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => {
                let group = GROUP_BYTES + BLOCK_BYTES;
                let groups = data.saturating_sub(BLOCK_BYTES) / group;
                Ok((groups * GROUP_BYTES).max(offset).min(size))
            }
            Err(Errno::NXIO) => Ok(size),
            // Where the file system cannot report holes, everything is read.
            Err(Errno::INVAL) => Ok(offset),
            Err(error) => Err(error.into()),
        }
    }
}
