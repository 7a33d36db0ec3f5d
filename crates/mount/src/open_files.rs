//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote. The metadata server keeps the file while it is open here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_fs::client::{File, Unsynced};
use causeway_wire::fs::ObjectId;

use crate::unsynced::UnsyncedFiles;

/// How a program has opened a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// It may read, and map what it reads.
    pub(crate) reads: bool,
    /// It may write.
    pub(crate) writes: bool,
    /// It writes behind the end.
    pub(crate) appends: bool,
}

/// The number of an open file, which no other has, with how the file was opened in its lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    const APPENDS: u64 = 1;
    const READS: u64 = 2;
    const WRITES: u64 = 4;
    const UNCACHED: u64 = 8;
    const BITS: u32 = 4;

    /// The handle with this number.
    pub(crate) fn new(number: u64, access: Access, is_uncached: bool) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        Self(
            number << Self::BITS
                | bit(access.appends, Self::APPENDS)
                | bit(access.reads, Self::READS)
                | bit(access.writes, Self::WRITES)
                | bit(is_uncached, Self::UNCACHED),
        )
    }

    /// How the program has opened the file.
    pub(crate) fn access(self) -> Access {
        Access {
            reads: self.0 & Self::READS != 0,
            writes: self.0 & Self::WRITES != 0,
            appends: self.0 & Self::APPENDS != 0,
        }
    }

    /// Whether reads and writes go past the kernel's cache.
    pub(crate) fn is_uncached(self) -> bool {
        self.0 & Self::UNCACHED != 0
    }
}

/// An open file.
#[derive(Debug, Default)]
struct Open {
    handles: u64,
    /// Handles among these by which programs may read through the kernel's cache.
    readers: u64,
    /// Handles by which they may write past it, but for those that append.
    writers: u64,
    file: Shared,
}

impl Open {
    /// The count of which handles of this kind are a part, if any is.
    fn count(&mut self, access: Access, is_uncached: bool) -> Option<&mut u64> {
        match is_uncached {
            false => access.reads.then_some(&mut self.readers),
            true => (access.writes && !access.appends).then_some(&mut self.writers),
        }
    }
}

/// All open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    open: HashMap<ObjectId, Open>,
    /// Of those that were closed, and of directories.
    unsynced: UnsyncedFiles,
}

/// The shared state of an open file.
pub(crate) type Shared = Arc<SharedFile>;

/// State that all programs share that have a file open.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    file: Mutex<Option<File>>,
    is_stale: AtomicBool,
    /// Changes by handles that were closed before the file was opened again, and those of attributes.
    others: Mutex<Option<Unsynced>>,
}

impl SharedFile {
    fn after(others: Option<Unsynced>) -> Self {
        Self {
            others: Mutex::new(others),
            ..Self::default()
        }
    }

    /// Notes changes that were not made by this file, for its next fsync.
    fn note(&self, unsynced: Unsynced) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.get_or_insert_default().add(unsynced);
    }

    /// Takes the changes that the file, once it was read from the server, has to know of.
    pub(crate) fn others(&self) -> Option<Unsynced> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.take()
    }

    /// The changes that no fsync has made durable, at the end.
    fn into_unsynced(self) -> Option<Unsynced> {
        let file = self.file.into_inner();
        let file = file.unwrap_or_else(PoisonError::into_inner);
        let others = self.others.into_inner();
        let others = others.unwrap_or_else(PoisonError::into_inner);
        match (file.and_then(|mut file| file.unsynced()), others) {
            (Some(mut own), Some(others)) => {
                own.add(others);
                Some(own)
            }
            (own, others) => own.or(others),
        }
    }

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
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a handle. Returns whether its reads and writes go past the kernel's cache, too. They do if it appends, as the kernel does not know where the end
    /// is. If `may_bypass_cache`, those of a program that only writes do while no program reads through the cache: the next opening would drop what the kernel
    /// keeps of its bytes. Then those of programs that open the file to read meanwhile also do, which see such writes at once.
    pub(crate) fn open(
        &self,
        object: ObjectId,
        access: Access,
        may_bypass_cache: bool,
    ) -> (Shared, bool) {
        self.open_with(object, access, |open| {
            access.appends
                || may_bypass_cache
                    && match access.reads {
                        true => open.writers > 0,
                        false => open.readers == 0,
                    }
        })
    }

    /// Adds a handle by which a program reads past the kernel's cache.
    pub(crate) fn open_uncached(&self, object: ObjectId, access: Access) -> Shared {
        self.open_with(object, access, |_| true).0
    }

    fn open_with(
        &self,
        object: ObjectId,
        access: Access,
        is_uncached: impl FnOnce(&Open) -> bool,
    ) -> (Shared, bool) {
        let mut known = self.lock();
        let Known { open, unsynced } = &mut *known;
        let open = open.entry(object).or_insert_with(|| Open {
            file: Arc::new(SharedFile::after(unsynced.take(object, Instant::now()))),
            ..Open::default()
        });
        let is_uncached = is_uncached(open);
        open.handles += 1;
        if let Some(count) = open.count(access, is_uncached) {
            *count += 1;
        }
        (Arc::clone(&open.file), is_uncached)
    }

    /// Removes a handle. With the last one, the file is closed.
    pub(crate) fn close(&self, object: ObjectId, access: Access, is_uncached: bool) {
        let mut known = self.lock();
        let Some(open) = known.open.get_mut(&object) else {
            return;
        };
        if let Some(count) = open.count(access, is_uncached) {
            *count = count.saturating_sub(1);
        }
        open.handles = open.handles.saturating_sub(1);
        if open.handles == 0
            && let Some(closed) = known.open.remove(&object)
        {
            drop(known);
            self.release(object, closed.file);
        }
    }

    /// Remembers what was not synced if nothing else uses this value of the file any more. The last one to use it may be a thread that was using it when
    /// the file was closed.
    pub(crate) fn release(&self, object: ObjectId, file: Shared) {
        if let Some(unsynced) = Arc::into_inner(file).and_then(SharedFile::into_unsynced) {
            self.note(object, unsynced);
        }
    }

    /// Notes changes for the next fsync of an object.
    pub(crate) fn note(&self, object: ObjectId, unsynced: Unsynced) {
        let mut known = self.lock();
        match known.open.get(&object) {
            Some(open) => open.file.note(unsynced),
            None => known.unsynced.keep(object, unsynced, Instant::now()),
        }
    }

    /// Takes what was noted for an object that is no open file.
    pub(crate) fn take_unsynced(&self, object: ObjectId) -> Unsynced {
        let taken = self.lock().unsynced.take(object, Instant::now());
        taken.unwrap_or_default()
    }

    /// The shared state of a file, if it is open.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Shared> {
        let known = self.lock();
        known.open.get(&object).map(|open| Arc::clone(&open.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId = ObjectId(5);
    const WRITES: Access = Access {
        reads: false,
        writes: true,
        appends: false,
    };
    const READS: Access = Access {
        reads: true,
        writes: false,
        appends: false,
    };
    const BOTH: Access = Access {
        reads: true,
        ..WRITES
    };
    const APPENDS: Access = Access {
        appends: true,
        ..WRITES
    };

    #[test]
    fn a_file_is_open_until_its_last_handle_is_closed() {
        let files = OpenFiles::default();
        let open = || files.open(OBJECT, READS, true).0;
        let (one, other) = (open(), open());
        assert!(Arc::ptr_eq(&one, &other));
        files.close(OBJECT, READS, false);
        assert!(files.get(OBJECT).is_some());
        files.close(OBJECT, READS, false);
        assert!(files.get(OBJECT).is_none());
        files.close(OBJECT, READS, false);
        assert!(!Arc::ptr_eq(&one, &open()));
    }

    #[test]
    fn what_was_not_synced_is_remembered_by_the_last_one_who_uses_the_file() {
        let files = OpenFiles::default();
        let is_remembered = || {
            let known = files.lock().unsynced.take(OBJECT, Instant::now());
            known.is_some()
        };
        let open = || files.open(OBJECT, WRITES, true).0;
        drop(open());
        files.note(OBJECT, Unsynced::default());
        let in_use = files.get(OBJECT).unwrap();
        files.close(OBJECT, WRITES, true);
        assert!(!is_remembered());
        files.release(OBJECT, in_use);
        assert!(is_remembered());
        // The file was opened again meanwhile.
        drop(open());
        files.note(OBJECT, Unsynced::default());
        let in_use = files.get(OBJECT).unwrap();
        files.close(OBJECT, WRITES, true);
        let again = open();
        assert!(again.others().is_none());
        files.release(OBJECT, in_use);
        assert!(again.others().is_some());
    }

    #[test]
    fn nobody_reads_through_the_cache_what_is_written_past_it() {
        let files = OpenFiles::default();
        let open = |access| files.open(OBJECT, access, true).1;
        assert!(!open(READS));
        assert!(!open(WRITES), "the reader's pages would be old");
        assert!(open(APPENDS));
        files.close(OBJECT, READS, false);
        assert!(open(WRITES) && open(WRITES), "nobody reads any more");
        assert!(open(READS) && open(READS));
        files.close(OBJECT, WRITES, true);
        assert!(open(READS));
        assert!(open(BOTH));
        files.close(OBJECT, WRITES, true);
        assert!(open(READS), "another program writes");
        files.close(OBJECT, BOTH, true);
        assert!(
            !open(READS) && !open(BOTH),
            "nobody else writes but to append"
        );
        assert!(
            !files.open(ObjectId(6), WRITES, false).1,
            "the kernel cannot"
        );
    }

    #[test]
    fn handles_say_how_files_were_opened() {
        for bits in 0..16 {
            let [appends, reads, writes, is_uncached] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let access = Access {
                reads,
                writes,
                appends,
            };
            let handle = Handle::new(77, access, is_uncached);
            assert_eq!(
                (handle.access(), handle.is_uncached()),
                (access, is_uncached)
            );
            assert_ne!(handle, Handle::new(78, access, is_uncached));
        }
    }
}
