//! Memory objects: memory that peers can map. Tracks which of the other's objects each side of a
//! pair has.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;

use causeway_sys::limits;
use causeway_sys::memfd;
use causeway_sys::memory::Memory;
use causeway_wire::region::ObjectSpan;

use crate::error::PeerError;

/// How many of a peer's objects are kept. The least recently used one is dropped first, and is sent
/// again with the next export of memory in it.
const MAX_IMPORTED: usize = 64;

/// Objects of up to this many bytes are populated when they are allocated, and when they are mapped
/// from a peer. Populating larger ones would keep the caller waiting, and they may be meant to be
/// sparse.
const PRESENT_BYTES: usize = 64 << 20;

/// The objects of one pair, in both directions: few, if any. Empty trees take half the room of
/// empty hash tables.
#[derive(Default)]
pub(super) struct Objects {
    sent: BTreeSet<u64>,
    imported: BTreeMap<u64, Imported>,
    uses: u64,
    /// Why the last region was not mapped, if it was not.
    refusal: Option<&'static str>,
}

struct Imported {
    memory: Memory,
    /// The address of its first byte in the owner.
    base: u64,
    last_use: u64,
}

/// Allocates memory of `len` bytes in an object of its own, with number `object`.
pub(super) fn allocate(len: usize, object: u64) -> io::Result<Memory> {
    const PAGE: usize = 4096;
    let whole = len
        .max(1)
        .checked_next_multiple_of(PAGE)
        .ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
    // The kernel would grant any size: a memory file is a hole at first.
    limits::check_memory(whole)?;
    let file = memfd::create_fixed("causeway-memory", whole)?;
    let memory = Memory::map_object(file, whole, object)?;
    if whole <= PRESENT_BYTES {
        memory.make_present()?;
    }
    Ok(memory.slice(0..len))
}

impl Objects {
    /// Whether our object was sent to the peer.
    pub(super) fn was_sent(&self, object: u64) -> bool {
        self.sent.contains(&object)
    }

    /// Notes that our object was sent to the peer.
    pub(super) fn sent(&mut self, object: u64) {
        self.sent.insert(object);
    }

    /// Notes that the peer has dropped our object; returns whether it had it.
    pub(super) fn forgotten(&mut self, object: u64) -> bool {
        self.sent.remove(&object)
    }

    /// Adds an object that the peer has sent. Returns which other was dropped to make room.
    pub(super) fn offered(
        &mut self,
        object: u64,
        base: u64,
        len: u64,
        file: OwnedFd,
    ) -> Result<Option<u64>, PeerError> {
        let nonsense = |what: &str| PeerError::Protocol(format!("its memory object: {what}"));
        let real = memfd::checked_len(&file).map_err(|error| nonsense(&error.to_string()))?;
        let len = usize::try_from(len)
            .ok()
            .filter(|&len| len > 0 && len as u64 <= real)
            .ok_or_else(|| nonsense("it is shorter than announced"))?;
        // Out of address space or mappings, which is not the peer's fault: the memory is accessed
        // by transfer.
        let Ok(memory) = Memory::map_import(&file, len) else {
            return Ok(Some(object));
        };
        // Populating a peer's file with holes would allocate and clear pages at this process's
        // expense.
        if len <= PRESENT_BYTES && memfd::has_all_pages(&file) {
            // It only saves time.
            let _ = memory.make_present();
        }
        let mut dropped = None;
        if self.imported.len() >= MAX_IMPORTED && !self.imported.contains_key(&object) {
            let oldest = self.imported.iter().min_by_key(|(_, entry)| entry.last_use);
            dropped = oldest.map(|(&object, _)| object);
            dropped.and_then(|object| self.imported.remove(&object));
        }
        self.uses += 1;
        let last_use = self.uses;
        self.imported.insert(
            object,
            Imported {
                memory,
                base,
                last_use,
            },
        );
        Ok(dropped)
    }

    /// Whether the peer has sent that object.
    pub(super) fn has(&self, object: u64) -> bool {
        self.imported.contains_key(&object)
    }

    /// Removes an object that the peer has freed.
    pub(super) fn retired(&mut self, object: u64) {
        self.imported.remove(&object);
    }

    /// Records the result of mapping a region.
    pub(super) fn note(&mut self, mapped: &Result<Memory, &'static str>) {
        self.refusal = mapped.as_ref().err().copied();
    }

    /// Why the last region was not mapped, if it was not.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// The bytes of a span of one of the peer's objects, which has the address `base` in the peer.
    pub(super) fn find(&mut self, span: ObjectSpan, base: u64, len: u64) -> Option<Memory> {
        let ObjectSpan { object, offset } = span;
        self.uses += 1;
        let entry = self.imported.get_mut(&object)?;
        entry.last_use = self.uses;
        if base.checked_sub(entry.base) != Some(offset) {
            return None;
        }
        let end = offset.checked_add(len)?;
        (end <= entry.memory.len() as u64)
            .then(|| entry.memory.slice(offset as usize..end as usize))
    }
}
