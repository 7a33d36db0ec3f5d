//! Cuts lists of regions and of memory into rounds.

use causeway_bmi::Memory;
use causeway_wire::fs::Region;

/// Takes pieces of given lengths from the front of a list.
pub(super) struct Cutter<'a, T> {
    rest: &'a [T],
    /// Bytes of the first item that were taken already.
    taken: u64,
}

/// Something with a length that can be cut.
pub(super) trait Cut {
    fn length(&self) -> u64;
    fn cut(&self, start: u64, len: u64) -> Self;
}

impl Cut for Region {
    fn length(&self) -> u64 {
        self.len
    }

    fn cut(&self, start: u64, len: u64) -> Self {
        Region {
            offset: self.offset + start,
            len,
        }
    }
}

impl Cut for Memory {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn cut(&self, start: u64, len: u64) -> Self {
        self.slice(start as usize..(start + len) as usize)
    }
}

impl<'a, T: Cut> Cutter<'a, T> {
    pub(super) fn new(items: &'a [T]) -> Self {
        Self {
            rest: items,
            taken: 0,
        }
    }

    /// The next `len` bytes, or as many as there are.
    pub(super) fn take(&mut self, mut len: u64) -> Vec<T> {
        let mut out = Vec::new();
        while let Some(first) = self.rest.first() {
            let left = first.length() - self.taken;
            if left == 0 {
                self.rest = &self.rest[1..];
                self.taken = 0;
                continue;
            }
            if len == 0 {
                break;
            }
            let now = left.min(len);
            out.push(first.cut(self.taken, now));
            self.taken += now;
            len -= now;
        }
        out
    }
}
