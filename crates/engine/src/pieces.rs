//! Messages whose bytes lie in many pieces of memory: they are copied part by part, on both sides at once.

use std::fmt;

use causeway_sys::blocks::{Source, Target};

/// The memory of one message, which only its owner can walk over. Parts are requested in order; the
/// latest part is requested again if there was no room for its packet.
pub trait Pieces: Send + fmt::Debug {
    /// Copies bytes of the message, from `position` on, into all of `into`.
    fn pack(&self, position: u64, into: Target<'_>);

    /// Copies bytes of the message, from `position` on, to where they belong.
    fn unpack(&self, position: u64, from: Source<'_>);
}
