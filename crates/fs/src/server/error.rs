//! Errors that keep a server from starting or end it, and the failures of its store as clients see them.

use std::path::Path;

use causeway_wire::fs::{Errno, Failure, ObjectId};

use crate::config::{Configuration, ServerEntry};
use crate::data::Fault;
use crate::error::failure;

/// The option in messages to operators that names the configuration; see [`ServerError::with_configuration`].
pub(super) const CONFIG_OPTION: &str = "--config FILE";

/// The error that kept a server from starting, or ended it: a sentence with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("server {server}: {message}")]
pub struct ServerError {
    /// The server's name.
    pub server: String,
    /// What is wrong.
    pub message: String,
}

impl ServerError {
    /// The same, with this file as the configuration in the commands that it recommends.
    pub fn with_configuration(self, file: &Path) -> Self {
        let option = format!("--config {}", file.display());
        Self {
            message: self.message.replace(CONFIG_OPTION, &option),
            ..self
        }
    }

    /// Makes errors of the server of this name.
    pub(super) fn of(name: &str) -> impl Fn(String) -> Self {
        |message| Self {
            server: name.to_owned(),
            message,
        }
    }
}

/// The configuration's entry of a server.
pub(super) fn entry_of<'a>(
    configuration: &'a Configuration,
    name: &str,
) -> Result<&'a ServerEntry, ServerError> {
    let Some((_, entry)) = configuration.server(name) else {
        let names = configuration.servers.iter();
        let names: Vec<&str> = names.map(|server| server.name.as_str()).collect();
        let message = format!(
            "the configuration has no such server; it has {}",
            names.join(", ")
        );
        return Err(ServerError::of(name)(message));
    };
    Ok(entry)
}

/// A failure of the store, as clients see it.
pub(super) fn storage_failure(doing: &str, object: ObjectId, fault: &Fault) -> Failure {
    let errno = match fault {
        Fault::Io(error) => match error.raw_os_error() {
            Some(number) => u16::try_from(number).map_or(Errno::EIO, Errno),
            None => Errno::EIO,
        },
        Fault::Absent { .. } | Fault::Short { .. } => Errno::MISSING,
        Fault::Damaged { .. }
        | Fault::Foreign { .. }
        | Fault::Header(_)
        | Fault::Earlier { .. }
        | Fault::Replaced => Errno::EIO,
        Fault::Exists => Errno::EEXIST,
        Fault::Unknown => Errno::EIO,
        Fault::Abandoned => Errno::ECONNRESET,
    };
    let advice = match errno {
        Errno::ENOSPC => ": the server's disk is full",
        Errno::EDQUOT => ": the server's quota is used up",
        _ => "",
    };
    failure(
        errno,
        format!("{doing} datafile {:x}: {fault}{advice}", object.0),
    )
}
