//! The memory of collective operations: one block for each process.

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::{Buffer, OwnedBuffer, check_apart, temporary};
use crate::checking::Data;
use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use crate::steps::Steps;

/// The places of the blocks on one side of an operation.
#[derive(Debug, Clone)]
pub enum Blocks {
    /// One behind the other, equally long, in elements that are contiguous.
    Even {
        /// The memory of all blocks.
        memory: Memory,
        /// Number of blocks.
        blocks: u32,
        /// The datatype of their elements; `None` for bytes.
        datatype: Option<Datatype>,
    },
    /// Each block in a buffer of its own.
    Each(Vec<OwnedBuffer>),
}

impl Blocks {
    /// One block.
    pub fn one(buffer: Buffer<'_>) -> Self {
        Self::Each(vec![buffer.into()])
    }

    /// The elements of each block, to be compared with what others have.
    pub(crate) fn data(&self) -> Result<Vec<Data>> {
        match self {
            Self::Even {
                memory,
                blocks,
                datatype,
            } => {
                let byte = Datatype::from(Basic::Byte);
                let datatype = datatype.as_ref().unwrap_or(&byte);
                let bytes = memory.len() as u64 / u64::from(*blocks).max(1);
                let data = Data::of(datatype, bytes / datatype.size().max(1))?;
                Ok(vec![data; *blocks as usize])
            }
            Self::Each(each) => {
                let each = each.iter();
                each.map(|one| Data::of(&one.datatype, one.count)).collect()
            }
        }
    }

    /// The bytes of all blocks together.
    pub(crate) fn bytes(&self) -> Result<u64> {
        match self {
            Self::Even { memory, .. } => Ok(memory.len() as u64),
            Self::Each(each) => {
                let sizes = each.iter().map(OwnedBuffer::bytes_of_data);
                sizes.sum()
            }
        }
    }

    /// Fails if a process's block for another one is where that one's block for it is to be.
    pub(crate) fn check_apart(&self, into: &Self) -> Result<()> {
        match (self, into) {
            (Self::Even { memory: from, .. }, Self::Even { memory: into, .. }) => {
                check_apart(from, into)
            }
            (Self::Each(from), Self::Each(into)) => (from.iter().zip(into))
                .try_for_each(|(from, into)| check_apart(&from.memory, &into.memory)),
            _ => Ok(()),
        }
    }

    /// The blocks to send from, each in one piece.
    pub(crate) fn packed(&self, steps: &mut Steps) -> Result<Vec<Memory>> {
        match self {
            Self::Even { memory, blocks, .. } => Ok(split(memory, *blocks)),
            Self::Each(each) => {
                let each = each.iter();
                each.map(|one| steps.packed(one.as_buffer())).collect()
            }
        }
    }

    /// Memory to receive the blocks of these ranks into ([`Steps::staging`]); for others, there need not be any.
    pub(crate) fn staging(
        &self,
        steps: &mut Steps,
        is_received: impl Fn(u32) -> bool,
    ) -> Result<Vec<Memory>> {
        match self {
            Self::Even { memory, blocks, .. } => Ok(split(memory, *blocks)),
            Self::Each(each) => {
                let each = each.iter();
                each.zip(0..)
                    .map(|(one, rank)| match is_received(rank) {
                        true => steps.staging(one.as_buffer()),
                        false => temporary(0),
                    })
                    .collect()
            }
        }
    }

    /// Memory to receive one of the blocks into.
    pub(crate) fn staging_at(&self, at: usize, steps: &mut Steps) -> Result<Memory> {
        let none = || Error::new(abi::ERR_INTERN, format!("there is no block {at}"));
        match self {
            Self::Even { memory, blocks, .. } => {
                split(memory, *blocks).get(at).cloned().ok_or_else(none)
            }
            Self::Each(each) => steps.staging(each.get(at).ok_or_else(none)?.as_buffer()),
        }
    }
}

/// Divides memory into so many equal parts.
pub(crate) fn split(memory: &Memory, blocks: u32) -> Vec<Memory> {
    let size = memory.len() / (blocks.max(1) as usize);
    (0..blocks as usize)
        .map(|at| memory.slice(at * size..(at + 1) * size))
        .collect()
}
