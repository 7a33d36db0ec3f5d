//! Handing a span's bytes to a system call that another library makes.

use std::io::IoSlice;
use std::ops::Range;

use super::Memory;

impl Memory {
    /// Calls `system_call` with bytes of the span, for libraries whose functions take a slice that a system call is to write. Only the kernel may
    /// read the bytes: `system_call` must pass them on without reading them, as another process may change them at any time.
    ///
    /// # Panics
    /// If `range` is not inside the span.
    pub fn pass_on<R>(&self, range: Range<usize>, system_call: impl FnOnce(IoSlice<'_>) -> R) -> R {
        let span = self.slice(range);
        // SAFETY: the span is valid while `span` lives, which is longer than the slice. Nothing but the kernel reads the slice, as the caller
        // vouches, and the kernel does not mind that the bytes change.
        let bytes = unsafe { std::slice::from_raw_parts(span.as_ptr(), span.len()) };
        system_call(IoSlice::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_bytes_of_the_range_are_passed_on() {
        let memory = Memory::from_vec(b"0123456789".to_vec());
        let mut written = Vec::new();
        let count = memory.pass_on(3..7, |bytes| written.write_vectored(&[bytes]).unwrap());
        assert_eq!((count, written.as_slice()), (4, b"3456".as_slice()));
        assert_eq!(memory.pass_on(10..10, |bytes| bytes.len()), 0);
        assert_eq!(memory.sharers(), 1, "nothing is held afterwards");
    }
}
