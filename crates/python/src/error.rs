//! Exceptions: those that Python has for the operating system's errors.

use causeway_fs::Error;
use causeway_fs::config::ConfigError;
use causeway_sys::fork::Owner;
use causeway_wire::fs::Errno;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

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

/// A configuration file that cannot be used raises what `open` raises. One that says something wrong raises a `ValueError` with the file and the line, as
/// `filename` and `lineno`.
pub(crate) fn misconfigured(py: Python<'_>, error: ConfigError) -> PyErr {
    match error.errno {
        Some(Errno(number)) if error.line == 0 => {
            PyOSError::new_err((i32::from(number), error.message, error.file))
        }
        // It is another file, which the text names.
        Some(Errno(number)) => refused(i32::from(number), error.to_string()),
        None => {
            let raised = PyValueError::new_err(error.to_string());
            let value = raised.value(py);
            let told = value
                .setattr("filename", error.file)
                .and_then(|()| value.setattr("lineno", error.line));
            told.err().unwrap_or(raised)
        }
    }
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
