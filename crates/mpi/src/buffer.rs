//! Memory of the program, as a call describes it: so many of a datatype.

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target};

use crate::abi;
use crate::datatype::{self, Basic, Datatype, Elements};
use crate::error::{Error, Result};

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

/// A message that was received into other memory than the program's.
#[derive(Debug)]
pub(crate) struct Unpack {
    from: Memory,
    into: Memory,
    elements: Elements,
}

/// Memory that belongs to the library.
pub(crate) fn temporary(len: usize) -> Result<Memory> {
    Memory::try_zeroed(len).map_err(|error| {
        let text = format!("{len} bytes: {error}");
        Error::new(abi::ERR_NO_MEM, text)
    })
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
        let packed = temporary(elements.bytes() as usize)?;
        elements.pack(0, Source::from(self.memory), &mut Target::from(&packed))?;
        Ok(packed)
    }

    /// Memory to receive a message into, and what is to be done with it then.
    pub(crate) fn landing(&self) -> Result<(Memory, Option<Box<Unpack>>)> {
        if self.is_plain() {
            return Ok((self.memory.clone(), None));
        }
        let elements = self.elements()?;
        let from = temporary(elements.bytes() as usize)?;
        let unpack = Box::new(Unpack {
            from: from.clone(),
            into: self.memory.clone(),
            elements,
        });
        Ok((from, Some(unpack)))
    }
}

impl Unpack {
    /// Puts the first so many bytes of what was received where the program wants them.
    pub(crate) fn unpack(&self, bytes: u64) -> Result<()> {
        let stream = self.from.slice(0..bytes as usize);
        self.elements
            .unpack(0, Source::from(&stream), &mut Target::from(&self.into))?;
        Ok(())
    }
}
