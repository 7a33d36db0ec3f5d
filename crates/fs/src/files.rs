//! Operations on the files and directories of a server.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use causeway_wire::home::MAX_HOME_FILE_BYTES;

/// Permissions of a server's files: the server's user alone.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Permissions of its directories.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// Turns the error that a file does not exist into `None`.
pub(crate) fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file for reading and writing; makes an empty one if there is none.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
}

/// Opens one of the small text files of a server's directory, as [`open_or_create`] does. Returns it with its text, cut at
/// [`MAX_HOME_FILE_BYTES`]; a new file's is empty.
pub(crate) fn open_text(path: &Path) -> io::Result<(File, String)> {
    let file = open_or_create(path)?;
    let mut bytes = Vec::new();
    (&file)
        .take(MAX_HOME_FILE_BYTES as u64)
        .read_to_end(&mut bytes)?;
    Ok((file, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Makes a file for reading and writing, which must not exist.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Makes a directory and those above it, for the server's user alone.
pub(crate) fn make_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Makes the names in a directory durable: a file that is synced may still lose its name with the directory.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes a file's or directory's own name durable.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}
