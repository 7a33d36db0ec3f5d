//! Locks on files, and parts of files.

use super::ObjectId;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

codes! {
    /// Which locks exclude each other: those of one family.
    pub enum LockFamily: "family of locks" {
        /// Of ranges of bytes, as `fcntl` makes them: owners are processes.
        Record = 1,
        /// Of whole files, as `flock` makes them: owners are open files.
        Whole = 2,
    }
}

/// Bytes of a file, also behind its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    /// The first one.
    pub first: u64,
    /// The last one, not before the first.
    pub last: u64,
}

impl LockRange {
    /// Every byte that there may ever be.
    pub const ALL: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// Whether the two have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether it has all bytes of `other`.
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

/// A lock that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// On which file.
    pub object: ObjectId,
    /// Which others it excludes.
    pub family: LockFamily,
    /// For whom: a number that the client chooses. Locks of one owner of one client do not exclude each other.
    pub owner: u64,
    /// Excludes every other lock; otherwise exclusive ones alone.
    pub exclusive: bool,
    /// On which bytes.
    pub range: LockRange,
    /// The requesting process, as its host numbers it, to be shown to others.
    pub pid: u32,
}

/// A lock that stands in the way of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Whether it excludes every other lock.
    pub exclusive: bool,
    /// On which bytes.
    pub range: LockRange,
    /// The process that asked for it, as its host numbers it.
    pub pid: u32,
}
