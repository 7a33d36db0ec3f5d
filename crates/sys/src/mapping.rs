//! Memory files mapped for words that several processes read and write.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};

use crate::fork::Owner;

/// A shared mapping of a whole memory file. Bytes in it may change at any time: they are reached
/// as atomics or through raw copies, never as slices.
///
/// It belongs to the process that made it: a forked child does not have it, and may drop it only.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: the mapping belongs to the process, not to a thread; its bytes are only reached as
// atomics or through raw copies whose callers order them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `file` from its start, after checking that it is sealed against shrinking and has at
    /// least `len` bytes: touching the mapping can then never fault.
    pub fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        Self::with(file, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with(file: impl AsFd, len: usize, protection: ProtFlags) -> io::Result<Self> {
        if super::memfd::checked_len(file.as_fd())? < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory file is shorter than it should be",
            ));
        }
        let owner = Owner::this_process()?;
        // SAFETY: a fresh mapping where the kernel chooses; checked above to stay valid.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).expect("a mapping is not at null");
        keep_from_children(base, len);
        Ok(Self { base, len, owner })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping has no bytes (it never is: the kernel refuses that).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or the word is not inside the mapping.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.len && self.len - offset >= 8);
        // SAFETY: inside the mapping, aligned (mappings start at a page), and alive as long as
        // `self`; other threads write it as an atomic, and so do other processes, for which atomics are exactly what
        // is needed.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// A hint that the line of the word at byte `offset` is going to be read.
    ///
    /// # Panics
    /// As [`Mapping::word`].
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        crate::pages::prefetch(self.word(offset));
    }

    /// Address of the byte at `offset`, from which `len` bytes may be read and written as long as
    /// `self` lives.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[inline]
    pub fn span(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

/// Keeps a mapping out of forked children: their writes would reach this process and its peers. Without
/// effect where the kernel cannot; children of this library do not touch it in any case.
pub(crate) fn keep_from_children(base: NonNull<u8>, len: usize) {
    // SAFETY: callers give a whole mapping of their own; it stays as it is in this process.
    let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.owner.is_this_process() {
            // A forked child does not have the mapping: other memory may be mapped here.
            return;
        }
        // SAFETY: the mapping made in `new`; references into it borrow `self`. An error could only
        // mean wrong arguments, which these are not.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Words that can be read while other processes write them.
pub trait Words {
    /// The word at byte `offset`, as it is now.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or the word is not inside the mapping.
    fn load(&self, offset: usize, order: Ordering) -> u64;
}

impl Words for Mapping {
    #[inline]
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }
}

/// A shared mapping of a memory file for reading only: the descriptor need not allow more.
#[derive(Debug)]
pub struct View {
    mapping: Mapping,
}

impl View {
    /// Maps `file` from its start, with the checks of [`Mapping::new`].
    pub fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        let mapping = Mapping::with(file, len, ProtFlags::READ)?;
        Ok(Self { mapping })
    }
}

impl Words for View {
    #[inline]
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.mapping.load(offset, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_show_the_same_words() {
        let file = crate::memfd::create_fixed("test", 4096).unwrap();
        let (one, two) = (
            Mapping::new(&file, 4096).unwrap(),
            Mapping::new(&file, 4096).unwrap(),
        );
        one.word(4088).store(7, Ordering::Relaxed);
        assert_eq!(two.word(4088).load(Ordering::Relaxed), 7);
        assert!(Mapping::new(&file, 4097).is_err());
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let view = View::new(std::fs::File::open(path).unwrap(), 4096).unwrap();
        assert_eq!(view.load(4088, Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic]
    fn a_word_behind_the_end_is_refused() {
        let file = crate::memfd::create_fixed("test", 4096).unwrap();
        Mapping::new(&file, 4096).unwrap().word(4096);
    }
}
