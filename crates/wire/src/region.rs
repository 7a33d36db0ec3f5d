//! Descriptors of remote memory, as they are encoded in messages.

use smallvec::SmallVec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer};

/// The most fragments in one descriptor list. A list is bounded by memory, not by a protocol
/// constant (SEAMUR, Yu et al. §5.3, has none); this only refuses absurd counts.
pub const MAX_FRAGMENTS: usize = 1 << 20;

/// A list of regions. One region, the usual case, needs no allocation.
pub type Regions = SmallVec<[RegionDescriptor; 1]>;

/// Names a span of another process's registered memory: the owner's description, and all that
/// the holder needs to read or write it.
///
/// `key` is unguessable enough to catch mistakes and revoked regions, not a secret: peers are
/// authenticated by their connection. `base` is the owner's virtual address of the region's first
/// byte and has a meaning only for methods that copy between address spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionDescriptor {
    /// Protection key; 0 is never valid.
    pub key: u64,
    /// Owner's virtual address of the first byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
    /// The region's span in a memory object that the peer may map, if it is in one.
    pub object: Option<ObjectSpan>,
}

/// A span of a shareable memory object (see `memalloc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectSpan {
    /// The owner's number for the object.
    pub object: u64,
    /// Byte offset of the region inside it.
    pub offset: u64,
}

impl RegionDescriptor {
    /// The bytes `offset..offset + len` of the region, under the same key.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn part(&self, offset: u64, len: u64) -> Self {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "part out of range"
        );
        let object = self.object.map(|span| ObjectSpan {
            object: span.object,
            offset: span.offset.wrapping_add(offset),
        });
        Self {
            key: self.key,
            base: self.base.wrapping_add(offset),
            len,
            object,
        }
    }
}

record! { ObjectSpan { object: u64, offset: u64 } }
record! { RegionDescriptor { key: u64, base: u64, len: u64, object: option } }
