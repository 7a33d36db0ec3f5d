//! Content of files that the kernel has in its cache and may keep when they are opened again.
//!
//! The kernel drops what it has of a file whenever it is opened, unless the reply says that it may keep it. It may if all of it was read while the
//! file's attributes were under leases without a gap: every write by another client ends these before it returns, whatever it changes of
//! size and times. That takes two openings. At the first one the content is dropped, at some time after the reply; a read by the
//! same handle shows that this is done. From then on all content is of the era of the leases that the first opening has seen, and later
//! openings keep it while that era lasts. The mount's own changes end it, too.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_fs::client::Era;
use causeway_wire::fs::ObjectId;

/// Openings at which the kernel drops content, by their handles: those that it has not read by yet.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    dropping: Mutex<HashMap<u64, (ObjectId, Era)>>,
}

impl Contents {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (ObjectId, Era)>> {
        self.dropping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel will drop a file's content, in this era, before it reads by this handle.
    pub(crate) fn will_drop(&self, handle: u64, object: ObjectId, era: Era) {
        self.lock().insert(handle, (object, era));
    }

    /// The kernel reads by this handle. Returns what it has dropped before, once.
    pub(crate) fn dropped(&self, handle: u64) -> Option<(ObjectId, Era)> {
        self.lock().remove(&handle)
    }

    /// The handle is no more.
    pub(crate) fn forget(&self, handle: u64) {
        self.lock().remove(&handle);
    }
}
