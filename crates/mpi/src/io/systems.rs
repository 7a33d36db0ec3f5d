//! Where files are: which kind of storage has the file of a name.

use std::path::Path;
use std::sync::Arc;

use crate::abi;
use crate::error::{Error, Result};

use super::posix::PosixFiles;
use super::storage::FileSystem;

/// The operating system's files, and other kinds of storage that were added.
pub(crate) struct FileSystems(Vec<Arc<dyn FileSystem>>);

impl Default for FileSystems {
    fn default() -> Self {
        Self(vec![Arc::new(PosixFiles)])
    }
}

impl FileSystems {
    /// Has the files of one more file system opened.
    pub(crate) fn add(&mut self, files: Arc<dyn FileSystem>) {
        self.0.push(files);
    }

    /// Where a file with this name is.
    pub(crate) fn of(&self, name: &Path) -> Result<Arc<dyn FileSystem>> {
        let name = name.as_os_str().as_encoded_bytes();
        let all = self.0.iter();
        let fitting = all.filter(|files| name.starts_with(files.prefix().as_bytes()));
        // The operating system's files have the empty prefix.
        let found = fitting.max_by_key(|files| files.prefix().len());
        found
            .cloned()
            .ok_or_else(|| Error::new(abi::ERR_INTERN, "there is no file system"))
    }
}
