//! Copying from and to another process's memory in one step (cross-memory attach).

use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use crate::memory::Memory;

/// The most spans that one call takes on either side.
pub const MAX_SPANS: usize = 1024;

/// Lists of at most this length need no allocation.
const FEW: usize = 4;

/// What the kernel is given.
#[derive(Debug)]
struct Spans {
    few: [libc::iovec; FEW],
    len: usize,
    /// All of them, if they are more than fit into `few`.
    many: Vec<libc::iovec>,
}

impl Default for Spans {
    fn default() -> Self {
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            few: [none; FEW],
            len: 0,
            many: Vec::new(),
        }
    }
}

impl Spans {
    fn push(&mut self, base: *mut libc::c_void, len: usize) {
        let span = libc::iovec {
            iov_base: base,
            iov_len: len,
        };
        if let Some(free) = self.few.get_mut(self.len) {
            *free = span;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(span);
        }
        self.len += 1;
    }

    fn as_slice(&self) -> &[libc::iovec] {
        if self.many.is_empty() {
            &self.few[..self.len]
        } else {
            &self.many
        }
    }
}

/// Spans of local memory, in order.
#[derive(Debug, Default)]
pub struct LocalSpans<'a> {
    spans: Spans,
    read_only: bool,
    memory: PhantomData<&'a Memory>,
}

impl<'a> LocalSpans<'a> {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a range of `memory`.
    ///
    /// # Panics
    /// If the range is not inside the memory.
    pub fn push(&mut self, memory: &'a Memory, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= memory.len());
        self.read_only |= !memory.is_writable();
        // SAFETY: inside the span, by the assertion.
        let base = unsafe { memory.as_ptr().add(range.start) };
        self.spans.push(base.cast(), range.end - range.start);
    }

    /// How many spans.
    pub fn len(&self) -> usize {
        self.spans.len
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.len == 0
    }
}

/// Spans of the other process's memory, in order.
#[derive(Debug, Default)]
pub struct RemoteSpans {
    spans: Spans,
}

impl RemoteSpans {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `len` bytes from virtual address `base` on.
    pub fn push(&mut self, base: u64, len: usize) {
        self.spans.push(base as usize as *mut libc::c_void, len);
    }

    /// How many spans.
    pub fn len(&self) -> usize {
        self.spans.len
    }

    /// Whether there are no spans.
    pub fn is_empty(&self) -> bool {
        self.spans.len == 0
    }
}

/// Copies from process `pid` into `local`. Returns how many bytes it copied: fewer than asked for if a later
/// span cannot be reached.
pub fn read(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    if local.read_only {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the local memory is for reading only",
        ));
    }
    let (near, far) = (local.spans.as_slice(), remote.spans.as_slice());
    // SAFETY: the local spans lie in memory that is borrowed for as long as the list lives and may be
    // written; the remote ones are checked by the kernel.
    let copied = unsafe {
        libc::process_vm_readv(
            pid,
            near.as_ptr(),
            near.len() as libc::c_ulong,
            far.as_ptr(),
            far.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Copies from `local` to process `pid`. Returns as [`read`] does.
pub fn write(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    let (near, far) = (local.spans.as_slice(), remote.spans.as_slice());
    // SAFETY: as in `read`; the local spans are only read.
    let copied = unsafe {
        libc::process_vm_writev(
            pid,
            near.as_ptr(),
            near.len() as libc::c_ulong,
            far.as_ptr(),
            far.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::with_foreign_read_only;

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
    fn lists_of_any_length_are_copied_whole() {
        let pid = std::process::id() as i32;
        let far = Memory::from_vec((0..200).collect());
        for count in [1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let near = Memory::zeroed(200);
            let (mut local, mut remote) = (LocalSpans::new(), RemoteSpans::new());
            for at in (0..count).map(|at| at * 10) {
                local.push(&near, at..at + 10);
                remote.push(far.as_ptr() as u64 + at as u64, 10);
            }
            assert_eq!((local.len(), remote.len()), (count, count));
            assert_eq!(read(pid, &local, &remote).unwrap(), 10 * count);
            assert_eq!(near.to_vec()[..10 * count], far.to_vec()[..10 * count]);
        }
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_and_foreign_memory_is_not_written() {
        let pid = std::process::id() as i32;
        let near = Memory::zeroed(8);
        let mut local = LocalSpans::new();
        local.push(&near, 0..8);
        let mut remote = RemoteSpans::new();
        remote.push(8, 8);
        assert!(read(pid, &local, &remote).is_err());
        let mut good = RemoteSpans::new();
        good.push(near.as_ptr() as u64, 8);
        with_foreign_read_only(&[0; 8], |memory| {
            let mut local = LocalSpans::new();
            local.push(memory, 0..8);
            let refused = read(pid, &local, &good).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(write(pid, &local, &good).unwrap(), 8);
        });
    }
}
