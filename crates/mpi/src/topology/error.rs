//! Why a topology cannot be made or asked.

use crate::abi;

/// An error of this module's functions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The number of processes does not suit the dimensions (`MPI_ERR_DIMS`).
    #[error("{nodes} processes cannot be arranged in dimensions of {dims:?}")]
    Dims {
        /// Processes.
        nodes: i32,
        /// The dimensions, of which some may be given.
        dims: Vec<i32>,
    },
    /// There is no such rank (`MPI_ERR_RANK`).
    #[error("there is no rank {rank} among {size}")]
    Rank {
        /// The rank.
        rank: i32,
        /// How many there are.
        size: i32,
    },
    /// An argument is none of the values that the standard allows (`MPI_ERR_ARG`).
    #[error("{what} is {value}: {why}")]
    Argument {
        /// The argument's name in the standard.
        what: &'static str,
        /// Its value.
        value: i64,
        /// What it must be.
        why: &'static str,
    },
}

impl From<Error> for crate::error::Error {
    fn from(error: Error) -> Self {
        let class = match error {
            Error::Dims { .. } => abi::ERR_DIMS,
            Error::Rank { .. } => abi::ERR_RANK,
            Error::Argument { .. } => abi::ERR_ARG,
        };
        Self::new(class, error.to_string())
    }
}

/// Checks an array's length.
pub(super) fn same_length(what: &'static str, len: usize, expected: usize) -> Result<(), Error> {
    if len == expected {
        return Ok(());
    }
    Err(Error::Argument {
        what,
        value: len as i64,
        why: "its length must be that of the other arrays",
    })
}

/// Checks a rank.
pub(super) fn check_rank(rank: i32, size: i32) -> Result<(), Error> {
    if (0..size).contains(&rank) {
        Ok(())
    } else {
        Err(Error::Rank { rank, size })
    }
}
