//! Operations of reductions (MPI 5.0 §6.9).

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target};

use crate::abi;
use crate::buffer::{OwnedBuffer, scratch};
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
    /// One of the program's, and the datatype with its handle. Operands are packed if the datatype is not contiguous.
    Program {
        operation: Operation,
        handle: usize,
        datatype: Datatype,
    },
}

/// A call of one of the program's functions: `function(from, into, count, datatype)`.
#[derive(Debug)]
pub struct Call {
    /// The function's address.
    pub function: usize,
    /// Whether its count is an `MPI_Count`.
    pub is_large: bool,
    /// The left operands.
    pub from: Memory,
    /// The right operands, and the results.
    pub into: Memory,
    /// Where both memories begin, bytes from the address of the first element.
    pub offset: i64,
    /// Number of elements.
    pub count: u64,
    /// The handle that the program gave for their datatype; it may have been freed since.
    pub handle: usize,
    /// Their datatype.
    pub datatype: Datatype,
    /// Where the results go, packed.
    packed: Option<Memory>,
}

impl Call {
    /// Packs the results, if the operands were unpacked for the function.
    pub(crate) fn finish(&self) -> Result<()> {
        let Some(packed) = &self.packed else {
            return Ok(());
        };
        self.unpacked(&self.into).pack_into(packed)
    }

    fn unpacked(&self, memory: &Memory) -> OwnedBuffer {
        OwnedBuffer {
            memory: memory.clone(),
            count: self.count,
            datatype: self.datatype.clone(),
        }
    }
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

    /// Computes `into = from op into`, or returns the call of the program's function that does.
    pub(crate) fn apply(&self, from: &Memory, into: &Memory, count: u64) -> Result<Option<Call>> {
        let (operation, handle, datatype) = match self {
            Self::Program {
                operation,
                handle,
                datatype,
            } => (operation, *handle, datatype),
            Self::Predefined { kernel, parts, .. } => {
                kernel.apply(
                    Source::from(from),
                    &mut Target::from(into),
                    (count * parts) as usize,
                );
                return Ok(None);
            }
        };
        let mut call = Call {
            function: operation.function,
            is_large: operation.is_large,
            from: from.clone(),
            into: into.clone(),
            offset: 0,
            count,
            handle,
            datatype: datatype.clone(),
            packed: None,
        };
        if !datatype.is_contiguous() {
            // The function gets elements as they lie in the program's memory.
            let hull = datatype.hull(count)?;
            let len = usize::try_from(hull.end - hull.start).unwrap_or(usize::MAX);
            (call.from, call.into) = (scratch(len)?, scratch(len)?);
            call.offset = hull.start;
            call.unpacked(&call.from).unpack_from(from)?;
            call.unpacked(&call.into).unpack_from(into)?;
            call.packed = Some(into.clone());
        }
        Ok(Some(call))
    }
}
