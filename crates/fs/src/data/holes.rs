//! Where datafiles have holes. A group of blocks is a hole as a whole or not at all.

use std::io;

use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES, sums_offset};
use causeway_wire::fs::{ObjectId, Region};

use super::datafile::Datafile;
use super::fault::{Fault, Result};
use super::store::Store;
use crate::sabotage::{self, Sabotage};

/// Groups behind the first one that are checked one by one for where data end.
const MAX_PROBES: usize = 256;

impl Store {
    /// The first bytes of a datafile at or behind `offset` that may be anything else than zeros. What it lacks of
    /// `at_least` bytes counts as data: reading that reports what is wrong.
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

impl Datafile {
    fn find_data(&self, offset: u64, at_least: u64) -> io::Result<Option<Region>> {
        let size = self.size()?;
        let wanted = self.min_size(at_least);
        let mut span = None;
        if offset < size {
            let group = self.next_data(offset / GROUP_BYTES * GROUP_BYTES, size)?;
            if group < size {
                span = Some((group.max(offset), self.end_of_data(group, size)?));
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

    /// How far the data reach from the start of a group that is no hole, or less if that is far.
    fn end_of_data(&self, group: u64, size: u64) -> io::Result<u64> {
        let mut end = group;
        for _ in 0..MAX_PROBES {
            end = match self.groups.end_of(end / GROUP_BYTES) {
                Some(behind) => behind.saturating_mul(GROUP_BYTES),
                None => end.saturating_add(GROUP_BYTES),
            };
            if end >= size || self.next_data(end, size)? > end {
                break;
            }
        }
        Ok(end.min(size))
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
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(start)) {
            Ok(data) => {
                let group = GROUP_BYTES + BLOCK_BYTES;
                let groups = data.saturating_sub(BLOCK_BYTES) / group;
                Ok((groups * GROUP_BYTES).max(offset).min(size))
            }
            Err(rustix::io::Errno::NXIO) => Ok(size),
            // Where holes cannot be asked for, everything is read.
            Err(rustix::io::Errno::INVAL) => Ok(offset),
            Err(error) => Err(error.into()),
        }
    }
}
