//! Buffers that a caller in another language lends for the time of one call.

use std::ptr::NonNull;

use crate::memory::Memory;

/// A buffer: its first byte and its length.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Where it begins; anywhere if it is empty.
    pub base: NonNull<u8>,
    /// Bytes.
    pub len: usize,
}

// SAFETY: an address and a number. The code that makes `Memory` of it vouches for the bytes.
unsafe impl Send for Buffer {}

/// Access to the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// They are written.
    Write,
    /// They are only read.
    Read,
}

/// Calls `use_it` with buffers as [`Memory`], which it may use while it runs.
///
/// Aborts the process if a clone outlives the call, as [`crate::memory::with_foreign`] does.
///
/// # Safety
/// Each buffer is valid for reads, and for writes unless it is only read, during the whole call, and no Rust reference to it
/// exists meanwhile.
pub unsafe fn with_lent<R>(
    buffers: &[Buffer],
    usage: Use,
    use_it: impl FnOnce(&[Memory]) -> R,
) -> R {
    struct Guard(Vec<Memory>);
    impl Drop for Guard {
        fn drop(&mut self) {
            if self.0.iter().any(|memory| memory.sharers() != 1) {
                eprintln!("causeway: an operation still holds a buffer that was lent; aborting");
                std::process::abort();
            }
        }
    }
    let lend = |buffer: &Buffer| {
        // SAFETY: the caller's promise, and no clone survives this call. Nothing writes through a read-only reference.
        let memory = unsafe { Memory::from_raw(buffer.base, buffer.len) };
        match usage {
            Use::Write => memory,
            Use::Read => memory.read_only(),
        }
    };
    let guard = Guard(buffers.iter().map(lend).collect());
    use_it(&guard.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_buffers_are_read_and_written_in_place() {
        let mut bytes = vec![1u8; 10];
        let base = NonNull::from(bytes.as_mut_slice()).cast::<u8>();
        let buffers = [
            Buffer { base, len: 4 },
            Buffer {
                base: NonNull::dangling(),
                len: 0,
            },
        ];
        // SAFETY: the first bytes of a vector that nothing else touches meanwhile.
        unsafe {
            with_lent(&buffers, Use::Write, |memory| {
                assert_eq!((memory.len(), memory[1].len()), (2, 0));
                memory[0].write_at(1, &[7, 8]);
            });
            with_lent(&buffers, Use::Read, |memory| {
                assert!(!memory[0].is_writable());
                assert_eq!(memory[0].to_vec(), [1, 7, 8, 1]);
            });
        }
        assert_eq!(bytes, [1, 7, 8, 1, 1, 1, 1, 1, 1, 1]);
    }
}
