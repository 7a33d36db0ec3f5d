//! Room on the metadata's disk: what is freed, and when, so that no change is refused for lack of space that
//! could be freed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_wire::fs::{Errno, MAX_STUFFED_BYTES, Operation, Request};
use causeway_wire::store::MAX_XATTRS_BYTES;

use super::{Outcome, Service, fail};
use crate::locks;
use crate::meta::store::{FreeSpace, Store, StoreErrorKind};

/// How long readers may take to release a store that is opened again.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often they are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes that a change writes at most beside its content: records of the object, the entry and the counts, with
/// a name and a path of usual length.
const CHANGE_BYTES: u64 = 1 << 10;

/// Bytes that a change may write beside [`CHANGE_BYTES`]: records are written whole.
fn content_bytes(operation: &Operation) -> u64 {
    match operation {
        Operation::SetXattr { .. } | Operation::RemoveXattr { .. } => MAX_XATTRS_BYTES as u64,
        Operation::Append { .. } => MAX_STUFFED_BYTES as u64,
        Operation::Create { content, .. } => content.len() as u64,
        Operation::WriteStuffed { data, .. } => data.len() as u64,
        _ => 0,
    }
}

/// Waits until no reader uses a store. Returns whether none does.
fn await_idle(store: &Arc<dyn Store>) -> bool {
    let begun = Instant::now();
    while store.is_viewed() || Arc::strong_count(store) > 1 {
        if begun.elapsed() >= RELEASE_TIMEOUT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

impl Service {
    /// How many of the requests, at least one, write no more than `limit` bytes.
    pub(super) fn batch_len(requests: &[Request], limit: u64) -> usize {
        let mut bytes = 0;
        let fits = requests.iter().take_while(|request| {
            bytes += CHANGE_BYTES + content_bytes(&request.operation);
            bytes <= limit
        });
        fits.count().max(1)
    }

    /// Has the store free space if there is no room otherwise. The work is in proportion to everything that is
    /// stored, so it is repeated only when enough has changed since.
    pub(super) fn make_room(&mut self) {
        let Ok(store) = self.store() else {
            return;
        };
        let garbage = store.garbage();
        self.left_garbage_bytes = self.left_garbage_bytes.min(garbage.bytes);
        let is_worthwhile = garbage.bytes - self.left_garbage_bytes >= garbage.worthwhile_bytes;
        if !is_worthwhile || store.room(self.settings.reserve_bytes) == FreeSpace::Enough {
            return;
        }
        let reclaimed = store.reclaim();
        drop(store);
        let done = match reclaimed {
            Ok(true) => self.reopen_idle(),
            Ok(false) => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.note_reclaimed(done);
        if let Ok(store) = self.store() {
            self.left_garbage_bytes = store.garbage().bytes;
        }
    }

    /// Has the store free its journals when they have grown too long.
    pub(super) fn trim_journals(&mut self) {
        let Ok(store) = self.store() else {
            return;
        };
        if !store.is_outgrown() {
            return;
        }
        let written = store.write_out();
        drop(store);
        let done = match written {
            Ok(()) => self.reopen_idle(),
            Err(error) => Err(error.into()),
        };
        self.note_reclaimed(done);
    }

    /// A failure may have been that of a sync: the store is opened again before it takes the next change.
    fn note_reclaimed(&mut self, done: Outcome<()>) {
        if let Err(failure) = done {
            tracing::error!(%failure.message, "the metadata store cannot free space");
            self.has_failed = true;
            self.note_failed_sync(&failure);
        }
    }

    /// Closes a working store and opens it again, unless readers do not release it.
    fn reopen_idle(&mut self) -> Outcome<()> {
        let is_idle = locks::write(&self.store).as_ref().is_none_or(await_idle);
        if !is_idle {
            tracing::warn!("a reader does not release the metadata store: it is not opened anew");
            return Ok(());
        }
        // Changes kept of a failed commit are not in the store.
        let slots = self.sessions.take_slots();
        let opened = self.reopen();
        self.sessions.put_slots(slots);
        opened
    }

    /// Closes the store, and opens it again. Readers wait meanwhile. What is in the store then is on stable
    /// storage, or has never been called that.
    pub(super) fn open_store(&self) -> Outcome<Arc<dyn Store>> {
        let mut shared = locks::write(&self.store);
        let mut is_written_out = false;
        loop {
            // The old one must be closed before: it holds a lock, as long as a reader uses it.
            let reopens = shared.take().is_some();
            let store = self.open_when_closed(reopens)?;
            *shared = Some(store.clone());
            if !store.is_suspect() {
                return Ok(store);
            }
            // The store can be read, even if this fails.
            store.write_out()?;
            if is_written_out {
                return fail(
                    Errno::EIO,
                    "the metadata store was written out, but shows its old journals still; restart the server",
                );
            }
            is_written_out = true;
        }
    }

    fn open_when_closed(&self, reopens: bool) -> Outcome<Arc<dyn Store>> {
        let begun = Instant::now();
        loop {
            match (self.open)() {
                Err(error)
                    if reopens
                        && error.kind == StoreErrorKind::Locked
                        && begun.elapsed() < RELEASE_TIMEOUT =>
                {
                    std::thread::sleep(POLL_INTERVAL);
                }
                opened => return Ok(opened?),
            }
        }
    }
}
