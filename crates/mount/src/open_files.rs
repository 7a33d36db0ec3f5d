//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote.
//!
//! A file that loses its last name lives on while it is open, so a removal has to know of every file that is opened or created
//! at the same time: it begins once the files being created are known, and a file is opened once earlier removals have
//! ended. The last close of a file without a name removes its name among the unlinked.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use causeway_fs::client::File;
use causeway_wire::fs::ObjectId;

/// An open file.
#[derive(Debug)]
struct Open {
    handles: u64,
    file: Shared,
    /// The file has lost its last name, and has one among the unlinked.
    unlinked: bool,
}

/// All open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    known: Mutex<Known>,
    /// Signalled when a request ends that others may wait for.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<ObjectId, Open>,
    removals: InProgress,
    creations: InProgress,
}

/// Requests of a kind that are being carried out, numbered in the order in which they began.
#[derive(Debug, Default)]
struct InProgress {
    next: u64,
    active: BTreeSet<u64>,
}

impl InProgress {
    fn begin(&mut self) -> u64 {
        self.next += 1;
        self.active.insert(self.next);
        self.next
    }

    /// Whether one of the first `count` requests has not ended.
    fn is_any_of(&self, count: u64) -> bool {
        self.active.first().is_some_and(|first| *first <= count)
    }
}

/// A removal or a creation that is in progress until it is dropped.
pub(crate) struct Request<'a> {
    files: &'a OpenFiles,
    number: u64,
    of: fn(&mut Known) -> &mut InProgress,
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        (self.of)(&mut self.files.lock())
            .active
            .remove(&self.number);
        self.files.ended.notify_all();
    }
}

/// The shared state of an open file.
pub(crate) type Shared = Arc<SharedFile>;

/// What programs that have a file open share.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    file: Mutex<Option<File>>,
    is_stale: AtomicBool,
}

impl SharedFile {
    /// Content that was read before may be old by now. Waits for nobody who uses the file.
    pub(crate) fn forget_content(&self) {
        self.is_stale.store(true, Ordering::Release);
    }

    /// The file, for one at a time to use; `None` until it is known.
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
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the requests of a kind that have begun by now have ended.
    fn wait_for<'a>(
        &'a self,
        mut known: MutexGuard<'a, Known>,
        of: fn(&mut Known) -> &mut InProgress,
    ) -> MutexGuard<'a, Known> {
        let begun = of(&mut known).next;
        let goes_on = |known: &mut Known| of(known).is_any_of(begun);
        let waited = self.ended.wait_while(known, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a removal: on return, files that were being created are known.
    pub(crate) fn begin_removal(&self) -> Request<'_> {
        let mut known = self.wait_for(self.lock(), |known| &mut known.creations);
        let number = known.removals.begin();
        drop(known);
        self.removal(number)
    }

    fn removal(&self, number: u64) -> Request<'_> {
        Request {
            files: self,
            number,
            of: |known| &mut known.removals,
        }
    }

    /// Begins to create and open a file.
    pub(crate) fn begin_creation(&self) -> Request<'_> {
        let number = self.lock().creations.begin();
        Request {
            files: self,
            number,
            of: |known| &mut known.creations,
        }
    }

    /// Adds a handle for a file that was just created.
    pub(crate) fn add(&self, object: ObjectId) -> Shared {
        self.lock().add(object)
    }

    /// Adds a handle. Returns once removals that may not know of it have ended.
    pub(crate) fn open(&self, object: ObjectId) -> Shared {
        let mut known = self.lock();
        let shared = known.add(object);
        drop(self.wait_for(known, |known| &mut known.removals));
        shared
    }

    /// Removes a handle. If it was the last one of a file that is among the unlinked, returns the removal of its name
    /// there.
    pub(crate) fn close(&self, object: ObjectId) -> Option<Request<'_>> {
        let mut known = self.lock();
        let open = known.files.get_mut(&object)?;
        open.handles = open.handles.saturating_sub(1);
        if open.handles > 0 {
            return None;
        }
        let closed = known.files.remove(&object)?;
        let number = closed.unlinked.then(|| known.removals.begin())?;
        Some(self.removal(number))
    }

    /// The shared state of a file, if it is open.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Shared> {
        let known = self.lock();
        known.files.get(&object).map(|open| Arc::clone(&open.file))
    }

    /// Whether no file is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().files.is_empty()
    }

    /// Whether this file is open, and not among the unlinked yet.
    pub(crate) fn is_open(&self, object: ObjectId) -> bool {
        let known = self.lock();
        known.files.get(&object).is_some_and(|open| !open.unlinked)
    }

    /// Whether this file is among the unlinked.
    pub(crate) fn is_unlinked(&self, object: ObjectId) -> bool {
        let known = self.lock();
        known.files.get(&object).is_some_and(|open| open.unlinked)
    }

    /// Notes whether a file is among the unlinked. Returns whether it is open.
    pub(crate) fn set_unlinked(&self, object: ObjectId, unlinked: bool) -> bool {
        match self.lock().files.get_mut(&object) {
            Some(open) => {
                open.unlinked = unlinked;
                true
            }
            None => false,
        }
    }
}

impl Known {
    fn add(&mut self, object: ObjectId) -> Shared {
        let open = self.files.entry(object).or_insert_with(|| Open {
            handles: 0,
            file: Arc::default(),
            unlinked: false,
        });
        open.handles += 1;
        Arc::clone(&open.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_and_the_files_that_are_made_and_opened_know_of_each_other() {
        let files = OpenFiles::default();
        let steps = Mutex::new(Vec::new());
        let step = |what| steps.lock().unwrap().push(what);
        let is_waiting = |count: usize| {
            let is_there = || steps.lock().unwrap().len() >= count;
            while !is_there() {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let creation = files.begin_creation();
            scope.spawn(|| {
                step("asks to remove");
                let removal = files.begin_removal();
                step("removes");
                is_waiting(5);
                drop(removal);
            });
            is_waiting(1);
            files.add(ObjectId(1));
            step("made");
            drop(creation);
            is_waiting(3);
            // A later creation waits for nothing, and nothing that has begun before waits for it.
            let later = files.begin_creation();
            scope.spawn(|| {
                step("asks to open");
                files.open(ObjectId(2));
                step("opens");
            });
            is_waiting(4);
            assert!(files.is_open(ObjectId(1)));
            step("is over");
            is_waiting(6);
            drop(later);
        });
        let steps = steps.into_inner().unwrap();
        let expected = [
            "asks to remove",
            "made",
            "removes",
            "asks to open",
            "is over",
            "opens",
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_last_handle_of_an_unlinked_file_is_noticed() {
        let files = OpenFiles::default();
        let object = ObjectId(5);
        files.open(object);
        files.open(object);
        assert!(files.is_open(object));
        assert!(files.set_unlinked(object, true));
        assert!(!files.is_open(object) && files.is_unlinked(object));
        assert!(files.close(object).is_none());
        assert!(files.close(object).is_some());
        assert!(files.is_empty() && files.close(object).is_none());
        assert!(!files.set_unlinked(object, true));
    }
}
