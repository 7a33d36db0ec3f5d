//! The steps of a process in a collective operation, put together before the operation is started.

use std::sync::Arc;

use causeway_engine::Memory;

use crate::buffer::{Buffer, OwnedBuffer, temporary};
use crate::checking::{Described, Exchanged};
use crate::error::Result;
use crate::operation::Combine;

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends memory to a place among [`crate::communicator::Communicator`]'s `everyone`.
    Send { to: u32, from: Memory },
    /// Receives as many bytes as the memory has.
    Receive { from: u32, into: Memory },
    /// Copies.
    Copy { from: Memory, into: Memory },
    /// Packs the program's data into one piece.
    Pack(Arc<(OwnedBuffer, Memory)>),
    /// Unpacks data into the program's memory.
    Unpack(Arc<(Memory, OwnedBuffer)>),
    /// Combines elements: `into = from op into`.
    Combine {
        what: Combine,
        from: Memory,
        into: Memory,
        count: u64,
    },
    /// Compares what processes have told each other of their calls.
    Compare(Arc<crate::checking::Comparison>),
    /// Waits for everything before.
    Fence,
}

/// Most operations of two processes have no more steps.
const USUAL: usize = 8;

/// The steps of an operation on a communicator.
#[derive(Debug)]
pub struct Steps {
    pub(crate) communicator: usize,
    pub(crate) list: Vec<Step>,
    /// Steps to be done at the end.
    last: Vec<Step>,
    /// Rotation of ranks: the place of rank 0 among everyone, and the number of the processes that take part.
    rotation: (u32, u32),
    pub(crate) described: Described,
    /// For the checking mode: whether processes send different data to each other, and what this one sends and expects.
    pub(crate) is_exchange: bool,
    pub(crate) exchanged: Exchanged,
    /// Messages have to be as long as the memory for them: calls with different lengths are errors.
    pub(crate) is_exact: bool,
    /// They are a barrier of `MPI_Finalize`.
    pub(crate) is_last: bool,
}

impl Steps {
    /// No steps yet, for an operation on a communicator.
    pub(crate) fn on(communicator: usize) -> Self {
        Self::in_list(Vec::with_capacity(USUAL), communicator)
    }

    /// The same in a list that is empty.
    pub(crate) fn in_list(list: Vec<Step>, communicator: usize) -> Self {
        Self {
            communicator,
            list,
            last: Vec::new(),
            rotation: (0, 0),
            described: Described::default(),
            is_exchange: false,
            exchanged: Exchanged::default(),
            is_exact: false,
            is_last: false,
        }
    }

    /// Rotates the ranks of the steps that are added from here on: rank 0 is the process at place `first`, and place 0 follows the
    /// last one of all `many`.
    pub(crate) fn rotate(&mut self, (first, many): (u32, u32)) {
        self.rotation = (first, many);
    }

    #[inline]
    fn place(&self, rank: u32) -> u32 {
        match self.rotation {
            (0, _) => rank,
            (first, many) => (first + rank) % many,
        }
    }

    pub(crate) fn send(&mut self, to: u32, from: Memory) {
        let to = self.place(to);
        self.list.push(Step::Send { to, from });
    }

    pub(crate) fn receive(&mut self, from: u32, into: Memory) {
        let from = self.place(from);
        self.list.push(Step::Receive { from, into });
    }

    pub(crate) fn copy(&mut self, from: &Memory, into: &Memory) {
        let (from, into) = (from.clone(), into.clone());
        self.list.push(Step::Copy { from, into });
    }

    pub(crate) fn pack(&mut self, from: &OwnedBuffer, into: &Memory) {
        let what = (from.clone(), into.clone());
        self.list.push(Step::Pack(Arc::new(what)));
    }

    pub(crate) fn unpack(&mut self, from: &Memory, into: &OwnedBuffer) {
        let what = (from.clone(), into.clone());
        self.list.push(Step::Unpack(Arc::new(what)));
    }

    pub(crate) fn combine(&mut self, what: &Combine, from: &Memory, into: &Memory, count: u64) {
        let (what, from, into) = (what.clone(), from.clone(), into.clone());
        self.list.push(Step::Combine {
            what,
            from,
            into,
            count,
        });
    }

    pub(crate) fn fence(&mut self) {
        self.list.push(Step::Fence);
    }

    /// The data of a buffer as one piece of memory, from here on.
    pub(crate) fn packed(&mut self, buffer: Buffer<'_>) -> Result<Memory> {
        if buffer.is_plain() {
            return Ok(buffer.memory.clone());
        }
        let packed = temporary(buffer.bytes()? as usize)?;
        self.pack(&buffer.into(), &packed);
        Ok(packed)
    }

    /// Memory to receive a buffer's data into: its own, or a staging buffer that is unpacked into it in the end.
    pub(crate) fn staging(&mut self, buffer: Buffer<'_>) -> Result<Memory> {
        if buffer.is_plain() {
            return Ok(buffer.memory.clone());
        }
        let staging = temporary(buffer.bytes()? as usize)?;
        let into = OwnedBuffer::from(buffer);
        self.last
            .push(Step::Unpack(Arc::new((staging.clone(), into))));
        Ok(staging)
    }

    /// All steps.
    pub(crate) fn finished(mut self) -> Vec<Step> {
        if !self.last.is_empty() {
            self.list.push(Step::Fence);
            self.list.append(&mut self.last);
        }
        self.list
    }

    /// Describes these steps as a part of the program's call of this name, all of whose parts are described alike.
    #[must_use]
    pub(crate) fn part_of(mut self, name: &'static str) -> Self {
        self.described = Described {
            name,
            ..Described::default()
        };
        self.is_exchange = false;
        self
    }

    /// The same with messages that have to be as long as the memory for them.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Sets the name of the program's call, for errors and for the checking mode.
    #[must_use]
    pub fn called(mut self, name: &'static str) -> Self {
        self.described.name = name;
        self
    }
}
