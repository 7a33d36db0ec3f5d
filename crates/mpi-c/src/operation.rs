//! Operations of the program's for reductions (MPI 5.0 §6.9.5).

use std::ffi::c_int;

use causeway_mpi::abi;
use causeway_mpi::error::Result;
use causeway_mpi::operation::Operation;

use crate::library::enter;
use crate::types::{Callback, Handle};

/// # Safety
/// The pointer is valid for writes.
unsafe fn create(
    function: Callback,
    commute: c_int,
    is_large: bool,
    op: *mut Handle,
) -> Result<()> {
    let operation = Operation {
        function: function.expose_provenance(),
        is_large,
        commutes: commute != 0,
    };
    let new = enter(|library| library.operations.insert(operation))?;
    // SAFETY: the caller's promise.
    unsafe { op.write(new) };
    Ok(())
}

pub(crate) unsafe fn op_create(user_fn: Callback, commute: c_int, op: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { create(user_fn, commute, false, op) }
}

pub(crate) unsafe fn op_create_c(user_fn: Callback, commute: c_int, op: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { create(user_fn, commute, true, op) }
}

pub(crate) unsafe fn op_free(op: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handle = op.read();
        enter(|library| library.operations.remove(handle))?;
        op.write(abi::OP_NULL);
    }
    Ok(())
}

pub(crate) unsafe fn op_commutative(op: Handle, commute: *mut c_int) -> Result<()> {
    let commutes = enter(|library| match op {
        abi::SUM..=abi::NO_OP => Ok(op != abi::REPLACE && op != abi::NO_OP),
        other => Ok(library.operations.get(other)?.commutes),
    })?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { commute.write(commutes.into()) };
    Ok(())
}
