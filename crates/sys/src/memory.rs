//! Bytes that operations in flight, and other processes, may read and write.
//!
//! [`Memory`] is a counted reference to a span of bytes that stays valid while any clone lives.
//! An operation keeps a clone until it completes, so a buffer can never be freed under a transfer.
//! Because another process may write these bytes at any time, they are never borrowed as slices:
//! they are copied in and out ([`Memory::read_at`], [`Memory::write_at`]), summed ([`Memory::crc32c`]) or handed
//! to the kernel ([`Memory::read_from_file`], [`Memory::write_to_file`]).

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::aliasing;
use crate::fork::Owner;
use crate::mapping::keep_from_children;

mod append;
mod foreign;
mod held;
mod pass_on;

pub use foreign::{BorrowedSpan, ForeignMemory};
pub use held::{HeldSpan, HeldSpans};

/// A counted reference to a span of bytes. Cloning and slicing are cheap and share the bytes.
#[derive(Clone)]
pub struct Memory {
    backing: Arc<Backing>,
    /// First byte of the span, inside the backing, or foreign ([`ForeignMemory`]).
    base: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: as for `Backing`; `base` points into bytes that the backing owns, or into foreign memory that outlives it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Shows when every holder has dropped the bytes of a [`Memory`], without holding them.
#[derive(Debug, Clone)]
pub struct MemoryWatch {
    backing: Weak<Backing>,
}

impl MemoryWatch {
    /// Whether the last clone is gone.
    pub fn is_gone(&self) -> bool {
        self.backing.strong_count() == 0
    }
}

/// The allocation that the bytes of a [`Memory`] belong to, wherever in it its span lies. Data about the bytes as a
/// whole, such as a registration with a network adapter, can be kept under it as long as a [`MemoryWatch`] of them is
/// kept, too: while that exists, the identity is not reused for other memory, even after the bytes are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryId {
    backing: usize,
    /// Detaching puts other pages under the same addresses.
    detached: bool,
}

struct Backing {
    base: NonNull<u8>,
    len: usize,
    kind: Kind,
}

enum Kind {
    /// Allocated by `Vec<u8>` with this capacity; freed the same way.
    Heap { capacity: usize },
    /// A shared mapping of `file` from its start, unless it was detached. The mapping is undone on drop.
    Mapping {
        file: OwnedFd,
        object: u64,
        detached: AtomicBool,
        owner: Owner,
    },
    /// A shared mapping of a file that another process owns. The mapping is undone on drop.
    Import { owner: Owner },
    /// A foreign buffer, whose owner outlives every clone; see [`with_foreign`] and [`Memory::from_raw`]. Or the bytes of
    /// another memory, which is kept; see [`Memory::counted_apart`].
    Foreign(foreign::Foreign),
    /// A foreign buffer whose owner reports its end; see [`Memory::registered`].
    Registered,
}

// SAFETY: the bytes behind `base` are only touched through raw copies and the kernel; threads or processes that share
// a `Memory` order their accesses by the protocol's messages.
unsafe impl Send for Backing {}
// SAFETY: as above; no reference to the bytes is ever formed.
unsafe impl Sync for Backing {}

impl Memory {
    /// Takes over a vector's bytes without copying them.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        let (len, capacity) = (bytes.len(), bytes.capacity());
        let base = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is not null");
        Self::whole(Backing {
            base,
            len,
            kind: Kind::Heap { capacity },
        })
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self::from_vec(vec![0; len])
    }

    /// `len` zero bytes, for a length from outside, such as a request: an error if there is not so much memory.
    pub fn try_zeroed(len: usize) -> std::io::Result<Self> {
        let none = || {
            let text = format!("there are no {len} bytes of memory");
            std::io::Error::new(std::io::ErrorKind::OutOfMemory, text)
        };
        crate::limits::check_memory(len)?;
        let layout = std::alloc::Layout::array::<u8>(len).map_err(|_| none())?;
        if len == 0 {
            return Ok(Self::zeroed(0));
        }
        // SAFETY: the layout has at least one byte.
        let bytes = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(bytes).ok_or_else(none)?;
        Ok(Self::whole(Backing {
            base,
            len,
            // What a vector of this capacity would have, as which it is freed.
            kind: Kind::Heap { capacity: len },
        }))
    }

    /// Describes bytes that the caller owns.
    ///
    /// # Safety
    /// `base..base + len` must stay valid for reads and writes until the last clone is dropped, and no Rust reference
    /// to it may exist meanwhile.
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Self {
        Self::whole(Backing {
            base,
            len,
            kind: Kind::Foreign(foreign::Foreign::Buffer),
        })
    }

    /// Maps `len` bytes of the shareable object `file`, which must be sealed against shrinking.
    /// `object` is the owner's number for it.
    ///
    /// The mapping belongs to this process: a forked child does not have it, and must not touch the bytes.
    pub fn map_object(file: OwnedFd, len: usize, object: u64) -> std::io::Result<Self> {
        Self::map(file.as_fd(), len).map(|(base, owner)| {
            Self::whole(Backing {
                base,
                len,
                kind: Kind::Mapping {
                    file,
                    object,
                    detached: AtomicBool::new(false),
                    owner,
                },
            })
        })
    }

    /// As [`Memory::map_object`], for an object of another process: this one cannot pass it on, and
    /// needs no descriptor for it.
    pub fn map_import(file: impl AsFd, len: usize) -> std::io::Result<Self> {
        let (base, owner) = Self::map(file.as_fd(), len)?;
        Ok(Self::whole(Backing {
            base,
            len,
            kind: Kind::Import { owner },
        }))
    }

    fn map(file: BorrowedFd<'_>, len: usize) -> std::io::Result<(NonNull<u8>, Owner)> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let owner = Owner::this_process()?;
        // SAFETY: a fresh shared mapping at an address that the kernel chooses; the file cannot
        // shrink under it, so touching it cannot fault.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).expect("a mapping is not at null");
        keep_from_children(base, len);
        Ok((base, owner))
    }

    /// Gives this process every page of a shared mapping at once, those that the file lacks too if this process owns
    /// the file: the first touch of each would cost several times as much, and could end the process where no memory is left.
    /// Nothing happens for other memory, nor if the kernel cannot (before Linux 5.14).
    pub fn make_present(&self) -> std::io::Result<()> {
        use rustix::io::Errno;
        use rustix::mm::{Advice, madvise};
        let advice = match self.backing.kind {
            Kind::Mapping { .. } => Advice::LinuxPopulateWrite,
            // May be written as well once mapped: no file system tracks dirty pages of memory files.
            Kind::Import { .. } => Advice::LinuxPopulateRead,
            Kind::Heap { .. } | Kind::Foreign { .. } | Kind::Registered => {
                return Ok(());
            }
        };
        let Backing { base, len, .. } = *self.backing;
        // SAFETY: a mapping of this process, whole, whose bytes stay as they are.
        match unsafe { madvise(base.as_ptr().cast(), len, advice) } {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn whole(backing: Backing) -> Self {
        Self::all_of(Arc::new(backing), true)
    }

    fn all_of(backing: Arc<Backing>, writable: bool) -> Self {
        Self {
            base: backing.base,
            len: backing.len,
            backing,
            writable,
        }
    }

    /// The same bytes, not to be written through this reference or its clones.
    pub fn read_only(&self) -> Self {
        Self {
            writable: false,
            ..self.clone()
        }
    }

    /// Whether operations may write the bytes through this reference.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Watches for the end of the bytes.
    pub fn watch(&self) -> MemoryWatch {
        MemoryWatch {
            backing: Arc::downgrade(&self.backing),
        }
    }

    /// The identity of the bytes, which all clones and slices share. `None` for foreign buffers that were not
    /// [registered](Memory::registered), such as most of those that a C program has allocated itself: there is no event when
    /// those bytes are freed, and others put in their place.
    pub fn id(&self) -> Option<MemoryId> {
        let detached = match &self.backing.kind {
            Kind::Heap { .. } | Kind::Import { .. } | Kind::Registered => false,
            Kind::Mapping { detached, .. } => detached.load(Ordering::Relaxed),
            Kind::Foreign { .. } => return None,
        };
        Some(MemoryId {
            backing: Arc::as_ptr(&self.backing).addr(),
            detached,
        })
    }

    /// All the bytes of the allocation that the span is a part of; of a foreign buffer that is not registered, the span alone.
    pub fn allocation(&self) -> Self {
        match self.backing.kind {
            Kind::Foreign { .. } => self.clone(),
            Kind::Heap { .. } | Kind::Mapping { .. } | Kind::Import { .. } | Kind::Registered => {
                Self::all_of(Arc::clone(&self.backing), self.writable)
            }
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the span has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sub-span `range`, sharing the bytes.
    ///
    /// # Panics
    /// If `range` is not inside the span.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "slice out of range"
        );
        Self {
            backing: Arc::clone(&self.backing),
            // SAFETY: inside the span, which was just checked.
            base: unsafe { self.base.add(range.start) },
            len: range.end - range.start,
            writable: self.writable,
        }
    }

    /// Address of the first byte. Valid while `self` or a clone lives. Check [`Memory::is_writable`] before writing
    /// through it.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The 64-bit word at `offset`, for atomic access; `None` if it is not inside the span, does not lie at a multiple
    /// of 8, or is for reading only. Atomic accesses of every process that has the bytes are atomic with regard to each
    /// other; copies ([`Memory::read_at`] and others) are not.
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let inside = offset.checked_add(8).is_some_and(|end| end <= self.len);
        if !inside || !self.writable {
            return None;
        }
        // SAFETY: the offset is inside the span.
        let word = unsafe { self.base.add(offset) }.cast::<u64>();
        // SAFETY: the word is inside the span, which stays valid while `self` lives; it is aligned, which is checked
        // here; and no reference to the bytes is formed anywhere else.
        word.is_aligned()
            .then(|| unsafe { AtomicU64::from_ptr(word.as_ptr()) })
    }

    /// The shareable object of this process's behind the span: its file, its owner's number and the span's byte
    /// offset inside it.
    pub fn object(&self) -> Option<(BorrowedFd<'_>, u64, u64)> {
        match &self.backing.kind {
            Kind::Mapping {
                file,
                object,
                detached,
                ..
            } if !detached.load(Ordering::Relaxed) => {
                let offset = self.base.addr().get() - self.backing.base.addr().get();
                Some((file.as_fd(), *object, offset as u64))
            }
            Kind::Mapping { .. }
            | Kind::Heap { .. }
            | Kind::Import { .. }
            | Kind::Foreign { .. }
            | Kind::Registered => None,
        }
    }

    /// Takes the whole shareable object that the span lies in away from processes that have mapped it: the same bytes are
    /// at the same addresses afterwards, but accesses of other processes no longer reach them, and they are no
    /// shareable object any more. For memory that a failed process may still access. Has no effect on memory of other
    /// kinds, or twice.
    ///
    /// Concurrent writes of other threads to the bytes may be lost.
    pub fn detach(&self) -> std::io::Result<()> {
        use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
        let Backing {
            base,
            len,
            kind: Kind::Mapping { detached, .. },
        } = &*self.backing
        else {
            return Ok(());
        };
        if *len == 0 || detached.load(Ordering::Relaxed) {
            return Ok(());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses, as long as the object's.
        let copy = unsafe {
            let copy = mmap_anonymous(std::ptr::null_mut(), *len, access, MapFlags::PRIVATE)?;
            std::ptr::copy_nonoverlapping(base.as_ptr(), copy.cast(), *len);
            keep_from_children(NonNull::new_unchecked(copy.cast()), *len);
            copy
        };
        // SAFETY: the copy moves to where the object was mapped, in one step: a thread that reads there finds the
        // same bytes before and after. Both are whole mappings of this process.
        let moved =
            unsafe { mremap_fixed(copy, *len, *len, MremapFlags::MAYMOVE, base.as_ptr().cast()) };
        if let Err(error) = moved {
            // SAFETY: the mapping that was made above, which no other thread has seen.
            let _ = unsafe { munmap(copy, *len) };
            return Err(error.into());
        }
        detached.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// How many clones, this one included, share the bytes.
    pub fn sharers(&self) -> usize {
        Arc::strong_count(&self.backing)
    }

    /// Copies out of the span, from `offset` on.
    ///
    /// # Panics
    /// If the range is not inside the span.
    #[inline]
    pub fn read_at(&self, offset: usize, into: &mut [u8]) {
        assert!(
            offset
                .checked_add(into.len())
                .is_some_and(|end| end <= self.len)
        );
        // SAFETY: the range is inside the span; `into` is exclusively borrowed, so they do not overlap
        // unless a caller broke `from_raw`'s contract.
        unsafe {
            aliasing::copy(self.as_ptr().add(offset), into.as_mut_ptr(), into.len());
        }
    }

    /// Copies into the span, from `offset` on.
    ///
    /// # Panics
    /// If the range is not inside the span, or the memory is for reading only.
    #[inline]
    pub fn write_at(&self, offset: usize, from: &[u8]) {
        self.assert_writable();
        assert!(
            offset
                .checked_add(from.len())
                .is_some_and(|end| end <= self.len)
        );
        // SAFETY: as in `read_at`.
        unsafe {
            aliasing::copy(from.as_ptr(), self.as_ptr().add(offset), from.len());
        }
    }

    /// As [`Memory::read_at`], for many bytes that are in no cache yet.
    ///
    /// # Panics
    /// As [`Memory::read_at`].
    pub fn read_uncached_at(&self, offset: usize, into: &mut [u8]) {
        assert!(
            offset
                .checked_add(into.len())
                .is_some_and(|end| end <= self.len)
        );
        // SAFETY: as in `read_at`.
        unsafe {
            crate::pages::copy(self.as_ptr().add(offset), into.as_mut_ptr(), into.len());
        }
    }

    /// Fetches `len` bytes from `offset` on into the first-level cache; they should take only a part of it.
    ///
    /// # Panics
    /// If the range is not inside the span.
    pub fn fetch(&self, offset: usize, len: usize) {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        crate::pages::fetch(self.as_ptr().wrapping_add(offset), len);
    }

    /// The CRC-32C of `len` bytes from `offset` on; while they are being written, of any mixture of them.
    ///
    /// # Panics
    /// If the range is not inside the span.
    pub fn crc32c(&self, offset: usize, len: usize) -> u32 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: the range is inside the span.
        unsafe { crate::crc32c::of(self.as_ptr().add(offset), len) }
    }

    /// Copies all bytes between two spans of one length; they may overlap.
    ///
    /// # Panics
    /// If the lengths differ, or the memory is for reading only.
    pub fn copy_from(&self, from: &Memory) {
        self.assert_writable();
        assert_eq!(self.len, from.len);
        // SAFETY: both spans are valid for their whole length.
        unsafe { std::ptr::copy(from.as_ptr(), self.as_ptr(), self.len) };
    }

    /// As [`Memory::copy_from`] for spans that do not overlap, past the caches where the processor can: for
    /// copies that are larger than these.
    ///
    /// # Panics
    /// As [`Memory::copy_from`].
    pub fn stream_from(&self, from: &Memory) {
        self.assert_writable();
        assert_eq!(self.len, from.len);
        // SAFETY: both spans are valid for their whole length.
        unsafe { crate::stream::copy(from.as_ptr(), self.as_ptr(), self.len) };
    }

    /// Sets every byte to zero.
    ///
    /// # Panics
    /// If the memory is for reading only.
    pub fn clear(&self) {
        self.assert_writable();
        // SAFETY: the span is valid for its whole length.
        unsafe { std::ptr::write_bytes(self.as_ptr(), 0, self.len) };
    }

    #[inline]
    fn assert_writable(&self) {
        assert!(self.writable, "this memory is for reading only");
    }

    /// A copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read_at(0, &mut bytes);
        bytes
    }

    /// Returns the bytes as a vector: without a copy if this is the last clone of a heap span that is its whole allocation.
    pub fn into_vec(self) -> Vec<u8> {
        if self.base != self.backing.base || self.len != self.backing.len {
            return self.to_vec();
        }
        match Arc::try_unwrap(self.backing) {
            Ok(backing) => backing.into_vec(),
            Err(backing) => Self::all_of(backing, false).to_vec(),
        }
    }
}

impl Backing {
    fn into_vec(self) -> Vec<u8> {
        match self.kind {
            Kind::Heap { capacity } => {
                let this = std::mem::ManuallyDrop::new(self);
                // SAFETY: these are the parts of the vector that `from_vec` took apart, and
                // `ManuallyDrop` keeps them from being freed twice.
                unsafe { Vec::from_raw_parts(this.base.as_ptr(), this.len, capacity) }
            }
            Kind::Mapping { .. }
            | Kind::Import { .. }
            | Kind::Foreign { .. }
            | Kind::Registered => Memory::whole(self).to_vec(),
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        match self.kind {
            Kind::Heap { capacity } => {
                // SAFETY: the parts of the vector that `from_vec` took apart, given back once.
                drop(unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.len, capacity) });
            }
            Kind::Mapping { owner, .. } | Kind::Import { owner } => {
                if !owner.is_this_process() {
                    // A forked child does not have the mapping: other memory may be mapped here.
                    return;
                }
                // SAFETY: the mapping that `map` made; the last clone is gone. An error
                // could only mean that the arguments are wrong, which they are not.
                let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
            }
            Kind::Foreign { .. } | Kind::Registered => {}
        }
    }
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backing").field("len", &self.len).finish()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("address", &self.as_ptr())
            .field("len", &self.len)
            .finish()
    }
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_vec(bytes)
    }
}

/// Calls `use_it` with a slice, a foreign buffer, as [`Memory`], which it may use while it runs.
///
/// Aborts the process if a clone outlives the call: an operation that could still write into
/// memory that the caller takes back is a bug that nothing else can contain.
pub fn with_foreign<R>(bytes: &mut [u8], use_it: impl FnOnce(&Memory) -> R) -> R {
    let base = NonNull::from(&mut *bytes).cast();
    // SAFETY: `bytes` is exclusively borrowed for this whole call, and no clone survives it.
    with_memory(unsafe { Memory::from_raw(base, bytes.len()) }, use_it)
}

/// Calls `use_it` with a slice as [`Memory`] that is only read: writing to it panics, and methods
/// refuse it as the target of a transfer. Aborts as [`with_foreign`] does.
pub fn with_foreign_read_only<R>(bytes: &[u8], use_it: impl FnOnce(&Memory) -> R) -> R {
    let base = NonNull::from(bytes).cast();
    // SAFETY: the bytes outlive this call and no clone survives it; nothing writes through a
    // read-only reference (every writer in `sys` and `transport` asks).
    let memory = unsafe { Memory::from_raw(base, bytes.len()) };
    let read_only = memory.read_only();
    drop(memory);
    with_memory(read_only, use_it)
}

fn with_memory<R>(memory: Memory, use_it: impl FnOnce(&Memory) -> R) -> R {
    struct Guard(Memory);
    impl Drop for Guard {
        fn drop(&mut self) {
            if self.0.sharers() != 1 {
                eprintln!("causeway: an operation still holds a foreign buffer; aborting");
                std::process::abort();
            }
        }
    }
    let guard = Guard(memory);
    use_it(&guard.0)
}

/// Positioned file I/O straight from and into the span.
impl Memory {
    /// Reads from `file` at byte `position` into the span. Returns how many bytes were read: fewer than the span's
    /// length only at the end of the file.
    ///
    /// # Panics
    /// If the memory is for reading only.
    pub fn read_from_file(&self, file: impl AsFd, position: u64) -> std::io::Result<usize> {
        self.assert_writable();
        let mut done = 0;
        while done < self.len {
            // SAFETY: the span is valid; a slice of it exists only while the kernel fills it.
            // Another process may write it meanwhile, which the kernel does not mind.
            let into =
                unsafe { std::slice::from_raw_parts_mut(self.as_ptr().add(done), self.len - done) };
            match rustix::io::pread(file.as_fd(), into, position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Writes the whole span to `file` at byte `position`.
    pub fn write_to_file(&self, file: impl AsFd, position: u64) -> std::io::Result<()> {
        let mut done = 0;
        while done < self.len {
            // SAFETY: as in `read_from_file`, for reading.
            let from =
                unsafe { std::slice::from_raw_parts(self.as_ptr().add(done), self.len - done) };
            match rustix::io::pwrite(file.as_fd(), from, position + done as u64) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_bytes_are_the_same_wherever_they_begin_and_end() {
        let from = Memory::from_vec((0..1000u32).map(|n| n as u8).collect());
        for (start, len) in [
            (0, 1000),
            (1, 999),
            (7, 63),
            (3, 64),
            (15, 257),
            (9, 0),
            (2, 500),
        ] {
            let to = Memory::zeroed(1100);
            let shifted = to.slice(start * 3..start * 3 + len);
            let part = from.slice(start..start + len);
            shifted.stream_from(&part);
            assert_eq!(shifted.to_vec(), part.to_vec());
            let written = start * 3..start * 3 + len;
            let bytes = to.to_vec();
            let others = bytes.iter().enumerate();
            assert!(
                others
                    .into_iter()
                    .all(|(at, &byte)| byte == 0 || written.contains(&at))
            );
        }
    }

    #[test]
    fn a_slice_shares_the_bytes() {
        let memory = Memory::from_vec(vec![1, 2, 3, 4]);
        let slice = memory.slice(1..3);
        slice.write_at(0, &[9]);
        assert_eq!(memory.to_vec(), [1, 9, 3, 4]);
        assert_eq!(memory.sharers(), 2);
        drop(slice);
        assert_eq!(memory.into_vec(), [1, 9, 3, 4]);
    }

    #[test]
    fn foreign_memory_is_read_but_not_written() {
        let read = with_foreign_read_only(b"bytes", |memory| {
            assert!(!memory.is_writable() && !memory.slice(1..2).is_writable());
            memory.to_vec()
        });
        assert_eq!(read, b"bytes");
        let mut bytes = [0; 4];
        with_foreign(&mut bytes, |memory| memory.write_at(1, &[7, 8]));
        assert_eq!(bytes, [0, 7, 8, 0]);
    }

    #[test]
    #[should_panic(expected = "for reading only")]
    fn writing_to_foreign_memory_for_reading_panics() {
        Memory::zeroed(4).read_only().write_at(0, &[1]);
    }

    #[test]
    fn a_watch_sees_the_last_clone_go() {
        let memory = Memory::zeroed(4);
        let (watch, clone) = (memory.watch(), memory.clone());
        drop(memory);
        assert!(!watch.is_gone());
        drop(clone);
        assert!(watch.is_gone());
    }

    #[test]
    fn parts_have_the_identity_of_the_whole_and_foreign_memory_has_none() {
        let memory = Memory::zeroed(100);
        let part = memory.slice(10..20).read_only();
        assert!(memory.id().is_some());
        assert_eq!(part.id(), memory.id());
        let whole = part.allocation();
        assert_eq!((whole.as_ptr(), whole.len()), (memory.as_ptr(), 100));
        assert!(!whole.is_writable());
        assert_ne!(Memory::zeroed(100).id(), memory.id());
        let mut bytes = [0; 8];
        with_foreign(&mut bytes, |memory| {
            let part = memory.slice(2..4);
            assert_eq!((part.id(), part.allocation().len()), (None, 2));
        });
        // As long as it is watched, no other memory gets its identity, even at the same address.
        let (id, watch) = (memory.id(), memory.watch());
        drop((memory, part, whole));
        assert!(watch.is_gone());
        assert!((0..100).all(|_| Memory::zeroed(100).id() != id));
    }

    #[test]
    fn an_object_is_seen_through_every_mapping() {
        let file = crate::memfd::create_fixed("test", 4096).unwrap();
        let copy = file.try_clone().unwrap();
        let one = Memory::map_object(file, 4096, 7).unwrap();
        let two = Memory::map_object(copy, 4096, 7).unwrap();
        one.slice(100..103).write_at(0, b"abc");
        assert_eq!(two.slice(100..103).to_vec(), b"abc");
        let slice = one.slice(100..103);
        let (_, object, offset) = slice.object().unwrap();
        assert_eq!((object, offset), (7, 100));
        let (file, _, _) = one.object().unwrap();
        let three = Memory::map_import(file, 4096).unwrap();
        assert_eq!(three.slice(100..103).to_vec(), b"abc");
        assert!(three.object().is_none(), "not ours to pass on");
    }

    #[test]
    fn a_detached_object_is_out_of_reach() {
        let file = crate::memfd::create_fixed("test", 8192).unwrap();
        let theirs = Memory::map_import(&file, 8192).unwrap();
        let ours = Memory::map_object(file, 8192, 7).unwrap();
        let part = ours.slice(4000..5000);
        part.write_at(0, b"before");
        let before = ours.id();
        part.detach().unwrap();
        assert_eq!(&ours.slice(4000..4006).to_vec(), b"before");
        assert_ne!(ours.id(), before, "other pages");
        theirs.write_at(4000, b"theirs");
        part.write_at(6, b"ours");
        assert_eq!(&part.slice(0..10).to_vec(), b"beforeours");
        assert_eq!(&theirs.slice(4000..4010).to_vec(), b"theirs\0\0\0\0");
        assert!(ours.object().is_none());
        ours.detach().unwrap();
        assert_eq!(&part.slice(0..10).to_vec(), b"beforeours");
        Memory::zeroed(3).detach().unwrap();
    }
}
