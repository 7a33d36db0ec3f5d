//! Copying from and to another process's memory in one step (cross-memory attach).

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::OnceLock;

use crate::aliasing;
use crate::memory::Memory;

/// The most spans that one call takes on either side.
pub const MAX_SPANS: usize = 1024;

/// Bytes of a page: only the offsets of addresses in their pages are compared.
const PAGE: usize = 4096;

/// Bytes copied through the buffer at a time.
const BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Empty until it is needed.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Shorter copies are made without the buffer, which would not pay.
const SLOW_FROM_BYTES: usize = 2048;

/// Lists of at most this length need no allocation.
const FEW: usize = 4;

/// Allows other processes of this user to copy from and to this one's memory, where Yama (`kernel.yama.ptrace_scope` = 1, the default of
/// several distributions) reserves that for its ancestors. The kernel's other conditions stay as they are.
pub fn allow_processes_of_this_user() {
    // An error means that the kernel has no Yama, which then restricts nothing.
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
}

/// The array of spans that is passed to the kernel.
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

/// Copies from process `pid` into `local`. Returns how many bytes it copied: fewer than requested if a later
/// span cannot be reached.
pub fn read(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    if local.read_only {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the local memory is for reading only",
        ));
    }
    let (near, far) = (local.spans.as_slice(), remote.spans.as_slice());
    if let ([near], [far]) = (near, far)
        && is_slow(far, near)
    {
        return through_buffer(pid, Direction::Read, near, far);
    }
    // SAFETY: the local spans lie in memory that is borrowed for as long as the list lives and may be
    // written.
    unsafe { call(pid, Direction::Read, near, far) }
}

/// Copies from `local` to process `pid`. Returns as [`read`] does.
pub fn write(pid: i32, local: &LocalSpans<'_>, remote: &RemoteSpans) -> io::Result<usize> {
    let (near, far) = (local.spans.as_slice(), remote.spans.as_slice());
    if let ([near], [far]) = (near, far)
        && is_slow(near, far)
    {
        return through_buffer(pid, Direction::Write, near, far);
    }
    // SAFETY: as in `read`; the local spans are only read.
    unsafe { call(pid, Direction::Write, near, far) }
}

/// Which way bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The system call.
///
/// # Safety
/// The local spans may be accessed, and written if the direction is that. (The kernel checks the remote ones.)
unsafe fn call(
    pid: i32,
    direction: Direction,
    near: &[libc::iovec],
    far: &[libc::iovec],
) -> io::Result<usize> {
    let call = match direction {
        Direction::Read => libc::process_vm_readv,
        Direction::Write => libc::process_vm_writev,
    };
    let (local, remote) = (near.len() as libc::c_ulong, far.len() as libc::c_ulong);
    // SAFETY: as the caller vouches for.
    let copied = unsafe { call(pid, near.as_ptr(), local, far.as_ptr(), remote, 0) };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Whether the kernel would take long to copy from one span to the other; see [`aliasing`].
fn is_slow(from: &libc::iovec, to: &libc::iovec) -> bool {
    let is_long = from.iov_len.min(to.iov_len) >= SLOW_FROM_BYTES;
    is_long && aliasing::is_close(from.iov_base.addr(), to.iov_base.addr()) && is_kernel_slow()
}

/// Whether the kernel's copies are slow where the target lies a little further on in its page.
fn is_kernel_slow() -> bool {
    static MEASURED: OnceLock<bool> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let pid = crate::process::own_number();
        aliasing::slows_down(|from, into| {
            let span = |base: *mut u8| libc::iovec {
                iov_base: base.cast(),
                iov_len: from.len(),
            };
            let (near, far) = (span(into.as_mut_ptr()), span(from.as_ptr().cast_mut()));
            // SAFETY: the local span is exclusively borrowed, and as long.
            let copied = unsafe { call(pid, Direction::Read, &[near], &[far]) };
            copied.is_ok_and(|copied| copied == from.len())
        })
    })
}

/// Copies between a local span, whose memory this process may access as the direction requires, and a remote one, by way of a buffer that has the same
/// offset in its page as the remote span.
fn through_buffer(
    pid: i32,
    direction: Direction,
    near: &libc::iovec,
    far: &libc::iovec,
) -> io::Result<usize> {
    // A thread that is ending no longer has a buffer.
    let mut buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
    buffer.resize(BUFFER_BYTES + 2 * PAGE, 0);
    let copied = copy_through(&mut buffer, pid, direction, near, far);
    let _ = BUFFER.try_with(|kept| kept.set(buffer));
    copied
}

fn copy_through(
    buffer: &mut [u8],
    pid: i32,
    direction: Direction,
    near: &libc::iovec,
    far: &libc::iovec,
) -> io::Result<usize> {
    let start = buffer.as_ptr().align_offset(PAGE) + far.iov_base.addr() % PAGE;
    let len = near.iov_len.min(far.iov_len);
    let mut done = 0;
    while done < len {
        let piece = BUFFER_BYTES.min(len - done);
        let local = near.iov_base.cast::<u8>().wrapping_add(done);
        let Some(room) = buffer.get_mut(start..start + piece) else {
            return Ok(done);
        };
        if direction == Direction::Write {
            // SAFETY: inside the local span; the buffer is this function's.
            unsafe { aliasing::copy(local, room.as_mut_ptr(), piece) };
        }
        let span = |base: *mut libc::c_void| libc::iovec {
            iov_base: base,
            iov_len: piece,
        };
        let between = span(room.as_mut_ptr().cast());
        let remote = span(far.iov_base.wrapping_byte_add(done));
        // SAFETY: the buffer is this function's.
        let copied = match unsafe { call(pid, direction, &[between], &[remote]) } {
            Ok(copied) => copied,
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        };
        if direction == Direction::Read {
            // SAFETY: as above.
            unsafe { aliasing::copy(room.as_ptr(), local, copied) };
        }
        done += copied;
        if copied < piece {
            break;
        }
    }
    Ok(done)
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
    fn long_spans_are_copied_whole_through_the_buffer() {
        let pid = std::process::id() as i32;
        let span = |memory: &Memory| libc::iovec {
            iov_base: memory.as_ptr().cast(),
            iov_len: memory.len(),
        };
        for len in [1, 4000, BUFFER_BYTES, 3 * BUFFER_BYTES + 17] {
            let far = Memory::from_vec((0..len).map(|at| (at % 251) as u8).collect());
            let near = Memory::zeroed(len);
            let copied = through_buffer(pid, Direction::Read, &span(&near), &span(&far));
            assert_eq!((copied.unwrap(), near.to_vec()), (len, far.to_vec()));
            far.clear();
            let copied = through_buffer(pid, Direction::Write, &span(&near), &span(&far));
            assert_eq!((copied.unwrap(), near.to_vec()), (len, far.to_vec()));
        }
        let (near, nowhere) = (Memory::zeroed(8), std::ptr::without_provenance_mut(8));
        let nowhere = libc::iovec {
            iov_base: nowhere,
            iov_len: 8,
        };
        assert!(through_buffer(pid, Direction::Read, &span(&near), &nowhere).is_err());
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
