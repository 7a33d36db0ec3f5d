//! Making names durable: a file that is synced may still lose its name with the directory.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes a file's or directory's own name durable.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}
