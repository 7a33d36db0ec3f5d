//! Memory of the program as the arguments of a call describe it: a number of elements of a datatype.

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
    /// Number of elements.
    pub count: u64,
    /// Their datatype.
    pub datatype: &'a Datatype,
}

/// A [`Buffer`] that holds its memory and its datatype itself.
#[derive(Debug, Clone)]
pub struct OwnedBuffer {
    /// The hull.
    pub memory: Memory,
    /// Number of elements.
    pub count: u64,
    /// Their datatype.
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

    /// Copies packed data to their places in memory.
    pub fn unpack(&self, stream: &[u8]) -> Result<()> {
        let elements = self.as_buffer().elements()?;
        elements.unpack(0, Source::from(stream), &mut Target::from(&self.memory))?;
        Ok(())
    }

    /// Packs the data into one piece of memory.
    pub(crate) fn pack_into(&self, stream: &Memory) -> Result<()> {
        let elements = self.as_buffer().elements()?;
        elements.pack(0, Source::from(&self.memory), &mut Target::from(stream))?;
        Ok(())
    }

    /// Copies packed data to their places in memory.
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

/// Pieces of memory for packed messages and for reductions that have at least `KEPT_FROM` bytes are kept for later messages and reductions, so that
/// they need not be cleared and mapped each time. A process keeps up to `MOST_KEPT` bytes.
const KEPT_FROM: usize = 4 << 10;
const MOST_KEPT: usize = 16 << 20;

/// The memory that is kept. A piece is free if only this list holds it.
static KEPT: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// Memory for a packed message, or for data that are received and combined; its content is undefined.
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
    // The latest pieces are kept.
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
    /// Whether the hull has no bytes but those of the message.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.datatype.is_contiguous()
    }

    fn elements(&self) -> Result<Elements> {
        Ok(Elements::new(self.datatype.clone(), self.count)?)
    }

    /// Bytes of data.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<u64> {
        if self.is_plain() {
            return Ok(self.memory.len() as u64);
        }
        Ok(self.elements()?.bytes())
    }

    /// The message as one piece of memory.
    #[inline]
    pub(crate) fn packed(&self) -> Result<Memory> {
        match self.is_plain() {
            true => Ok(self.memory.clone()),
            false => self.packed_elsewhere(),
        }
    }

    /// A copy of the message without gaps.
    fn packed_elsewhere(&self) -> Result<Memory> {
        let elements = self.elements()?;
        let packed = scratch(elements.bytes() as usize)?;
        elements.pack(0, Source::from(self.memory), &mut Target::from(&packed))?;
        Ok(packed)
    }

    /// The message in its place, if there are gaps between its pieces, to be packed or unpacked part by part.
    pub(crate) fn in_pieces(&self) -> Result<Gaps> {
        Ok(Gaps::new(self.memory.clone(), self.elements()?)?)
    }
}

/// Whether some byte belongs to both.
pub(crate) fn overlap(one: &Memory, other: &Memory) -> bool {
    let range = |memory: &Memory| {
        let start = memory.as_ptr().addr();
        start..start + memory.len()
    };
    let (one, other) = (range(one), range(other));
    one.start < other.end && other.start < one.end
}

/// Fails if data are read and written that begin at the same byte: MPI forbids that one process has a byte in both buffers of an operation
/// (MPI 5.0 §6.2), and the result would depend on how the operation is done, and so on its length.
pub(crate) fn check_apart(from: &Memory, into: &Memory) -> Result<()> {
    let [from, into] = [from, into].map(|memory| (memory.as_ptr() as usize, memory.len()));
    check_begin(from, into)
}

/// The same of data that are given by their addresses and lengths.
#[inline]
pub(crate) fn check_begin(from: (usize, usize), into: (usize, usize)) -> Result<()> {
    match from.0 == into.0 && from.1 > 0 && into.1 > 0 {
        true => Err(in_each_other()),
        false => Ok(()),
    }
}

/// The error of data that are read where others are written.
#[cold]
pub fn in_each_other() -> Error {
    let text = "the data to send are where the result is to be: MPI_IN_PLACE in place of the one buffer allows that";
    Error::new(abi::ERR_BUFFER, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_messages_is_used_again_and_never_twice_at_once() {
        // Other tests may run at the same time, so this length is used by this test only.
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
