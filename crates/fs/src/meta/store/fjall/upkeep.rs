//! Upkeep of a store while it is idle: the mark is brought up to date, and tables are merged to reclaim what removals
//! have freed.

use std::io;
use std::sync::{Arc, Condvar};
use std::time::Duration;

use fjall::AbstractTree;

use super::super::{Batch, FreeSpace, Persist, StoreError};
use super::{Engine, mode, wrap};
use crate::locks::{lock, wait_timeout_while, wait_while};
use crate::threads::{AbortOnPanic, JoinOnDrop};

/// The store is quiet when nothing was committed for this long. A mark costs two syncs, which no commit shall wait for.
const QUIET: Duration = Duration::from_millis(100);
/// Tables are merged once they and the table in memory have removals of this many records…
const REMOVED_RECORDS: u64 = 256;
/// … and of one in this many of all.
const RECORDS_PER_REMOVED: u64 = 4;
/// Bytes of a batch and of an item in the journal beside its key and value.
const BATCH_BYTES: u64 = 26;
const ITEM_BYTES: u64 = 21;

/// The progress of a store since it was opened.
pub(super) struct Progress {
    /// Number of the last commit.
    pub(super) last: u64,
    /// Number of the last commit that is on stable storage, with all before it.
    pub(super) synced: u64,
    /// Bytes that were committed.
    pub(super) bytes: u64,
    /// Bytes of journals that cannot be removed yet.
    pub(super) journal_bytes: u64,
    /// Records that were removed.
    pub(super) removed: u64,
    /// How many of them are in tables, which count them.
    pub(super) removed_in_tables: u64,
    /// Removals that the last merge has left in tables, because a view of an old state was still open.
    pub(super) left: u64,
    pub(super) commits: u64,
    /// Whether the thread has been notified that there is something to do.
    pub(super) awake: bool,
    pub(super) stopping: bool,
}

impl Progress {
    /// Records that were removed since tables were last written out.
    pub(super) fn removed_in_memory(&self) -> u64 {
        self.removed.saturating_sub(self.removed_in_tables)
    }

    /// A store whose last commit had this number.
    pub(super) fn new(last: u64) -> Self {
        Self {
            last,
            synced: last,
            bytes: 0,
            journal_bytes: 0,
            removed: 0,
            removed_in_tables: 0,
            left: 0,
            commits: 0,
            // Removals that an earlier process has left are looked for once.
            awake: true,
            stopping: false,
        }
    }

    /// Counts a commit.
    pub(super) fn commit(&mut self, number: u64, batch: &Batch, persist: Persist) {
        let mut bytes = BATCH_BYTES;
        for (key, value) in batch {
            let value_len = value.as_ref().map_or(0, Vec::len);
            bytes += ITEM_BYTES + (key.len() + value_len) as u64;
            self.removed += u64::from(value.is_none());
        }
        self.last = number;
        if persist == Persist::Power {
            self.synced = number;
        }
        self.bytes += bytes;
        self.journal_bytes += bytes;
        self.commits += 1;
    }
}

/// The upkeep thread.
pub(super) struct Upkeep {
    engine: Arc<Engine>,
    wake: Arc<Condvar>,
    thread: Option<JoinOnDrop>,
}

impl Upkeep {
    pub(super) fn start(engine: Arc<Engine>) -> io::Result<Self> {
        let wake = Arc::new(Condvar::new());
        let (shared, waker) = (Arc::clone(&engine), Arc::clone(&wake));
        let thread = JoinOnDrop::spawn("upkeep", move || {
            let _guard = AbortOnPanic("upkeep");
            run(&shared, &waker);
        })?;
        Ok(Self {
            engine,
            wake,
            thread: Some(thread),
        })
    }

    /// Notifies the thread of a commit.
    pub(super) fn notice(&self, progress: &mut Progress) {
        if !progress.awake {
            progress.awake = true;
            self.wake.notify_one();
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        lock(&self.engine.progress).stopping = true;
        self.wake.notify_one();
        self.thread = None;
        if self.engine.refusal.get().is_some() {
            return;
        }
        let last = lock(&self.engine.progress).last;
        let synced = self.engine.database.persist(mode(Persist::Power));
        let marked = synced
            .map_err(|error| self.engine.refuse(&wrap("sync", error)))
            .and_then(|()| {
                self.engine
                    .update_mark(|mark| mark.acknowledged = mark.acknowledged.max(last))
            });
        if let Err(error) = marked {
            tracing::warn!(%error, "the mark of what was acknowledged could not be written");
        }
    }
}

fn run(engine: &Engine, wake: &Condvar) {
    let mut progress = lock(&engine.progress);
    loop {
        progress = wait_while(wake, progress, |progress| {
            !progress.awake && !progress.stopping
        });
        let seen = progress.commits;
        (progress, _) =
            wait_timeout_while(wake, progress, Some(QUIET), |progress| !progress.stopping);
        if progress.stopping {
            return;
        }
        let quiet = progress.commits == seen;
        progress.awake = !quiet;
        let synced = progress.synced;
        drop(progress);
        let short = lock(&engine.checked).room != FreeSpace::Enough;
        let done = engine
            .note(quiet.then_some(synced))
            .and_then(|()| match quiet || short {
                true => engine.merge_removed(),
                false => Ok(()),
            });
        if let Err(error) = done {
            tracing::warn!(%error, "the upkeep of the metadata store has failed");
        }
        progress = lock(&engine.progress);
    }
}

impl Engine {
    /// Records in the mark what is in tables, and up to which commit everything is on stable storage.
    pub(super) fn note(&self, synced: Option<u64>) -> Result<(), StoreError> {
        let tables = self.pairs.tree.get_highest_persisted_seqno().unwrap_or(0);
        self.update_mark(|mark| {
            mark.flushed = mark.flushed.max(tables);
            mark.acknowledged = mark.acknowledged.max(synced.unwrap_or(0));
        })
    }

    /// Merges tables after many removals.
    fn merge_removed(&self) -> Result<(), StoreError> {
        let progress = lock(&self.progress);
        let removed = (progress.removed_in_memory() + self.pairs.tree.tombstone_count())
            .saturating_sub(progress.left);
        drop(progress);
        let records = self.pairs.approximate_len() as u64;
        if removed < REMOVED_RECORDS.max(records / RECORDS_PER_REMOVED) {
            return Ok(());
        }
        self.flush()?;
        self.merge(u64::MAX)
    }
}
