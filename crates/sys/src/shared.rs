//! Words that a process and its children share: the least that two processes need to measure the
//! machine (a cache line bounced between them is the physical limit of any message).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use crate::mapping::Mapping;
use crate::memfd;

/// Atomic words in a memory file.
#[derive(Debug)]
pub struct SharedWords {
    file: OwnedFd,
    mapping: Mapping,
}

impl SharedWords {
    /// `count` words of 0. Words 8 apart lie on cache lines of their own.
    pub fn new(count: usize) -> io::Result<Self> {
        let len = count
            .checked_mul(8)
            .filter(|&len| len > 0)
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        Self::from_file(memfd::create_fixed("causeway-words", len)?)
    }

    /// The words in a file that another [`SharedWords`] made.
    pub fn from_file(file: OwnedFd) -> io::Result<Self> {
        let len = usize::try_from(memfd::checked_len(&file)?)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let mapping = Mapping::new(&file, len)?;
        Ok(Self { file, mapping })
    }

    /// The words in the file that this process inherited as descriptor number `number` (see
    /// [`SharedWords::inheritable`]).
    pub fn inherited(number: i32) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{number}");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        Self::from_file(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?)
    }

    /// A copy of the descriptor that children started from now on inherit; its number is what they
    /// give to [`SharedWords::inherited`].
    pub fn inheritable(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::dup(&self.file)?)
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.mapping.len() / 8;
        // SAFETY: `count` aligned words inside the mapping, which lives as long as `self`; they
        // are only ever reached as atomics.
        unsafe {
            std::slice::from_raw_parts(self.mapping.span(0, count * 8).cast::<AtomicU64>(), count)
        }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;

    #[test]
    fn an_inherited_descriptor_shows_the_same_words() {
        let words = SharedWords::new(16).unwrap();
        let copy = words.inheritable().unwrap();
        let again = SharedWords::inherited(copy.as_raw_fd()).unwrap();
        words.words()[15].store(9, Ordering::Relaxed);
        assert_eq!(again.words()[15].load(Ordering::Relaxed), 9);
        assert_eq!(again.words().len(), 16);
        assert!(SharedWords::new(0).is_err());
    }
}
