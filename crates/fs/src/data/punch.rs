//! Making holes in datafiles, and reserving room in them.
//!
//! A block that becomes part of a hole gets the sum of zeros first, beside its previous one, as in every write: a kill in
//! between leaves a block that matches one of both. Pages of sums of written groups stay where they are. Room is
//! reserved behind a datafile's end as well, without changing where that is.

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{BLOCK_BYTES, GROUP_BYTES, physical, size_of_file, sums_offset};
use causeway_wire::fs::Region;

use rustix::io::Errno;

use super::blocks::Blocks;
use super::datafile::{Claim, Datafile};
use super::disk::{free, put, reserve};
use super::fault::{Fault, Result};
use super::history::Origin;
use super::pieces::{Abandoned, Piece, Scratch, subtract};
use super::sums::BLOCK;

/// Most groups that one call changes, since it must end soon.
const GROUPS_AT_ONCE: usize = 256;

/// A part of a datafile that is to become a hole.
#[derive(Debug, Clone)]
pub struct Punch {
    /// The part; it may reach behind the end.
    pub region: Region,
    /// The request.
    pub origin: Origin,
    /// The length that the datafile must have at least.
    pub at_least: u64,
    /// Set once the client no longer waits: what others write then must stay.
    pub abandoned: Abandoned,
}

impl Claim {
    /// Makes a hole, once all earlier claims of its blocks have ended. Returns where to continue if it is not complete.
    pub fn punch(self, punch: &Punch, scratch: &mut Scratch) -> Result<Option<u64>> {
        self.wait();
        self.datafile().punch_held(punch, scratch)
    }
}

/// The end of a region, as far as a local file can reach.
fn end_of(region: Region) -> u64 {
    let end = region.offset.saturating_add(region.len);
    end.min(size_of_file(i64::MAX as u64))
}

impl Datafile {
    /// As [`Claim::punch`], while the caller keeps other threads from writing the blocks. What others have written since
    /// the first sending of a repeated request is left alone.
    fn punch_held(&self, punch: &Punch, scratch: &mut Scratch) -> Result<Option<u64>> {
        punch.abandoned.check()?;
        let (offset, end) = (punch.region.offset, end_of(punch.region));
        if offset >= end {
            return Ok(None);
        }
        let until = self.end_of_punch(offset, end)?;
        let (size, wanted) = (self.size()?, self.min_size(punch.at_least));
        if size < wanted && until > size {
            return Err(Fault::Short { size, wanted });
        }
        let region = Region {
            offset,
            len: until - offset,
        };
        let (history, object) = (&self.common.history, self.object());
        let write = punch.origin.write;
        let overwritten = match punch.origin.repeated {
            Some(first) => history.overwritten(write, first, object, &[region])?,
            None => Vec::new(),
        };
        let left = subtract(region, &overwritten);
        history.note(write, object, &left)?;
        for part in left {
            punch.abandoned.check()?;
            self.punch_part(part, size, scratch)?;
        }
        Ok((until < end).then_some(until))
    }

    /// Where one call ends.
    fn end_of_punch(&self, offset: u64, end: u64) -> Result<u64> {
        let size = self.size()?;
        let mut at = offset / GROUP_BYTES * GROUP_BYTES;
        for _ in 0..GROUPS_AT_ONCE {
            let group = self.next_data(at, size)?;
            if !self.has_sums() || group >= size.min(end) {
                return Ok(end);
            }
            at = group + GROUP_BYTES;
        }
        Ok(at.min(end))
    }

    fn punch_part(&self, part: Region, size: u64, scratch: &mut Scratch) -> Result<()> {
        let (offset, end) = (part.offset, part.offset + part.len);
        if !self.has_sums() {
            let _change = self.changes.begin();
            self.begin_write()?;
            return self.free(offset, end);
        }
        let is_to_end = end >= size;
        let start = offset.next_multiple_of(BLOCK_BYTES);
        let stop = match is_to_end {
            true => end.next_multiple_of(BLOCK_BYTES),
            false => end / BLOCK_BYTES * BLOCK_BYTES,
        };
        if start < stop {
            self.punch_blocks(start, stop, size, scratch)?;
        }
        let data_end = end.min(size);
        let head = start.min(data_end);
        self.put_zeros(offset, head, scratch)?;
        self.put_zeros(stop.max(head), data_end, scratch)
    }

    /// Writes zeros over a part of a block that is no hole.
    fn put_zeros(&self, from: u64, to: u64, scratch: &mut Scratch) -> Result<()> {
        if from >= to || self.next_byte(from, to)? >= to {
            return Ok(());
        }
        let zeros = vec![0; (to - from) as usize];
        let piece = Piece {
            regions: vec![Region {
                offset: from,
                len: to - from,
            }],
            memory: vec![Memory::from_vec(zeros)],
            stable: true,
            ..Piece::default()
        };
        self.write_recorded(&piece, scratch, 0).map(drop)
    }

    /// Makes a hole of whole blocks.
    fn punch_blocks(&self, start: u64, stop: u64, size: u64, scratch: &mut Scratch) -> Result<()> {
        let _change = self.changes.begin();
        let data_stop = stop.min(size.next_multiple_of(BLOCK_BYTES));
        let mut at = start;
        while at < data_stop {
            let group = self.next_data(at / GROUP_BYTES * GROUP_BYTES, data_stop)?;
            if group >= data_stop {
                break;
            }
            // Reserved room is a hole that occupies the disk.
            if group > at {
                self.free(at, group)?;
                at = group;
            }
            let end = (group + GROUP_BYTES).min(data_stop);
            self.punch_in_group(at, end, scratch)?;
            at = end;
        }
        match at < stop {
            true => self.free(at, stop),
            false => Ok(()),
        }
    }

    fn punch_in_group(&self, at: u64, end: u64, scratch: &mut Scratch) -> Result<()> {
        let blocks = Blocks::of(Region {
            offset: at,
            len: end - at,
        });
        self.begin_group(blocks.group())?;
        let mut sums = [0; BLOCK];
        let stored = self.sums_with_zeros(blocks, &mut sums, scratch)?;
        self.begin_write()?;
        let freed = put(&self.file, stored, sums_offset(at / BLOCK_BYTES))
            .map_err(Fault::from)
            .and_then(|()| self.free(at, end));
        if freed.is_err() {
            let bytes = scratch.take((end - at) as usize);
            self.recompute_sums(blocks, bytes, stored);
        }
        freed
    }

    /// Gives a part's room back to the disk. Pages of sums between its first and its last group are holes, and
    /// groups that it has only a part of keep theirs.
    fn free(&self, from: u64, to: u64) -> Result<()> {
        let last = (to - 1) / GROUP_BYTES * GROUP_BYTES;
        if from < last {
            let start = physical(from);
            self.free_as_far(start, physical(last - 1) + 1 - start)?;
        }
        let start = physical(from.max(last));
        self.free_as_far(start, physical(to - 1) + 1 - start)
    }

    /// Frees a part of the file as far as files can reach on its disk.
    fn free_as_far(&self, mut start: u64, mut len: u64) -> Result<()> {
        let mut step = len;
        while len > 0 {
            let now = step.min(len);
            match free(&self.file, start, now) {
                Ok(()) => (start, len) = (start + now, len - now),
                // Nothing can be there: a smaller part may be within reach.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::FBIG) => match now {
                    ..=1 => break,
                    _ => step = now / 2,
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reserves room on the disk for a part and its sums, so that writing it does not fail for want of that.
    pub(super) fn reserve(&self, region: Region) -> Result<()> {
        let (offset, end) = (region.offset, region.offset.saturating_add(region.len));
        if end > size_of_file(i64::MAX as u64) {
            return Err(std::io::Error::from(Errno::FBIG).into());
        }
        if offset >= end {
            return Ok(());
        }
        if self.has_sums() {
            let group = offset / GROUP_BYTES * GROUP_BYTES;
            reserve(&self.file, sums_offset(group / BLOCK_BYTES), BLOCK_BYTES)?;
        }
        let start = physical(offset);
        Ok(reserve(&self.file, start, physical(end - 1) + 1 - start)?)
    }
}
