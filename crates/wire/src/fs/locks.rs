//! Locks on files, and parts of files.

use super::objects::ObjectId;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

codes! {
    /// Families of locks: only locks of one family exclude each other.
    pub enum LockFamily: "family of locks" {
        /// Locks of ranges of bytes, as `fcntl` makes them: owners are processes.
        Record = 1,
        /// Locks of whole files, as `flock` makes them: owners are open files.
        Whole = 2,
    }
}

/// Bytes of a file, possibly beyond its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    /// The first one.
    pub first: u64,
    /// The last one, not before the first.
    pub last: u64,
}

impl LockRange {
    /// Every possible byte.
    pub const ALL: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// Whether the two have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether it contains all bytes of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl Wire for LockRange {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.first);
        out.u64(self.last);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let first = input.u64("first byte")?;
        match input.u64("last byte")? {
            last if last < first => unknown("last byte", last),
            last => Ok(Self { first, last }),
        }
    }
}

/// A lock that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// The file.
    pub object: ObjectId,
    /// The family.
    pub family: LockFamily,
    /// The owner: a number that the client chooses. Locks of one owner of one client do not exclude
    /// each other.
    pub owner: u64,
    /// Whether it excludes every other lock; otherwise it excludes only exclusive ones.
    pub exclusive: bool,
    /// The bytes.
    pub range: LockRange,
    /// The requesting process, by its number on its host, for display.
    pub pid: u32,
}

/// A lock that conflicts with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Whether it excludes every other lock.
    pub exclusive: bool,
    /// The bytes.
    pub range: LockRange,
    /// The process that requested it, by its number on its host.
    pub pid: u32,
}
