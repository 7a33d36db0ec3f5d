//! Formatting a server's directory: the explicit act without which no server serves from it.

use causeway_wire::fs::{Generation, Incarnation};

use super::error::{ServerError, entry_of};
use super::home::{self, Home, Wanted};
use super::metadata;
use crate::config::Configuration;

/// Makes the directory of server `name` one from which it can be started: empty metadata, no datafiles. A directory that
/// holds anything is refused and left unchanged, unless it is the rest of an interrupted formatting.
pub fn format(configuration: &Configuration, name: &str) -> Result<(), ServerError> {
    let fail = ServerError::of(name);
    let entry = entry_of(configuration, name)?;
    let wanted = Wanted {
        file_system: configuration.id,
        entry,
    };
    let drawn = || random().map_err(|error| fail(format!("no random numbers: {error}")));
    let draft = Home::format(&wanted, Generation(drawn()?)).map_err(&fail)?;
    if entry.metadata {
        let home = draft.home();
        metadata::format(
            &home.metadata(),
            configuration,
            home.identity().generation,
            Incarnation(drawn()?),
        )
        .map_err(|failure| fail(format!("the metadata cannot be made: {}", failure.message)))?;
    }
    draft.seal().map_err(&fail)
}

/// Whether the directory of server `name` was formatted, whatever server for.
pub fn is_formatted(configuration: &Configuration, name: &str) -> bool {
    configuration
        .server(name)
        .is_some_and(|(_, entry)| home::has_identity(&entry.directory))
}

/// A random number that is not 0.
fn random() -> std::io::Result<u64> {
    Ok(u64::from_le_bytes(causeway_sys::random::bytes()?).max(1))
}
