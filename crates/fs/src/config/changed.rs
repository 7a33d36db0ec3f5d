//! Whether files have changed since they were read.
//!
//! In this way, long-running programs notice that the files about nodes have changed. Servers, agents and mounts are sent SIGHUP, but a
//! library must not handle signals: those are the program's. So a client looks at the files' attributes before it makes a connection, and once
//! in [`INTERVAL`] as long as it makes calls; see `client::changed_nodes`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_sys::wall_clock::seconds_since_1970;

/// How long a program that makes calls may use the former content of files that have changed. Reading the attributes of three
/// files takes microseconds.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// A file that was changed so short a time ago may change again without a difference in its attributes, in seconds: clocks of file systems
/// advance in ticks, which are 2 s on the coarsest ones.
const UNSETTLED: u64 = 2;

/// The attributes by which a changed file is recognised: its device, number, size, and the times of its last changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    number: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file; `None` if a later change might leave the stamp unchanged, or there is no file. It has to be taken before the file is
    /// read.
    pub(super) fn of(path: &Path) -> Option<Self> {
        Self::at(path, seconds_since_1970())
    }

    fn at(path: &Path, now: u64) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let last = u64::try_from(metadata.ctime()).ok()?;
        (last.saturating_add(UNSETTLED) < now).then(|| Self {
            device: metadata.dev(),
            number: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Files, each with its stamp from before it was read.
pub(super) type Read = Vec<(PathBuf, Option<Stamp>)>;

/// A configuration's file and those that it names, as they were read.
#[derive(Debug)]
pub(super) struct Watched {
    /// The configuration.
    pub(super) file: PathBuf,
    /// All of them, the configuration too.
    pub(super) read: Read,
    /// The error with which they were last read, so that it is logged once.
    pub(super) complaint: Option<String>,
}

impl Watched {
    /// Whether one of the files may have changed.
    pub(super) fn have_changed(&self) -> bool {
        let changed = |(path, read): &(PathBuf, Option<Stamp>)| {
            read.is_none_or(|read| Stamp::of(path) != Some(read))
        };
        self.read.iter().any(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_has_settled_has_a_stamp_and_its_changes_show() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        // Checked as of an hour later, when the file counts as settled.
        let later = seconds_since_1970() + 3600;
        assert_eq!(Stamp::at(&path, later), None);
        std::fs::write(&path, "text").unwrap();
        let changed = u64::try_from(std::fs::metadata(&path).unwrap().ctime()).unwrap();
        for (after, has) in [(0, false), (UNSETTLED, false), (UNSETTLED + 1, true)] {
            assert_eq!(Stamp::at(&path, changed + after).is_some(), has, "{after}");
        }
        let first = Stamp::at(&path, later);
        assert_eq!(Stamp::at(&path, later), first);
        // In its place, another file with the same text.
        let other = directory.path().join("other");
        std::fs::write(&other, "text").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let second = Stamp::at(&path, later);
        assert_ne!(second, first);
        std::fs::write(&path, "longer text").unwrap();
        assert_ne!(Stamp::at(&path, later), second);
    }
}
