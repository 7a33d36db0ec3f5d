//! Moments in the time of a server's host, which order its writes.

use crate::codec::fields::{put, record, take};
use crate::codec::{Malformed, Reader, Wire, Writer};

/// A moment in a run of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The host's run; 0 if it is unknown.
    pub boot: u128,
    /// Nanoseconds since it began.
    pub at: u64,
}

record! { Moment { boot: u128, at: u64 } }
