//! Calls of the program's functions: its operations of reductions, and its error handlers.

use std::ffi::{c_int, c_void};

use causeway_mpi::operation::Call;

use crate::types::Handle;

/// Calls an operation of the program's, with this handle of the operands' datatype.
pub(crate) fn call_operation(call: &Call, mut datatype: Handle) {
    type Small = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);
    type Large = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Handle);
    let first = |memory: *mut u8| memory.wrapping_byte_offset(-call.offset as isize).cast();
    let (from, into) = (first(call.from.as_ptr()), first(call.into.as_ptr()));
    let function = std::ptr::with_exposed_provenance::<c_void>(call.function);
    // SAFETY: the program gave this function to `MPI_Op_create` or `MPI_Op_create_c`, with this type, for calls
    // with memory of so many elements.
    unsafe {
        if call.is_large {
            let function = (&raw const function).cast::<Large>().read();
            function(from, into, &mut (call.count as i64), &mut datatype);
        } else {
            let function = (&raw const function).cast::<Small>().read();
            function(from, into, &mut (call.count as c_int), &mut datatype);
        }
    }
}

/// Calls an error handler of the program's.
pub(crate) fn call_handler(function: usize, handle: &mut Handle, mut code: c_int) -> c_int {
    type Function = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);
    let function = std::ptr::with_exposed_provenance::<c_void>(function);
    // SAFETY: the program gave this function to `MPI_Comm_create_errhandler` or its like, with this type.
    unsafe {
        let function = (&raw const function).cast::<Function>().read();
        function(handle, &mut code);
    }
    code
}
