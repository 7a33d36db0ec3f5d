//! One open datafile: its header, reads and writes between lists of regions and lists of memory fragments.
//!
//! With checksums, a part of an access goes through a buffer of the thread's (`blocks`): it is summed where
//! no client can change it. Without, bytes move directly between the file and the memory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use causeway_sys::memory::Memory;
use causeway_sys::nowait;
use causeway_wire::codec::Wire as _;
use causeway_wire::datafile::{
    Algorithm, BLOCK_BYTES, Binding, GROUP_BYTES, Header, State, Trust, file_len, physical,
    size_of_file,
};
use causeway_wire::fs::{ObjectId, Region, WantedSums};

use super::block_cache::{Changes, Stamp};
use super::common::Common;
use super::disk::{put, put_memory, read_padded, set_len, sync, sync_all};
use super::fault::{Fault, Result};
use super::groups::{GroupSpans, Groups};
use super::header_page::binding;
use super::pieces::{Cursor, DIRECT_LEN, Piece, SIEVE_SPAN, Scratch, Window, windows};
use super::ranges::{Ranges, Spans};
use super::types::Wait;
use crate::locks::lock;
use crate::sabotage::{self, Sabotage};

/// The number of the next datafile that is opened.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// An open datafile.
#[derive(Debug)]
pub struct Datafile {
    pub(super) file: File,
    pub(super) common: Arc<Common>,
    /// Blocks that are being written. A thread that locks this and the header locks this first.
    pub(super) ranges: Ranges,
    header: Mutex<Header>,
    object: ObjectId,
    /// The datafile's number, which no other open datafile of this process has or had.
    pub(super) number: u64,
    /// The binding of its blocks' sums.
    pub(super) binding: Binding,
    algorithm: Algorithm,
    /// The header's trust, for readers that must not wait for its lock.
    trust: AtomicU8,
    /// Whether the header in the file is dirty, of this run of the server.
    dirty: AtomicBool,
    pub(super) changes: Changes,
    /// Counts writes and truncations.
    writes: AtomicU64,
    /// The value of that count up to which everything is durable.
    durable: AtomicU64,
    /// Held during a sync.
    syncing: Mutex<()>,
    /// The least size according to the header.
    min_size: AtomicU64,
    /// Groups that were written, if its blocks have checksums.
    pub(super) groups: Groups,
    /// How many bytes from the start a scrub has verified without interruption.
    pub(super) scrubbed: AtomicU64,
}

/// A write's place in the order of overlapping writes: claims are carried out in the order in which they were
/// made.
#[derive(Debug)]
pub struct Claim {
    datafile: Arc<Datafile>,
    number: u64,
}

impl Claim {
    /// The datafile.
    pub(super) fn datafile(&self) -> &Datafile {
        &self.datafile
    }

    /// Waits until all earlier claims of the blocks have ended.
    pub(super) fn wait(&self) {
        if !sabotage::is_on(Sabotage::StaleWrites) {
            self.datafile.ranges.wait(self.number);
        }
    }

    /// As [`Datafile::write`], once all earlier claims of the piece's blocks have ended.
    pub fn write(self, piece: &Piece, scratch: &mut Scratch, at_least: u64) -> Result<u64> {
        self.wait();
        self.datafile.write_held(piece, scratch, at_least)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.datafile.ranges.release(self.number);
    }
}

/// The blocks that regions touch.
fn blocks_of(regions: &[Region]) -> Spans {
    let block = |offset: u64| offset / BLOCK_BYTES * BLOCK_BYTES;
    let covering = |region: &Region| {
        let end = region.offset.saturating_add(region.len);
        (
            block(region.offset),
            block(end.saturating_add(BLOCK_BYTES - 1)),
        )
    };
    match regions {
        [one] if one.len > 0 => {
            let (start, end) = covering(one);
            Spans::one(start, end)
        }
        regions => Spans::of(regions.iter().filter(|region| region.len > 0).map(covering)),
    }
}

/// Options of reading a piece.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// Whether the read may wait.
    pub wait: Wait,
    /// The length that the datafile must have.
    pub at_least: u64,
    /// The file's stamp when the read began; without it, all bytes are read from the file.
    pub stamp: Option<Stamp>,
    /// Sums of whole blocks that the caller wants. With stored ones, blocks are read without verifying them, which is
    /// left to the caller; the piece then is one region that begins with a block.
    pub sums: WantedSums,
}

impl Datafile {
    /// A file with this header and these written groups.
    pub(super) fn open(
        file: File,
        common: Arc<Common>,
        mut header: Header,
        written: GroupSpans,
    ) -> Self {
        let mut dirty = false;
        let mut min_size = 0;
        match header.state {
            State::Clean => min_size = header.size,
            State::Dirty if header.run == common.run => dirty = true,
            State::Dirty if header.boot == common.boot() => {
                header.trust = header.trust.max(Trust::Either);
            }
            State::Dirty => header.trust = Trust::Unsynced,
        }
        // A truncation may have been interrupted before it wrote the header.
        let size = file.metadata().map_or(0, |file| size_of_file(file.len()));
        Self {
            file,
            common,
            ranges: Ranges::default(),
            object: header.object,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            binding: binding(&header),
            algorithm: header.algorithm,
            trust: AtomicU8::new(header.trust as u8),
            header: Mutex::new(header),
            dirty: AtomicBool::new(dirty),
            changes: Changes::default(),
            writes: AtomicU64::new(u64::from(header.state == State::Dirty)),
            durable: AtomicU64::new(0),
            syncing: Mutex::default(),
            min_size: AtomicU64::new(min_size),
            groups: Groups::new(written, size.div_ceil(GROUP_BYTES)),
            scrubbed: AtomicU64::new(0),
        }
    }

    /// The object to which the datafile belongs.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The header as it is known.
    pub fn header(&self) -> Header {
        *self.lock_header()
    }

    /// Its size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(size_of_file(self.file.metadata()?.len()))
    }

    /// Its size, and what else shows whether another program has changed its file.
    pub fn stamp(&self) -> io::Result<Stamp> {
        Ok(Stamp::of(&self.file.metadata()?))
    }

    /// Fails unless the datafile has `at_least` bytes, and those that its header promises.
    pub fn check_size(&self, at_least: u64) -> Result<()> {
        if self.size()? >= self.min_size(at_least) {
            return Ok(());
        }
        // The datafile may just have been written, or truncated.
        let _all = self.ranges.lock_all();
        let (size, wanted) = (self.size()?, self.min_size(at_least));
        match size >= wanted {
            true => Ok(()),
            false => Err(Fault::Short { size, wanted }),
        }
    }

    /// Whether its blocks have checksums.
    pub fn has_sums(&self) -> bool {
        self.algorithm == Algorithm::Crc32c
    }

    pub(super) fn trust(&self) -> Trust {
        match self.trust.load(Ordering::Acquire) {
            0 => Trust::Latest,
            1 => Trust::Either,
            _ => Trust::Unsynced,
        }
    }

    pub(super) fn min_size(&self, at_least: u64) -> u64 {
        if sabotage::is_on(Sabotage::IgnoreLength) {
            return 0;
        }
        at_least.max(self.min_size.load(Ordering::Relaxed))
    }

    fn lock_header(&self) -> MutexGuard<'_, Header> {
        lock(&self.header)
    }

    /// Writes a piece. The datafile must have had `at_least` bytes before. Returns its size afterwards.
    pub fn write(&self, piece: &Piece, scratch: &mut Scratch, at_least: u64) -> Result<u64> {
        let _held = self.ranges.lock_spans(blocks_of(&piece.regions));
        self.write_held(piece, scratch, at_least)
    }

    /// Takes a place in the order of changes that overlap these regions.
    pub fn claim(self: &Arc<Self>, regions: &[Region]) -> Claim {
        Claim {
            number: self.ranges.claim(blocks_of(regions)),
            datafile: Arc::clone(self),
        }
    }

    /// Writes a piece, whose blocks are held. Of a repeated piece, only the bytes are written that other
    /// writes have not overwritten since.
    fn write_held(&self, piece: &Piece, scratch: &mut Scratch, at_least: u64) -> Result<u64> {
        let write = piece.origin.write;
        let history = &self.common.history;
        let left = match piece.origin.repeated {
            Some(first) if !sabotage::is_on(Sabotage::RepeatWrites) => {
                let overwritten = history.overwritten(write, first, self.object, &piece.regions)?;
                Cow::Owned(piece.outside(&overwritten))
            }
            _ => Cow::Borrowed(piece),
        };
        history.note(write, self.object, &left.regions)?;
        self.write_recorded(&left, scratch, at_least)
    }

    /// Fails if the disk has no room for a write of these regions.
    fn admit(&self, regions: &[Region]) -> Result<()> {
        let regions = || regions.iter().filter(|region| region.len > 0);
        let mut len = 0;
        for region in regions() {
            check_offset(region.offset.saturating_add(region.len))?;
            len += region.len;
        }
        let part = |region: &Region| {
            let last = region.offset + region.len - 1;
            physical(region.offset)..physical(last) + 1
        };
        Ok(self
            .common
            .room
            .admit(&self.file, len, regions().map(part))?)
    }

    pub(super) fn write_recorded(
        &self,
        piece: &Piece,
        scratch: &mut Scratch,
        at_least: u64,
    ) -> Result<u64> {
        self.admit(&piece.regions)?;
        let change = self.changes.begin();
        let mut memory = Cursor::new(&piece.memory);
        let wanted = self.min_size(at_least);
        let size = self.size()?;
        let mut reached = size;
        for window in windows(&piece.regions) {
            let end = window.span.offset + window.span.len;
            if window.span.len == 0 {
                continue;
            }
            check_offset(end)?;
            // A write behind the end would turn lost bytes into a hole.
            if size < wanted && end > size {
                return Err(Fault::Short { size, wanted });
            }
            for part in window.parts() {
                piece.check_wanted()?;
                if !self.has_sums() {
                    self.write_plain(window, part, &mut memory, scratch)?;
                    continue;
                }
                let is_all = piece.regions.len() == 1 && part.len == window.span.len;
                if !is_all || !self.write_small(part, &mut memory, scratch, &change)? {
                    self.write_blocks(window, part, &mut memory, scratch, piece.stable)?;
                }
            }
            reached = reached.max(end);
        }
        Ok(reached)
    }

    /// Reads a piece; what lies behind the end is filled with zeros, but fails if it should have been before it.
    /// Returns how many bytes were found before the end, and adds the wanted sums to `sums` in the order of the blocks:
    /// none if the datafile has no checksums.
    pub fn read(
        &self,
        piece: &Piece,
        scratch: &mut Scratch,
        options: &ReadOptions,
        sums: &mut Vec<u32>,
    ) -> Result<u64> {
        let at_least = options.at_least;
        let mut memory = Cursor::new(&piece.memory);
        let mut found = 0;
        for window in windows(&piece.regions) {
            if check_offset(window.span.offset + window.span.len).is_err() {
                // No local file reaches that far.
                memory.clear(window.regions.iter().map(|region| region.len).sum());
                continue;
            }
            for part in window.parts() {
                piece.check_wanted()?;
                let end = match self.has_sums() {
                    true => self
                        .read_blocks(window, part, &mut memory, scratch, options, sums)
                        .map_err(|fault| self.as_truncated(fault, at_least))?,
                    false => self.read_plain(window, part, &mut memory, scratch, options.wait)?,
                };
                if end < part.offset + part.len {
                    self.check_end(end, part, at_least)?;
                }
                found += window
                    .inside(part)
                    .map(|region| end.saturating_sub(region.offset).min(region.len))
                    .sum::<u64>();
            }
        }
        Ok(found)
    }

    /// Damage of a block in which the file was truncated is part of that truncation's loss.
    fn as_truncated(&self, fault: Fault, at_least: u64) -> Fault {
        let size = self.size();
        let wanted = self.min_size(at_least);
        match (&fault, size) {
            (Fault::Damaged { offset, len }, Ok(size)) if size < wanted && offset + len > size => {
                Fault::Short { size, wanted }
            }
            _ => fault,
        }
    }

    /// Checks a part of which only the bytes up to `end` were found: fails if there should have
    /// been more.
    fn check_end(&self, end: u64, part: Region, at_least: u64) -> Result<()> {
        let wanted = self.min_size(at_least);
        if wanted <= end.max(part.offset) {
            return Ok(());
        }
        let size = self.size()?;
        // The datafile may just have been truncated.
        let wanted = wanted.min(self.min_size(at_least));
        match size < wanted && size < part.offset + part.len {
            true => Err(Fault::Short { size, wanted }),
            false => Ok(()),
        }
    }

    fn write_plain(
        &self,
        window: Window<'_>,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.begin_write()?;
        if window.regions.len() > 1 {
            let bytes = scratch.take(part.len as usize);
            read_padded(&self.file, bytes, physical(part.offset), Wait::Allowed)?;
            for region in window.inside(part) {
                let start = (region.offset - part.offset) as usize;
                memory.copy_out(&mut bytes[start..start + region.len as usize]);
            }
            return Ok(put(&self.file, bytes, physical(part.offset))?);
        }
        let mut offset = part.offset;
        let end = part.offset + part.len;
        while offset < end {
            let left = (end - offset) as usize;
            if memory.current_len() >= left.min(DIRECT_LEN as usize) {
                let taken = memory.take(left);
                put_memory(&self.file, &taken, physical(offset))?;
                offset += taken.len() as u64;
            } else {
                let bytes = scratch.take(left.min(SIEVE_SPAN as usize));
                memory.copy_out(bytes);
                put(&self.file, bytes, physical(offset))?;
                offset += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Returns where the data ended, at most the part's end.
    fn read_plain(
        &self,
        window: Window<'_>,
        part: Region,
        memory: &mut Cursor<'_>,
        scratch: &mut Scratch,
        wait: Wait,
    ) -> Result<u64> {
        if window.regions.len() > 1 {
            let bytes = scratch.take(part.len as usize);
            let found = read_padded(&self.file, bytes, physical(part.offset), wait)?;
            for region in window.inside(part) {
                let start = (region.offset - part.offset) as usize;
                memory.copy_in(&bytes[start..start + region.len as usize]);
            }
            return Ok(part.offset + found as u64);
        }
        let mut offset = part.offset;
        let end = part.offset + part.len;
        let mut found = part.offset;
        while offset < end {
            let left = (end - offset) as usize;
            let (wanted, count) = if memory.current_len() >= left.min(DIRECT_LEN as usize) {
                let taken = memory.take(left);
                let count = self.read_part(&taken, offset, wait)?;
                taken.slice(count..taken.len()).clear();
                (taken.len(), count)
            } else {
                let bytes = scratch.take(left.min(SIEVE_SPAN as usize));
                let count = read_padded(&self.file, bytes, physical(offset), wait)?;
                memory.copy_in(bytes);
                (bytes.len(), count)
            };
            if count > 0 {
                found = offset + count as u64;
            }
            offset += wanted as u64;
        }
        Ok(found)
    }

    pub(super) fn read_part(&self, part: &Memory, offset: u64, wait: Wait) -> io::Result<usize> {
        let at = physical(offset);
        match wait {
            Wait::Allowed => {
                sabotage::stall();
                part.read_from_file(&self.file, at)
            }
            Wait::Refused => {
                let count = nowait::read(part, &self.file, at)?;
                // A short read that must not wait is final only at the end of the file.
                let end = at.saturating_add(count as u64);
                if count < part.len() && self.file.metadata()?.len() > end {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(count)
            }
        }
    }

    /// Cuts the datafile to at most `size`, unless a truncation with this or a later `version` was done before.
    /// Afterwards it must have `at_least` bytes that it had before.
    pub(super) fn truncate(&self, size: u64, version: u64, at_least: u64) -> Result<()> {
        check_offset(size)?;
        let _all = self.ranges.lock_all();
        let _change = self.changes.begin();
        if self.lock_header().version >= version {
            return Ok(());
        }
        let (now, wanted) = (self.size()?, self.min_size(at_least).min(size));
        if now < wanted {
            return Err(Fault::Short { size: now, wanted });
        }
        self.common.history.note_cut(self.object, size)?;
        self.begin_write()?;
        // Set before the file is truncated: a check that sees the shorter file must not report missing bytes.
        self.min_size.fetch_min(size, Ordering::Relaxed);
        if self.has_sums() && size < now {
            self.truncate_sums(size)?;
        }
        // Bytes behind the end read as zeros: a shorter datafile need not grow, for which the disk may lack room.
        if size < now {
            set_len(&self.file, file_len(size))?;
        }
        self.truncate_groups(size.div_ceil(GROUP_BYTES))?;
        self.scrubbed.fetch_min(size, Ordering::Relaxed);
        // The version is written last: after a crash in between, the truncation is repeated.
        self.change_header(|header| header.version = version)?;
        match self.common.synced {
            true => Ok(self.sync(true)?),
            false => Ok(()),
        }
    }

    /// Syncs the file, or with `all` also its directory entry and other metadata. One thread at a time: a failure is reported
    /// to one caller only, and must be recorded before another sync succeeds.
    pub(super) fn sync(&self, all: bool) -> io::Result<()> {
        let _one_at_a_time = lock(&self.syncing);
        let synced = match all {
            true => sync_all(&self.file),
            false => sync(&self.file),
        };
        self.common
            .note_failed_sync(synced, format_args!("object {}", self.object.0))
    }

    /// Makes what was written durable. Waits for no write that is in progress, which then does not count as durable, nor do earlier ones.
    pub(super) fn flush(&self) -> io::Result<()> {
        let finished = self.finished_writes();
        self.sync(false)?;
        if let Some(writes) = finished {
            self.note_durable(writes);
        }
        Ok(())
    }

    /// As [`Datafile::flush`], after all writes that are in progress.
    pub(super) fn flush_all(&self) -> io::Result<()> {
        drop(self.ranges.lock_all());
        self.flush()
    }

    /// The number of writes so far, of which some may not have written their bytes yet.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// The number of writes so far if all of them have written their bytes, so that a sync that begins now makes them durable; `None` if a
    /// write may be in progress.
    pub(super) fn finished_writes(&self) -> Option<u64> {
        // A write holds its range from before it is counted until its bytes are written.
        let writes = self.writes();
        self.ranges.is_free().then_some(writes)
    }

    /// Notes that everything up to this count of writes is durable.
    pub(super) fn note_durable(&self, writes: u64) {
        if self.common.is_suspect() {
            return;
        }
        self.durable.fetch_max(writes, Ordering::AcqRel);
    }

    /// Whether everything that was written is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire) >= self.writes()
    }

    /// Marks the datafile clean if everything that was written is durable. Returns whether it is clean.
    pub(super) fn clean(&self) -> io::Result<bool> {
        let _all = self.ranges.lock_all();
        if !self.is_durable() {
            return Ok(false);
        }
        if self.header().state == State::Dirty {
            let size = self.size()?;
            self.change_header(|header| {
                header.state = State::Clean;
                header.size = size;
            })?;
            self.min_size.store(size, Ordering::Relaxed);
            self.dirty.store(false, Ordering::Release);
        }
        Ok(true)
    }

    /// Counts a write and marks the header dirty, before the datafile is written. The caller holds
    /// a range.
    pub(super) fn begin_write(&self) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::AcqRel);
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut header = self.lock_header();
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let next = Header {
            state: State::Dirty,
            boot: self.common.boot(),
            run: self.common.run,
            ..*header
        };
        self.put_header(&next)?;
        // The header on the device must be dirty while data and sums change.
        if header.state == State::Clean && !self.common.in_memory {
            self.sync(false)?;
        }
        *header = next;
        self.dirty.store(true, Ordering::Release);
        self.common.note_dirty(self.object);
        Ok(())
    }

    /// Notes that every block matches its latest sum again.
    pub(super) fn restore_trust(&self) -> io::Result<()> {
        let _all = self.ranges.lock_all();
        self.begin_write()?;
        self.change_header(|header| header.trust = Trust::Latest)?;
        self.trust.store(Trust::Latest as u8, Ordering::Release);
        Ok(())
    }

    /// Changes the header in the file, and then the one that is known.
    fn change_header(&self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        let mut header = self.lock_header();
        let mut next = *header;
        change(&mut next);
        self.put_header(&next)?;
        *header = next;
        Ok(())
    }

    fn put_header(&self, header: &Header) -> io::Result<()> {
        put(&self.file, &header.to_bytes(), 0)
    }
}

/// Fails for offsets without a physical position in a file.
fn check_offset(end: u64) -> io::Result<()> {
    match i64::try_from(file_len(end)) {
        Ok(_) => Ok(()),
        Err(_) => Err(rustix::io::Errno::FBIG.into()),
    }
}
