//! Freeing space: tables in memory are written out, tables are merged so that removed and replaced records are
//! forgotten, and files that only earlier versions of the tree name are removed.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, PersistMode, Snapshot};

use super::super::StoreError;
use super::space::{self, MAX_MERGE_BYTES};
use super::{Engine, wrap};
use crate::locks::{lock, wait_timeout_while};

/// How often the engine, which has no event for it, is asked whether it has written its tables out.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long views may take to end whose state would be kept by a merge. They last for one request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The last level of the engine's trees.
const LAST_LEVEL: usize = 6;
/// What a removed record is taken to have used on the disk, in bytes: about a file's share with some content.
const REMOVED_RECORD_BYTES: u64 = 1 << 10;

/// The states that open views show. Tables that hold them must stay.
#[derive(Default)]
pub(super) struct Views {
    open: Mutex<Open>,
    closed: Condvar,
}

#[derive(Default)]
struct Open {
    /// The number of views of the state before each number.
    views: BTreeMap<u64, usize>,
    /// The number of threads that wait for views to be closed: waking none would cost a system call for each request.
    waiting: usize,
}

impl Views {
    /// Opens a view of the present state; returns it with the number to close it by.
    pub(super) fn open(&self, database: &Database) -> (Snapshot, u64) {
        let mut open = lock(&self.open);
        let before = database.visible_seqno();
        *open.views.entry(before).or_default() += 1;
        (database.snapshot(), before)
    }

    pub(super) fn close(&self, before: u64) {
        let mut open = lock(&self.open);
        if let Some(count) = open.views.get_mut(&before) {
            *count -= 1;
            if *count == 0 {
                open.views.remove(&before);
            }
        }
        if open.waiting > 0 {
            self.closed.notify_all();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.open).views.is_empty()
    }

    /// Waits until all views are closed that were opened before this, but not for ever: a reader may be stopped.
    fn await_closed(&self, database: &Database) {
        let now = database.visible_seqno();
        let mut open = lock(&self.open);
        open.waiting += 1;
        let (mut open, _) = wait_timeout_while(&self.closed, open, Some(CLOSE_TIMEOUT), |open| {
            let first = open.views.first_key_value();
            first.is_some_and(|(before, _)| *before < now)
        });
        open.waiting -= 1;
    }
}

impl Engine {
    /// Bytes, roughly, that [`Engine::reclaim`] may free.
    pub(super) fn garbage_bytes(&self) -> u64 {
        let progress = lock(&self.progress);
        let removed = progress.removed_in_memory() + self.pairs.tree.tombstone_count();
        progress.journal_bytes + removed * REMOVED_RECORD_BYTES
    }

    /// Frees what a bounded amount of work can free: everything, unless the tables are too large to be merged while
    /// requests wait.
    pub(super) fn reclaim(&self) -> Result<(), StoreError> {
        self.write_out()?;
        self.views.await_closed(&self.database);
        self.merge(MAX_MERGE_BYTES)?;
        self.views.await_closed(&self.database);
        self.forget_versions()
    }

    /// Merges all tables if they have no more than `limit` bytes: only then is what was removed or replaced
    /// forgotten. Does nothing where there is nothing to merge, or no room for it; the engine merges
    /// tables in steps by itself, which need less room.
    pub(super) fn merge(&self, limit: u64) -> Result<(), StoreError> {
        let _alone = lock(&self.merging);
        self.forget_versions()?;
        let tree = &self.pairs.tree;
        let is_merged = {
            let version = tree.current_version();
            let mut above_last = version.iter_levels().take(LAST_LEVEL);
            above_last.all(|level| level.is_empty())
        };
        if is_merged && tree.tombstone_count() <= lock(&self.progress).left {
            return Ok(());
        }
        let tables = self.pairs.disk_space();
        let room = space::disk(&self.directory).map_or(0, |(_, free)| free);
        if tables > limit || room < tables + self.space.sizes.memtable {
            return Ok(());
        }
        tree.major_compact(self.space.sizes.table, self.oldest_view())
            .map_err(|error| wrap("merge tables", error.into()))?;
        lock(&self.progress).left = tree.tombstone_count();
        self.forget_versions()
    }

    /// Waits until no tables are being merged, and removes the merged ones. Merges are bounded, but their time
    /// is the disk's.
    pub(super) fn await_merges(&self) {
        let begun = Instant::now();
        while self.database.active_compactions() > 0 && begun.elapsed() < CLOSE_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _alone = lock(&self.merging);
        if let Err(error) = self.forget_versions() {
            tracing::warn!(%error, "removing tables that were merged");
        }
    }

    /// The engine's number before which no state has a view any more, but for the last state before it.
    fn oldest_view(&self) -> u64 {
        let open = lock(&self.views.open);
        let oldest = open.views.first_key_value().map(|(before, _)| *before);
        oldest.unwrap_or_else(|| self.database.visible_seqno())
    }

    /// Removes the files of tables that were merged into others. The engine does that only when a table
    /// in memory is next full.
    fn forget_versions(&self) -> Result<(), StoreError> {
        // A view that is opened meanwhile is one of the newest version, which stays.
        let oldest = self.oldest_view();
        self.pairs
            .tree
            .get_version_history_lock()
            .maintenance(self.pairs.path(), oldest)
            .map_err(|error| wrap("remove old tables", error.into()))
    }

    /// Writes all records into tables, and notes that the journals are not needed for them.
    pub(super) fn write_out(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.note(None)
    }

    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let removed = lock(&self.progress).removed;
        let failed = |error| wrap("write tables", error);
        self.pairs.rotate_memtable().map_err(failed)?;
        while self.pairs.tree.sealed_memtable_count() > 0 {
            // Fails once one of the engine's threads has failed.
            self.database.persist(PersistMode::Buffer).map_err(failed)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        // Only now do the tables include what was removed until then: as long as they are being written, a change that finds no room must
        // still find that there is something to free.
        let mut progress = lock(&self.progress);
        progress.removed_in_tables = progress.removed_in_tables.max(removed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::super::{Batch, Persist, Store};
    use super::super::Fjall;
    use super::REMOVED_RECORD_BYTES;

    /// Fewer records than those for which the upkeep merges tables.
    const RECORDS: u32 = 200;

    #[test]
    fn removals_that_are_being_written_into_tables_are_garbage_all_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let store = Fjall::open(directory.path()).unwrap();
        let engine = &store.engine;
        let commit = |value: Option<&[u8]>| {
            let pair = |key: u32| (key.to_be_bytes().to_vec(), value.map(<[u8]>::to_vec));
            let batch: Batch = (0..RECORDS).map(pair).collect();
            store.commit(&batch, Persist::Process).unwrap();
        };
        commit(Some(b"value"));
        engine.flush().unwrap();
        commit(None);
        let expected = u64::from(RECORDS) * REMOVED_RECORD_BYTES;
        let is_flushed = AtomicBool::new(false);
        let least = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut least = engine.garbage_bytes();
                while !is_flushed.load(Ordering::Acquire) {
                    least = least.min(engine.garbage_bytes());
                }
                least.min(engine.garbage_bytes())
            });
            engine.flush().unwrap();
            is_flushed.store(true, Ordering::Release);
            watch.join().unwrap()
        });
        assert!(least >= expected, "{least} of {expected} bytes");
    }
}
