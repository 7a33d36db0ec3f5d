//! The shared mappings behind rings, doorbells and region tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use causeway_sys::blocks::Target;
use causeway_sys::mapping::Mapping;
use causeway_sys::memory::Memory;
use causeway_sys::{aliasing, futex, membarrier, small, stream};
use causeway_wire::shm::{PairLayout, SLOT_BYTES, SLOT_WORD_BYTES, doorbell};

use super::doorbell::{self as bell, BellMemory};
use super::packet_copy::CopyKind;
use super::ring::RingMemory;
use crate::wake::Park;

/// Shorter parts of packets are never copied with non-temporal stores.
const SHORT_PART_BYTES: usize = 128;

/// The parts that a packet is gathered from.
pub(super) trait Parts {
    /// The total size in bytes.
    fn total(&self) -> usize;
    /// Calls `give` with the first byte and the length of each part, in order. They are valid
    /// during the call.
    fn each(&self, give: impl FnMut(*const u8, usize));

    /// Whether the caller writes some of them itself, in small pieces.
    #[inline]
    fn is_filled(&self) -> bool {
        false
    }

    /// Copies all of them.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes, which they do not overlap.
    ///
    /// # Panics
    /// If there are more than `len` bytes.
    #[inline(always)]
    unsafe fn copy_to(&self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy_each(self, to, len, |from, to, len| small::copy(from, to, len)) };
    }

    /// The same, copied by [`CopyKind`].
    ///
    /// # Safety
    /// As [`Parts::copy_to`].
    #[inline(never)]
    unsafe fn copy_by(&self, to: *mut u8, len: usize, kind: CopyKind) {
        // SAFETY: the caller's promise.
        unsafe {
            match kind {
                CopyKind::Usual => self.copy_to(to, len),
                CopyKind::Vectors => copy_each(self, to, len, |from, to, len| {
                    aliasing::copy_in_steps(from, to, len);
                }),
                // The header is a part of its own.
                CopyKind::Streamed => copy_each(self, to, len, |from, to, len| match len {
                    0..=SHORT_PART_BYTES => small::copy(from, to, len),
                    _ => stream::copy(from, to, len),
                }),
            }
        }
    }
}

/// Calls `copy` for each part.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, which the parts do not overlap; `copy` copies as
/// [`copy_nonoverlapping`](std::ptr::copy_nonoverlapping) does.
///
/// # Panics
/// If the parts have more bytes.
#[inline(always)]
unsafe fn copy_each(
    parts: &(impl Parts + ?Sized),
    mut to: *mut u8,
    mut left: usize,
    copy: impl Fn(*const u8, *mut u8, usize),
) {
    parts.each(|part, bytes| {
        assert!(bytes <= left);
        left -= bytes;
        copy(part, to, bytes);
        // SAFETY: the part has fitted into what is left.
        to = unsafe { to.add(bytes) };
    });
}

impl Parts for [u8] {
    #[inline]
    fn total(&self) -> usize {
        self.len()
    }

    #[inline]
    fn each(&self, mut give: impl FnMut(*const u8, usize)) {
        give(self.as_ptr(), self.len());
    }
}

impl Parts for &[&[u8]] {
    #[inline]
    fn total(&self) -> usize {
        self.iter().map(|part| part.len()).sum()
    }

    #[inline]
    fn each(&self, mut give: impl FnMut(*const u8, usize)) {
        for part in *self {
            give(part.as_ptr(), part.len());
        }
    }
}

/// A slice of the caller's, and memory after it.
pub(super) struct HeadAndBody<'a>(pub(super) &'a [u8], pub(super) &'a [Memory]);

impl Parts for HeadAndBody<'_> {
    #[inline]
    fn total(&self) -> usize {
        let Self(head, body) = self;
        let body = match body {
            [one] => one.len(),
            _ => body.iter().map(Memory::len).sum(),
        };
        head.len() + body
    }

    #[inline]
    fn each(&self, mut give: impl FnMut(*const u8, usize)) {
        let Self(head, body) = self;
        give(head.as_ptr(), head.len());
        match body {
            [one] => give(one.as_ptr(), one.len()),
            _ => body
                .iter()
                .for_each(|memory| give(memory.as_ptr(), memory.len())),
        }
    }
}

/// A slice of the caller's, and this many bytes after it that the caller writes itself.
pub(super) struct HeadAndFill<'a>(
    pub(super) &'a [u8],
    pub(super) usize,
    pub(super) &'a dyn Fn(Target<'_>),
);

impl Parts for HeadAndFill<'_> {
    fn is_filled(&self) -> bool {
        true
    }

    fn total(&self) -> usize {
        let Self(head, len, _) = self;
        head.len() + len
    }

    fn each(&self, mut give: impl FnMut(*const u8, usize)) {
        let Self(head, ..) = self;
        give(head.as_ptr(), head.len());
    }

    unsafe fn copy_to(&self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        let mut into = unsafe { self.copy_head_to(to, len) };
        into.fetch_for_writing();
        self.2(into);
    }

    unsafe fn copy_by(&self, to: *mut u8, len: usize, kind: CopyKind) {
        match kind {
            CopyKind::Streamed => {
                // SAFETY: the caller's promise.
                let into = unsafe { self.copy_head_to(to, len) };
                self.2(into.past_caches());
                stream::fence();
            }
            // SAFETY: the caller's promise.
            CopyKind::Usual | CopyKind::Vectors => unsafe { self.copy_to(to, len) },
        }
    }
}

impl HeadAndFill<'_> {
    /// Copies the head; returns what is behind it.
    ///
    /// # Safety
    /// As [`Parts::copy_to`].
    ///
    /// # Panics
    /// If all of it does not have `len` bytes.
    unsafe fn copy_head_to<'a>(&self, to: *mut u8, len: usize) -> Target<'a> {
        let Self(head, behind, _) = *self;
        assert!(len == head.len() + behind);
        // SAFETY: the caller's promise, and both fit.
        unsafe {
            small::copy(head.as_ptr(), to, head.len());
            Target::from_raw(to.add(head.len()), behind)
        }
    }
}

/// One ring in the memory of a pair.
pub(super) struct MappedRing {
    /// Keeps the pointers valid.
    _mapping: Arc<Mapping>,
    slots: u64,
    first: u64,
    ring: *mut u8,
    control: *mut u8,
    /// Whether both processes are registered for `membarrier`.
    pub(super) asymmetric: bool,
}

// SAFETY: the pointers are into `mapping`, which may be used from any thread; the bytes are
// accessed as atomics, or raw as the ring's protocol permits.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// The ring that `side` writes. `mapping` has at least the layout's length.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, side: usize) -> Self {
        Self {
            slots: (layout.ring_bytes / SLOT_BYTES) as u64,
            first: layout.first_slot(side),
            ring: mapping.span(layout.ring(side), layout.ring_bytes),
            control: mapping.span(layout.control(side), PairLayout::SIDE_BYTES),
            _mapping: Arc::clone(mapping),
            asymmetric: false,
        }
    }

    #[inline]
    fn control(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= PairLayout::SIDE_BYTES);
        // SAFETY: `offset` is one of the layout's constants, so inside the span that `new` checked,
        // and a multiple of 8; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.control.add(offset).cast()) }
    }

    #[inline]
    fn payload(&self, slot: u64) -> *mut u8 {
        debug_assert!(slot < self.slots);
        // SAFETY: callers pass slots of this ring, so this is inside the span that `new` checked.
        unsafe { self.ring.add(slot as usize * SLOT_BYTES + SLOT_WORD_BYTES) }
    }

    /// Copies a packet of `len` bytes into the ring after the first word of `slot`.
    ///
    /// # Panics
    /// If it would not end inside the ring, or the parts do not have `len` bytes.
    #[inline]
    pub(super) fn fill(
        &self,
        slot: u64,
        len: usize,
        parts: &(impl Parts + ?Sized),
        kind: CopyKind,
    ) {
        assert!(slot < self.slots);
        assert!(len <= (self.slots - slot) as usize * SLOT_BYTES - SLOT_WORD_BYTES);
        // SAFETY: the range ends inside the ring. Only the producer uses free slots; a hostile peer
        // may read or write them nevertheless, which harms only the packet.
        unsafe {
            match kind {
                CopyKind::Usual => parts.copy_to(self.payload(slot), len),
                _ => parts.copy_by(self.payload(slot), len, kind),
            }
        }
    }

    /// The bytes of the packet that begins in `slot`.
    ///
    /// # Safety
    /// The packet is one that [`Consumer::peek`](super::ring::Consumer::peek) has found: it ends
    /// inside the ring. The ring must outlive the packet: the caller may change the ring's owner
    /// meanwhile, but not drop it.
    #[inline]
    pub(super) unsafe fn packet<'a>(&self, slot: u64, len: usize) -> crate::method::Packet<'a> {
        let end = slot as usize * SLOT_BYTES + SLOT_WORD_BYTES + len;
        debug_assert!(slot < self.slots && end <= self.slots as usize * SLOT_BYTES);
        // SAFETY: inside the ring, which stays mapped as long as `self`, and so as long as the packet.
        unsafe { crate::method::Packet::shared(self.payload(slot), len) }
    }
}

impl RingMemory for MappedRing {
    type Word = AtomicU64;

    #[inline]
    fn slots(&self) -> u64 {
        self.slots
    }

    #[inline]
    fn first(&self) -> u64 {
        self.first
    }

    #[inline]
    fn header(&self, slot: u64) -> &AtomicU64 {
        debug_assert!(slot < self.slots);
        // SAFETY: the ring masks every slot number, so it is inside the span that `new` checked, and
        // slots are aligned; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.ring.add(slot as usize * SLOT_BYTES).cast()) }
    }

    #[inline]
    fn consumed(&self) -> &AtomicU64 {
        self.control(PairLayout::CONSUMED)
    }

    #[inline]
    fn notify(&self) -> &AtomicU64 {
        self.control(PairLayout::NOTIFY)
    }

    #[inline]
    fn wants_room(&self) -> &AtomicU64 {
        self.control(PairLayout::WANTS_ROOM)
    }

    #[inline]
    fn light_fence(&self) {
        membarrier::light(self.asymmetric);
    }

    #[inline]
    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn demote(&self, slot: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            let line: *const AtomicU64 = self.header(slot);
            // SAFETY: a hint (CLDEMOTE): the program's state does not change. Processors without it take
            // it for a NOP.
            unsafe {
                std::arch::asm!("cldemote [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = slot;
    }

    #[inline]
    fn prefetch_to_write(&self, slot: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            let line: *const AtomicU64 = self.header(slot);
            // SAFETY: a hint (PREFETCHW): the program's state does not change. Processors without it take
            // it for a NOP.
            unsafe {
                std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = slot;
    }

    #[inline]
    fn prefetch(&self, slot: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line: *const AtomicU64 = self.header(slot);
            // SAFETY: a hint: the program's state does not change.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = slot;
    }
}

/// A doorbell page: our own, or a peer's.
#[derive(Debug, Clone)]
pub(super) struct Bell {
    mapping: Arc<Mapping>,
}

impl Bell {
    /// The doorbell in `mapping`, which has at least [`doorbell::BYTES`].
    pub(super) fn new(mapping: Mapping) -> Self {
        Self {
            mapping: Arc::new(mapping),
        }
    }
}

impl Park for Bell {
    fn park(&self, sleep: u64, limit: Option<Duration>) -> bool {
        futex::wait(self.armed(), sleep, limit)
    }

    fn unpark(&self) {
        bell::unpark(self);
    }
}

#[cfg(all(test, not(loom)))]
impl Bell {
    /// The page itself, for tests to overwrite.
    pub(super) fn words(&self) -> &Mapping {
        &self.mapping
    }
}

impl BellMemory for Bell {
    type Word = AtomicU64;

    fn armed(&self) -> &AtomicU64 {
        self.mapping.word(doorbell::ARMED)
    }

    #[inline]
    fn summary(&self) -> &AtomicU64 {
        self.mapping.word(doorbell::SUMMARY)
    }

    fn bitmap(&self, at: usize) -> &AtomicU64 {
        self.mapping.word(doorbell::BITMAP + at * 8)
    }

    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn wake_parked(&self) {
        futex::wake(self.armed());
    }
}

#[cfg(test)]
mod tests {
    use causeway_sys::blocks;

    use super::*;

    /// Where pieces of so many bytes together begin, and their lengths, which take turns.
    fn pieces(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        let lens = [64, 8, 12, 3, 1, 200].into_iter().cycle();
        lens.scan(0, move |at, len| {
            let begin = *at;
            *at += len.min(bytes - begin);
            (begin < bytes).then_some((begin, *at - begin))
        })
    }

    #[test]
    fn the_parts_of_a_packet_are_the_same_by_every_kind_of_copy() {
        let bytes: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        for kind in [CopyKind::Usual, CopyKind::Vectors, CopyKind::Streamed] {
            for (head, body) in [
                (0, 0),
                (16, 48),
                (16, 600),
                (130, 2049),
                (7, 4608),
                (16, 16_383),
            ] {
                for shift in [0, 1, 8, 63] {
                    let len = head + body;
                    let parts: &[&[u8]] = &[&bytes[shift..shift + head], &bytes[head..len]];
                    let expected = [parts[0], parts[1]].concat();
                    let fill = |mut into: Target<'_>| {
                        // Pieces of words, and of others.
                        for (at, piece) in pieces(body) {
                            blocks::copy_one(&mut into, at, parts[1].into(), at, piece);
                        }
                    };
                    let filled = HeadAndFill(parts[0], body, &fill);
                    for is_filled in [false, true] {
                        let mut into = vec![0xee; len + 66];
                        // SAFETY: `into` has as many bytes behind `shift`.
                        unsafe {
                            let to = into.as_mut_ptr().add(shift);
                            match is_filled {
                                false => parts.copy_by(to, len, kind),
                                true => filled.copy_by(to, len, kind),
                            }
                        }
                        assert!(
                            into[shift..shift + len] == expected,
                            "{kind:?} {head} {body} {shift} {is_filled}"
                        );
                        let others = into[..shift].iter().chain(&into[shift + len..]);
                        assert!(others.copied().all(|byte| byte == 0xee));
                    }
                }
            }
        }
    }
}
