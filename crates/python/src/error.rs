//! Exceptions: those that Python has for the operating system's errors.

use causeway_fs::Error;
use causeway_sys::fork::Owner;
use causeway_wire::fs::Errno;
use pyo3::exceptions::PyOSError;
use pyo3::{PyErr, PyResult};

/// An `OSError` with number and text; Python makes a subclass such as `FileNotFoundError` of it.
pub(crate) fn failed(error: Error) -> PyErr {
    PyOSError::new_err((i32::from(error.system_number()), error.text()))
}

/// The same for a call on names. The text does not say which, as Python's code has the exception say so in `filename`.
pub(crate) fn failed_at(error: Error) -> PyErr {
    let text = error.text();
    let front = format!("{} {}: ", error.operation, error.subject);
    let text = text.strip_prefix(&front).unwrap_or(&text);
    refused(i32::from(error.system_number()), text)
}

/// The same for an error that is found in this process.
pub(crate) fn refused(number: i32, text: impl Into<String>) -> PyErr {
    PyOSError::new_err((number, text.into()))
}

/// Refuses an object that belongs to the process that this one was forked from.
pub(crate) fn check_owner(owner: &Owner) -> PyResult<()> {
    match owner.is_this_process() {
        true => Ok(()),
        false => Err(refused(
            Errno::EBADF.0.into(),
            "this belongs to the process that this one was forked off: make another Client after the fork",
        )),
    }
}
