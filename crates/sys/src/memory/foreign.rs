//! Memory of callers that know nothing of [`Memory`], described without an allocation for each span.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Backing, Kind, Memory};

/// What foreign memory is.
pub(super) enum Foreign {
    /// A buffer whose owner outlives every clone.
    Buffer,
    /// The bytes of another memory.
    Kept {
        /// It stays as long as its bytes are used.
        _memory: Memory,
    },
    /// No bytes: the common counter of the spans of a [`ForeignMemory`]. Its value is never read.
    Counter,
}

/// Describes spans of foreign memory, such as the buffers of a C program. All of them count
/// references in one place, so that describing one costs a few instructions.
#[derive(Debug)]
pub struct ForeignMemory {
    count: Arc<Backing>,
}

/// A span of bytes that another value owns, such as a [`ForeignMemory`]. It counts as no reference itself; its clones
/// do.
#[derive(Debug)]
pub struct BorrowedSpan<'a> {
    /// Shares the owner's count without having raised it, and so must not lower it.
    memory: ManuallyDrop<Memory>,
    owner: PhantomData<&'a Backing>,
}

impl<'a> BorrowedSpan<'a> {
    /// A span of `backing`'s, which the caller has checked to be valid as long as `backing` is.
    ///
    /// # Safety
    /// `base..base + len` must stay valid as [`ForeignMemory::span`] says until the last clone of the span is
    /// dropped, given that these clones count as references to `backing`.
    #[inline]
    pub(super) unsafe fn new(
        backing: &'a Arc<Backing>,
        base: NonNull<u8>,
        len: usize,
        writable: bool,
    ) -> Self {
        // SAFETY: a copy of a reference that outlives the span, and that the span never drops.
        let backing = unsafe { std::ptr::read(backing) };
        Self {
            memory: ManuallyDrop::new(Memory {
                backing,
                base,
                len,
                writable,
            }),
            owner: PhantomData,
        }
    }
}

impl Memory {
    /// Describes bytes that the caller owns and has registered: they have an [identity](Memory::id) until the last clone is
    /// dropped, under which data about them can be kept.
    ///
    /// # Safety
    /// As for [`Memory::from_raw`].
    pub unsafe fn registered(base: NonNull<u8>, len: usize) -> Self {
        Self::whole(Backing {
            base,
            len,
            kind: Kind::Registered,
        })
    }

    /// The same bytes, and a count of their own for what holds them: [`Memory::sharers`] of the result counts the result
    /// and its clones, apart from other holders of the bytes. For its users it is a foreign buffer.
    pub fn counted_apart(&self) -> Self {
        let apart = Self::whole(Backing {
            base: self.base,
            len: self.len,
            kind: Kind::Foreign(Foreign::Kept {
                _memory: self.clone(),
            }),
        });
        Self {
            writable: self.writable,
            ..apart
        }
    }
}

impl Default for ForeignMemory {
    fn default() -> Self {
        Self {
            count: Arc::new(Backing {
                base: NonNull::dangling(),
                len: 0,
                kind: Kind::Foreign(Foreign::Counter),
            }),
        }
    }
}

impl ForeignMemory {
    /// Describes `base..base + len`, for reading only unless `writable`.
    ///
    /// # Safety
    /// The bytes must stay valid for reads, and if `writable` for writes, until the last clone of the returned span
    /// is dropped, and no Rust reference to them may exist meanwhile.
    #[inline]
    pub unsafe fn span(&self, base: NonNull<u8>, len: usize, writable: bool) -> BorrowedSpan<'_> {
        // SAFETY: as the caller vouches.
        unsafe { BorrowedSpan::new(&self.count, base, len, writable) }
    }
}

impl Deref for BorrowedSpan<'_> {
    type Target = Memory;

    #[inline]
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separately_counted_memory_keeps_the_bytes() {
        let memory = Memory::from_vec(vec![1, 2, 3]);
        let other = memory.clone();
        let apart = memory.slice(1..3).counted_apart();
        assert_eq!((apart.sharers(), memory.sharers()), (1, 3));
        let clone = apart.clone();
        assert_eq!(apart.sharers(), 2);
        drop((memory, other, clone));
        assert_eq!((apart.sharers(), apart.to_vec()), (1, vec![2, 3]));
        assert!(!apart.read_only().counted_apart().is_writable());
    }

    #[test]
    fn registered_memory_has_an_identity_until_its_last_clone_is_gone() {
        let mut bytes = *b"0123456789";
        let base = NonNull::from(&mut bytes).cast::<u8>();
        // SAFETY: the array outlives every clone, and is not referred to meanwhile.
        let register = || unsafe { Memory::registered(base, 10) };
        let memory = register();
        let part = memory.slice(3..5);
        assert_eq!((part.id(), part.to_vec()), (memory.id(), b"34".to_vec()));
        assert!(part.id().is_some() && part.object().is_none());
        let whole = part.allocation();
        assert_eq!((whole.as_ptr(), whole.len()), (base.as_ptr(), 10));
        let (id, watch) = (memory.id(), memory.watch());
        drop((memory, whole));
        assert!(!watch.is_gone());
        drop(part);
        assert!(watch.is_gone());
        assert!((0..100).all(|_| register().id() != id), "still watched");
    }

    #[test]
    fn foreign_spans_are_where_they_are_and_clones_count() {
        let foreign = ForeignMemory::default();
        let mut bytes = *b"0123456789";
        let base = NonNull::from(&mut bytes).cast::<u8>();
        // SAFETY: the array outlives every clone, and is not referred to meanwhile.
        let span = unsafe { foreign.span(base, 10, true) };
        assert_eq!((span.as_ptr(), span.len()), (base.as_ptr(), 10));
        assert_eq!(span.sharers(), 1, "describing is not holding");
        let part = span.slice(2..4);
        part.write_at(0, b"xy");
        assert_eq!((span.sharers(), part.to_vec()), (2, b"xy".to_vec()));
        assert!(span.object().is_none());
        drop(part);
        assert_eq!(span.sharers(), 1);
        assert_eq!(span.clone().into_vec(), b"01xy456789");
        // SAFETY: as above.
        let reading = unsafe { foreign.span(base, 10, false) };
        assert!(!reading.is_writable() && !reading.slice(0..1).is_writable());
    }
}
