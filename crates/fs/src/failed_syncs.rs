//! The number of failed syncs of the disk below a directory, by which clients notice failures (what NFS calls a write verifier).
//!
//! The kernel reports a failed sync once for each open file, and data that it could not write can be read until
//! the memory is lost. So all clients that have not synced since must learn of the failure.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;

use causeway_wire::home::FailedSyncs;

use crate::files::open_text;
use crate::locks::lock;

/// Name of the file that keeps the count.
const NAME: &str = "failed-syncs";

/// The count of a directory, which outlasts the process.
#[derive(Debug)]
pub(crate) struct FailureCount {
    file: File,
    now: Mutex<FailedSyncs>,
}

impl FailureCount {
    /// Reads the count in `directory`, or begins one. A count that cannot be read is replaced by a random number.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        let (file, text) = open_text(&path)?;
        let now = match FailedSyncs::parse(&text) {
            Ok(found) => found,
            Err(_) if text.is_empty() => FailedSyncs { count: 0, boot: 0 },
            Err(error) => {
                tracing::warn!("{}: {error}; counting anew", path.display());
                FailedSyncs {
                    count: u64::from_le_bytes(causeway_sys::random::bytes()?),
                    boot: crate::boot::identity(),
                }
            }
        };
        let counter = Self {
            file,
            now: Mutex::new(now),
        };
        // Allocates the file's blocks, so that a later update needs no room on the disk.
        counter.put(&now)?;
        Ok(counter)
    }

    /// Notes that a sync of `what` has failed.
    pub(crate) fn note(&self, what: impl Display, why: impl Display) {
        tracing::error!("a sync of {what} has failed: {why}; what was not synced may be lost");
        let mut now = lock(&self.now);
        now.count = now.count.wrapping_add(1);
        now.boot = crate::boot::identity();
        // The count need not be synced: it matters only until the host is booted again.
        if let Err(error) = self.put(&now) {
            tracing::error!(%error, "the failed sync could not be recorded: do not restart the server before clients have synced");
        }
    }

    /// The number of failed syncs.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.now).count
    }

    /// Whether a sync has failed since the host was booted, as far as the boot is known.
    pub(crate) fn has_failed(&self) -> bool {
        let now = lock(&self.now);
        now.count > 0 && now.boot == crate::boot::identity()
    }

    fn put(&self, now: &FailedSyncs) -> io::Result<()> {
        self.file.write_all_at(now.to_text().as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_outlasts_the_process_and_changes_when_it_is_damaged() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let counter = FailureCount::open(directory.path()).expect("opens");
        assert_eq!((counter.count(), counter.has_failed()), (0, false));
        counter.note("a test", "no reason");
        assert_eq!(counter.count(), 1);
        let counter = FailureCount::open(directory.path()).expect("opens");
        assert_eq!((counter.count(), counter.has_failed()), (1, true));
        std::fs::write(directory.path().join(NAME), "damaged").expect("writes");
        let counter = FailureCount::open(directory.path()).expect("opens");
        assert!(counter.count() > 1 && counter.has_failed());
    }
}
