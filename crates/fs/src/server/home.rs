//! A server's directory: held by one process, and of one server of one file system for ever.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// Name of the file that a running server holds locked; it contains its process id.
const LOCK: &str = "lock";
/// Name of the file that says whose directory it is.
const IDENTITY: &str = "identity";
/// First line of that file. The number changes with the layout of anything in the directory.
const FORMAT: &str = "causeway-server 1";

/// A server's directory, locked as long as this lives.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Opens the directory, making it if it does not exist. The error is a sentence.
    pub(super) fn open(path: &Path, file_system: u128, server: &str) -> Result<Self, String> {
        let wrong = |what: &str, error: io::Error| {
            format!("the directory {}: {what}: {error}", path.display())
        };
        std::fs::create_dir_all(path).map_err(|error| wrong("it cannot be made", error))?;
        let lock = lock(path)?;
        let identity = format!("{FORMAT}\nfile_system {file_system:032x}\nserver {server}\n");
        match std::fs::read_to_string(path.join(IDENTITY)) {
            Ok(found) if found == identity => {}
            Ok(found) => return Err(mismatch(path, &found, &identity)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check_empty(path)?;
                write_identity(path, &identity)
                    .map_err(|error| wrong("its identity cannot be written", error))?;
            }
            Err(error) => return Err(wrong("its identity cannot be read", error)),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Makes the names of what lies in the directory, and its own name, durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        match self.path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Where the metadata store lies.
    pub(super) fn metadata(&self) -> PathBuf {
        self.path.join("metadata")
    }

    /// Where the datafiles lie.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }
}

fn lock(path: &Path) -> Result<File, String> {
    let name = path.join(LOCK);
    let refused = |error: io::Error| format!("{} cannot be locked: {error}", name.display());
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&name)
        .map_err(refused)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            // Best effort: the number only helps to find the other process.
            let _ = file.take(32).read_to_string(&mut holder);
            return Err(format!(
                "another server (process {}) runs on the directory {}; stop it first",
                holder.trim(),
                path.display()
            ));
        }
        Err(error) => return Err(refused(error.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(refused)?;
    Ok(file)
}

/// A directory that somebody uses for something else must not become a server's.
fn check_empty(path: &Path) -> Result<(), String> {
    let unreadable =
        |error: io::Error| format!("the directory {} cannot be read: {error}", path.display());
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if name != LOCK && name != "lost+found" && name != "identity.new" {
            return Err(format!(
                "the directory {} holds `{}` but is not a server's: choose an empty one",
                path.display(),
                name.display()
            ));
        }
    }
    Ok(())
}

fn write_identity(path: &Path, identity: &str) -> io::Result<()> {
    let new = path.join("identity.new");
    let mut file = File::create(&new)?;
    file.write_all(identity.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(new, path.join(IDENTITY))?;
    File::open(path)?.sync_all()
}

fn mismatch(path: &Path, found: &str, wanted: &str) -> String {
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    if first(found) != first(wanted) {
        return format!(
            "the directory {} has the format `{}`; this version of the program knows `{FORMAT}`",
            path.display(),
            first(found).escape_debug()
        );
    }
    let rest = |text: &str| text.lines().skip(1).collect::<Vec<_>>().join(", ");
    format!(
        "the directory {} belongs to another server ({}); this one is {}",
        path.display(),
        rest(found).escape_debug(),
        rest(wanted)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_belongs_to_one_server_and_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io0");
        let home = Home::open(&path, 7, "io0").unwrap();
        let second = Home::open(&path, 7, "io0").unwrap_err();
        assert!(second.contains("another server (process "), "{second}");
        assert!(second.contains(&std::process::id().to_string()), "{second}");
        drop(home);
        drop(Home::open(&path, 7, "io0").unwrap());
        let other = Home::open(&path, 7, "io1").unwrap_err();
        assert!(other.contains("belongs to another server"), "{other}");
        let other = Home::open(&path, 8, "io0").unwrap_err();
        assert!(other.contains("belongs to another server"), "{other}");
        std::fs::write(path.join(IDENTITY), "causeway-server 99\n").unwrap();
        let other = Home::open(&path, 7, "io0").unwrap_err();
        assert!(other.contains("causeway-server 99"), "{other}");
    }

    #[test]
    fn a_directory_with_something_else_in_it_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("thesis.tex"), "x").unwrap();
        let error = Home::open(directory.path(), 7, "io0").unwrap_err();
        assert!(error.contains("thesis.tex"), "{error}");
        assert!(!directory.path().join(IDENTITY).exists());
    }
}
