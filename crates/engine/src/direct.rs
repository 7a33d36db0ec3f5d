//! The memory of a caller that waits for a message inside of the engine, without a receive
//! (`conversation/direct.rs`).

use causeway_sys::memory::{BorrowedSpan, HeldSpan, HeldSpans, Memory};

/// Where a message goes that the caller waits for.
#[derive(Default)]
pub(crate) struct Direct {
    /// The caller's memory; nothing once the message is there.
    into: HeldSpan,
    room: usize,
    /// Bytes of the message.
    bytes: u64,
}

impl Direct {
    /// The caller waits.
    #[inline]
    pub(crate) fn begin(&mut self, references: &mut HeldSpans, into: &Memory) {
        references.hold(into, &mut self.into);
        self.room = into.len();
    }

    /// Whether the message has come.
    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        self.into.is_empty()
    }

    /// The caller waits no more. Returns the message's bytes if it has come.
    #[inline]
    pub(crate) fn end(&mut self, references: &mut HeldSpans) -> Option<u64> {
        if self.has_come() {
            return Some(self.bytes);
        }
        references.release(&mut self.into);
        None
    }

    /// The caller's memory.
    #[inline]
    pub(crate) fn memory<'a>(&'a self, references: &'a HeldSpans) -> BorrowedSpan<'a> {
        references.get(&self.into)
    }

    /// How many bytes have room there.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// The message is in the caller's memory: so many bytes.
    #[inline]
    pub(crate) fn arrived(&mut self, references: &mut HeldSpans, bytes: u64) {
        references.release(&mut self.into);
        self.bytes = bytes;
    }
}
