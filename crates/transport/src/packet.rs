//! Packets that have arrived.

use causeway_sys::blocks::Source;
use causeway_sys::memory::Memory;
use causeway_sys::small;

/// How many of the packets that have arrived a poll is to deliver, as far as the method can count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Takes {
    /// Several of each peer.
    #[default]
    Some,
    /// One: the caller waits for one message, and would have to keep all other packets for later calls. Peers are served round robin,
    /// one packet each, because the method does not know which of them sends that message.
    One,
    /// One, from any sender: several polls in a row may take packets of the same peer before the next peer is
    /// served.
    OneInTurn,
}

/// The bytes of a packet that has arrived, where they lie.
///
/// They may be in memory that the sender can still write, so they are copied out before they are
/// decoded, never borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    base: *const u8,
    len: usize,
    lifetime: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// A packet in private memory.
    pub fn private(bytes: &'a [u8]) -> Self {
        Self {
            base: bytes.as_ptr(),
            len: bytes.len(),
            lifetime: std::marker::PhantomData,
        }
    }

    /// A packet in memory that another process may write.
    ///
    /// # Safety
    /// `base..base + len` must be valid for reads during `'a`.
    pub unsafe fn shared(base: *const u8, len: usize) -> Self {
        Self {
            base,
            len,
            lifetime: std::marker::PhantomData,
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies out of the packet from `offset` on.
    ///
    /// # Panics
    /// If the range is not inside the packet.
    #[inline]
    pub fn read_at(&self, offset: usize, into: &mut [u8]) {
        assert!(
            offset
                .checked_add(into.len())
                .is_some_and(|end| end <= self.len)
        );
        // SAFETY: inside the span that the constructor vouched for; `into` is exclusive.
        unsafe {
            std::ptr::copy_nonoverlapping(self.base.add(offset), into.as_mut_ptr(), into.len());
        }
    }

    /// The bytes from `offset` on, to be copied from.
    ///
    /// # Panics
    /// If `offset` is behind the end.
    pub fn source(&self, offset: usize) -> Source<'a> {
        // SAFETY: the span that the constructor vouched for; no Rust reference to it exists.
        unsafe { Source::from_raw(self.base, self.len) }.part(offset, self.len - offset)
    }

    /// Copies `len` bytes from `offset` on to the start of `into`.
    ///
    /// # Panics
    /// If the range is not inside the packet, is longer than `into`, or `into` is for reading only.
    #[inline(always)]
    pub fn copy_part_to(&self, offset: usize, len: usize, into: &Memory) {
        assert!(into.is_writable(), "this memory is for reading only");
        assert!(
            len <= into.len() && offset.checked_add(len).is_some_and(|end| end <= self.len),
            "a copy out of range"
        );
        // SAFETY: both ranges are valid; a packet is never in memory that was passed to an
        // operation.
        unsafe { small::copy(self.base.add(offset), into.as_ptr(), len) };
    }

    /// A copy of the bytes from `offset` on.
    ///
    /// # Panics
    /// If `offset` is behind the end.
    pub fn to_vec(&self, offset: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_into(offset, &mut bytes);
        bytes
    }

    /// Replaces the content of `into` by a copy of the bytes from `offset` on.
    ///
    /// # Panics
    /// If `offset` is behind the end.
    pub fn copy_into(&self, offset: usize, into: &mut Vec<u8>) {
        let len = self.len.checked_sub(offset);
        into.clear();
        into.resize(len.expect("offset inside the packet"), 0);
        self.read_at(offset, into);
    }
}
