//! Memory of the program, as a call describes it: so many of a datatype.

use std::sync::{Mutex, PoisonError};

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target};

use crate::abi;
use crate::datatype::{self, Basic, Datatype, Elements};
use crate::error::{Error, Result};
use crate::pieces::Gaps;

/// Elements in memory. The memory is that of their hull ([`Datatype::hull`]).
#[derive(Debug, Clone, Copy)]
pub struct Buffer<'a> {
    /// The hull.
    pub memory: &'a Memory,
    /// How many.
    pub count: u64,
    /// Of what.
    pub datatype: &'a Datatype,
}

/// A [`Buffer`] that is kept.
#[derive(Debug, Clone)]
pub struct OwnedBuffer {
    /// The hull.
    pub memory: Memory,
    /// How many.
    pub count: u64,
    /// Of what.
    pub datatype: Datatype,
}

impl OwnedBuffer {
    /// All of some memory, as bytes.
    pub fn bytes(memory: Memory) -> Self {
        Self {
            count: memory.len() as u64,
            memory,
            datatype: Basic::Byte.into(),
        }
    }

    /// The data as one piece of memory.
    pub fn packed(&self) -> Result<Memory> {
        self.as_buffer().packed()
    }

    /// Bytes of data.
    pub fn bytes_of_data(&self) -> Result<u64> {
        self.as_buffer().bytes()
    }

    /// Puts data that lie in one piece where they belong.
    pub fn unpack(&self, stream: &[u8]) -> Result<()> {
        let elements = self.as_buffer().elements()?;
        elements.unpack(0, Source::from(stream), &mut Target::from(&self.memory))?;
        Ok(())
    }

    /// Puts the data into one piece.
    pub(crate) fn pack_into(&self, stream: &Memory) -> Result<()> {
        let elements = self.as_buffer().elements()?;
        elements.pack(0, Source::from(&self.memory), &mut Target::from(stream))?;
        Ok(())
    }

    /// Puts data that lie in one piece where they belong.
    pub(crate) fn unpack_from(&self, stream: &Memory) -> Result<()> {
        let elements = self.as_buffer().elements()?;
        elements.unpack(0, Source::from(stream), &mut Target::from(&self.memory))?;
        Ok(())
    }

    /// The same, borrowed.
    pub fn as_buffer(&self) -> Buffer<'_> {
        Buffer {
            memory: &self.memory,
            count: self.count,
            datatype: &self.datatype,
        }
    }
}

impl From<Buffer<'_>> for OwnedBuffer {
    fn from(buffer: Buffer<'_>) -> Self {
        Self {
            memory: buffer.memory.clone(),
            count: buffer.count,
            datatype: buffer.datatype.clone(),
        }
    }
}

/// Memory that belongs to the library.
pub(crate) fn temporary(len: usize) -> Result<Memory> {
    Memory::try_zeroed(len).map_err(|error| {
        let text = format!("{len} bytes: {error}");
        Error::new(abi::ERR_NO_MEM, text)
    })
}

/// Memory of packed messages and of reductions is kept for later ones from so many bytes on, so that it need not be cleared and given pages each time; up to
/// so many bytes in a process.
const KEPT_FROM: usize = 4 << 10;
const MOST_KEPT: usize = 16 << 20;

/// The memory that is kept. A piece is free if this list is its only holder.
static KEPT: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// Memory for a packed message, or for what is received and combined, with any contents.
pub(crate) fn scratch(len: usize) -> Result<Memory> {
    if !(KEPT_FROM..=MOST_KEPT / 4).contains(&len) {
        return temporary(len);
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |memory: &Memory| memory.sharers() == 1 && (len..=4 * len).contains(&memory.len());
    if let Some(free) = kept.iter().find(|memory| fits(memory)) {
        return Ok(free.slice(0..len));
    }
    let new = temporary(len.next_power_of_two())?;
    let mut room = MOST_KEPT - new.len();
    // The latest stay.
    kept.reverse();
    kept.retain(|memory| {
        let stays = memory.len() <= room;
        room -= if stays { memory.len() } else { 0 };
        stays
    });
    kept.reverse();
    kept.push(new.clone());
    Ok(new.slice(0..len))
}

impl From<datatype::Error> for Error {
    fn from(error: datatype::Error) -> Self {
        use datatype::Error as E;
        let class = match error {
            E::Negative { .. } => abi::ERR_COUNT,
            E::Argument { .. } | E::Lengths { .. } | E::NoSuchKind { .. } => abi::ERR_ARG,
            E::TooLarge => abi::ERR_VALUE_TOO_LARGE,
            E::TooDeep => abi::ERR_TYPE,
            E::OutOfBounds { .. } => abi::ERR_TRUNCATE,
            E::Conversion(_) => abi::ERR_CONVERSION,
        };
        Self::new(class, error.to_string())
    }
}

impl Buffer<'_> {
    /// Whether the hull is the message.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.datatype.is_contiguous()
    }

    fn elements(&self) -> Result<Elements> {
        Ok(Elements::new(self.datatype.clone(), self.count)?)
    }

    /// Bytes of data.
    pub(crate) fn bytes(&self) -> Result<u64> {
        Ok(self.elements()?.bytes())
    }

    /// The message as one piece of memory.
    pub(crate) fn packed(&self) -> Result<Memory> {
        if self.is_plain() {
            return Ok(self.memory.clone());
        }
        let elements = self.elements()?;
        let packed = scratch(elements.bytes() as usize)?;
        elements.pack(0, Source::from(self.memory), &mut Target::from(&packed))?;
        Ok(packed)
    }

    /// The message where it lies, if there are gaps between its pieces, to be packed or unpacked part by part.
    pub(crate) fn in_pieces(&self) -> Result<Gaps> {
        Ok(Gaps::new(self.memory.clone(), self.elements()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_messages_is_used_again_and_never_twice_at_once() {
        // Others may test at the same time, so lengths are this test's own.
        let len = 70_001;
        let (one, other) = (scratch(len).unwrap(), scratch(len).unwrap());
        assert_ne!(one.as_ptr(), other.as_ptr());
        let at = one.as_ptr();
        drop(one);
        let again = scratch(len - 1).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (at, len - 1));
        for size in (1..64).map(|piece| piece << 16) {
            drop(scratch(size));
        }
        let kept = KEPT.lock().unwrap();
        assert!(kept.iter().map(Memory::len).sum::<usize>() <= MOST_KEPT);
    }
}
