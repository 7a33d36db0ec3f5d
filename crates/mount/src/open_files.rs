//! The open files of this mount: one [`File`] for each object, whatever number of programs have it open, so that an
//! fsync by any of them makes durable what all of them wrote. The metadata server keeps the file while it is open here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use causeway_fs::client::File;
use causeway_wire::fs::ObjectId;

/// How a program has opened a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// It may read, and map what it reads.
    pub(crate) reads: bool,
    /// It writes behind the end.
    pub(crate) appends: bool,
}

/// The number of an open file, which no other has, with how the file was opened in its lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    const APPENDS: u64 = 1;
    const READS: u64 = 2;
    const UNCACHED: u64 = 4;
    const BITS: u32 = 3;

    /// The handle with this number.
    pub(crate) fn new(number: u64, access: Access, is_uncached: bool) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        Self(
            number << Self::BITS
                | bit(access.appends, Self::APPENDS)
                | bit(access.reads, Self::READS)
                | bit(is_uncached, Self::UNCACHED),
        )
    }

    /// Whether the program writes behind the end.
    pub(crate) fn appends(self) -> bool {
        self.0 & Self::APPENDS != 0
    }

    /// Whether the program may read.
    pub(crate) fn reads(self) -> bool {
        self.0 & Self::READS != 0
    }

    /// Whether reads and writes go past the kernel's cache.
    pub(crate) fn is_uncached(self) -> bool {
        self.0 & Self::UNCACHED != 0
    }
}

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
    /// Handles that may read.
    readers: AtomicUsize,
    /// Handles that are uncached.
    uncached: AtomicUsize,
    /// The number of reads so far.
    reads: AtomicU64,
    /// Held by reads, and by each write past the kernel's cache: what is read during that may be old, and the kernel would keep it.
    order: RwLock<()>,
}

impl SharedFile {
    /// Begins to read: that is counted, and no write past the kernel's cache is carried out meanwhile.
    pub(crate) fn begin_read(&self) -> RwLockReadGuard<'_, ()> {
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        self.reads.fetch_add(1, Ordering::Relaxed);
        order
    }

    /// Begins to write past the kernel's cache: nothing is read meanwhile.
    pub(crate) fn begin_uncached(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the file has been read. Does not change while an uncached write is carried out.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether a program has it open that may read.
    pub(crate) fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Whether a program has it open whose writes go past the kernel's cache.
    pub(crate) fn is_uncached(&self) -> bool {
        self.uncached.load(Ordering::Acquire) > 0
    }

    fn add(&self, reads: bool, is_uncached: bool) {
        self.readers.fetch_add(usize::from(reads), Ordering::AcqRel);
        self.uncached
            .fetch_add(usize::from(is_uncached), Ordering::AcqRel);
    }

    fn remove(&self, reads: bool, is_uncached: bool) {
        self.readers.fetch_sub(usize::from(reads), Ordering::AcqRel);
        self.uncached
            .fetch_sub(usize::from(is_uncached), Ordering::AcqRel);
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
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Open>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a handle; `may_skip` says that its reads and writes may go past the kernel's cache. They do if it appends, and
    /// otherwise unless it or another one may read: the bytes that a program has written to a mapped page must not be lost.
    /// Returns whether they do, too.
    pub(crate) fn open(&self, object: ObjectId, access: Access, may_skip: bool) -> (Shared, bool) {
        let mut known = self.lock();
        let open = known.entry(object).or_insert_with(|| Open {
            handles: 0,
            file: Arc::default(),
        });
        open.handles += 1;
        let is_read = access.reads || open.file.has_readers();
        let is_uncached = access.appends || may_skip && !is_read;
        open.file.add(access.reads, is_uncached);
        (Arc::clone(&open.file), is_uncached)
    }

    /// Removes a handle. With the last one, the file is closed.
    pub(crate) fn close(&self, object: ObjectId, reads: bool, is_uncached: bool) {
        let mut known = self.lock();
        let Some(open) = known.get_mut(&object) else {
            return;
        };
        open.file.remove(reads, is_uncached);
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

    const OBJECT: ObjectId = ObjectId(5);
    const WRITES: Access = Access {
        reads: false,
        appends: false,
    };
    const READS: Access = Access {
        reads: true,
        appends: false,
    };
    const APPENDS: Access = Access {
        reads: false,
        appends: true,
    };

    #[test]
    fn a_file_is_open_until_its_last_handle_is_closed() {
        let files = OpenFiles::default();
        let open = || files.open(OBJECT, READS, true).0;
        let (one, other) = (open(), open());
        assert!(Arc::ptr_eq(&one, &other));
        files.close(OBJECT, true, false);
        assert!(files.get(OBJECT).is_some());
        files.close(OBJECT, true, false);
        assert!(files.get(OBJECT).is_none());
        files.close(OBJECT, true, false);
        assert!(!Arc::ptr_eq(&one, &open()));
    }

    #[test]
    fn writes_go_past_the_cache_where_nobody_may_read() {
        let files = OpenFiles::default();
        let open = |access| files.open(OBJECT, access, true).1;
        assert!(open(WRITES) && open(WRITES) && open(APPENDS));
        assert!(!open(READS), "it may map the file");
        assert!(!open(WRITES) && open(APPENDS));
        files.close(OBJECT, true, false);
        assert!(open(WRITES), "nobody may read any more");
        assert!(!files.open(OBJECT, WRITES, false).1, "the kernel cannot");
    }

    #[test]
    fn handles_say_how_files_were_opened() {
        for bits in 0..8 {
            let (appends, reads, is_uncached) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let handle = Handle::new(77, Access { reads, appends }, is_uncached);
            let found = (handle.appends(), handle.reads(), handle.is_uncached());
            assert_eq!(found, (appends, reads, is_uncached));
            assert_ne!(
                handle,
                Handle::new(78, Access { reads, appends }, is_uncached)
            );
        }
    }
}
