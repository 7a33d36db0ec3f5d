//! Operations of reductions (MPI 5.0 §6.9).

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target};

use crate::abi;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::reduction::{Kernel, Op};

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

/// An operation with its operands' type.
#[derive(Debug, Clone)]
pub(crate) enum Combine {
    /// One of the standard's.
    Predefined {
        operation: usize,
        kernel: Kernel,
        /// The kernel's elements in one of the datatype.
        parts: u64,
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
        let op = Op::from_handle(operation).filter(|op| op.commutes());
        let op = op.ok_or_else(|| {
            Error::new(
                abi::ERR_OP,
                format!("{operation:#x} is no operation of reductions"),
            )
        })?;
        let basic = datatype.basic().or_else(|| datatype.scalar());
        let kernel = basic.and_then(|basic| Kernel::of(op, basic));
        let kernel = kernel.ok_or_else(|| {
            let text = format!("{} is not defined for the datatype", op.name());
            Error::new(abi::ERR_OP, text)
        })?;
        let unit = (kernel.unit() as u64).max(1);
        Ok(Self::Predefined {
            operation,
            kernel,
            parts: (datatype.extent() as u64 / unit).max(1),
        })
    }

    /// The operation's handle; 0 if it is one of the program's, which has another handle in each process.
    pub(crate) fn number(&self) -> usize {
        match self {
            Self::Predefined { operation, .. } => *operation,
            Self::Program { .. } => 0,
        }
    }

    /// Whether operands may change places.
    pub(crate) fn commutes(&self) -> bool {
        match self {
            Self::Predefined { .. } => true,
            Self::Program { operation, .. } => operation.commutes,
        }
    }

    /// What computes it, if it is one of the standard's.
    pub(crate) fn kernel(&self) -> Option<Kernel> {
        match self {
            Self::Predefined { kernel, .. } => Some(*kernel),
            Self::Program { .. } => None,
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
            Self::Predefined { kernel, parts, .. } => {
                kernel.apply(
                    Source::from(from),
                    &mut Target::from(into),
                    (count * parts) as usize,
                );
                Ok(None)
            }
        }
    }
}
