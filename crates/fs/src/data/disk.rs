//! The calls that read and change a datafile's file. All changes go through here, so that tests can end them
//! after any step, as a kill does.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use causeway_sys::memory::Memory;
use causeway_sys::nowait;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::room::Disk;
#[cfg(test)]
use super::steps;
use super::types::Wait;
use crate::sabotage;

/// Fills `bytes` from `offset` on, as far as the file goes; returns how far.
pub(super) fn read_full(
    file: &File,
    bytes: &mut [u8],
    offset: u64,
    wait: Wait,
) -> io::Result<usize> {
    if wait == Wait::Allowed {
        sabotage::stall();
    }
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

/// Fills `bytes` from `offset` on, with zeros behind the end of the file; returns how many bytes the file has there.
pub(super) fn read_padded(
    file: &File,
    bytes: &mut [u8],
    offset: u64,
    wait: Wait,
) -> io::Result<usize> {
    let found = read_full(file, bytes, offset, wait)?;
    bytes[found..].fill(0);
    Ok(found)
}

/// Writes all of `bytes` at `offset`.
pub(super) fn put(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(test)]
    return steps::put(file, bytes, offset);
    #[cfg(not(test))]
    {
        sabotage::stall();
        file.write_all_at(bytes, offset)
    }
}

/// Writes all of the memory's bytes at `offset`.
pub(super) fn put_memory(file: &File, memory: &Memory, offset: u64) -> io::Result<()> {
    #[cfg(test)]
    return steps::put(file, &memory.to_vec(), offset);
    #[cfg(not(test))]
    {
        sabotage::stall();
        memory.write_to_file(file, offset)
    }
}

/// Sets the file's length.
pub(super) fn set_len(file: &File, len: u64) -> io::Result<()> {
    #[cfg(test)]
    return steps::set_len(file, len);
    #[cfg(not(test))]
    file.set_len(len)
}

/// Makes a hole of a part of the file, whose length stays.
pub(super) fn free(file: &File, offset: u64, len: u64) -> io::Result<()> {
    #[cfg(test)]
    steps::free(offset, len)?;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| fallocate(file, how, offset, len))?)
}

/// Has the file system reserve room for a part of the file, whose length and content stay.
pub(super) fn reserve(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // If there is too little room, some file systems reserve and keep what there is.
    let missing = len.saturating_sub(file.metadata()?.blocks().saturating_mul(512));
    if missing > Disk::of(file)?.available() {
        return Err(Errno::NOSPC.into());
    }
    let reserved = || fallocate(file, FallocateFlags::KEEP_SIZE, offset, len);
    Ok(retry_on_intr(reserved)?)
}

/// Makes the file's bytes and length durable.
pub(super) fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    steps::synced();
    sabotage::fail_sync()?;
    file.sync_data()
}

/// Makes the file's bytes, length and everything else about it durable.
pub(super) fn sync_all(file: &File) -> io::Result<()> {
    sabotage::fail_sync()?;
    file.sync_all()
}
