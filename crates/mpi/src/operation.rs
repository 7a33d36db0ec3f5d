//! Operations of reductions (MPI 5.0 §6.9).

use causeway_engine::Memory;

use crate::abi;
use crate::datatype::Datatype;
use crate::error::{Error, Result};

/// An operation that a program has made.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The address of its function.
    pub function: usize,
    /// Whether the function's count is an `MPI_Count`.
    pub is_large: bool,
    /// Whether operands may change places.
    pub commutes: bool,
}

/// An operation with what it is applied to.
#[derive(Debug, Clone)]
pub(crate) enum Combine {
    /// One of the standard's.
    Predefined {
        operation: usize,
        datatype: Datatype,
    },
    /// One of the program's, and the handle of the datatype.
    Program {
        operation: Operation,
        datatype: usize,
    },
}

impl Combine {
    /// One of the standard's operations, on elements of a datatype.
    pub(crate) fn predefined(operation: usize, datatype: &Datatype) -> Result<Self> {
        Ok(Self::Predefined {
            operation,
            datatype: datatype.clone(),
        })
    }

    /// Whether operands may change places.
    pub(crate) fn commutes(&self) -> bool {
        match self {
            Self::Predefined { .. } => true,
            Self::Program { operation, .. } => operation.commutes,
        }
    }

    /// Computes `into = from op into`, or returns the function that does, whether its count is large, and the handle of the
    /// datatype.
    pub(crate) fn apply(
        &self,
        from: &Memory,
        into: &Memory,
        count: u64,
    ) -> Result<Option<(usize, bool, usize)>> {
        match self {
            Self::Program {
                operation,
                datatype,
            } => Ok(Some((operation.function, operation.is_large, *datatype))),
            Self::Predefined {
                operation,
                datatype,
            } => combine(*operation, datatype, from, into, count).map(|()| None),
        }
    }
}

fn combine(
    operation: usize,
    datatype: &Datatype,
    from: &Memory,
    into: &Memory,
    count: u64,
) -> Result<()> {
    let _ = (datatype, from, into, count);
    let text = format!("the operation {operation:#x}");
    Err(Error::new(abi::ERR_UNSUPPORTED_OPERATION, text))
}
