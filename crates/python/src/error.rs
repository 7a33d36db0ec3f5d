//! Exceptions: those that Python has for the operating system's errors.

use causeway_fs::Error;
use pyo3::PyErr;
use pyo3::exceptions::PyOSError;

/// `OSError` with number and text; Python makes `FileNotFoundError` and the like of it.
pub(crate) fn failed(error: Error) -> PyErr {
    PyOSError::new_err((i32::from(error.system_number()), error.text()))
}

/// The same for what this side finds wrong.
pub(crate) fn refused(number: i32, text: &'static str) -> PyErr {
    PyOSError::new_err((number, text))
}
