//! Messages whose bytes lie in many pieces of memory: they are copied part by part, on both sides at once.

use std::fmt;

use causeway_sys::blocks::{Source, Target};

/// The memory of one message, which only its owner knows how to walk. Parts are asked for in order, the last one mostly
/// again when there was no room for it.
pub trait Pieces: Send + fmt::Debug {
    /// Copies the bytes of the message from this one on into all of `into`.
    fn pack(&self, position: u64, into: Target<'_>);

    /// Puts bytes of the message, from this one on, where they belong.
    fn unpack(&self, position: u64, from: Source<'_>);
}
