//! Steps of a pointer that several clients share.

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// What is done to a shared pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerStep {
    /// Sets it, or makes it.
    Put(u64),
    /// Advances it by this number.
    Add(u64),
    /// Moves nothing.
    Get,
    /// Ends it. A pointer that is not known has ended already.
    End,
}

variants!(PointerStep, "step of a pointer", {
    1 => Put(at: u64),
    2 => Add(many: u64),
    3 => Get,
    4 => End,
});
