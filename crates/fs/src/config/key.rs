//! The cluster's key: 64 hexadecimal digits in a file that only its owner may read.

use std::path::Path;

use causeway_sys::secret::Secret;
use causeway_sys::trusted_file::Refused;

/// Reads and checks a key file; the error is a sentence.
pub(super) fn read(path: &Path) -> Result<Secret, String> {
    let name = path.display();
    Secret::of_file(path).map_err(|refused| match refused {
        Refused::Unreadable(error) => format!(
            "the key file {name} cannot be read: {error}; \
             `causeway fs init` makes one, and it must be copied to every node"
        ),
        Refused::Distrusted(what) => format!("the key file {name} is not used: {what}"),
    })
}
