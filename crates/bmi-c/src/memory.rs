//! From plain pointers to [`Memory`].
//!
//! A pointer into a buffer that the instance allocated or mapped stands for that buffer, so that methods
//! see what it is; any other is described where it lies, without an allocation.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;

use causeway_sys::memory::{Lender, Lent, Memory};
use libc::iovec;

use crate::error::{BMI_ELIMIT, Failure};

/// Most fragments of one list.
const MAX_FRAGMENTS: usize = 1 << 20;

/// Memory as a call names it.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// One buffer.
    Buffer(*const c_void, i64),
    /// An array of buffers.
    List(*const iovec, usize),
}

/// Buffers that the instance made, by the address of their first byte.
#[derive(Default)]
pub(crate) struct Buffers {
    by_address: BTreeMap<usize, Memory>,
    /// All of them lie within.
    bounds: std::ops::Range<usize>,
}

impl Buffers {
    /// Keeps a buffer until [`Buffers::remove`]; answers where it lies. An empty one has a place, too.
    pub(crate) fn insert(&mut self, memory: Memory) -> *mut c_void {
        let (base, start) = (memory.as_ptr(), memory.as_ptr().addr());
        let end = start + memory.len().max(1);
        self.bounds = if self.bounds.is_empty() {
            start..end
        } else {
            self.bounds.start.min(start)..self.bounds.end.max(end)
        };
        self.by_address.insert(start, memory);
        base.cast()
    }

    /// Forgets a buffer. Operations in progress keep its memory.
    pub(crate) fn remove(&mut self, base: *mut c_void) -> bool {
        let is_ours = self.by_address.remove(&base.addr()).is_some();
        if self.by_address.is_empty() {
            self.bounds = 0..0;
        }
        is_ours
    }

    /// The part of a buffer that the span is, if it is one.
    #[inline]
    fn find(&self, start: usize, len: usize) -> Result<Option<Memory>, Failure> {
        if !self.bounds.contains(&start) {
            return Ok(None);
        }
        self.search(start, len)
    }

    fn search(&self, start: usize, len: usize) -> Result<Option<Memory>, Failure> {
        let Some((base, memory)) = self.by_address.range(..=start).next_back() else {
            return Ok(None);
        };
        let from = start - base;
        if from >= memory.len() {
            return Ok(None);
        }
        let room = memory.len() - from;
        if len > room {
            return Err(Failure::invalid(format!(
                "{len} bytes, where only {room} are left of the buffer of BMI_memalloc or BMI_map"
            )));
        }
        Ok(Some(memory.slice(from..from + len)))
    }
}

/// Memory of one call.
enum Span<'a> {
    Foreign(Lent<'a>),
    Ours(Memory),
}

impl Deref for Span<'_> {
    type Target = Memory;

    #[inline]
    fn deref(&self) -> &Memory {
        match self {
            Self::Foreign(lent) => lent,
            Self::Ours(memory) => memory,
        }
    }
}

/// All that is needed to describe memory.
#[derive(Default)]
pub(crate) struct Describer {
    pub(crate) buffers: Buffers,
    lender: Lender,
    /// The memory of a list, empty between calls.
    list: Vec<Memory>,
}

impl Describer {
    /// Describes memory for `use_it`.
    ///
    /// # Safety
    /// Every span is valid for reads, and if `writable` for writes, until nobody holds what describes it
    /// any more: until the operation that `use_it` starts completes, or the export that it makes ends.
    #[inline]
    pub(crate) unsafe fn with<R>(
        &mut self,
        named: Named,
        writable: bool,
        use_it: impl FnOnce(&[Memory]) -> R,
    ) -> Result<R, Failure> {
        match named {
            Named::Buffer(base, size) => {
                let size = usize::try_from(size)
                    .map_err(|_| Failure::invalid(format!("a buffer of {size} bytes")))?;
                // SAFETY: the caller's promise.
                let span = unsafe { self.describe(base, size, writable) }?;
                Ok(use_it(std::slice::from_ref(&*span)))
            }
            // SAFETY: the caller's promise.
            Named::List(list, count) => unsafe { self.with_list(list, count, writable, use_it) },
        }
    }

    /// # Safety
    /// As [`Describer::with`].
    unsafe fn with_list<R>(
        &mut self,
        list: *const iovec,
        count: usize,
        writable: bool,
        use_it: impl FnOnce(&[Memory]) -> R,
    ) -> Result<R, Failure> {
        if list.is_null() && count > 0 {
            return Err(Failure::invalid("the list of buffers is NULL"));
        }
        if count > MAX_FRAGMENTS {
            let text = format!("a list of {count} buffers; at most {MAX_FRAGMENTS} are allowed");
            return Err(Failure::new(BMI_ELIMIT, text));
        }
        let mut memory = std::mem::take(&mut self.list);
        memory.clear();
        for at in 0..count {
            // SAFETY: the header asks for an array of `count` entries, and for each as the caller
            // promises.
            let span = unsafe {
                let entry = list.add(at).read();
                self.describe(entry.iov_base, entry.iov_len, writable)
            };
            memory.push(match span? {
                Span::Foreign(lent) => lent.clone(),
                Span::Ours(ours) => ours,
            });
        }
        let result = use_it(&memory);
        memory.clear();
        self.list = memory;
        Ok(result)
    }

    /// # Safety
    /// As [`Describer::with`].
    #[inline]
    unsafe fn describe(
        &self,
        base: *const c_void,
        size: usize,
        writable: bool,
    ) -> Result<Span<'_>, Failure> {
        let Some(start) = NonNull::new(base.cast_mut().cast::<u8>()) else {
            if size > 0 {
                return Err(Failure::invalid(format!(
                    "a buffer of {size} bytes at NULL"
                )));
            }
            // SAFETY: of no bytes, any place is valid.
            let empty = unsafe { self.lender.lend(NonNull::dangling(), 0, writable) };
            return Ok(Span::Foreign(empty));
        };
        let end = start.addr().get().checked_add(size);
        if end.is_none_or(|end| end > isize::MAX as usize) {
            return Err(Failure::invalid(format!(
                "a buffer of {size} bytes that would end beyond the address space"
            )));
        }
        if let Some(memory) = self.buffers.find(start.addr().get(), size)? {
            return Ok(Span::Ours(memory));
        }
        // SAFETY: the caller's promise; C forms no Rust reference.
        Ok(Span::Foreign(unsafe {
            self.lender.lend(start, size, writable)
        }))
    }
}
