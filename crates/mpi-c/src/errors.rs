//! Error handlers, codes and classes (MPI 5.0 chapter 9).

use std::ffi::{c_char, c_int};

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};

use crate::library::{Library, Object, enter, handle, with};
use crate::objects::Handler;
use crate::types::{Callback, Handle, read_text, write_text};

pub(crate) unsafe fn comm_create_errhandler(
    function: Callback,
    errhandler: *mut Handle,
) -> Result<()> {
    let handler = Handler {
        function: function.expose_provenance(),
        holders: 0,
        handles: 1,
    };
    let new = enter(|library| library.handlers.insert(handler))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { errhandler.write(new) };
    Ok(())
}

fn is_predefined(handler: Handle) -> bool {
    matches!(
        handler,
        abi::ERRORS_ARE_FATAL | abi::ERRORS_ABORT | abi::ERRORS_RETURN
    )
}

impl Library {
    /// Fails if a handle is not that of an error handler.
    pub(crate) fn check_handler(&self, handler: Handle) -> Result<()> {
        match is_predefined(handler) {
            true => Ok(()),
            false => self.handlers.get(handler).map(drop),
        }
    }
}

/// Counts one more holder of a handler.
pub(crate) fn hold(handler: Handle) -> Result<()> {
    if is_predefined(handler) {
        return Ok(());
    }
    enter(|library| {
        library.handlers.get_mut(handler)?.holders += 1;
        Ok(())
    })
}

/// Counts one holder of a handler less; the handler is removed once it has no holders, and the program no
/// handles of it.
pub(crate) fn release(handler: Handle) -> Result<()> {
    if is_predefined(handler) {
        return Ok(());
    }
    enter(|library| {
        let found = library.handlers.get_mut(handler)?;
        found.holders = found.holders.saturating_sub(1);
        if found.holders == 0 && found.handles == 0 {
            library.handlers.remove(handler)?;
        }
        Ok(())
    })
}

pub(crate) unsafe fn errhandler_free(errhandler: *mut Handle) -> Result<()> {
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe {
        let handler = errhandler.read();
        if !is_predefined(handler) {
            enter(|library| {
                let found = library.handlers.get_mut(handler)?;
                found.handles = found.handles.saturating_sub(1);
                if found.holders == 0 && found.handles == 0 {
                    library.handlers.remove(handler)?;
                }
                Ok(())
            })?;
        }
        errhandler.write(abi::ERRHANDLER_NULL);
    }
    Ok(())
}

/// Sets the error handler of an object.
fn set(object: Object, handler: Handle) -> Result<()> {
    hold(handler)?;
    let old = match object {
        Object::Window(window) => {
            with(|process, _| Ok(process.window_mut(window)?.set_error_handler(handler)))
        }
        Object::Communicator(comm) => {
            with(|process, _| Ok(process.communicator_mut(comm)?.set_error_handler(handler)))
        }
        Object::Session(session) => enter(|library| {
            let session = library.sessions.get_mut(session)?;
            Ok(std::mem::replace(&mut session.error_handler, handler))
        }),
        Object::File(abi::FILE_NULL) => {
            enter(|library| Ok(std::mem::replace(&mut library.file_handler, handler)))
        }
        Object::File(file) => {
            with(|process, _| Ok(process.file_mut(file)?.set_error_handler(handler)))
        }
        Object::Handler(_) | Object::Owner(_) | Object::Tool | Object::None => {
            Ok(abi::ERRORS_ARE_FATAL)
        }
    };
    match old {
        Ok(old) => release(old),
        Err(error) => {
            release(handler)?;
            Err(error)
        }
    }
}

/// The error handler of an object.
fn handler_of(object: Object) -> Result<Handle> {
    match object {
        Object::Window(window) => with(|process, _| Ok(process.window(window)?.error_handler())),
        Object::Communicator(comm) => {
            with(|process, _| Ok(process.communicator(comm)?.error_handler()))
        }
        Object::Session(session) => {
            enter(|library| Ok(library.sessions.get(session)?.error_handler))
        }
        Object::File(abi::FILE_NULL) => enter(|library| Ok(library.file_handler)),
        Object::File(file) => with(|process, _| Ok(process.file(file)?.error_handler())),
        Object::Handler(_) | Object::Owner(_) | Object::Tool | Object::None => {
            Ok(abi::ERRORS_ARE_FATAL)
        }
    }
}

/// The error handler of an object, which the program gets a handle for.
fn get(object: Object) -> Result<Handle> {
    let handler = handler_of(object)?;
    if !is_predefined(handler) {
        enter(|library| {
            library.handlers.get_mut(handler)?.handles += 1;
            Ok(())
        })?;
    }
    Ok(handler)
}

macro_rules! handlers_of {
    ($object:path, $set:ident, $get:ident, $call:ident, $name:literal) => {
        pub(crate) unsafe fn $set(object: Handle, errhandler: Handle) -> Result<()> {
            set($object(object), errhandler)
        }

        pub(crate) unsafe fn $get(object: Handle, errhandler: *mut Handle) -> Result<()> {
            let handler = get($object(object))?;
            // SAFETY: the caller's pointer, as MPI has it.
            unsafe { errhandler.write(handler) };
            Ok(())
        }

        pub(crate) unsafe fn $call(object: Handle, errorcode: c_int) -> Result<()> {
            handler_of($object(object))?;
            let text = enter(|library| library.codes.text_of(errorcode))?;
            handle($name, $object(object), &Error::new(errorcode, text));
            Ok(())
        }
    };
}

handlers_of!(
    Object::Communicator,
    comm_set_errhandler,
    comm_get_errhandler,
    comm_call_errhandler,
    "MPI_Comm_call_errhandler"
);
handlers_of!(
    Object::Window,
    win_set_errhandler,
    win_get_errhandler,
    win_call_errhandler,
    "MPI_Win_call_errhandler"
);
handlers_of!(
    Object::Session,
    session_set_errhandler,
    session_get_errhandler,
    session_call_errhandler,
    "MPI_Session_call_errhandler"
);
handlers_of!(
    Object::File,
    file_set_errhandler,
    file_get_errhandler,
    file_call_errhandler,
    "MPI_File_call_errhandler"
);

pub(crate) unsafe fn win_create_errhandler(
    function: Callback,
    errhandler: *mut Handle,
) -> Result<()> {
    // SAFETY: the caller keeps MPI's contract. Both kinds of functions get a handle and a code.
    unsafe { comm_create_errhandler(function, errhandler) }
}

pub(crate) unsafe fn error_class(errorcode: c_int, errorclass: *mut c_int) -> Result<()> {
    let class = enter(|library| library.codes.class_of(errorcode))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { errorclass.write(class) };
    Ok(())
}

pub(crate) unsafe fn error_string(
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let text = enter(|library| library.codes.text_of(errorcode))?;
    let most = abi::MAX_ERROR_STRING as usize;
    // SAFETY: MPI obliges the caller to have so much room.
    unsafe { write_text(text.as_bytes(), string, most, resultlen) };
    Ok(())
}

pub(crate) unsafe fn add_error_class(errorclass: *mut c_int) -> Result<()> {
    let class = enter(|library| Ok(library.codes.add_class()))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { errorclass.write(class) };
    Ok(())
}

pub(crate) unsafe fn add_error_code(errorclass: c_int, errorcode: *mut c_int) -> Result<()> {
    let code = enter(|library| library.codes.add_code(errorclass))?;
    // SAFETY: the caller's pointer, as MPI has it.
    unsafe { errorcode.write(code) };
    Ok(())
}

pub(crate) unsafe fn add_error_string(errorcode: c_int, string: *const c_char) -> Result<()> {
    // SAFETY: the caller's string, as MPI has it.
    let text = unsafe { read_text(string, "string") }?;
    let text = String::from_utf8_lossy(text).into_owned();
    enter(|library| library.codes.set_text(errorcode, text))
}

pub(crate) unsafe fn remove_error_class(class: c_int) -> Result<()> {
    enter(|library| library.codes.remove(class, true))
}

pub(crate) unsafe fn remove_error_code(code: c_int) -> Result<()> {
    enter(|library| library.codes.remove(code, false))
}

pub(crate) unsafe fn remove_error_string(code: c_int) -> Result<()> {
    enter(|library| library.codes.set_text(code, String::new()))
}
