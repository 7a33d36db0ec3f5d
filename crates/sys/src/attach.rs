//! Copying from and to another process's memory in one step (cross-memory attach).

use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use crate::memory::Memory;

/// The most spans that one call takes on either side.
pub const MAX_SPANS: usize = 1024;

/// Spans of local memory, in order.
#[derive(Debug, Default)]
pub struct LocalSpans<'a> {
    spans: Vec<libc::iovec>,
    read_only: bool,
    memory: PhantomData<&'a Memory>,
}

impl<'a> LocalSpans<'a> {
    /// An empty list.
    pub fn new() -> Self {
        Self {
            spans: Vec::new(),
            read_only: false,
            memory: PhantomData,
        }
    }

    /// Appends a range of `memory`.
    ///
    /// # Panics
    /// If the range is not inside the memory.
    pub fn push(&mut self, memory: &'a Memory, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= memory.len());
        self.read_only |= !memory.is_writable();
        self.spans.push(libc::iovec {
            // SAFETY: inside the span, by the assertion.
            iov_base: unsafe { memory.as_ptr().add(range.start) }.cast(),
            iov_len: range.end - range.start,
        });
    }

    /// How many spans.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// Spans of the other process's memory, in order.
#[derive(Debug, Default)]
pub struct RemoteSpans {
    spans: Vec<libc::iovec>,
}

impl RemoteSpans {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `len` bytes from virtual address `base` on.
    pub fn push(&mut self, base: u64, len: usize) {
        self.spans.push(libc::iovec {
            iov_base: base as usize as *mut libc::c_void,
            iov_len: len,
        });
    }

    /// How many spans.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// Copies from process `pid` into `local`; answers how many bytes, fewer than asked for if a later
/// span cannot be reached.
pub fn read(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    if local.read_only {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the local memory is lent for reading only",
        ));
    }
    // SAFETY: the local spans lie in memory that is borrowed for as long as the list lives and may be
    // written; the remote ones are checked by the kernel.
    let copied = unsafe {
        libc::process_vm_readv(
            pid,
            local.spans.as_ptr(),
            local.spans.len() as libc::c_ulong,
            remote.spans.as_ptr(),
            remote.spans.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Copies from `local` to process `pid`; answers as [`read`] does.
pub fn write(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    // SAFETY: as in `read`; the local spans are only read.
    let copied = unsafe {
        libc::process_vm_writev(
            pid,
            local.spans.as_ptr(),
            local.spans.len() as libc::c_ulong,
            remote.spans.as_ptr(),
            remote.spans.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::lend_read;

    #[test]
    fn lists_of_different_shapes_are_copied_both_ways() {
        let pid = std::process::id() as i32;
        let far = Memory::from_vec((0..100).collect());
        let near = Memory::zeroed(100);
        let mut local = LocalSpans::new();
        local.push(&near, 0..30);
        local.push(&near, 50..100);
        let mut remote = RemoteSpans::new();
        remote.push(far.as_ptr() as u64 + 20, 80);
        assert_eq!(read(pid, &local, &remote).unwrap(), 80);
        let bytes = near.to_vec();
        assert_eq!(bytes[..30], (20..50).collect::<Vec<u8>>());
        assert_eq!(bytes[50..], (50..100).collect::<Vec<u8>>());
        far.clear();
        assert_eq!(write(pid, &local, &remote).unwrap(), 80);
        assert_eq!(far.to_vec()[20..], (20..100).collect::<Vec<u8>>());
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_and_lent_memory_is_not_written() {
        let pid = std::process::id() as i32;
        let near = Memory::zeroed(8);
        let mut local = LocalSpans::new();
        local.push(&near, 0..8);
        let mut remote = RemoteSpans::new();
        remote.push(8, 8);
        assert!(read(pid, &local, &remote).is_err());
        let mut good = RemoteSpans::new();
        good.push(near.as_ptr() as u64, 8);
        lend_read(&[0; 8], |lent| {
            let mut local = LocalSpans::new();
            local.push(lent, 0..8);
            let refused = read(pid, &local, &good).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(write(pid, &local, &good).unwrap(), 8);
        });
    }
}
