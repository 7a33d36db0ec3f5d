//! Files that must not replace others.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use causeway_command::failure::{Doing, Failure, Outcome};

/// The failure of a command that finds a file where it would write one.
pub(super) fn in_the_way(path: &Path) -> Failure {
    Failure::new(format!("writing {}", path.display()), "it exists already")
        .hint("use --force to replace it, or --output to write elsewhere")
}

/// Writes a file that did not exist, with exactly this mode.
pub(super) fn write_new(path: &Path, content: &[u8], mode: u32, force: bool) -> Outcome {
    let doing = || format!("writing {}", path.display());
    if force && path.is_file() {
        std::fs::remove_file(path).doing(doing)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => in_the_way(path),
            _ => Failure::new(doing(), error),
        })?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .doing(doing)
}
