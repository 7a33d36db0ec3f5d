//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote.
//!
//! A file that loses its last name lives on if it is open, so a removal has to know of every file that is opened or made at
//! the same time: it begins when those that are being made are known, and a file is opened when the removals before are
//! over. The last close of a file without a name removes the one that it has among the unlinked.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    known: Mutex<Known>,
    /// Something has ended that others may wait for.
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

    /// Whether one of the first `count` goes on.
    fn is_any_of(&self, count: u64) -> bool {
        self.active.first().is_some_and(|first| *first <= count)
    }
}

/// A removal or a creation, until it is dropped.
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

/// What is shared of an open file; `None` until it is known.
pub(crate) type Shared = Arc<Mutex<Option<File>>>;

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until those requests of a kind have ended that have begun by now.
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

    /// A name is to be taken away: files that are made at this moment are known from here on.
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

    /// A file is to be made and opened.
    pub(crate) fn begin_creation(&self) -> Request<'_> {
        let number = self.lock().creations.begin();
        Request {
            files: self,
            number,
            of: |known| &mut known.creations,
        }
    }

    /// One handle more, of a file that was just made.
    pub(crate) fn add(&self, object: ObjectId) -> Shared {
        self.lock().add(object)
    }

    /// One handle more. Returns once removals that may not know of it are over.
    pub(crate) fn open(&self, object: ObjectId) -> Shared {
        let mut known = self.lock();
        let shared = known.add(object);
        drop(self.wait_for(known, |known| &mut known.removals));
        shared
    }

    /// One handle less. If it was the last one of a file that is among the unlinked, returns the removal of the name that it
    /// has there.
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

    /// What is shared of a file, if it is open.
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
