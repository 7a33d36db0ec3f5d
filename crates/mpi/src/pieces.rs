//! Messages whose datatype has gaps. They are packed and unpacked part by part, while they are under way
//! ([`Pieces`]): the receiver unpacks a part while the sender packs the next one, and no memory is needed for all of them.

use causeway_engine::{Memory, Pieces};
use causeway_sys::blocks::{Source, Target};

use crate::datatype::{Elements, Error};

/// Elements of the program's with gaps.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// The elements' hull.
    memory: Memory,
    elements: Elements,
}

impl Gaps {
    /// Elements in `memory`, which spans all of them; an error if it has another size.
    pub(crate) fn new(memory: Memory, elements: Elements) -> Result<Self, Error> {
        let nothing = &mut Target::from(&mut [][..]);
        elements.pack(0, Source::from(&memory), nothing)?;
        Ok(Self { memory, elements })
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self) -> u64 {
        self.elements.bytes()
    }
}

impl Pieces for Gaps {
    fn pack(&self, position: u64, mut into: Target<'_>) {
        let memory = Source::from(&self.memory);
        // It cannot fail: when this was made, the memory was found to have the size of the
        // elements.
        let _ = self.elements.pack(position, memory, &mut into);
    }

    fn unpack(&self, position: u64, from: Source<'_>) {
        let mut memory = Target::from(&self.memory);
        let _ = self.elements.unpack(position, from, &mut memory);
    }
}
