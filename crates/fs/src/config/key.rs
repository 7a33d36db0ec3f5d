//! The cluster's key: 64 hexadecimal digits in a file that only its owner may read.

use std::io::ErrorKind;
use std::path::Path;

use causeway_sys::secret::Secret;
use causeway_sys::trusted_file::Refused;

use super::types::ConfigError;

/// Whether this process may not read a file, because others must not.
pub(super) fn is_denied(path: &Path) -> bool {
    std::fs::File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Reads and checks a key file that the configuration file names in this line (0 if that is not known).
pub(super) fn read(path: &Path, named_in: &Path, line: usize) -> Result<Secret, ConfigError> {
    Secret::of_file(path)
        .map_err(|refused| ConfigError::refused(named_in, line, &refused, text(path, &refused)))
}

/// What is wrong, and what to do.
fn text(path: &Path, refused: &Refused) -> String {
    let name = path.display();
    match refused {
        Refused::Unreadable(error) if error.kind() == ErrorKind::PermissionDenied => format!(
            "the key file {name} cannot be read: {error}; who may not read it needs the node's agent, which root starts with \
             `causeway fs agent`: the configuration names its socket in `[agent]`"
        ),
        Refused::Unreadable(error) => format!(
            "the key file {name} cannot be read: {error}; \
             `causeway fs init` makes one, and it must be copied to every node"
        ),
        Refused::Distrusted(what) => format!("the key file {name} is not used: {what}"),
    }
}
