//! Locks that exclude other clients: of whole files, as `flock` has them, and of parts, as `fcntl` has them (docs/locks.md).
//!
//! A wait for a lock may last for any time, and must neither delay a client's other calls nor the calls of a program's other threads. So
//! locks have a connection of their own, which a thread serves (`lock_thread`): [`Locks`] queues requests for it, from any thread. The
//! metadata server keeps a lock for as long as this connection lasts. If it is lost, so are the locks: each owner's next operations
//! on that file fail with [`Errno::LOCK_LOST`], until it has released its locks on the file.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_wire::fs::{Errno, Lock, LockHolder, LockRange, ObjectId};

use super::call_error::{CallError, object_name};
use super::lock_state::{Ask, Command, Done, LockOwner, Shared, lost};
use super::lock_thread;
use super::options::ClientOptions;
use super::rpc::Interrupter;
use crate::Error;
use crate::config::Configuration;
use crate::locks::lock;
use crate::threads::JoinOnDrop;

/// The locks of a program, which its threads share.
pub struct Locks {
    configuration: Configuration,
    options: ClientOptions,
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    interrupter: Interrupter,
    waker: causeway_bmi::Waker,
    _thread: JoinOnDrop,
}

/// A lock that was requested.
pub struct PendingLock<'a> {
    locks: &'a Locks,
    wait: u64,
    result: Receiver<Result<Option<LockHolder>, Error>>,
}

impl Locks {
    /// Makes no connection and starts no thread until a lock is requested.
    pub fn new(configuration: &Configuration, options: &ClientOptions) -> Self {
        Self {
            configuration: configuration.clone(),
            options: options.clone(),
            shared: Arc::default(),
            thread: Mutex::default(),
        }
    }

    /// Takes a lock, if no other conflicts with it; fails with [`Errno::EAGAIN`] otherwise.
    pub fn try_lock(&self, wanted: &Lock) -> Result<(), Error> {
        self.call(Ask::Lock(*wanted, None)).map(drop)
    }

    /// Takes a lock, and waits for it as long as necessary. For a range, it fails with [`Errno::EDEADLK`] if
    /// the owners of conflicting locks wait for this owner.
    pub fn lock(&self, wanted: &Lock) -> Result<(), Error> {
        self.start(wanted).wait()
    }

    /// Begins to wait for a lock.
    pub fn start(&self, wanted: &Lock) -> PendingLock<'_> {
        let (sender, result) = channel();
        let wait = self.start_with(wanted, move |ended| {
            // The caller may not wait for the result any more.
            let _ = sender.send(ended.map(|()| None));
        });
        PendingLock {
            locks: self,
            wait,
            result,
        }
    }

    /// Begins to wait for a lock, and calls `done` when the wait ends, on another thread, which must not be blocked. Returns the number for
    /// [`Locks::cancel`].
    pub fn start_with(
        &self,
        wanted: &Lock,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> u64 {
        let wait = self.shared.next_wait();
        let ask = Ask::Lock(*wanted, Some(wait));
        self.submit(ask, Box::new(|result| done(result.map(drop))));
        wait
    }

    /// Ends a wait with [`Errno::ECANCELED`], if it has not ended. If the lock is being granted at the same time, the wait ends with the lock.
    pub fn cancel(&self, wait: u64) {
        self.submit(Ask::Cancel(wait), Box::new(drop));
    }

    /// As [`Locks::try_lock`], and calls `done` as [`Locks::start_with`] does.
    pub fn try_lock_with(
        &self,
        wanted: &Lock,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let ask = Ask::Lock(*wanted, None);
        self.submit(ask, Box::new(|result| done(result.map(drop))));
    }

    /// As [`Locks::unlock`], and calls `done` as [`Locks::start_with`] does.
    pub fn unlock_with(
        &self,
        owner: LockOwner,
        range: LockRange,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let ask = Ask::Unlock(owner, range);
        self.submit(ask, Box::new(|result| done(result.map(drop))));
    }

    /// As [`Locks::test`], and calls `done` as [`Locks::start_with`] does.
    pub fn test_with(
        &self,
        wanted: &Lock,
        done: impl FnOnce(Result<Option<LockHolder>, Error>) + Send + 'static,
    ) {
        self.submit(Ask::Test(*wanted), Box::new(done));
    }

    /// Releases locks on a part of a file, also those that the owner has lost: that succeeds, as these need no release.
    pub fn unlock(&self, owner: LockOwner, range: LockRange) -> Result<(), Error> {
        self.call(Ask::Unlock(owner, range)).map(drop)
    }

    /// Returns a lock that conflicts with this one, if there is any.
    pub fn test(&self, wanted: &Lock) -> Result<Option<LockHolder>, Error> {
        self.call(Ask::Test(*wanted))
    }

    /// Releases all of an owner's locks on a file, lost or not. Costs nothing if it has none.
    pub fn release(&self, owner: LockOwner) -> Result<(), Error> {
        let (sender, result) = channel();
        self.release_with(owner, move |done| {
            let _ = sender.send(done);
        });
        result.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// As [`Locks::release`], and calls `done` as [`Locks::start_with`] does, or at once.
    pub fn release_with(
        &self,
        owner: LockOwner,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        if !self.shared.is_known(&owner) {
            return done(Ok(()));
        }
        self.unlock_with(owner, LockRange::ALL, done);
    }

    /// Has `on_loss` called with each file on which an owner loses locks, once its operations fail, on a thread that must not be
    /// blocked. Only the first such callback counts.
    pub fn on_loss(&self, on_loss: impl Fn(ObjectId) + Send + Sync + 'static) {
        self.shared.set_on_loss(Box::new(on_loss));
    }

    /// Whether an owner has lost locks on a file, and has not released them since.
    pub fn has_lost(&self, object: ObjectId) -> bool {
        self.shared.has_lost(object)
    }

    /// Fails if an owner has lost locks on a file, and has not released them since.
    pub fn check(&self, object: ObjectId) -> Result<(), Error> {
        self.check_object(object)
            .map_err(|error| error.during("access", &object_name(object)))
    }

    pub(super) fn check_object(&self, object: ObjectId) -> Result<(), CallError> {
        match self.has_lost(object) {
            true => Err(lost()),
            false => Ok(()),
        }
    }

    fn call(&self, ask: Ask) -> Result<Option<LockHolder>, Error> {
        let (sender, result) = channel();
        let done = move |ended| {
            let _ = sender.send(ended);
        };
        self.submit(ask, Box::new(done));
        result.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn submit(&self, ask: Ask, done: Done) {
        let deadline = Instant::now() + self.configuration.timeout;
        let mut thread = lock(&self.thread);
        let running = match &mut *thread {
            Some(running) => running,
            none => match self.start_thread() {
                Ok(started) => none.insert(started),
                Err(error) => return done(Err(error)),
            },
        };
        self.shared.put(Command {
            ask,
            deadline,
            done,
        });
        running.waker.wake();
    }

    fn start_thread(&self) -> Result<Thread, Error> {
        let failed = |error: CallError| error.during("lock", self.configuration.name.as_bytes());
        let rpc = lock_thread::connect(&self.configuration, &self.options).map_err(failed)?;
        let (interrupter, waker) = (rpc.interrupter(), rpc.waker());
        let shared = Arc::clone(&self.shared);
        let thread = JoinOnDrop::spawn("locks", move || lock_thread::run(rpc, &shared));
        let thread = thread.map_err(|error| {
            failed(CallError::local(
                Errno::EAGAIN,
                format!("no thread can start: {error}"),
            ))
        })?;
        Ok(Thread {
            interrupter,
            waker,
            _thread: thread,
        })
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = &*lock(&self.thread) {
            thread.interrupter.interrupt();
        }
    }
}

impl PendingLock<'_> {
    /// The number for [`Locks::cancel`].
    pub fn number(&self) -> u64 {
        self.wait
    }

    /// Waits for the lock.
    pub fn wait(&self) -> Result<(), Error> {
        let result = self.result.recv().unwrap_or_else(|_| Err(ended()));
        result.map(drop)
    }

    /// Waits for the lock, but not longer than `limit`; `None` if it was not granted by then.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<(), Error>> {
        match self.result.recv_timeout(limit) {
            Ok(result) => Some(result.map(drop)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(ended())),
        }
    }

    /// Ends the wait, with [`Errno::ECANCELED`] unless the lock is being granted at the same time.
    pub fn cancel(&self) {
        self.locks.cancel(self.wait);
    }
}

/// The error of a request after the end of the program's clients.
fn ended() -> Error {
    CallError::local(Errno::ECANCELED, "the client has ended").during("lock", b"a file")
}
