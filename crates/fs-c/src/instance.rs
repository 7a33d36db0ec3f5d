//! Instances, by handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_fs::listing::Listing;
use causeway_fs::open_file::OpenFile;
use causeway_fs::pool::Clients;

use crate::error::Failure;
use crate::posted::Posted;

/// Most open files, and open directories, of an instance.
const MOST_OPEN: usize = 1 << 20;

/// An instance.
pub(crate) struct Instance {
    pub(crate) clients: Arc<Clients>,
    pub(crate) files: Open<OpenFile>,
    pub(crate) directories: Open<Mutex<Listing>>,
    pub(crate) posted: Posted,
    broken: Arc<AtomicBool>,
}

/// Files or directories that C has open, each under a number that is not used again.
pub(crate) struct Open<T> {
    what: &'static str,
    open: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Open<T> {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            open: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if there is no room for another one.
    pub(crate) fn check_room(&self) -> Result<(), Failure> {
        match self.lock().len() < MOST_OPEN {
            true => Ok(()),
            false => {
                let text = format!("{MOST_OPEN} of them are open already: {}", self.what);
                Err(Failure::new(libc::EMFILE, text))
            }
        }
    }

    pub(crate) fn insert(&self, opened: T) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::new(opened));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<T>, Failure> {
        let found = self.lock().get(&number).map(Arc::clone);
        found.ok_or_else(|| self.none())
    }

    pub(crate) fn remove(&self, number: u64) -> Result<Arc<T>, Failure> {
        let removed = self.lock().remove(&number);
        removed.ok_or_else(|| self.none())
    }

    fn none(&self) -> Failure {
        Failure::handle(format!("this {} was closed, or never opened", self.what))
    }
}

impl Instance {
    /// Starts an instance with at most this many clients.
    pub(crate) fn start(configuration: &Configuration, clients: usize) -> Result<Self, Failure> {
        let clients = Clients::connect(configuration, &ClientOptions::default(), clients)?;
        let broken = Arc::new(AtomicBool::new(false));
        Ok(Self {
            posted: Posted::new(clients.count(), Arc::clone(&broken)),
            clients: Arc::new(clients),
            files: Open::new("cwfs_file_t"),
            directories: Open::new("cwfs_dir_t"),
            broken,
        })
    }

    /// Carries out a call that concerns no open file.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        Ok(self.clients.call(None, work)?)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }
}
