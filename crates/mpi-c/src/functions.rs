//! Calls of the program's functions: its operations of reductions, and its error handlers.

use std::ffi::{c_int, c_void};

use causeway_mpi::error::Result;
use causeway_mpi::schedule::Call;

use crate::library::{enter, wake_all, with};
use crate::types::Handle;

/// Calls an operation of the program's.
pub(crate) fn run(call: &Call) -> Result<()> {
    type Small = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Handle);
    type Large = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Handle);
    let what = &call.operation;
    // The program may have freed its handle of the datatype since it started the operation: then the function gets another one.
    let replaced = enter(|library| match library.datatype(what.handle) {
        Ok(datatype) if datatype.is_same(&what.datatype) => Ok(None),
        _ => library.types.insert(what.datatype.clone()).map(Some),
    })?;
    let mut datatype = replaced.unwrap_or(what.handle);
    let first = |memory: *mut u8| memory.wrapping_byte_offset(-what.offset as isize).cast();
    let (from, into) = (first(what.from.as_ptr()), first(what.into.as_ptr()));
    let function = std::ptr::with_exposed_provenance::<c_void>(what.function);
    // SAFETY: the program gave this function to `MPI_Op_create` or `MPI_Op_create_c`, with this type, for calls
    // with memory of so many elements.
    unsafe {
        if what.is_large {
            let function = (&raw const function).cast::<Large>().read();
            function(from, into, &mut (what.count as i64), &mut datatype);
        } else {
            let function = (&raw const function).cast::<Small>().read();
            function(from, into, &mut (what.count as c_int), &mut datatype);
        }
    }
    if let Some(handle) = replaced {
        // The function may have freed it, wrongly.
        let _ = enter(|library| library.types.remove(handle));
    }
    with(|process, _| {
        process.called(call);
        Ok(())
    })?;
    // The operation for which it was called may be one that another thread waits for.
    wake_all();
    Ok(())
}

/// Calls an error handler of the program's.
pub(crate) fn call_handler(function: usize, handle: &mut Handle, code: c_int) {
    type Function = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);
    let function = std::ptr::with_exposed_provenance::<c_void>(function);
    // SAFETY: the program gave this function to `MPI_Comm_create_errhandler` or its like, with this type.
    unsafe {
        let function = (&raw const function).cast::<Function>().read();
        function(handle, &mut { code });
    }
}
