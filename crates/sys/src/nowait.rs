//! File reads that return "would block" instead of waiting for a device.

use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;

use crate::memory::Memory;

/// Reads once from `file` at `position` into the span, as far as the page cache holds it.
///
/// Fails with [`io::ErrorKind::WouldBlock`] if nothing can be read without waiting, or if the file system does not
/// support such reads. A short read ends at the end of the file or of the cached bytes.
pub fn read(into: &Memory, file: impl AsFd, position: u64) -> io::Result<usize> {
    assert!(
        into.is_writable(),
        "reading a file into memory that is for reading only"
    );
    // SAFETY: the span is valid for its whole length while `into` lives; a slice of it exists only
    // while the kernel fills it. Another process may write it meanwhile, which the kernel does not
    // mind.
    let bytes = unsafe { std::slice::from_raw_parts_mut(into.as_ptr(), into.len()) };
    read_slice(bytes, file, position)
}

/// As [`read`], into a slice.
pub fn read_slice(into: &mut [u8], file: impl AsFd, position: u64) -> io::Result<usize> {
    let mut into = [IoSliceMut::new(into)];
    match rustix::io::preadv2(file, &mut into, position, ReadWriteFlags::NOWAIT) {
        Ok(count) => Ok(count),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error.into()),
    }
}
