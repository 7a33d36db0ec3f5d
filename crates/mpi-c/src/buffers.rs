//! Buffers that the program attaches for buffered messages (MPI 5.0 §3.6).

use std::ffi::c_void;

use causeway_mpi::abi;
use causeway_mpi::buffering::Owner;
use causeway_mpi::error::{Error, Result};
use causeway_mpi::process::Process;

use crate::library::{enter, wait_for, with};
use crate::types::{Handle, NumbersOut, count_of};

fn attach(owner: Owner, buffer: *mut c_void, size: i64) -> Result<()> {
    let size = match buffer.addr() {
        abi::BUFFER_AUTOMATIC => i64::MAX,
        _ => count_of(size).map(|_| size)?,
    };
    enter(|library| {
        if library.buffers.contains_key(&owner) {
            let text = "a buffer is attached already";
            return Err(Error::new(abi::ERR_BUFFER, text));
        }
        let attached = (buffer.expose_provenance(), size);
        library.buffers.insert(owner, attached);
        if let Some(process) = &mut library.process {
            process.limit_buffered(owner, Some(size as u64));
        }
        Ok(())
    })
}

fn flush(owner: Owner) -> Result<()> {
    let flushed = |process: &mut Process| Ok((!process.has_buffered(owner)).then_some(()));
    wait_for(|process| process.wait_until_ready(flushed))
}

/// # Safety
/// The pointers are valid for writes; the first is the address of a pointer.
unsafe fn detach(owner: Owner, buffer_addr: *mut c_void, size: NumbersOut) -> Result<()> {
    flush(owner)?;
    let (address, bytes) = enter(|library| {
        if let Some(process) = &mut library.process {
            process.limit_buffered(owner, None);
        }
        let attached = library.buffers.remove(&owner);
        attached.ok_or_else(|| Error::new(abi::ERR_BUFFER, "no buffer is attached"))
    })?;
    // SAFETY: the caller's promise.
    unsafe {
        buffer_addr.cast::<usize>().write(address);
        size.write(match address {
            abi::BUFFER_AUTOMATIC => 0,
            _ => bytes,
        });
    }
    Ok(())
}

/// # Safety
/// The pointer is valid for writes.
unsafe fn iflush(owner: Owner, request: *mut Handle) -> Result<()> {
    let handle = with(|process, _| {
        let active = process.flush_buffer(owner);
        process.keep(active)
    })?;
    // SAFETY: the caller's promise.
    unsafe { request.write(handle) };
    Ok(())
}

/// Detaches the buffer of an object that is freed. Messages in it are still sent: the library has copied
/// them elsewhere.
pub(crate) fn forget(owner: Owner) -> Result<()> {
    enter(|library| {
        if library.buffers.remove(&owner).is_some()
            && let Some(process) = &mut library.process
        {
            process.limit_buffered(owner, None);
        }
        Ok(())
    })
}

/// The owner of a communicator's buffer.
fn of_communicator(comm: Handle) -> Result<Owner> {
    with(|process, _| process.communicator(comm).map(drop))?;
    Ok(Owner::Communicator(comm))
}

/// The owner of a session's buffer.
fn of_session(session: Handle) -> Result<Owner> {
    enter(|library| library.sessions.get(session).map(drop))?;
    Ok(Owner::Session(session))
}

pub(crate) unsafe fn buffer_attach(buffer: *mut c_void, size: i64) -> Result<()> {
    attach(Owner::Process, buffer, size)
}

pub(crate) unsafe fn buffer_detach(buffer_addr: *mut c_void, size: NumbersOut) -> Result<()> {
    // SAFETY: the caller's pointers, as MPI has it.
    unsafe { detach(Owner::Process, buffer_addr, size) }
}

pub(crate) unsafe fn buffer_flush() -> Result<()> {
    flush(Owner::Process)
}

pub(crate) unsafe fn buffer_iflush(request: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { iflush(Owner::Process, request) }
}

macro_rules! buffers_of {
    ($owner:ident, $attach:ident, $detach:ident, $flush:ident, $iflush:ident) => {
        pub(crate) unsafe fn $attach(object: Handle, buffer: *mut c_void, size: i64) -> Result<()> {
            attach($owner(object)?, buffer, size)
        }

        pub(crate) unsafe fn $detach(
            object: Handle,
            buffer_addr: *mut c_void,
            size: NumbersOut,
        ) -> Result<()> {
            // SAFETY: the caller's pointers, as MPI has it.
            unsafe { detach($owner(object)?, buffer_addr, size) }
        }

        pub(crate) unsafe fn $flush(object: Handle) -> Result<()> {
            flush($owner(object)?)
        }

        pub(crate) unsafe fn $iflush(object: Handle, request: *mut Handle) -> Result<()> {
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { iflush($owner(object)?, request) }
        }
    };
}

buffers_of!(
    of_communicator,
    comm_attach_buffer,
    comm_detach_buffer,
    comm_flush_buffer,
    comm_iflush_buffer
);
buffers_of!(
    of_session,
    session_attach_buffer,
    session_detach_buffer,
    session_flush_buffer,
    session_iflush_buffer
);
