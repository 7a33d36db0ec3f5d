//! Going on without what a metadata server has lost.

use super::ServerError;
use crate::config::Configuration;
use crate::meta;

/// Gives up the acknowledged changes that server `name`'s metadata have lost, so that it starts again;
/// whether there were any. They are listed in the log first.
pub fn accept_loss(configuration: &Configuration, name: &str) -> Result<bool, ServerError> {
    let fail = |message: String| ServerError {
        server: name.to_owned(),
        message,
    };
    match configuration.server(name) {
        Some((_, entry)) if entry.metadata => meta::accept_loss(&entry.directory.join("metadata"))
            .map_err(|failure| fail(failure.message)),
        Some(_) => Err(fail(
            "it keeps no metadata: only those can be opened with a loss".into(),
        )),
        None => Err(fail("the configuration has no such server".into())),
    }
}
