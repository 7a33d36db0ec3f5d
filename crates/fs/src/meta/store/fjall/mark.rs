//! The mark beside the journals: how far they were acknowledged ([`causeway_wire::store::Mark`]).
//!
//! It is in its file twice, in blocks of their own that are written one after the other, so that one of
//! them is always whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use causeway_wire::codec::Wire;
use causeway_wire::store::{MARK_BYTES, Mark};

use crate::files::{if_found, open_or_create, sync_directory};

/// Distance of the two copies, in bytes: no device writes both at once.
const DISTANCE_BYTES: u64 = 4096;

/// Where the mark of the store in `directory` is.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join("mark")
}

/// The mark in the file: `Ok(None)` if there is none, an error of kind [`io::ErrorKind::InvalidData`] if no
/// copy is undamaged.
pub(super) fn read(directory: &Path) -> io::Result<Option<Mark>> {
    let Some(file) = if_found(File::open(path(directory)))? else {
        return Ok(None);
    };
    let copy = |at: u64| {
        let mut bytes = [0; MARK_BYTES];
        file.read_exact_at(&mut bytes, at).ok()?;
        Mark::from_bytes(&bytes).ok()
    };
    // The first copy is written first: where they differ, it is the newer one.
    match copy(0).or_else(|| copy(DISTANCE_BYTES)) {
        Some(mark) => Ok(Some(mark)),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "both copies of the mark are damaged",
        )),
    }
}

/// Writes both copies, durably.
pub(super) fn write(directory: &Path, mark: &Mark) -> io::Result<()> {
    let path = path(directory);
    let is_new = !path.exists();
    let file = open_or_create(&path)?;
    for at in [0, DISTANCE_BYTES] {
        file.write_all_at(&mark.to_bytes(), at)?;
        file.sync_data()?;
    }
    if is_new {
        file.sync_all()?;
        sync_directory(directory)?;
    }
    Ok(())
}
