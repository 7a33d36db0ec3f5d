//! The memory of collective operations: one block for each process.

use causeway_engine::Memory;

use crate::buffer::{Buffer, Unpack};
use crate::error::Result;
use crate::process::Process;
use crate::request::OwnedBuffer;

/// Where the blocks of one side lie.
#[derive(Debug, Clone)]
pub enum Blocks {
    /// One behind the other, equally long, in elements that are contiguous.
    Even {
        /// All of them.
        memory: Memory,
        /// How many.
        blocks: u32,
    },
    /// Each where it is said.
    Each(Vec<OwnedBuffer>),
}

/// The two sides of an operation, as schedules use them, and what is to be unpacked in the end.
#[derive(Debug, Default)]
pub struct Sides {
    pub(crate) from: Vec<Memory>,
    pub(crate) into: Vec<Memory>,
    pub(crate) unpack: Vec<Unpack>,
}

impl Blocks {
    /// One block.
    pub fn one(buffer: Buffer<'_>) -> Self {
        Self::Each(vec![OwnedBuffer {
            memory: buffer.memory.clone(),
            count: buffer.count,
            datatype: buffer.datatype.clone(),
        }])
    }

    /// The blocks to send from, packed.
    pub(crate) fn packed(&self) -> Result<Vec<Memory>> {
        match self {
            Self::Even { memory, blocks } => Ok(split(memory, *blocks)),
            Self::Each(each) => each.iter().map(|one| one.as_buffer().packed()).collect(),
        }
    }

    /// The blocks to receive into, and what is to be unpacked of them.
    pub(crate) fn landing(&self) -> Result<(Vec<Memory>, Vec<Unpack>)> {
        let each = match self {
            Self::Even { memory, blocks } => return Ok((split(memory, *blocks), Vec::new())),
            Self::Each(each) => each,
        };
        let (mut memory, mut unpack) = (Vec::with_capacity(each.len()), Vec::new());
        for one in each {
            let (landing, later) = one.as_buffer().landing()?;
            memory.push(landing);
            unpack.extend(later.map(|later| *later));
        }
        Ok((memory, unpack))
    }
}

/// So many equal parts of memory.
pub(crate) fn split(memory: &Memory, blocks: u32) -> Vec<Memory> {
    let size = memory.len() / (blocks.max(1) as usize);
    (0..blocks as usize)
        .map(|at| memory.slice(at * size..(at + 1) * size))
        .collect()
}

impl Process {
    /// Both sides of an operation.
    pub(crate) fn sides(from: Option<&Blocks>, into: Option<&Blocks>) -> Result<Sides> {
        let from = from.map(Blocks::packed).transpose()?.unwrap_or_default();
        let (into, unpack) = into.map(Blocks::landing).transpose()?.unwrap_or_default();
        Ok(Sides { from, into, unpack })
    }
}
