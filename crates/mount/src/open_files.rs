//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_fs::client::File;
use causeway_wire::fs::ObjectId;

/// An open file.
#[derive(Debug)]
struct Open {
    handles: u64,
    file: Arc<Mutex<Option<File>>>,
    /// It has lost its last name, and was given one among the unlinked.
    unlinked: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<ObjectId, Open>>,
}

/// What is shared of an open file; `None` until it is known.
pub(crate) type Shared = Arc<Mutex<Option<File>>>;

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Open>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One handle more.
    pub(crate) fn open(&self, object: ObjectId) -> Shared {
        let mut files = self.lock();
        let open = files.entry(object).or_insert_with(|| Open {
            handles: 0,
            file: Arc::default(),
            unlinked: false,
        });
        open.handles += 1;
        Arc::clone(&open.file)
    }

    /// One handle less. Returns whether it was the last one of a file that is among the unlinked.
    pub(crate) fn close(&self, object: ObjectId) -> bool {
        let mut files = self.lock();
        let Some(open) = files.get_mut(&object) else {
            return false;
        };
        open.handles = open.handles.saturating_sub(1);
        if open.handles > 0 {
            return false;
        }
        files.remove(&object).is_some_and(|open| open.unlinked)
    }

    /// What is shared of a file, if it is open.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Shared> {
        self.lock().get(&object).map(|open| Arc::clone(&open.file))
    }

    /// Whether no file is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether this file is open, and not among the unlinked yet.
    pub(crate) fn is_open(&self, object: ObjectId) -> bool {
        self.lock().get(&object).is_some_and(|open| !open.unlinked)
    }

    /// Whether this file is among the unlinked.
    pub(crate) fn is_unlinked(&self, object: ObjectId) -> bool {
        self.lock().get(&object).is_some_and(|open| open.unlinked)
    }

    /// Notes whether a file is among the unlinked. Returns whether it is open.
    pub(crate) fn set_unlinked(&self, object: ObjectId, unlinked: bool) -> bool {
        match self.lock().get_mut(&object) {
            Some(open) => {
                open.unlinked = unlinked;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_handle_of_an_unlinked_file_is_noticed() {
        let files = OpenFiles::default();
        let object = ObjectId(5);
        files.open(object);
        files.open(object);
        assert!(files.is_open(object));
        assert!(files.set_unlinked(object, true));
        assert!(!files.is_open(object) && files.is_unlinked(object));
        assert!(!files.close(object));
        assert!(files.close(object));
        assert!(files.is_empty() && !files.close(object));
        assert!(!files.set_unlinked(object, true));
    }
}
