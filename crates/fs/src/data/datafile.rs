//! Positioned I/O on one datafile, between lists of regions and lists of memory fragments.
//!
//! A [`Piece`] pairs datafile regions with memory of the same number of bytes, both in order. Where
//! regions are many and small and lie close together, one larger access replaces them: reading takes
//! the whole span and picks; writing reads the span, patches it and writes it back, while nobody
//! else writes (data sieving, as ROMIO does it, but at the server, where it needs no network and no
//! distributed lock).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{PoisonError, RwLock};

use causeway_sys::memory::Memory;
use causeway_sys::nowait;
use causeway_wire::fs::{ObjectId, Region};

/// Regions at least this long are read and written by a call of their own, in bytes.
const DIRECT_LEN: u64 = 8 << 10;
/// Gaps up to this many bytes are cheaper to move along than a further system call.
const SIEVE_GAP: u64 = 2 << 10;
/// Longest span of one sieved access, in bytes: what stays in the second-level cache.
const SIEVE_SPAN: u64 = 256 << 10;
/// Fewest regions that are worth sieving.
const SIEVE_REGIONS: usize = 3;

/// Regions of a datafile and the memory that goes with them.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    /// Datafile regions in the order of the memory.
    pub regions: Vec<Region>,
    /// Memory fragments with as many bytes in all.
    pub memory: Vec<Memory>,
}

/// A buffer that a thread keeps for sieving.
#[derive(Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    fn take(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[..len]
    }
}

/// An open datafile.
#[derive(Debug)]
pub struct Datafile {
    object: ObjectId,
    file: File,
    /// Held shared by plain writes, alone by sieved writes and truncations.
    gate: RwLock<()>,
}

/// Whether a read may wait for the storage device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It may.
    Allowed,
    /// It fails with [`io::ErrorKind::WouldBlock`] instead.
    Refused,
}

impl Datafile {
    pub(super) fn new(object: ObjectId, file: File) -> Self {
        Self {
            object,
            file,
            gate: RwLock::new(()),
        }
    }

    /// Which object's it is.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Keeps everybody else from writing while `change` runs.
    pub(super) fn alone<R>(&self, change: impl FnOnce(&File) -> R) -> R {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        change(&self.file)
    }

    /// Writes a piece.
    pub fn write(&self, piece: &Piece, scratch: &mut Scratch) -> io::Result<()> {
        let mut memory = Cursor::new(&piece.memory);
        for window in windows(&piece.regions) {
            match window {
                Window::Direct(region) => {
                    let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
                    self.write_direct(*region, &mut memory, scratch)?;
                }
                Window::Sieve { regions, span } => {
                    let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
                    let bytes = scratch.take(span.len as usize);
                    let found = read_full(&self.file, bytes, span.offset, Wait::Allowed)?;
                    bytes[found..].fill(0);
                    for region in regions {
                        let start = (region.offset - span.offset) as usize;
                        memory.copy_out(&mut bytes[start..start + region.len as usize]);
                    }
                    self.file.write_all_at(bytes, span.offset)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a piece; what lies behind the end is filled with zeros. Answers how many bytes were
    /// found in front of the end.
    pub fn read(&self, piece: &Piece, scratch: &mut Scratch, wait: Wait) -> io::Result<u64> {
        let mut memory = Cursor::new(&piece.memory);
        let mut found = 0;
        for window in windows(&piece.regions) {
            match window {
                Window::Direct(region) => {
                    found += self.read_direct(*region, &mut memory, scratch, wait)?;
                }
                Window::Sieve { regions, span } => {
                    let bytes = scratch.take(span.len as usize);
                    let count = read_full(&self.file, bytes, span.offset, wait)?;
                    bytes[count..].fill(0);
                    let end = span.offset + count as u64;
                    for region in regions {
                        let start = (region.offset - span.offset) as usize;
                        memory.copy_in(&bytes[start..start + region.len as usize]);
                        found += end.saturating_sub(region.offset).min(region.len);
                    }
                }
            }
        }
        Ok(found)
    }

    fn write_direct(
        &self,
        region: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        let mut offset = region.offset;
        let end = region.offset + region.len;
        while offset < end {
            let left = (end - offset) as usize;
            if memory.front_len() >= left.min(DIRECT_LEN as usize) {
                let part = memory.take(left);
                part.write_to_file(&self.file, offset)?;
                offset += part.len() as u64;
            } else {
                let bytes = scratch.take(left.min(SIEVE_SPAN as usize));
                memory.copy_out(bytes);
                self.file.write_all_at(bytes, offset)?;
                offset += bytes.len() as u64;
            }
        }
        Ok(())
    }

    fn read_direct(
        &self,
        region: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        wait: Wait,
    ) -> io::Result<u64> {
        let mut offset = region.offset;
        let end = region.offset + region.len;
        let mut found = 0;
        while offset < end {
            let left = (end - offset) as usize;
            if memory.front_len() >= left.min(DIRECT_LEN as usize) {
                let part = memory.take(left);
                let count = self.read_part(&part, offset, wait)?;
                part.slice(count..part.len()).clear();
                found += count as u64;
                offset += part.len() as u64;
            } else {
                let bytes = scratch.take(left.min(SIEVE_SPAN as usize));
                let count = read_full(&self.file, bytes, offset, wait)?;
                bytes[count..].fill(0);
                memory.copy_in(bytes);
                found += count as u64;
                offset += bytes.len() as u64;
            }
        }
        Ok(found)
    }

    fn read_part(&self, part: &Memory, offset: u64, wait: Wait) -> io::Result<usize> {
        match wait {
            Wait::Allowed => part.read_from_file(&self.file, offset),
            Wait::Refused => {
                let count = nowait::read(part, &self.file, offset)?;
                self.expect_end(offset, count, part.len())?;
                Ok(count)
            }
        }
    }

    /// A short read that must not wait is final only at the end of the file.
    fn expect_end(&self, offset: u64, count: usize, wanted: usize) -> io::Result<()> {
        if count < wanted && self.size()? > offset.saturating_add(count as u64) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }
}

/// Fills `bytes` from `offset` on, as far as the file goes.
fn read_full(file: &File, bytes: &mut [u8], offset: u64, wait: Wait) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset.saturating_add(done as u64);
        let count = match wait {
            Wait::Allowed => file.read_at(&mut bytes[done..], at),
            Wait::Refused => nowait::read_slice(&mut bytes[done..], file, at),
        };
        match count {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Regions that are served by one access.
enum Window<'a> {
    Direct(&'a Region),
    Sieve { regions: &'a [Region], span: Region },
}

/// Cuts a list of regions into windows.
fn windows(regions: &[Region]) -> impl Iterator<Item = Window<'_>> {
    let mut rest = regions;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut end = first.offset + first.len;
        let close = rest.iter().skip(1).take_while(|next| {
            let near = first.len < DIRECT_LEN
                && next.len < DIRECT_LEN
                && next.offset >= end
                && next.offset - end <= SIEVE_GAP
                && next.offset + next.len - first.offset <= SIEVE_SPAN;
            if near {
                end = next.offset + next.len;
            }
            near
        });
        let count = 1 + close.count();
        if count < SIEVE_REGIONS {
            rest = &rest[1..];
            return Some(Window::Direct(first));
        }
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        let span = Region {
            offset: first.offset,
            len: end - first.offset,
        };
        Some(Window::Sieve {
            regions: taken,
            span,
        })
    })
}

/// Walks memory fragments from front to back. The caller never takes more than there is.
struct Cursor<'a> {
    rest: std::slice::Iter<'a, Memory>,
    front: Option<&'a Memory>,
    used: usize,
}

impl<'a> Cursor<'a> {
    fn new(memory: &'a [Memory]) -> Self {
        let mut rest = memory.iter();
        let front = rest.next();
        let mut cursor = Self {
            rest,
            front,
            used: 0,
        };
        cursor.settle();
        cursor
    }

    /// Moves on to the next fragment that has bytes left.
    fn settle(&mut self) {
        while let Some(front) = self.front
            && self.used == front.len()
        {
            self.front = self.rest.next();
            self.used = 0;
        }
    }

    fn front_len(&self) -> usize {
        self.front.map_or(0, |front| front.len() - self.used)
    }

    /// At most `most` bytes of the front fragment.
    fn take(&mut self, most: usize) -> Memory {
        let Some(front) = self.front else {
            return Memory::from_vec(Vec::new());
        };
        let len = most.min(front.len() - self.used);
        let part = front.slice(self.used..self.used + len);
        self.used += len;
        self.settle();
        part
    }

    fn copy_out(&mut self, mut into: &mut [u8]) {
        while let Some(front) = self.front
            && !into.is_empty()
        {
            let len = into.len().min(front.len() - self.used);
            let (head, tail) = into.split_at_mut(len);
            front.read_at(self.used, head);
            into = tail;
            self.used += len;
            self.settle();
        }
    }

    fn copy_in(&mut self, mut from: &[u8]) {
        while let Some(front) = self.front
            && !from.is_empty()
        {
            let len = from.len().min(front.len() - self.used);
            let (head, tail) = from.split_at(len);
            front.write_at(self.used, head);
            from = tail;
            self.used += len;
            self.settle();
        }
    }
}
