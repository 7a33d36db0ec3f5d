//! Messages whose bytes lie in many pieces of memory: they are copied part by part, on both sides at once.

use std::fmt;

use causeway_sys::blocks::{Source, Target};
use causeway_sys::memory::Memory;

use crate::fragments::{Fragments, scatter_bytes};

/// The memory of one message, which only its owner knows how to walk. Parts are asked for in order, the last one mostly
/// again when there was no room for it.
pub trait Pieces: Send + fmt::Debug {
    /// Copies the bytes of the message from this one on into all of `into`.
    fn pack(&self, position: u64, into: Target<'_>);

    /// Puts bytes of the message, from this one on, where they belong.
    fn unpack(&self, position: u64, from: Source<'_>);
}

/// Where a message that is received is to go.
pub(crate) enum Room<'a> {
    /// Into these fragments.
    Memory(&'a [Memory]),
    /// Into pieces that take so many bytes.
    Pieces(Box<dyn Pieces>, u64),
}

impl Room<'_> {
    /// Bytes that there is room for.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(list) => crate::fragments::sum(list),
            Self::Pieces(_, bytes) => *bytes,
        }
    }

    /// Puts a whole message into it.
    pub(crate) fn write(&self, bytes: &[u8]) {
        match self {
            Self::Memory(list) => scatter_bytes(bytes, list),
            Self::Pieces(pieces, _) => pieces.unpack(0, bytes.into()),
        }
    }

    /// The same, kept by an operation.
    pub(crate) fn keep(self) -> Fragments {
        match self {
            Self::Memory(list) => Fragments::share(list),
            Self::Pieces(pieces, _) => Fragments::Pieces(pieces),
        }
    }
}
