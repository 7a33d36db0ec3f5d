//! The bytes of a file or datafile that a request covers.

use alloc::vec::Vec;

use crate::region::RegionDescriptor;

/// Regions of a file or datafile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Regions {
    /// In the message.
    Here(Vec<Region>),
    /// An encoded list (count, then regions) in memory that the client exports, for lists too long for
    /// a message.
    There {
        /// Number of regions.
        count: u64,
        /// The memory of the list: 16 bytes for each region.
        list: RegionDescriptor,
    },
    /// Regions of equal length at equal distance, as tiles have.
    Strided {
        /// First byte of the first region.
        offset: u64,
        /// Bytes of each region.
        len: u64,
        /// Distance from one region's start to the next one's.
        stride: u64,
        /// How many.
        count: u64,
    },
}

/// A contiguous span of bytes of a file or datafile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// How far one of a file's datafiles has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Its server's position in the file's distribution.
    pub position: u16,
    /// Datafile offset after the last byte written.
    pub end: u64,
}
