//! Names under which programs find each other's ports (MPI 5.0 §11.8.4): files in a directory of the user's, so that they are visible to
//! programs of every launcher, on one host, or on all that share the directory.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use causeway_sys::process;

use crate::abi;
use crate::error::{Error, Result};
use crate::process_table;

/// The directory of names that programs on several hosts share.
pub const DIRECTORY: &str = "CAUSEWAY_MPI_NAMES";

/// Names are kept in a directory.
#[derive(Debug)]
pub struct Names {
    directory: PathBuf,
}

fn failed(class: i32, what: impl std::fmt::Display, error: &io::Error) -> Error {
    Error::new(class, format!("{what}: {error}"))
}

impl Names {
    /// The names of this user.
    pub fn of_user() -> Result<Self> {
        let directory = match std::env::var_os(DIRECTORY) {
            Some(directory) => PathBuf::from(directory),
            None => std::env::temp_dir().join(format!("causeway-mpi-names-{}", process::user())),
        };
        Self::in_directory(directory)
    }

    /// The names in a directory, which is made unless it exists. Another user's directory is refused: it could lead anywhere.
    fn in_directory(directory: PathBuf) -> Result<Self> {
        let place = || format!("the directory of names {}", directory.display());
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory);
        made.map_err(|error| failed(abi::ERR_OTHER, place(), &error))?;
        let found = fs::symlink_metadata(&directory);
        let found = found.map_err(|error| failed(abi::ERR_OTHER, place(), &error))?;
        if !found.is_dir() || found.uid() != process::user() {
            let text = format!("{} is another user's", place());
            return Err(Error::new(abi::ERR_OTHER, text));
        }
        Ok(Self { directory })
    }

    /// The file of a name. Names have any bytes, and files of long names would have names that are too long.
    fn file(&self, name: &[u8]) -> Result<PathBuf> {
        const MOST: usize = 120;
        if name.is_empty() || name.len() > MOST {
            let text = format!(
                "a service name of {} bytes; there may be 1 to {MOST}",
                name.len()
            );
            return Err(Error::new(abi::ERR_ARG, text));
        }
        let digits = name.iter().map(|byte| format!("{byte:02x}"));
        Ok(self.directory.join(digits.collect::<String>()))
    }

    /// Publishes a port. A name that has a port already is refused, unless that port's process has ended.
    pub fn publish(
        &self,
        name: &[u8],
        port: &[u8],
        is_gone: impl FnOnce(&[u8]) -> bool,
    ) -> Result<()> {
        let file = self.file(name)?;
        let own = self
            .directory
            .join(format!(".{:016x}", process_table::number()?));
        let write = |path: &Path| -> io::Result<()> {
            let mut file = fs::File::create_new(path)?;
            file.write_all(port)
        };
        // The file appears with its whole content, or not at all.
        let linked = write(&own).and_then(|()| match fs::hard_link(&own, &file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match fs::read(&file).is_ok_and(|port| is_gone(&port)) {
                    true => fs::rename(&own, &file),
                    false => Err(error),
                }
            }
            linked => linked,
        });
        // The file has its name now, or is not needed.
        let _ = fs::remove_file(&own);
        match linked {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = format!("{:?} is published already", String::from_utf8_lossy(name));
                Err(Error::new(abi::ERR_SERVICE, text))
            }
            Err(error) => Err(failed(abi::ERR_SERVICE, file.display(), &error)),
        }
    }

    /// The port of a name.
    pub fn look_up(&self, name: &[u8]) -> Result<Vec<u8>> {
        let read = fs::read(self.file(name)?);
        read.map_err(|_| {
            let text = format!("{:?} is not published", String::from_utf8_lossy(name));
            Error::new(abi::ERR_NAME, text)
        })
    }

    /// Removes a name, if it has this port.
    pub fn unpublish(&self, name: &[u8], port: &[u8]) -> Result<()> {
        let is_it = self.look_up(name).is_ok_and(|found| found == port);
        if !is_it {
            let name = String::from_utf8_lossy(name);
            let text = format!("{name:?} is not published with this port");
            return Err(Error::new(abi::ERR_SERVICE, text));
        }
        let file = self.file(name)?;
        fs::remove_file(&file).map_err(|error| failed(abi::ERR_SERVICE, file.display(), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(test: &str) -> Names {
        let name = format!("causeway-names-{test}-{}", std::process::id());
        Names::in_directory(std::env::temp_dir().join(name)).expect("it can be made")
    }

    #[test]
    fn a_published_name_is_found_until_it_is_unpublished() {
        let names = names("found");
        let name = b"a/../b \xff";
        assert_eq!(
            names.look_up(name).expect_err("not yet").code(),
            abi::ERR_NAME
        );
        let lives = |_: &[u8]| false;
        names.publish(name, b"old", lives).expect("it is new");
        let twice = names
            .publish(name, b"other", lives)
            .expect_err("the name is published");
        assert_eq!(twice.code(), abi::ERR_SERVICE);
        let replaced = names.publish(name, b"port", |old| old == b"old");
        replaced.expect("the old one is gone");
        assert_eq!(names.look_up(name).expect("the name is published"), b"port");
        let other = names
            .unpublish(name, b"other")
            .expect_err("it has another port");
        assert_eq!(other.code(), abi::ERR_SERVICE);
        names
            .unpublish(name, b"port")
            .expect("the name is published");
        assert!(names.unpublish(name, b"port").is_err());
        assert_eq!(
            fs::read_dir(&names.directory)
                .expect("the directory exists")
                .count(),
            0
        );
        fs::remove_dir(&names.directory).expect("it is empty");
    }

    #[test]
    fn links_to_elsewhere_are_refused() {
        let names = names("links");
        let link = names.directory.join("link");
        std::os::unix::fs::symlink("/tmp", &link).expect("a link");
        assert!(Names::in_directory(link).is_err());
        fs::remove_dir_all(&names.directory).expect("it is ours");
    }
}
