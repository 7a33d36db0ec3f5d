//! Registered memory: handles, protection tags, rights, translation to bus addresses (§4.2.1).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::card::Piece;
use crate::settings::Settings;
use crate::setup::{Region, SetUpError};

/// Bits of a handle that are the region's slot; the rest distinguish successive regions in that slot.
const PLACE_BITS: u32 = 20;

/// The right that an access to memory needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// The poster's own descriptor names the memory.
    Local,
    /// A peer writes to it.
    RdmaWrite,
    /// A peer reads it.
    RdmaRead,
}

/// The card's table of regions.
#[derive(Debug)]
pub(crate) struct Memory {
    regions: Vec<Entry>,
    limit: usize,
    pages_left: usize,
    page_bytes: u64,
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    base: u64,
    /// 0: free.
    bytes: u64,
    tag: u32,
    rdma_write: bool,
    rdma_read: bool,
    pages: Box<[u64]>,
}

impl Memory {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            regions: Vec::new(),
            limit: settings.limits.regions as usize,
            pages_left: settings.limits.pages as usize,
            page_bytes: settings.page_bytes.into(),
        }
    }

    pub(crate) fn register(&mut self, region: Region<'_>) -> Result<u32, SetUpError> {
        let invalid = |what| Err(SetUpError::Invalid { what });
        let Some(last) = region
            .bytes
            .checked_sub(1)
            .and_then(|bytes| region.base.checked_add(bytes))
        else {
            return invalid(
                "a region must have at least one byte and end within the address space",
            );
        };
        let pages = last / self.page_bytes - region.base / self.page_bytes + 1;
        if pages != region.pages.len() as u64 {
            return invalid("a region needs exactly one bus address for each of its pages");
        }
        if region
            .pages
            .iter()
            .any(|bus| !bus.is_multiple_of(self.page_bytes))
        {
            return invalid("bus addresses of pages must be multiples of the page size");
        }
        let full = |what| Err(SetUpError::Full { what });
        if region.pages.len() > self.pages_left {
            return full("page");
        }
        let place = match self.regions.iter().position(|entry| entry.bytes == 0) {
            Some(place) => place,
            None if self.regions.len() < self.limit => {
                self.regions.push(Entry::default());
                self.regions.len() - 1
            }
            None => return full("region"),
        };
        self.pages_left -= region.pages.len();
        // Generations begin at 1, so that no handle is 0.
        let generation = (self.regions[place].generation + 1).max(1) % (1 << (32 - PLACE_BITS));
        let generation = generation.max(1);
        self.regions[place] = Entry {
            generation,
            base: region.base,
            bytes: region.bytes,
            tag: region.tag,
            rdma_write: region.rdma_write,
            rdma_read: region.rdma_read,
            pages: region.pages.into(),
        };
        Ok(generation << PLACE_BITS | place as u32)
    }

    pub(crate) fn deregister(&mut self, handle: u32) -> Result<(), SetUpError> {
        let place = handle & ((1 << PLACE_BITS) - 1);
        if self.find(handle).is_none() {
            return Err(SetUpError::Unknown { what: "region" });
        }
        let entry = &mut self.regions[place as usize];
        self.pages_left += entry.pages.len();
        entry.bytes = 0;
        entry.pages = Box::default();
        Ok(())
    }

    fn find(&self, handle: u32) -> Option<&Entry> {
        let place = handle & ((1 << PLACE_BITS) - 1);
        self.regions
            .get(place as usize)
            .filter(|entry| entry.bytes != 0 && entry.generation == handle >> PLACE_BITS)
    }

    /// How many of the `bytes` from `address` the region holds, if it grants `right` to `tag`.
    pub(crate) fn reach(&self, handle: u32, address: u64, tag: u32, right: Right) -> Option<u64> {
        let entry = self.find(handle)?;
        let granted = match right {
            Right::Local => true,
            Right::RdmaWrite => entry.rdma_write,
            Right::RdmaRead => entry.rdma_read,
        };
        let offset = address.checked_sub(entry.base)?;
        (granted && entry.tag == tag && offset < entry.bytes).then(|| entry.bytes - offset)
    }

    /// Whether the whole span may be used with this right and tag. A span of no bytes needs no right.
    pub(crate) fn allows(
        &self,
        handle: u32,
        address: u64,
        bytes: u32,
        tag: u32,
        right: Right,
    ) -> bool {
        bytes == 0
            || self
                .reach(handle, address, tag, right)
                .is_some_and(|reach| reach >= bytes.into())
    }

    /// Appends the span's pieces to `out`, one for each page. A span outside all regions has none:
    /// the caller has checked the span, and prevents its region from being deregistered.
    pub(crate) fn translate(&self, handle: u32, address: u64, bytes: u32, out: &mut Vec<Piece>) {
        let Some(entry) = self.find(handle) else {
            return;
        };
        let first_page = entry.base / self.page_bytes;
        let (mut address, mut left) = (address, u64::from(bytes));
        while left > 0 {
            let within = address % self.page_bytes;
            let here = left.min(self.page_bytes - within);
            let page = (address / self.page_bytes).wrapping_sub(first_page);
            let Some(bus) = entry.pages.get(page as usize) else {
                return;
            };
            out.push(Piece {
                bus: bus + within,
                bytes: here as u32,
            });
            address = address.wrapping_add(here);
            left -= here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(base: u64, bytes: u64, pages: &[u64]) -> Region<'_> {
        Region {
            base,
            bytes,
            tag: 7,
            rdma_write: true,
            rdma_read: false,
            pages,
        }
    }

    #[test]
    fn spans_are_cut_at_pages() {
        let mut memory = Memory::new(&Settings::default());
        let handle = memory
            .register(region(0x1f00, 0x1200, &[0x8000, 0x3000, 0x5000]))
            .expect("three pages");
        let mut pieces = Vec::new();
        memory.translate(handle, 0x1f10, 0x1100, &mut pieces);
        let expected = [(0x8f10, 0xf0), (0x3000, 0x1000), (0x5000, 0x10)];
        assert_eq!(pieces, expected.map(|(bus, bytes)| Piece { bus, bytes }));
    }

    #[test]
    fn a_region_may_end_with_the_address_space() {
        let mut memory = Memory::new(&Settings::default());
        let base = u64::MAX - 0xff;
        let handle = memory
            .register(region(base, 0x100, &[0x1000]))
            .expect("a page");
        assert!(memory.allows(handle, base, 0x100, 7, Right::Local));
        assert!(!memory.allows(handle, base, 0x101, 7, Right::Local));
        let mut pieces = Vec::new();
        memory.translate(handle, base, 0x100, &mut pieces);
        let expected = Piece {
            bus: 0x1f00,
            bytes: 0x100,
        };
        assert_eq!(pieces, [expected]);
    }

    #[test]
    fn tags_rights_and_ends_are_checked() {
        let mut memory = Memory::new(&Settings::default());
        let handle = memory
            .register(region(0x1000, 0x100, &[0]))
            .expect("a page");
        let allows = |address, bytes, tag, right| memory.allows(handle, address, bytes, tag, right);
        assert!(allows(0x1000, 0x100, 7, Right::Local));
        assert!(allows(0x10ff, 1, 7, Right::RdmaWrite));
        assert!(!allows(0x1000, 0x101, 7, Right::Local));
        assert!(!allows(0xfff, 1, 7, Right::Local));
        assert!(!allows(0x1000, 1, 8, Right::Local));
        assert!(!allows(0x1000, 1, 7, Right::RdmaRead));
        assert!(!allows(u64::MAX, 2, 7, Right::Local));
        assert!(!memory.allows(handle + (1 << PLACE_BITS), 0x1000, 1, 7, Right::Local));
        assert!(!memory.allows(0, 0x1000, 1, 7, Right::Local));
    }

    #[test]
    fn a_handle_dies_with_its_region() {
        let mut settings = Settings::default();
        settings.limits.regions = 1;
        let mut memory = Memory::new(&settings);
        let old = memory.register(region(0x1000, 1, &[0])).expect("a page");
        assert_eq!(
            memory.register(region(0x1000, 1, &[0])),
            Err(SetUpError::Full { what: "region" })
        );
        memory.deregister(old).expect("the region is registered");
        let new = memory.register(region(0x1000, 1, &[0])).expect("a page");
        assert_ne!(old, new);
        assert!(!memory.allows(old, 0x1000, 1, 7, Right::Local));
        assert!(memory.deregister(old).is_err());
    }

    #[test]
    fn invalid_memory_is_not_registered() {
        let mut memory = Memory::new(&Settings::default());
        for (base, bytes, pages) in [
            (0x1000, 0, &[0][..]),
            (0x1000, 0x1001, &[0]),
            (0x1000, 0x1000, &[0, 0x1000]),
            (0x1000, 1, &[0x10]),
            (u64::MAX, 2, &[0]),
        ] {
            assert!(matches!(
                memory.register(region(base, bytes, pages)),
                Err(SetUpError::Invalid { .. })
            ));
        }
    }
}
