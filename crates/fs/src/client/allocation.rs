//! Punching holes into files, reserving room, and finding where holes begin and end.
//!
//! A part of a file is one part of each of its datafiles. Servers make holes in steps of bounded length, all servers at once.

use causeway_wire::fs::{Distribution, Errno, NOT_KNOWN, Operation, Region, ReplyBody};

use rustix::fs::FallocateFlags;

use super::call::Call;
use super::call_error::{CallError, done, object_name, take_reply, unexpected_reply};
use super::connection::Client;
use super::file::{File, version};
use super::io::{FORM_CHANGES, Form, check_end, keeps_changing, striping};
use super::nodes::node;
use super::transfer::IoKind;
use crate::Error;
use crate::distribution::MAX_FILE_BYTES;

/// The operation on a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Reserve room, so that writes there do not fail because the disk is full. The content stays.
    Reserve,
    /// Punch a hole; the servers' disks get its room back. The size stays.
    Punch,
    /// Have the part read as zeros, with room reserved.
    Zero,
}

impl Allocation {
    /// The operation that flags of Linux's `fallocate` request, and whether the size stays. `None` for unsupported flags: parts
    /// can neither be taken out of a file nor put into one.
    pub fn of_flags(flags: i32) -> Option<(Self, bool)> {
        let flags = FallocateFlags::from_bits_retain(flags as u32);
        let keep_size = flags.contains(FallocateFlags::KEEP_SIZE);
        match flags.difference(FallocateFlags::KEEP_SIZE) {
            rest if rest.is_empty() => Some((Self::Reserve, keep_size)),
            FallocateFlags::PUNCH_HOLE if keep_size => Some((Self::Punch, true)),
            FallocateFlags::ZERO_RANGE => Some((Self::Zero, keep_size)),
            _ => None,
        }
    }
}

/// A server's position in a distribution, and where its part begins and ends in the datafile.
type Part = (usize, u64, u64);

/// The parts of the datafiles that belong to a part of a file.
fn parts(distribution: &Distribution, part: Region) -> Result<Vec<Part>, CallError> {
    let striping = striping(distribution)?;
    let end = part.offset.saturating_add(part.len);
    let each = (0..striping.servers()).map(|position| {
        let start = striping.datafile_size(position, part.offset);
        (position, start, striping.datafile_size(position, end))
    });
    Ok(each.filter(|(_, start, end)| start < end).collect())
}

/// Records that a file was changed now, and reaches at least `end`. All of it from `from` on was written.
fn reaches(file: &File, end: u64, from: u64) -> Operation {
    Operation::Extend {
        object: file.node.object,
        end,
        modified: crate::clock::now(),
        version: 0,
        reached: Vec::new(),
        from,
    }
}

impl Client {
    /// Makes a hole of a part of a file, zeros it or reserves room for it. The file gets as large as the part reaches, unless
    /// `keep_size` is set or a hole is made: that leaves the size as it is.
    ///
    /// Fails with `ENOSPC` if a server's disk is full; then some of the room may have been reserved. Reserved room behind the end
    /// is given back when a hole is made there, or the file is removed.
    pub fn allocate_part(
        &mut self,
        file: &mut File,
        part: Region,
        what: Allocation,
        keep_size: bool,
    ) -> Result<(), Error> {
        self.try_allocate(file, part, what, keep_size)
            .map_err(|error| error.during("allocate", &object_name(file.node.object)))
    }

    fn try_allocate(
        &mut self,
        file: &mut File,
        part: Region,
        what: Allocation,
        keep_size: bool,
    ) -> Result<(), CallError> {
        if part.len == 0 {
            return Err(CallError::local(Errno::EINVAL, "a part of no bytes"));
        }
        self.check_access(file, IoKind::Write)?;
        let end = part.offset.saturating_add(part.len);
        check_end(end)?;
        if what != Allocation::Reserve {
            self.make_zeros(file, part)?;
        }
        if what == Allocation::Punch {
            return Ok(());
        }
        self.reserve(file, part)?;
        if !keep_size {
            let object = file.node.object;
            let before = version(&file.node);
            self.resize(file, &Operation::Grow { object, size: end })?;
            if version(&file.node) != before {
                // Datafiles that followed a truncation have released room.
                self.reserve(file, part)?;
            }
        }
        Ok(())
    }

    /// Makes a file at least as large as `size`, and reserves no room. It never cuts off bytes that other clients write meanwhile. Servers of all
    /// formats support it: the same operation follows a write that ends there.
    pub fn grow(&mut self, file: &mut File, size: u64) -> Result<(), Error> {
        self.try_grow(file, size)
            .map_err(|error| error.during("grow", &object_name(file.node.object)))
    }

    fn try_grow(&mut self, file: &mut File, size: u64) -> Result<(), CallError> {
        self.check_access(file, IoKind::Write)?;
        check_end(size)?;
        self.resize(file, &reaches(file, size, size))
    }

    /// Has a part of a file read as zeros, as far as the file goes, and gives its room back.
    fn make_zeros(&mut self, file: &mut File, part: Region) -> Result<(), CallError> {
        for _ in 0..FORM_CHANGES {
            let is_done = match self.form(file)? {
                Form::Striped(distribution) => self.punch(file, &distribution, part)?,
                // Only the metadata server has the file's present length: zeros written to a content that has become shorter would make it longer.
                Form::Stuffed { .. } => {
                    self.unstuff(file)?;
                    false
                }
            };
            if is_done {
                return Ok(());
            }
        }
        Err(keeps_changing())
    }

    /// Makes a hole in the datafiles. Returns `false` if the file was truncated meanwhile, which `file` then shows.
    fn punch(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        part: Region,
    ) -> Result<bool, CallError> {
        file.forget_content();
        let mut left = parts(distribution, part)?;
        let positions = left.iter().map(|(position, ..)| *position);
        let servers = self.servers_at(distribution, positions)?;
        let noted = self.will_change(file, &servers)?;
        let object = file.node.object;
        while !left.is_empty() {
            let calls = self.calls_for(distribution, &left, |position, region| {
                Operation::PunchData {
                    object,
                    number: 0,
                    repeated: None,
                    at_least: file.least_length(position),
                    region,
                }
            })?;
            let results = self.rpc.call_all(calls);
            let Some(replies) = self.unless_missing(file, results)? else {
                return Ok(false);
            };
            let mut rest = Vec::new();
            for ((position, start, end), reply) in left.into_iter().zip(replies) {
                match take_reply!(reply, ReplyBody::Punched { next } => next)? {
                    Some(next) if next > start && next < end => rest.push((position, next, end)),
                    None => {}
                    next => return Err(unexpected_reply(&ReplyBody::Punched { next })),
                }
            }
            left = rest;
        }
        self.has_changed(&mut file.unsynced, noted);
        self.report_change(file)?;
        Ok(true)
    }

    /// Tells the metadata server that datafiles have changed, which sets the file's times; the file may have more or fewer stored bytes
    /// than its size afterwards. If the file was removed meanwhile, the datafiles that the request has made are removed again.
    fn report_change(&mut self, file: &mut File) -> Result<(), CallError> {
        file.update_node(self.mutate(reaches(file, 0, NOT_KNOWN)).and_then(node)?)?;
        Ok(())
    }

    /// Makes a request to the server of each part.
    fn calls_for(
        &mut self,
        distribution: &Distribution,
        parts: &[Part],
        operation: impl Fn(usize, Region) -> Operation,
    ) -> Result<Vec<Call>, CallError> {
        let calls = parts.iter().map(|&(position, start, end)| {
            let region = Region {
                offset: start,
                len: end - start,
            };
            let server = self.io_server(distribution, position)?;
            Ok(Call::query(server, operation(position, region)))
        });
        calls.collect()
    }

    /// Reserves room for a part of a file, which is moved to datafiles for that.
    fn reserve(&mut self, file: &mut File, part: Region) -> Result<(), CallError> {
        for _ in 0..FORM_CHANGES {
            let Form::Striped(distribution) = self.form(file)? else {
                self.unstuff(file)?;
                continue;
            };
            let parts = parts(&distribution, part)?;
            let positions = parts.iter().map(|(position, ..)| *position);
            let servers = self.servers_at(&distribution, positions)?;
            let noted = self.will_change(file, &servers)?;
            let object = file.node.object;
            let calls = self.calls_for(&distribution, &parts, |position, region| {
                Operation::ReserveData {
                    object,
                    at_least: file.least_length(position),
                    region,
                }
            })?;
            let results = self.rpc.call_all(calls);
            self.report_change(file)?;
            if let Some(replies) = self.unless_missing(file, results)? {
                self.has_changed(&mut file.unsynced, noted);
                return replies.into_iter().try_for_each(done);
            }
        }
        Err(keeps_changing())
    }

    /// The first byte from `offset` on that lies in no hole; `None` if there is none in front of the end, and if `offset`
    /// is not.
    pub fn seek_data(&mut self, file: &mut File, offset: u64) -> Result<Option<u64>, Error> {
        self.next_data(file, offset)
            .map(|data| data.map(|data| data.offset))
    }

    /// The first byte from `offset` on that lies in a hole, or the end of the file; `None` if `offset` is not in front
    /// of that.
    pub fn seek_hole(&mut self, file: &mut File, offset: u64) -> Result<Option<u64>, Error> {
        self.try_seek_hole(file, offset)
            .map_err(|error| error.during("find a hole", &object_name(file.node.object)))
    }

    fn try_seek_hole(&mut self, file: &mut File, offset: u64) -> Result<Option<u64>, CallError> {
        self.check_access(file, IoKind::Read)?;
        for _ in 0..FORM_CHANGES {
            let size = file.node.attributes.size;
            if offset >= size {
                return Ok(None);
            }
            match self.form(file)? {
                Form::Striped(distribution) => {
                    if let Some(hole) = self.first_hole(file, &distribution, (offset, size))? {
                        return Ok(Some(hole));
                    }
                }
                Form::Stuffed { .. } => return Ok(Some(size)),
            }
        }
        Err(keeps_changing())
    }

    /// The first hole of any datafile, or the file's end. `None` if the file was truncated meanwhile, which `file` then
    /// shows.
    fn first_hole(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        (offset, size): (u64, u64),
    ) -> Result<Option<u64>, CallError> {
        let striping = striping(distribution)?;
        let object = file.node.object;
        let whole = Region {
            offset,
            len: size - offset,
        };
        let mut left = parts(distribution, whole)?;
        let mut hole = size;
        while !left.is_empty() {
            let calls = self.calls_for(distribution, &left, |position, region| {
                Operation::FindData {
                    object,
                    at_least: file.least_length(position),
                    offset: region.offset,
                }
            })?;
            let results = self.rpc.call_all(calls);
            let Some(replies) = self.unless_missing(file, results)? else {
                return Ok(None);
            };
            let mut rest = Vec::new();
            for ((position, start, end), reply) in left.into_iter().zip(replies) {
                let first = take_reply!(reply, ReplyBody::Data { first } => first)?;
                match first {
                    Some(data)
                        if data.offset <= start && data.offset.saturating_add(data.len) > start =>
                    {
                        rest.push((position, data.offset.saturating_add(data.len), end));
                    }
                    _ => hole = hole.min(striping.file_offset(position, start)),
                }
            }
            // Only the first hole of each datafile matters.
            rest.retain(|&(position, start, end)| {
                start < end && striping.file_offset(position, start) < hole
            });
            left = rest;
        }
        Ok(Some(hole.max(offset).min(MAX_FILE_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_move_data_are_refused() {
        let of = Allocation::of_flags;
        assert_eq!(of(0), Some((Allocation::Reserve, false)));
        assert_eq!(of(1), Some((Allocation::Reserve, true)));
        assert_eq!(of(3), Some((Allocation::Punch, true)));
        assert_eq!(of(0x10), Some((Allocation::Zero, false)));
        assert_eq!(of(0x11), Some((Allocation::Zero, true)));
        // Collapsing, inserting, unsharing, two operations at once, a hole that would change the size, and flags that do not exist.
        for refused in [0x08, 0x20, 0x40, 0x13, 2, 1 << 20, -1] {
            assert_eq!(of(refused), None);
        }
    }
}
