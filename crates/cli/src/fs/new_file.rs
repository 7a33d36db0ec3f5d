//! Creating files that must not exist yet, and replacing files as a whole.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Failure, Outcome};

/// The failure of a command that finds something where it would write a file.
pub(super) fn in_the_way(path: &Path) -> Failure {
    Failure::new(format!("writing {}", path.display()), "it exists already")
}

/// Whether an entry with this name exists, even a dangling symbolic link.
pub(super) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Makes a file of a name that nothing has, with exactly this mode, whatever the process's mask is.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Writes a file that did not exist, with exactly this mode.
pub(super) fn write_new(path: &Path, content: &[u8], mode: u32) -> Outcome {
    let doing = || format!("writing {}", path.display());
    let mut file = create(path, mode).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => in_the_way(path),
        _ => Failure::new(doing(), error),
    })?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .doing(doing)
}

/// Writes a file in place of an existing one, if there is one: whole, or not at all. It has exactly
/// this mode, and a symbolic link is replaced, not followed. Only one process at a time may write
/// the same file.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Outcome {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let doing = || format!("writing {}", path.display());
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure::new(format!("removing {}", new.display()), error));
        }
        _ => {}
    }
    let mut file = create(&new, mode).doing(|| format!("writing {}", new.display()))?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&new, path))
        .doing(doing)?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new(".")));
    directory
        .and_then(|directory| directory.sync_all())
        .doing(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_exactly_their_mode_and_replace_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode = |name: &str| path(name).metadata().unwrap().permissions().mode() & 0o7777;
        // More than any mask in use lets through.
        write_new(&path("new"), b"1", 0o666).unwrap();
        assert_eq!(mode("new"), 0o666);
        assert!(write_new(&path("new"), b"2", 0o666).is_err());
        std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
        assert!(is_there(&path("link")));
        assert!(write_new(&path("link"), b"2", 0o666).is_err());
        // Another file or link with the name under which the new content is prepared is neither
        // followed nor kept.
        std::fs::write(path("other"), b"theirs").unwrap();
        std::os::unix::fs::symlink("other", path("new.new")).unwrap();
        replace(&path("new"), b"3", 0o666).unwrap();
        assert_eq!(std::fs::read(path("other")).unwrap(), b"theirs");
        write_new(&path("new.new"), b"left over", 0o600).unwrap();
        replace(&path("new"), b"4", 0o666).unwrap();
        assert_eq!((mode("new"), mode("other") & 0o600), (0o666, 0o600));
        assert_eq!(std::fs::read(path("new")).unwrap(), b"4");
        replace(&path("link"), b"5", 0o644).unwrap();
        assert!(path("link").symlink_metadata().unwrap().is_file());
        assert!(!is_there(&path("new.new")) && !is_there(&path("nowhere")));
    }
}
