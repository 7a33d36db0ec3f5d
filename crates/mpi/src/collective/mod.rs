//! Collective operations (MPI 5.0 chapter 6), as schedules.
//!
//! All memory here is contiguous: what the program describes by other datatypes is packed before and unpacked behind
//! ([`Sides`]). Algorithms are chosen by size:
//!
//! | operation | short | long |
//! |---|---|---|
//! | barrier | dissemination | |
//! | broadcast | binomial tree | scatter along the tree, then allgather round a ring |
//! | reduce | binomial tree, in the order of ranks where operands must not change places | |
//! | allreduce | recursive doubling | reduce-scatter, then allgather, both round a ring |
//! | gather, scatter | each with the root | |
//! | allgather | round a ring | |
//! | alltoall | each with each, at the same time | |
//! | scan, exscan | along the ranks | |

mod blocks;
mod moving;
mod place;
mod reducing;

pub use blocks::{Blocks, Sides};
pub use reducing::{Reduction, Scan};

use self::place::Place;
use crate::abi;
use crate::buffer::temporary;
use crate::error::{Error, Result};
use crate::process::{Active, Process};
use crate::schedule::Steps;

impl Process {
    pub(crate) fn place(&self, communicator: usize) -> Result<Place> {
        let communicator = self.communicator(communicator)?;
        if communicator.remote_group().is_some() {
            return Err(Error::new(
                abi::ERR_UNSUPPORTED_OPERATION,
                "collective operations on inter-communicators are not supported yet",
            ));
        }
        Ok(Place {
            rank: communicator.rank(),
            size: communicator.size(),
        })
    }

    /// Starts a barrier: in round k, each process tells the one 2^k behind it and hears from the one 2^k before it.
    pub fn barrier(&mut self, communicator: usize) -> Result<Active> {
        let Place { rank, size } = self.place(communicator)?;
        let mut steps = Steps::default();
        let nothing = temporary(0)?;
        let mut distance = 1;
        while distance < size {
            // What comes finds its receive: all send at the same time.
            steps.receive((rank + size - distance) % size, nothing.clone());
            steps.send((rank + distance) % size, nothing.clone());
            steps.fence();
            distance *= 2;
        }
        self.start_steps(communicator, steps)
    }
}
