//! The state of append locks in the loop of a metadata server.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use causeway_bmi::{Addr, OpId};
use causeway_wire::fs::formats::POINTERS;
use causeway_wire::fs::{ObjectId, Request};
use causeway_wire::home::AppendLocksSetAside;

use super::append_locks::AppendLocks;
use super::ticket::{ReplyTo, Ticket};
use crate::files::{open_text, sync_name};

/// Name of the file, in the directory of the metadata, with the highest number that an append lock may have had.
const NAME: &str = "turns";
/// Numbers reserved for one run of a server: more than it uses in years.
const RUN: u64 = 1 << 42;

/// Reserves the numbers of append locks of a new run of the server, durably, and returns the number above which they lie: `least`, or
/// the end of earlier runs' numbers if that is higher. I/O servers refuse locks that are lower than those they have seen.
pub(super) fn set_append_locks_aside(directory: &Path, least: u64) -> io::Result<u64> {
    let path = directory.join(NAME);
    let (file, text) = open_text(&path)?;
    let known = match AppendLocksSetAside::parse(&text) {
        Ok(known) => known.below,
        Err(_) if text.is_empty() => 0,
        Err(error) => {
            tracing::warn!(
                "{}: {error}; append locks are numbered by the clock instead, so it must not have been set back",
                path.display()
            );
            0
        }
    };
    let first = known.max(least).min(AppendLocksSetAside::HIGHEST);
    let below = first.saturating_add(RUN).min(AppendLocksSetAside::HIGHEST);
    let text = AppendLocksSetAside { below }.to_text();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    sync_name(&path)?;
    Ok(first)
}

/// A client that waits for an append lock.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) to: ReplyTo,
    pub(super) request: Request,
}

/// Whether a client's format has the reply that tells it to retry.
fn may_retry(waiting: &Waiting) -> bool {
    waiting.to.format >= POINTERS
}

/// The receive that completes when the client that has an append lock disconnects.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) object: ObjectId,
    pub(super) append_lock: u64,
    pub(super) receive: OpId,
}

/// The append locks of a metadata server's files.
pub(super) struct Appends {
    pub(super) locks: AppendLocks<Addr, Waiting>,
    /// Locks that are released by a request in progress.
    pub(super) releases: HashMap<Ticket, (ObjectId, u64)>,
    /// Watched clients that have a lock for which others wait, by the watch's number.
    pub(super) watched: HashMap<u32, Watched>,
    pub(super) last_watch: u32,
}

impl Appends {
    /// Locks are numbered above `first`. While other clients wait, none has its lock for longer than `longest`.
    pub(super) fn new(first: u64, longest: Duration) -> Self {
        Self {
            locks: AppendLocks::new(first, longest, may_retry),
            releases: HashMap::new(),
            watched: HashMap::new(),
            last_watch: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_locks_of_each_run_lie_above_those_of_earlier_ones_whatever_the_clock_says() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let directory = directory.path();
        let start =
            |clock| set_append_locks_aside(directory, clock).expect("numbers are set aside");
        assert_eq!(start(5000), 5000);
        // The clock was set back, then forward.
        assert_eq!(start(70), 5000 + RUN);
        assert_eq!(start(5000 + 3 * RUN), 5000 + 3 * RUN);
        assert_eq!(start(0), 5000 + 4 * RUN);
        assert_eq!(start(u64::MAX), AppendLocksSetAside::HIGHEST);
        assert_eq!(start(0), AppendLocksSetAside::HIGHEST);
        // A file that cannot be read is replaced by a new one.
        std::fs::write(directory.join(NAME), "damaged ".repeat(100)).expect("writes");
        assert_eq!(start(80), 80);
        assert_eq!(start(0), 80 + RUN);
    }
}
