//! Addresses of this method: paths of sockets.

use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::error::Error;

/// The scheme of this method's addresses.
pub(crate) const SCHEME: &str = "shm";

/// The path in an address, absolute.
pub(super) fn path_of(address: &Address) -> Result<PathBuf, Error> {
    let bad = |reason| Error::BadAddress {
        address: address.to_string(),
        reason,
    };
    if address.scheme() != SCHEME {
        return Err(bad("it is not a `shm://` address"));
    }
    // Two leading slashes, which the standard library keeps, are one on Linux.
    let slashes = address.rest().len() - address.rest().trim_start_matches('/').len();
    let path = address.rest().get(slashes.saturating_sub(1)..);
    let path = Path::new(path.unwrap_or_default());
    if address.rest().contains('\0') {
        return Err(bad("its path contains a NUL"));
    }
    if path.file_name().is_none() || address.rest().ends_with('/') {
        return Err(bad("its path does not name a file"));
    }
    std::path::absolute(path).map_err(|source| Error::System {
        what: format!("the working directory, for {address}"),
        source,
    })
}

/// A canonical form of the address, the same for all spellings of the path. Symbolic links are not
/// followed.
pub(crate) fn canonical(address: &Address) -> Result<Address, Error> {
    address_of(&path_of(address)?)
}

/// The address of a path that [`path_of`] returned.
pub(super) fn address_of(path: &Path) -> Result<Address, Error> {
    let path = path.to_str().ok_or(Error::Unsupported(
        "the working directory's name is not UTF-8: give an absolute path",
    ))?;
    format!("{SCHEME}://{path}").parse()
}
