//! The messages of simulated conversations, and memory in pieces.

use causeway_engine::{Memory, Pieces};
use causeway_sys::blocks::{Source, Target, copy_one};

use crate::random::Random;

/// Bytes at the front of a message: the number of the sending node, and the number of the message there.
pub(super) const STAMP: usize = 12;
/// Most bytes of a message.
pub(super) const MOST: usize = 12 << 10;

/// The bytes of a message.
pub(super) fn content(node: usize, which: u64, len: usize) -> Vec<u8> {
    let mut bytes = (node as u32).to_le_bytes().to_vec();
    bytes.extend(which.to_le_bytes());
    let mut random = Random::new(which << 8 | node as u64);
    bytes.extend(random.bytes(len - STAMP));
    bytes
}

/// Memory that only its owner walks over.
#[derive(Debug)]
pub(super) struct InPieces(pub(super) Memory);

impl Pieces for InPieces {
    fn pack(&self, position: u64, mut into: Target<'_>) {
        let (at, len) = (position as usize, into.len());
        copy_one(&mut into, 0, Source::from(&self.0), at, len);
    }

    fn unpack(&self, position: u64, from: Source<'_>) {
        let mut into = Target::from(&self.0);
        copy_one(&mut into, position as usize, from, 0, from.len());
    }
}
