//! Locks of ranges (`fcntl`) and of whole files (`flock`), which exclude programs on other mounts and other clients.
//!
//! No thread that serves the kernel waits for a lock: the thread of the locks replies, when the metadata server has decided. Once a
//! program has a lock, the kernel and this mount drop what they had read of the file before: it may be older than the lock.
//!
//! The kernel reports signals by a request that `fuser` does not pass on. So as long as a program waits for a lock, this module checks its
//! pending signals, a few times a second, and ends the wait if there are any: a handler then runs, and a killed program ends.
//! Locks themselves are granted by events.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use causeway_fs::Error;
use causeway_fs::client::{CacheStamp, EntryTimes, LockOwner};
use causeway_wire::fs::{Errno, Lock, LockFamily, LockHolder, LockRange, ObjectId};

use crate::attributes::{Failed, Outcome, Shown};
use crate::operations::Mounted;
use crate::signals::Waiting;

/// The kernel's largest offset in a file: a range that ends there has no end.
const LAST: u64 = i64::MAX as u64;

/// Kinds of locks as the kernel numbers them.
const F_RDLCK: i32 = 0;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;

/// A lock in the kernel's form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelLock {
    pub(crate) object: ObjectId,
    pub(crate) family: LockFamily,
    pub(crate) owner: u64,
    /// The handle of the open file by which the lock is requested.
    pub(crate) handle: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) kind: i32,
    pub(crate) pid: u32,
}

impl KernelLock {
    fn range(&self) -> Option<LockRange> {
        let last = match self.last {
            LAST.. => u64::MAX,
            last => last,
        };
        (self.first <= last).then_some(LockRange {
            first: self.first,
            last,
        })
    }

    fn owner(&self) -> LockOwner {
        LockOwner {
            object: self.object,
            family: self.family,
            number: self.owner,
        }
    }

    /// The requested lock; `None` if the request is to unlock.
    fn wanted(&self) -> Option<Lock> {
        let exclusive = match self.kind {
            F_RDLCK => false,
            F_WRLCK => true,
            _ => return None,
        };
        Some(Lock {
            object: self.object,
            family: self.family,
            owner: self.owner,
            exclusive,
            range: self.range()?,
            pid: self.pid,
        })
    }

    /// The conflicting lock in the kernel's form; an unlocked range if there is none.
    fn answer(&self, holder: Option<LockHolder>) -> Self {
        match holder {
            None => Self {
                kind: F_UNLCK,
                ..*self
            },
            Some(holder) => Self {
                first: holder.range.first.min(LAST),
                last: holder.range.last.min(LAST),
                kind: match holder.exclusive {
                    true => F_WRLCK,
                    false => F_RDLCK,
                },
                pid: holder.pid,
                ..*self
            },
        }
    }
}

fn record_owner(object: ObjectId, number: u64) -> LockOwner {
    LockOwner {
        object,
        family: LockFamily::Record,
        number,
    }
}

/// Starts the thread that checks for signals. While no program waits, it sleeps; it ends with the process.
pub(crate) fn watch_signals(mounted: &Arc<Mounted>) -> io::Result<()> {
    let mounted: Weak<Mounted> = Arc::downgrade(mounted);
    let waits = mounted.upgrade().map(|mounted| Arc::clone(&mounted.waits));
    let Some(waits) = waits else {
        return Ok(());
    };
    let watch = move || {
        loop {
            let interrupted = waits.interrupted();
            let Some(mounted) = mounted.upgrade() else {
                return;
            };
            for wait in interrupted {
                mounted.clients.locks().cancel(wait);
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(watch).map(drop)
}

/// Has the kernel and the mount drop what they have of a file on which a program has lost its locks: nobody reads it before the program
/// has unlocked it.
pub(crate) fn forget_at_loss(mounted: &Arc<Mounted>) {
    let weak: Weak<Mounted> = Arc::downgrade(mounted);
    mounted.clients.locks().on_loss(move |object| {
        if let Some(mounted) = weak.upgrade() {
            mounted.forget_read(object, || {});
        }
    });
}

impl Mounted {
    /// Fails if a program has lost its locks on a file.
    pub(crate) fn check_locks(&self, object: ObjectId) -> Outcome {
        Ok(self.clients.locks().check(object)?)
    }

    /// When attributes were cached that the kernel is about to get. `None` for a file on which locks are lost: the mount has to be asked before each time that
    /// somebody reads it, so the kernel must not cache them.
    fn seen(&self, shown: &Shown) -> Option<CacheStamp> {
        let has_lost = || self.clients.locks().has_lost(shown.object);
        shown.seen.filter(|_| !has_lost())
    }

    /// The kernel has got attributes, with what was [seen](Self::seen) of them. What it drops for a loss, it may have dropped before it got them.
    fn forget_if_lost(&self, object: ObjectId, seen: Option<CacheStamp>) {
        if seen.is_some() && self.clients.locks().has_lost(object) {
            self.caches.forget(object);
        }
    }

    /// Replies to the kernel, with the time for which it may cache the attributes.
    pub(crate) fn reply_with(&self, shown: &Shown, reply: impl FnOnce(&Duration)) {
        let seen = self.seen(shown);
        self.caches.reply_with(shown.object, seen, reply);
        self.forget_if_lost(shown.object, seen);
    }

    /// The same with a name and what it stands for; see [`Caches::reply_with_entry`](crate::caches::Caches::reply_with_entry).
    pub(crate) fn reply_with_entry(
        &self,
        name: (ObjectId, &[u8]),
        shown: Option<&Shown>,
        is_changed: bool,
        reply: impl FnOnce(&EntryTimes),
    ) {
        let target = shown.map(|shown| (shown.object, self.seen(shown)));
        self.caches
            .reply_with_entry(name, target, is_changed, reply);
        if let Some((object, seen)) = target {
            self.forget_if_lost(object, seen);
        }
    }

    /// The same with names of a directory; see [`Caches::reply_with_entries`](crate::caches::Caches::reply_with_entries).
    pub(crate) fn reply_with_entries<'a>(
        &self,
        directory: ObjectId,
        names: impl Iterator<Item = (&'a [u8], &'a Shown)>,
        reply: impl FnOnce(&[EntryTimes]) -> usize,
    ) {
        let names = names.map(|(name, shown)| (name, (shown.object, self.seen(shown))));
        let names: Vec<_> = names.collect();
        self.caches.reply_with_entries(directory, &names, reply);
        for (_, (object, seen)) in names {
            self.forget_if_lost(object, seen);
        }
    }

    /// Takes or releases a lock, and calls `reply` with the result. `waits` is the program's thread that waits, if the request may wait.
    pub(crate) fn set_lock(
        self: &Arc<Self>,
        lock: KernelLock,
        waits: Option<u32>,
        reply: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let locks = self.clients.locks();
        if lock.kind == F_UNLCK
            && let Some(range) = lock.range()
        {
            return locks.unlock_with(lock.owner(), range, move |done| reply(outcome(done)));
        }
        let Some(wanted) = lock.wanted() else {
            return reply(Err(Failed(Errno::EINVAL)));
        };
        // An open file that is closed releases the locks that it owns itself (`F_OFD_SETLK`). For `flock`, the kernel marks the close itself.
        if lock.family == LockFamily::Record {
            self.lock_handles.note(lock.object, lock.owner, lock.handle);
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let (mounted, ended) = (Arc::clone(self), Arc::clone(&has_ended));
        let done = move |done: Result<(), Error>| {
            ended.store(true, Ordering::Release);
            match done {
                Ok(()) => mounted.forget_read(lock.object, || reply(Ok(()))),
                failed => reply(outcome(failed)),
            }
        };
        match waits {
            None => locks.try_lock_with(&wanted, done),
            Some(thread) => {
                let wait = locks.start_with(&wanted, done);
                self.waits.add(Waiting {
                    wait,
                    thread,
                    has_ended,
                });
            }
        }
    }

    /// Passes the lock that conflicts with this one to `reply`, in the kernel's form.
    pub(crate) fn test_lock(
        &self,
        lock: KernelLock,
        reply: impl FnOnce(Outcome<KernelLock>) + Send + 'static,
    ) {
        let Some(wanted) = lock.wanted() else {
            return reply(Err(Failed(Errno::EINVAL)));
        };
        self.clients.locks().test_with(&wanted, move |found| {
            reply(
                found
                    .map(|holder| lock.answer(holder))
                    .map_err(Failed::from),
            );
        });
    }

    /// Releases the locks that a program has on a file that it has closed, whichever handle they were taken by.
    pub(crate) fn end_locks(
        &self,
        object: ObjectId,
        owner: u64,
        reply: impl FnOnce(Outcome) + Send + 'static,
    ) {
        self.lock_handles.forget_owner(object, owner);
        let owner = record_owner(object, owner);
        let locks = self.clients.locks();
        locks.release_with(owner, move |done| reply(outcome(done)));
    }

    /// Releases the locks that belong to an open file whose last descriptor was closed; for `flock`, those of the owner `whole`. Locks of processes
    /// were released when these closed the file.
    pub(crate) fn end_locks_of_handle(&self, object: ObjectId, handle: u64, whole: Option<u64>) {
        let whole = whole.map(|number| LockOwner {
            object,
            family: LockFamily::Whole,
            number,
        });
        let records = self.lock_handles.close(object, handle).into_iter();
        let records = records.map(|number| record_owner(object, number));
        for owner in whole.into_iter().chain(records) {
            self.clients.locks().release_with(owner, move |done| {
                if let Err(error) = done {
                    tracing::warn!(%error, "the locks of a closed file could not be given back");
                }
            });
        }
    }

    /// Drops what was read of a file before the program got its lock, as it may be old. Calls `then` once it is dropped.
    fn forget_read(&self, object: ObjectId, then: impl FnOnce() + Send + 'static) {
        if let Some(shared) = self.files.get(object) {
            shared.forget_content();
        }
        self.caches.drop_content(object, then);
    }
}

fn outcome(done: Result<(), Error>) -> Outcome {
    match done {
        Err(error) if error.errno == Errno::ECANCELED => Err(Failed(Errno::EINTR)),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_without_an_end_are_told_both_ways() {
        let lock = KernelLock {
            object: ObjectId(5),
            family: LockFamily::Record,
            owner: 6,
            handle: 2,
            first: 7,
            last: LAST,
            kind: F_WRLCK,
            pid: 8,
        };
        let wanted = lock.wanted().unwrap();
        assert!(wanted.exclusive);
        assert_eq!((wanted.range.first, wanted.range.last), (7, u64::MAX));
        let shown = lock.answer(Some(LockHolder {
            exclusive: false,
            range: wanted.range,
            pid: 9,
        }));
        assert_eq!((shown.first, shown.last), (7, LAST));
        assert_eq!((shown.kind, shown.pid), (F_RDLCK, 9));
        assert_eq!(lock.answer(None).kind, F_UNLCK);
        let unlock = KernelLock {
            kind: F_UNLCK,
            ..lock
        };
        assert!(unlock.wanted().is_none());
        let backwards = KernelLock { last: 6, ..lock };
        assert!(backwards.wanted().is_none());
    }
}
