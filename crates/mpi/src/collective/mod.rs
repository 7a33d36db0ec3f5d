//! Collective operations (MPI 5.0 chapter 6), as schedules of messages. Short blocking ones among processes of one host are done in memory that
//! they share, and many long ones by reading each other's memory, instead ([`crate::node`]).
//!
//! All memory in steps is contiguous: buffers of other datatypes are packed by a step at the beginning and unpacked by
//! one at the end. Algorithms are chosen by size:
//!
//! | operation | short | long |
//! |---|---|---|
//! | barrier | dissemination | |
//! | broadcast | binomial tree | on one host from the root to each; else scatter along the tree, then allgather round a ring |
//! | reduce | binomial tree, in the order of ranks where operands must not change places | |
//! | allreduce | recursive doubling | reduce-scatter, then allgather, both round a ring |
//! | gather, scatter | each with the root | |
//! | allgather | round a ring | |
//! | alltoall | each with each, at the same time | |
//! | scan, exscan | along the ranks | |
//! | with neighbours | each with each of them | |
//!
//! Over an inter-communicator (`inter`), operations with a result for all processes are done within each group by these algorithms, and by the two
//! processes of rank 0 between the groups.

mod blocks;
mod comparing;
mod inter;
pub(crate) mod moving;
mod neighbours;
mod operands;
mod position;
mod reducing;
mod spreading;

pub use blocks::Blocks;
pub(crate) use blocks::split;
pub use operands::Reduction;
pub(crate) use position::{Position, Positions};
pub use reducing::Scan;
pub(crate) use spreading::{broadcast_by_tree, ring};

use crate::abi;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::steps::Steps;

impl Process {
    /// This process's position in a communicator of one group.
    pub(crate) fn position(&self, communicator: usize) -> Result<Position> {
        let positions = self.positions(communicator)?;
        match positions.remote {
            None => Ok(positions.local),
            Some(_) => Err(Error::new(
                abi::ERR_COMM,
                "the communicator is an inter-communicator",
            )),
        }
    }

    /// This process's position in a communicator of any kind.
    pub(crate) fn positions(&self, communicator: usize) -> Result<Positions> {
        let communicator = self.communicator(communicator)?;
        Ok(Positions {
            local: Position {
                rank: communicator.rank(),
                size: communicator.size(),
            },
            remote: communicator.remote_group().map(|group| group.size()),
            is_first: communicator.is_first,
        })
    }

    /// A barrier: in round k, each process sends to the one 2^k behind it and receives from the one 2^k before it.
    pub fn barrier(&mut self, communicator: usize) -> Result<Steps> {
        let (Position { rank, size }, rotation) = self.positions(communicator)?.all();
        let mut steps = self.steps_on(communicator).exact();
        steps.rotate(rotation);
        let nothing = self.schedules.no_bytes();
        let mut distance = 1;
        while distance < size {
            // Messages find their receives posted: all processes send at the same time.
            steps.receive((rank + size - distance) % size, nothing.clone());
            steps.send((rank + distance) % size, nothing.clone());
            steps.fence();
            distance *= 2;
        }
        Ok(steps)
    }

    /// No steps yet, for an operation on a communicator, in the list of an operation that is over.
    fn steps_on(&mut self, communicator: usize) -> Steps {
        match self.schedules.take_list() {
            Some(list) => Steps::in_list(list, communicator),
            None => Steps::on(communicator),
        }
    }

    /// The steps of a process that takes no part in an operation: none.
    pub fn nothing(&self, communicator: usize) -> Result<Steps> {
        self.communicator(communicator)?;
        Ok(Steps::on(communicator))
    }
}
