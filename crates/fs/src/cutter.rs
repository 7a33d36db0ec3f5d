//! Cuts lists of regions and of memory into parts of given lengths.

use causeway_bmi::{Memory, RegionDescriptor};
use causeway_wire::fs::Region;

/// Something with a length that can be cut.
pub(crate) trait Cut {
    /// Number of bytes.
    fn bytes(&self) -> u64;
    /// The `len` bytes from `start` on.
    fn part(&self, start: u64, len: u64) -> Self;
}

impl Cut for Region {
    fn bytes(&self) -> u64 {
        self.len
    }

    fn part(&self, start: u64, len: u64) -> Self {
        Region {
            offset: self.offset + start,
            len,
        }
    }
}

impl Cut for Memory {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn part(&self, start: u64, len: u64) -> Self {
        self.slice(start as usize..(start + len) as usize)
    }
}

impl Cut for RegionDescriptor {
    fn bytes(&self) -> u64 {
        self.len
    }

    fn part(&self, start: u64, len: u64) -> Self {
        self.part(start, len)
    }
}

/// Takes parts from the front of a list.
#[derive(Debug)]
pub(crate) struct Cutter<I: Iterator> {
    items: I,
    /// The rest of the item that was cut.
    rest: Option<I::Item>,
}

impl<I: Iterator<Item: Cut>> Cutter<I> {
    pub(crate) fn new(items: I) -> Self {
        Self { items, rest: None }
    }

    /// The next `len` bytes, or as many as there are.
    pub(crate) fn take(&mut self, mut len: u64) -> Vec<I::Item> {
        let mut taken = Vec::new();
        while len > 0 {
            let Some(item) = self.rest.take().or_else(|| self.items.next()) else {
                break;
            };
            let now = item.bytes().min(len);
            if now < item.bytes() {
                taken.push(item.part(0, now));
                self.rest = Some(item.part(now, item.bytes() - now));
            } else if now > 0 {
                taken.push(item);
            }
            len -= now;
        }
        taken
    }
}
