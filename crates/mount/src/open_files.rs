//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote. The metadata server keeps the file while it is open here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_fs::client::File;
use causeway_wire::fs::ObjectId;

/// An open file.
#[derive(Debug)]
struct Open {
    handles: u64,
    file: Shared,
}

/// All open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    known: Mutex<HashMap<ObjectId, Open>>,
}

/// The shared state of an open file.
pub(crate) type Shared = Arc<SharedFile>;

/// State that all programs share that have a file open.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    file: Mutex<Option<File>>,
    is_stale: AtomicBool,
}

impl SharedFile {
    /// Drops content that was read before and may be old by now. Does not wait for threads that use the file.
    pub(crate) fn forget_content(&self) {
        self.is_stale.store(true, Ordering::Release);
    }

    /// The file, for one thread at a time; `None` until it was read from the server.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<File>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stale.swap(false, Ordering::AcqRel)
            && let Some(file) = &mut *file
        {
            file.forget_content();
        }
        file
    }
}

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Open>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a handle.
    pub(crate) fn open(&self, object: ObjectId) -> Shared {
        let mut known = self.lock();
        let open = known.entry(object).or_insert_with(|| Open {
            handles: 0,
            file: Arc::default(),
        });
        open.handles += 1;
        Arc::clone(&open.file)
    }

    /// Removes a handle. With the last one, the file is closed.
    pub(crate) fn close(&self, object: ObjectId) {
        let mut known = self.lock();
        let Some(open) = known.get_mut(&object) else {
            return;
        };
        open.handles = open.handles.saturating_sub(1);
        if open.handles == 0 {
            known.remove(&object);
        }
    }

    /// The shared state of a file, if it is open.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Shared> {
        let known = self.lock();
        known.get(&object).map(|open| Arc::clone(&open.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_until_its_last_handle_is_closed() {
        let files = OpenFiles::default();
        let object = ObjectId(5);
        let (one, other) = (files.open(object), files.open(object));
        assert!(Arc::ptr_eq(&one, &other));
        files.close(object);
        assert!(files.get(object).is_some());
        files.close(object);
        assert!(files.get(object).is_none());
        files.close(object);
        assert!(!Arc::ptr_eq(&one, &files.open(object)));
    }
}
