//! Starting without the changes that a metadata server has lost.

use super::error::{ServerError, entry_of};
use crate::config::Configuration;
use crate::meta;

/// Gives up the acknowledged changes that server `name`'s metadata have lost, so that it can start again;
/// returns whether there were any. They are listed in the log first.
pub fn accept_loss(configuration: &Configuration, name: &str) -> Result<bool, ServerError> {
    let fail = ServerError::of(name);
    let entry = entry_of(configuration, name)?;
    if !entry.metadata {
        return Err(fail(
            "it keeps no metadata: only those can be opened with a loss".into(),
        ));
    }
    meta::accept_loss(&entry.directory.join("metadata")).map_err(|failure| fail(failure.message))
}
