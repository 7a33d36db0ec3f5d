//! Locks of open files: each file that a program opens is an owner of its own, as with Linux's open file description locks, so that two files
//! that the same program has open exclude each other, and closing one ends only its own locks.

use std::time::Duration;

use causeway_wire::fs::{Errno, Lock, LockFamily, LockHolder, LockRange};

use crate::Error;
use crate::client::{LockOwner, PendingLock};
use crate::locks::lock as lock_mutex;
use crate::open_file::OpenFile;

/// A lock as a program requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// On the whole file. Excludes other locks of this kind only.
    Whole,
    /// On a part, also behind the end. Excludes other locks of this kind only.
    Part(LockRange),
}

/// A part of a file by its first byte and its length; length 0 stands for all bytes from there on. `None` if the part reaches behind the
/// last byte.
pub fn range(first: u64, len: u64) -> Option<LockRange> {
    let last = match len {
        0 => u64::MAX,
        len => first.checked_add(len - 1)?,
    };
    Some(LockRange { first, last })
}

impl Wanted {
    fn family(self) -> LockFamily {
        match self {
            Self::Whole => LockFamily::Whole,
            Self::Part(_) => LockFamily::Record,
        }
    }

    fn range(self) -> LockRange {
        match self {
            Self::Whole => LockRange::ALL,
            Self::Part(range) => range,
        }
    }
}

impl OpenFile {
    fn lock_owner(&self, family: LockFamily) -> LockOwner {
        LockOwner {
            object: self.object(),
            family,
            number: self.lock_number,
        }
    }

    /// The lock, if the file was opened for it: an exclusive lock of a part needs a file open for writing, a shared one a file open for reading.
    fn lock_for(&self, wanted: Wanted, exclusive: bool) -> Result<Lock, Error> {
        match (wanted, exclusive) {
            (Wanted::Whole, _) => {}
            (Wanted::Part(_), true) => self.check_write("lock")?,
            (Wanted::Part(_), false) => self.check_read()?,
        }
        Ok(Lock {
            object: self.object(),
            family: wanted.family(),
            owner: self.lock_number,
            exclusive,
            range: wanted.range(),
            pid: std::process::id(),
        })
    }

    /// Takes a lock if it is free; fails with [`Errno::EAGAIN`] otherwise.
    pub fn try_lock(&self, wanted: Wanted, exclusive: bool) -> Result<(), Error> {
        let lock = self.lock_for(wanted, exclusive)?;
        self.clients.locks().try_lock(&lock)?;
        self.forget_content();
        Ok(())
    }

    /// Takes a lock, and waits for it. About ten times a second, `goes_on` is called to decide whether the wait continues; a wait
    /// that it ends, or that [`OpenFile::cancel_locks`] ends, fails with [`Errno::ECANCELED`].
    pub fn lock(
        &self,
        wanted: Wanted,
        exclusive: bool,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        const ASKS: Duration = Duration::from_millis(100);
        let lock = self.lock_for(wanted, exclusive)?;
        let wait: PendingLock<'_> = self.clients.locks().start(&lock);
        let waits = || lock_mutex(&self.lock_waits);
        waits().push(wait.number());
        let result = loop {
            if let Some(result) = wait.wait_for(ASKS) {
                break result;
            }
            if !goes_on() {
                wait.cancel();
                break wait.wait();
            }
        };
        waits().retain(|number| *number != wait.number());
        result?;
        self.forget_content();
        Ok(())
    }

    /// Ends waits of other threads for locks on this file.
    pub fn cancel_locks(&self) {
        let waits = lock_mutex(&self.lock_waits);
        for wait in &*waits {
            self.clients.locks().cancel(*wait);
        }
    }

    /// Releases a lock, or a part of one.
    pub fn unlock(&self, wanted: Wanted) -> Result<(), Error> {
        let owner = self.lock_owner(wanted.family());
        self.clients.locks().unlock(owner, wanted.range())
    }

    /// Returns a lock that conflicts with this one, if there is any.
    pub fn test_lock(&self, wanted: Wanted, exclusive: bool) -> Result<Option<LockHolder>, Error> {
        let lock = self.lock_for(wanted, exclusive)?;
        self.clients.locks().test(&lock)
    }

    /// Releases all locks, as closing the file does.
    pub fn end_locks(&self) -> Result<(), Error> {
        let families = [LockFamily::Whole, LockFamily::Record];
        let release = |family| self.clients.locks().release(self.lock_owner(family));
        families.map(release).into_iter().collect()
    }

    /// The same, without waiting for it.
    pub(crate) fn drop_locks(&self) {
        for family in [LockFamily::Whole, LockFamily::Record] {
            let owner = self.lock_owner(family);
            self.clients.locks().release_with(owner, drop);
        }
    }
}

/// Whether an error means that other owners have a conflicting lock.
pub fn is_taken(error: &Error) -> bool {
    error.errno == Errno::EAGAIN
}
