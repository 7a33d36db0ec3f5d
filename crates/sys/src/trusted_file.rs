//! Files that configure a program or hold its keys: required owners and permissions before they are used.
//! The rules are those of `ssh`: owned by the caller or root, and not writable by others; a key not readable by others either.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::process;

/// Write permission of group and others, and of others alone.
const WRITABLE: u32 = 0o022;
const WRITABLE_BY_ALL: u32 = 0o002;
/// Others' files in such a directory cannot be renamed or removed.
const STICKY: u32 = 0o1000;

/// What a file is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A configuration: all may read it.
    Configuration,
    /// It holds a key.
    Key,
}

/// Why a file is not used.
#[derive(Debug)]
pub enum Refused {
    /// It cannot be opened.
    Unreadable(io::Error),
    /// The error, and the remedy.
    Distrusted(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Distrusted(what) => f.write_str(what),
        }
    }
}

/// Opens a named file, if it may be used. The checked file is the one that is read, also if the name changes.
pub fn open(path: &Path, used: Use) -> Result<File, Refused> {
    // Opening an object of any kind neither waits nor has an effect.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(Refused::Unreadable)?;
    let metadata = file.metadata().map_err(Refused::Unreadable)?;
    if metadata.is_dir() {
        let error = io::Error::from_raw_os_error(libc::EISDIR);
        return Err(Refused::Unreadable(error));
    }
    check(&path.display().to_string(), &metadata, used).map_err(Refused::Distrusted)?;
    Ok(file)
}

/// Whether files may be used that were found in the directory of `path`, not named: its owner has to be the caller or root, and
/// others may not write to it, unless it is sticky.
pub fn check_place(path: &Path) -> Result<(), Refused> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let metadata = std::fs::metadata(&parent).map_err(Refused::Unreadable)?;
    let shown = std::path::absolute(&parent).unwrap_or(parent);
    let shown = shown.display();
    let name = path.display();
    if !is_ours(metadata.uid()) {
        return Err(Refused::Distrusted(format!(
            "it was found in {shown}, which belongs to user {}: name the file if it is to be used, as in --config {name}",
            metadata.uid()
        )));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_ALL != 0 && mode & STICKY == 0 {
        return Err(Refused::Distrusted(format!(
            "it was found in {shown}, where everybody may put a file (mode {mode:03o}): `chmod o-w {shown}`, or name \
             the file, as in --config {name}"
        )));
    }
    Ok(())
}

fn is_ours(owner: u32) -> bool {
    (owner == process::user() || owner == 0) && !process::is_overflow_user(owner)
}

fn check(name: &str, metadata: &Metadata, used: Use) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if !is_ours(owner) {
        return Err(format!(
            "it belongs to user {owner}, and only files of user {} (who runs this) and root are used: copy it, or `chown` it",
            process::user()
        ));
    }
    if used == Use::Key && mode & 0o077 != 0 {
        return Err(format!(
            "it has mode {mode:03o}: others than its owner may use it; `chmod 600 {name}` and consider the key known"
        ));
    }
    if mode & WRITABLE != 0 {
        return Err(format!(
            "it has mode {mode:03o}: others than its owner may change it; look at what it says, and `chmod go-w {name}`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn said(result: Result<impl fmt::Debug, Refused>) -> String {
        result.unwrap_err().to_string()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("causeway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn files_that_others_may_change_and_keys_that_they_may_read_are_not_used() {
        let folder = folder("trusted");
        let file = folder.join("file");
        std::fs::write(&file, "text").unwrap();
        for (mode, as_configuration, as_key) in [
            (0o600, true, true),
            (0o644, true, false),
            (0o640, true, false),
            (0o664, false, false),
            (0o646, false, false),
        ] {
            set_mode(&file, mode);
            for (used, fits) in [(Use::Configuration, as_configuration), (Use::Key, as_key)] {
                let opened = open(&file, used);
                match fits {
                    true => drop(opened.unwrap()),
                    false => assert!(said(opened).contains("`chmod "), "{mode:o}"),
                }
            }
        }
        assert!(said(open(&folder, Use::Key)).contains("Is a directory"));
        assert!(said(open(&folder.join("none"), Use::Key)).contains("cannot be read"));
        if process::user() == 0 {
            set_mode(&file, 0o600);
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            assert!(said(open(&file, Use::Configuration)).contains("user 12345"));
        } else {
            eprintln!("left out: only root can have files of other users");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_where_others_may_put_one_is_used_only_if_it_is_named() {
        let folder = folder("place");
        let file = folder.join("file");
        for (mode, fits) in [(0o755, true), (0o775, true), (0o1777, true), (0o777, false)] {
            set_mode(&folder, mode);
            assert_eq!(check_place(&file).is_ok(), fits, "{mode:o}");
        }
        set_mode(&folder, 0o755);
        if process::user() == 0 {
            std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
            assert!(said(check_place(&file)).contains("user 12345"));
        } else {
            eprintln!("left out: only root can have directories of other users");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
