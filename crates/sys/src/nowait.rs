//! File reads that return "would block" instead of waiting for a device.

use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;

use crate::memory::Memory;

/// The kernel's numbers for file systems of which all bytes are in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// Most spans of one system call; the kernel accepts 1024.
const MOST_SPANS: usize = 256;

/// Reads once from `file` at `position` into the span, as far as the page cache holds it.
///
/// Fails with [`io::ErrorKind::WouldBlock`] if nothing can be read without waiting, or if the file system does not
/// support such reads. A short read ends at the end of the file or of the cached bytes.
pub fn read(into: &Memory, file: impl AsFd, position: u64) -> io::Result<usize> {
    read_list(
        &mut [filled_by_kernel(into)],
        file,
        position,
        ReadWriteFlags::NOWAIT,
    )
}

/// Whether a file or directory, and all files of its file system, are in memory only, so that no access waits for a device. These file systems
/// do not support reads that fail instead of waiting.
pub fn is_in_memory(file: impl AsFd) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(file)?.f_type as u64;
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// Reads from `file` at `position` into all of the spans, one after the other. Returns `false` if that has to wait, or the file has fewer
/// bytes; some of the memory may have been written then. `in_memory` is what [`is_in_memory`] returns for the file.
pub fn read_whole(
    into: &[Memory],
    file: impl AsFd,
    mut position: u64,
    in_memory: bool,
) -> io::Result<bool> {
    let flags = match in_memory {
        true => ReadWriteFlags::empty(),
        false => ReadWriteFlags::NOWAIT,
    };
    for into in into.chunks(MOST_SPANS) {
        let mut slices: Vec<_> = into.iter().map(filled_by_kernel).collect();
        let whole: usize = into.iter().map(Memory::len).sum();
        match read_list(&mut slices, file.as_fd(), position, flags) {
            Ok(count) if count == whole => position += whole as u64,
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// A slice of a span, for a system call alone.
fn filled_by_kernel(into: &Memory) -> IoSliceMut<'_> {
    assert!(
        into.is_writable(),
        "reading a file into memory that is for reading only"
    );
    // SAFETY: the span is valid for its whole length while `into` lives; the slice is used only
    // while the kernel fills it. Another process may write it meanwhile, which the kernel does not
    // mind.
    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(into.as_ptr(), into.len()) })
}

/// As [`read`], into a slice.
pub fn read_slice(into: &mut [u8], file: impl AsFd, position: u64) -> io::Result<usize> {
    read_list(
        &mut [IoSliceMut::new(into)],
        file,
        position,
        ReadWriteFlags::NOWAIT,
    )
}

fn read_list(
    into: &mut [IoSliceMut<'_>],
    file: impl AsFd,
    position: u64,
    flags: ReadWriteFlags,
) -> io::Result<usize> {
    match rustix::io::preadv2(file, into, position, flags) {
        Ok(count) => Ok(count),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error.into()),
    }
}
