//! The error of the client library: what was being done, to what, where, and why it failed. A server replies with
//! a [`Failure`], which has only the number and the message.

use causeway_wire::fs::{Errno, Failure};

/// Why an operation on the file system failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {subject}: {message}{}", server.as_ref().map(|s| format!(" (server {s})")).unwrap_or_default())]
pub struct Error {
    /// The operation, as a verb: `create`, `write`.
    pub operation: &'static str,
    /// The path or object concerned, printable.
    pub subject: String,
    /// The error number.
    pub errno: Errno,
    /// What went wrong and, where there is one, what to do.
    pub message: String,
    /// The server concerned: its name and address.
    pub server: Option<String>,
}

impl Error {
    /// What the user can do next, if that is known.
    pub fn advice(&self) -> Option<&'static str> {
        let text = match self.errno {
            Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ETIMEDOUT | Errno::ECONNRESET => {
                "see which servers reply with `causeway fs ping`, start a missing one with \
                 `causeway fs serve`"
            }
            Errno::EACCES | Errno::EPERM => {
                "check the permissions along the path with `causeway fs stat`"
            }
            Errno::ENOSPC => "see how full each server is with `causeway fs df`",
            Errno::ENOTEMPTY => "remove a directory and what is in it with `causeway fs rm -r`",
            Errno::WRONG_TARGET => {
                "see which server is where with `causeway fs ping`, and which belong to the file system with \
                 `causeway fs servers list`"
            }
            Errno::ENOKEY => {
                "see which keys the configuration names, and whether this process may read them, with `causeway info`"
            }
            Errno::EKEYREJECTED => {
                "use the cluster's key (`key_file`), or for a shared-memory address the user that the servers run as"
            }
            Errno::CORRUPT => "find the damage with `causeway fs fsck`",
            _ => return None,
        };
        Some(text)
    }

    /// The error number of Linux for programs that know no others: Causeway's own numbers become an input/output
    /// error.
    pub fn system_number(&self) -> u16 {
        match self.errno {
            Errno(number) if number > 1000 => Errno::EIO.0,
            Errno(number) => number,
        }
    }

    /// The whole error in one line, with advice. Text from a server is escaped, so that it cannot drive a terminal.
    pub fn text(&self) -> String {
        let mut text: String = self.to_string();
        if let Some(advice) = self.advice() {
            text.push_str("; ");
            text.push_str(advice);
        }
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }
}

/// A failure with a sentence.
pub(crate) fn failure(errno: Errno, message: impl Into<String>) -> Failure {
    Failure {
        errno,
        message: message.into(),
    }
}
