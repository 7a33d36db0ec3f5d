//! The memory of a caller that waits for a message inside the engine, without a receive
//! (`conversation/direct.rs`).

use causeway_sys::memory::{BorrowedSpan, HeldSpan, HeldSpans, Memory};

/// Where to copy the message for which the caller waits.
#[derive(Default)]
pub(crate) struct Direct {
    /// The caller's memory; empty once the message has arrived.
    into: HeldSpan,
    room: usize,
    /// Bytes of the message.
    bytes: u64,
}

impl Direct {
    /// Begins a wait of the caller.
    #[inline]
    pub(crate) fn begin(&mut self, references: &mut HeldSpans, into: &Memory) {
        references.hold(into, &mut self.into);
        self.room = into.len();
    }

    /// Whether the message has arrived.
    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        self.into.is_empty()
    }

    /// Ends the wait. Returns the message's size in bytes if it has arrived.
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

    /// The room of the caller's memory in bytes.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Notes that a message of this many bytes has been copied into the caller's memory.
    #[inline]
    pub(crate) fn arrived(&mut self, references: &mut HeldSpans, bytes: u64) {
        references.release(&mut self.into);
        self.bytes = bytes;
    }
}
