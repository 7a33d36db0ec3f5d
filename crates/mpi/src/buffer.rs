//! Memory of the program, as a call describes it: so many of a datatype.

use causeway_engine::Memory;

use crate::abi;
use crate::datatype::{self, Datatype};
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

/// A message that was received into other memory than the program's.
#[derive(Debug)]
pub(crate) struct Unpack {
    from: Memory,
    into: Memory,
    count: u64,
    datatype: Datatype,
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

#[cold]
fn not_contiguous() -> Error {
    Error::new(
        abi::ERR_UNSUPPORTED_OPERATION,
        "messages of datatypes that are not contiguous are not supported yet",
    )
}

impl Buffer<'_> {
    /// Whether the hull is the message.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.datatype.is_contiguous()
    }

    /// The message as one piece of memory.
    pub(crate) fn packed(&self) -> Result<Memory> {
        match self.is_plain() {
            true => Ok(self.memory.clone()),
            false => Err(not_contiguous()),
        }
    }

    /// Memory to receive a message into, and what is to be done with it then.
    pub(crate) fn landing(&self) -> Result<(Memory, Option<Box<Unpack>>)> {
        match self.is_plain() {
            true => Ok((self.memory.clone(), None)),
            false => Err(not_contiguous()),
        }
    }
}

impl Unpack {
    /// Puts the first so many bytes of what was received, or all of them, where the program wants them.
    pub(crate) fn unpack(&self, _bytes: Option<u64>) -> Result<()> {
        let _ = (&self.from, &self.into, self.count, &self.datatype);
        Err(not_contiguous())
    }
}
