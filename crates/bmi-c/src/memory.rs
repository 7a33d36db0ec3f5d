//! From plain pointers to [`Memory`].
//!
//! A pointer into a buffer that the instance allocated or mapped, or that the program has
//! registered, is treated as a part of that buffer, so that methods can use its properties; any
//! other memory is described by its address, without an allocation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::ptr::NonNull;

use causeway_sys::memory::{ForeignMemory, Memory};
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

/// Buffers that the instance made, or those that the program has registered with it.
#[derive(Default)]
pub(crate) struct Buffers {
    /// By the address of their first byte, shortest first, and of equal ones those for reading
    /// only: a region that was mapped twice, or whole and in part, has one address. They may also
    /// overlap in any other way.
    by_address: BTreeMap<usize, Vec<Memory>>,
    /// The range that contains all of them.
    bounds: std::ops::Range<usize>,
    /// None of them is longer.
    longest: usize,
}

impl Buffers {
    /// Keeps a buffer until [`Buffers::remove`]; returns its address. An empty one has an address, too.
    pub(crate) fn insert(&mut self, memory: Memory) -> *mut c_void {
        let (base, start) = (memory.as_ptr(), memory.as_ptr().addr());
        let end = start + memory.len().max(1);
        self.bounds = if self.bounds.is_empty() {
            start..end
        } else {
            self.bounds.start.min(start)..self.bounds.end.max(end)
        };
        self.longest = self.longest.max(memory.len());
        let order = |memory: &Memory| (memory.len(), memory.is_writable());
        let here = self.by_address.entry(start).or_default();
        let at = here.partition_point(|other| order(other) <= order(&memory));
        here.insert(at, memory);
        base.cast()
    }

    /// Removes one buffer that begins here. Operations in progress keep its memory.
    ///
    /// The caller cannot specify which of several. The shortest is removed, so that the remaining
    /// ones contain whatever the caller may still use.
    pub(crate) fn remove(&mut self, base: *mut c_void) -> bool {
        let Entry::Occupied(mut here) = self.by_address.entry(base.addr()) else {
            return false;
        };
        here.get_mut().remove(0);
        if here.get().is_empty() {
            here.remove();
        }
        if self.by_address.is_empty() {
            (self.bounds, self.longest) = (0..0, 0);
        }
        true
    }

    /// Whether the address may be in a buffer.
    #[inline(always)]
    fn may_hold(&self, start: usize) -> bool {
        self.bounds.contains(&start)
    }

    /// The span as a part of a buffer, if a buffer contains all of it; `None` if it begins in no
    /// buffer. A span that begins in a buffer, but is contained in none, is an error.
    fn find(&self, start: usize, len: usize) -> Result<Option<Memory>, Failure> {
        let first = start.saturating_sub(self.longest);
        let (mut most_room, mut read_only) = (0, None);
        let nearest_first = self.by_address.range(first..=start).rev();
        for (base, memory) in nearest_first.flat_map(|(base, here)| {
            let longest_first = here.iter().rev();
            longest_first.map(move |memory| (base, memory))
        }) {
            let from = start - base;
            if from >= memory.len() {
                continue;
            }
            let room = memory.len() - from;
            most_room = most_room.max(room);
            if len <= room {
                let part = memory.slice(from..from + len);
                // The same bytes may have been mapped for reading and for writing.
                if part.is_writable() {
                    return Ok(Some(part));
                }
                read_only = Some(part);
            }
        }
        if read_only.is_some() {
            return Ok(read_only);
        }
        if most_room == 0 {
            return Ok(None);
        }
        Err(Failure::invalid(format!(
            "{len} bytes, where only {most_room} are left of the buffer of BMI_memalloc or BMI_map"
        )))
    }
}

#[cold]
fn negative(size: i64) -> Failure {
    Failure::invalid(format!("a buffer has the negative size {size}"))
}

#[cold]
fn at_null(size: usize) -> Failure {
    Failure::invalid(format!("a buffer of {size} bytes is at NULL"))
}

#[cold]
fn endless(size: usize) -> Failure {
    Failure::invalid(format!(
        "a buffer of {size} bytes would end beyond the address space"
    ))
}

/// Where a buffer begins, if it can be one at all.
#[inline(always)]
pub(crate) fn check(base: *const c_void, size: usize) -> Result<NonNull<u8>, Failure> {
    let Some(start) = NonNull::new(base.cast_mut().cast::<u8>()) else {
        // For zero bytes, any address is valid.
        return match size {
            0 => Ok(NonNull::dangling()),
            _ => Err(at_null(size)),
        };
    };
    match start.addr().get().checked_add(size) {
        Some(end) if end <= isize::MAX as usize => Ok(start),
        _ => Err(endless(size)),
    }
}

/// What describing memory needs: the known buffers, and reusable room.
#[derive(Default)]
pub(crate) struct Describer {
    pub(crate) buffers: Buffers,
    pub(crate) registered: Buffers,
    foreign: ForeignMemory,
    /// The memory of a list, empty between calls.
    list: Vec<Memory>,
}

impl Describer {
    /// Describes memory for `body`.
    ///
    /// # Safety
    /// Every span is valid for reads, and if `writable` for writes, until nothing refers to it any
    /// more: until the operation that `body` starts completes, or the export that it makes ends.
    #[inline(always)]
    pub(crate) unsafe fn with<R>(
        &mut self,
        named: Named,
        writable: bool,
        body: impl FnOnce(&[Memory]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match named {
            Named::Buffer(base, size) => {
                let size = usize::try_from(size).map_err(|_| negative(size))?;
                let start = check(base, size)?;
                let at = start.addr().get();
                if self.buffers.may_hold(at) || self.registered.may_hold(at) {
                    // SAFETY: the caller's promise.
                    let memory = unsafe { self.describe(start, size, writable) }?;
                    return body(std::slice::from_ref(&memory));
                }
                // SAFETY: the caller's promise; C forms no Rust reference. Nothing here is moved once it is
                // made: this is on the path of every small message.
                let foreign = unsafe { self.foreign.span(start, size, writable) };
                body(std::slice::from_ref(&foreign))
            }
            // SAFETY: the caller's promise.
            Named::List(list, count) => unsafe { self.with_list(list, count, writable, body) },
        }
    }

    /// # Safety
    /// As [`Describer::with`].
    #[inline(never)]
    unsafe fn with_list<R>(
        &mut self,
        list: *const iovec,
        count: usize,
        writable: bool,
        body: impl FnOnce(&[Memory]) -> Result<R, Failure>,
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
            // SAFETY: the header requires an array of `count` entries, and for each as the caller
            // promises.
            let span = unsafe {
                let entry = list.add(at).read();
                let start = check(entry.iov_base, entry.iov_len)?;
                self.describe(start, entry.iov_len, writable)
            };
            memory.push(span?);
        }
        let result = body(&memory);
        memory.clear();
        self.list = memory;
        result
    }

    /// A span that counts as a reference.
    ///
    /// # Safety
    /// As [`Describer::with`].
    unsafe fn describe(
        &self,
        start: NonNull<u8>,
        size: usize,
        writable: bool,
    ) -> Result<Memory, Failure> {
        let at = start.addr().get();
        if let Some(memory) = self.buffers.find(at, size)? {
            return Ok(memory);
        }
        // The program's memory may continue after a registered buffer.
        if self.registered.may_hold(at)
            && let Ok(Some(memory)) = self.registered.find(at, size)
        {
            return Ok(match writable {
                true => memory,
                false => memory.read_only(),
            });
        }
        // SAFETY: the caller's promise; C forms no Rust reference.
        Ok(unsafe { self.foreign.span(start, size, writable) }.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(buffers: &Buffers, start: usize, len: usize) -> Option<bool> {
        if !buffers.may_hold(start) {
            return Some(false);
        }
        buffers.find(start, len).ok().map(|found| found.is_some())
    }

    #[test]
    fn spans_of_buffers_are_found_and_others_are_not() {
        let mut buffers = Buffers::default();
        let block = Memory::zeroed(1000);
        let base = block.as_ptr().addr();
        assert_eq!(is_found(&buffers, base, 1), Some(false));
        buffers.insert(block.slice(100..200));
        let last = buffers.insert(block.slice(500..600));
        for (from, len, expected) in [
            (0, 100, Some(false)),
            (100, 100, Some(true)),
            (150, 50, Some(true)),
            (150, 51, None),
            (200, 10, Some(false)),
            (300, 10, Some(false)),
            (599, 1, Some(true)),
            (600, 1, Some(false)),
        ] {
            assert_eq!(is_found(&buffers, base + from, len), expected, "{from}");
        }
        assert!(!buffers.remove(last.wrapping_byte_add(1)));
        assert!(buffers.remove(last) && !buffers.remove(last));
        assert_eq!(is_found(&buffers, base + 500, 1), Some(false));
    }

    #[test]
    fn buffers_at_one_address_and_within_each_other_are_distinguished() {
        let mut buffers = Buffers::default();
        let block = Memory::zeroed(1000);
        let base = block.as_ptr().addr();
        let whole = buffers.insert(block.clone());
        // The same once more, its front, and a part of it.
        assert_eq!(buffers.insert(block.clone()), whole);
        assert_eq!(buffers.insert(block.slice(0..100)), whole);
        let part = buffers.insert(block.slice(200..300));
        let all = |buffers: &Buffers, from, len| is_found(buffers, base + from, len);
        assert_eq!(all(&buffers, 0, 1000), Some(true));
        assert_eq!(all(&buffers, 250, 50), Some(true));
        assert_eq!(
            all(&buffers, 250, 750),
            Some(true),
            "it ends behind the part"
        );
        assert_eq!(all(&buffers, 250, 751), None);
        assert!(buffers.remove(part) && !buffers.remove(part));
        assert!(buffers.remove(whole));
        assert_eq!(all(&buffers, 0, 1000), Some(true), "two are left");
        assert!(buffers.remove(whole));
        assert_eq!(all(&buffers, 0, 1000), Some(true), "one is left");
        let watch = block.watch();
        drop(block);
        assert!(!watch.is_gone(), "the last one keeps the memory");
        assert!(buffers.remove(whole) && !buffers.remove(whole));
        assert!(watch.is_gone());
        assert!(!buffers.may_hold(base));
    }

    fn registered_again(buffer: &Memory) -> Memory {
        let start = check(buffer.as_ptr().cast(), buffer.len()).ok().unwrap();
        // SAFETY: as long as the buffer, which the caller keeps, and nothing uses the description.
        unsafe { Memory::registered(start, buffer.len()) }
    }

    /// Methods find their state of a whole buffer, such as a registration, by a pointer to any part of it, in any
    /// kind of call. There is no event when a program frees memory that it has not registered: such memory has no identity.
    #[test]
    fn pointers_into_buffers_have_the_identity_of_the_buffer() {
        let mut describer = Describer::default();
        let ids = |describer: &mut Describer, named| {
            let take = |memory: &[Memory]| Ok(memory.iter().map(Memory::id).collect::<Vec<_>>());
            // SAFETY: the memory lives to the end of the test, and nothing uses the descriptions.
            unsafe { describer.with(named, true, take) }.unwrap_or_default()
        };
        let buffers = [1000, 500].map(Memory::zeroed);
        let [one, other] = buffers
            .clone()
            .map(|memory| describer.buffers.insert(memory));
        let own = [0_u8; 100];
        let named = [0_u8; 100];
        let start = check(named.as_ptr().cast(), 100).ok().unwrap();
        // SAFETY: the array lives to the end of the test, and nothing uses the description.
        let registered = unsafe { Memory::registered(start, 100) };
        let named = describer.registered.insert(registered.clone());
        // Memory of the instance keeps its identity.
        describer.registered.insert(registered_again(&buffers[0]));
        let [id, other_id] = buffers.each_ref().map(Memory::id);
        assert!(id.is_some() && other_id.is_some() && id != other_id);
        for (base, at, size, expected) in [
            (one, 0, 1000, id),
            (one, 0, 1, id),
            (one, 999, 1, id),
            (other, 100, 400, other_id),
            (own.as_ptr().cast_mut().cast(), 0, 100, None),
            (named, 0, 100, registered.id()),
            (named, 60, 40, registered.id()),
            (named, 60, 41, None),
        ] {
            let start = base.wrapping_byte_add(at);
            let single = ids(&mut describer, Named::Buffer(start, size as i64));
            assert_eq!(single, [expected]);
            let list = [one, start].map(|iov_base| iovec {
                iov_base,
                iov_len: if iov_base == start { size } else { 10 },
            });
            let listed = ids(&mut describer, Named::List(list.as_ptr(), list.len()));
            assert_eq!(listed, [id, expected]);
        }
    }

    #[test]
    fn a_buffer_with_one_writable_mapping_is_writable() {
        let mut buffers = Buffers::default();
        let block = Memory::zeroed(1000);
        let whole = buffers.insert(block.clone());
        buffers.insert(block.read_only());
        buffers.insert(block.read_only().slice(100..200));
        let is_writable = |buffers: &Buffers| {
            let found = buffers.find(whole.addr() + 150, 10).ok().flatten();
            found.map(|memory| memory.is_writable())
        };
        assert_eq!(is_writable(&buffers), Some(true));
        assert!(buffers.remove(whole));
        assert_eq!(is_writable(&buffers), Some(true));
        assert!(buffers.remove(whole));
        assert_eq!(is_writable(&buffers), Some(false));
    }
}
