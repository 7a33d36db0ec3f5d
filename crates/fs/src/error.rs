//! The one error of the client library: what was being done, to what, where, and why it failed. A server replies with
//! a [`Failure`], which has only the kind and the message.

use causeway_wire::fs::{Errno, Failure};

/// Why an operation on the file system failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {subject}: {message}{}", server.as_ref().map(|s| format!(" (server {s})")).unwrap_or_default())]
pub struct Error {
    /// What was being done, as a verb: `create`, `write`.
    pub operation: &'static str,
    /// The path or object concerned, printable.
    pub subject: String,
    /// What kind of failure, as a number.
    pub errno: Errno,
    /// What went wrong and, where there is one, what to do.
    pub message: String,
    /// The server concerned: its name and address.
    pub server: Option<String>,
}

/// A failure with a sentence.
pub(crate) fn failure(errno: Errno, message: impl Into<String>) -> Failure {
    Failure {
        errno,
        message: message.into(),
    }
}
