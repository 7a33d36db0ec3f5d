//! Generalized requests (MPI 5.0 §13.2): the program itself carries out their operations.
//!
//! Functions of the program's are called outside of the library, so that they may call it.

use std::ffi::{c_int, c_void};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::request::General;

use crate::library::{wake_all, with};
use crate::types::{Callback, Handle, Status};

type Query = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

fn outcome(code: c_int, what: &str) -> Result<()> {
    match code {
        abi::SUCCESS => Ok(()),
        code => {
            let text = format!("the request's {what} function has failed");
            Err(Error::new(code, text))
        }
    }
}

fn extra(general: General) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(general.extra)
}

/// Has the program fill in the status.
///
/// # Safety
/// The functions are those that the program gave to `MPI_Grequest_start`.
pub(crate) unsafe fn query(general: General, status: &mut Status) -> Result<()> {
    let function = std::ptr::with_exposed_provenance::<c_void>(general.query);
    // SAFETY: the caller's promise: it has this type.
    let code = unsafe { (&raw const function).cast::<Query>().read()(extra(general), status) };
    outcome(code, "query")
}

/// Has the program release its own state.
///
/// # Safety
/// As [`query`].
pub(crate) unsafe fn free(general: General) -> Result<()> {
    let function = std::ptr::with_exposed_provenance::<c_void>(general.free);
    // SAFETY: the caller's promise: it has this type.
    let code = unsafe { (&raw const function).cast::<Free>().read()(extra(general)) };
    outcome(code, "free")
}

/// Asks the program to cancel.
///
/// # Safety
/// As [`query`].
pub(crate) unsafe fn cancel(general: General, is_complete: bool) -> Result<()> {
    let function = std::ptr::with_exposed_provenance::<c_void>(general.cancel);
    let complete = is_complete.into();
    // SAFETY: the caller's promise: it has this type.
    let code = unsafe { (&raw const function).cast::<Cancel>().read()(extra(general), complete) };
    outcome(code, "cancel")
}

pub(crate) unsafe fn grequest_start(
    query: Callback,
    free: Callback,
    cancel: Callback,
    extra: *mut c_void,
    request: *mut Handle,
) -> Result<()> {
    let general = General {
        query: query.expose_provenance(),
        free: free.expose_provenance(),
        cancel: cancel.expose_provenance(),
        extra: extra.expose_provenance(),
    };
    if [query, free, cancel].contains(&std::ptr::null_mut()) {
        return Err(Error::new(abi::ERR_ARG, "a function is NULL"));
    }
    let handle = with(|process, _| process.start_general(general))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { request.write(handle) };
    Ok(())
}

pub(crate) unsafe fn grequest_complete(request: Handle) -> Result<()> {
    let general = with(|process, _| process.complete_general(request))?;
    wake_all();
    match general {
        // SAFETY: the functions are the program's.
        Some(general) => unsafe { free(general) },
        None => Ok(()),
    }
}
