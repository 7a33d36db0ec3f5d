//! The client of a file system, and its errors.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;

/// The client of one file system.
pub(crate) struct Connection {
    pub(crate) configuration: Configuration,
    /// `None` until the first request to the servers: a process needs no client for files that another process has opened
    /// for it.
    pub(crate) client: InOrder<Option<Client>>,
    /// Held by the atomic access that is going on. It is locked before the client.
    pub(crate) atomic_access: Mutex<()>,
}

/// A fair lock: a thread that takes it again and again leaves it to one that waits in between.
pub(crate) struct InOrder<T> {
    it: Mutex<T>,
    /// Held by the thread that is next to get the value.
    next: Mutex<()>,
}

impl<T> InOrder<T> {
    pub(crate) fn new(it: T) -> Self {
        Self {
            it: Mutex::new(it),
            next: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        let _next = lock(&self.next);
        lock(&self.it)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.configuration.name;
        f.debug_struct("Connection").field("name", name).finish()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Calls a function with the client, which one thread at a time uses.
    pub(crate) fn call<T>(
        &self,
        work: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut client = self.client.lock();
        let client = match &mut *client {
            Some(client) => client,
            none => none.insert(Client::connect(
                &self.configuration,
                ClientOptions::default(),
            )?),
        };
        work(client)
    }
}

/// An error with the operating system's number and the client library's text, which says what failed, where, why,
/// and what to do.
pub(crate) fn as_io(error: &Error) -> io::Error {
    let kind = io::Error::from_raw_os_error(error.system_number().into()).kind();
    io::Error::new(kind, error.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_locks_again_comes_behind_one_that_waits() {
        for _ in 0..100 {
            let locked = InOrder::new(0);
            let mut held = locked.lock();
            std::thread::scope(|scope| {
                scope.spawn(|| *locked.lock() += 1);
                // Until the other thread is the next one.
                while locked.next.try_lock().is_ok() {
                    std::thread::yield_now();
                }
                *held += 10;
                drop(held);
                assert_eq!(*locked.lock(), 11);
            });
        }
    }
}
