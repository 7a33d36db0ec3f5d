//! Clients that threads share. A client belongs to one thread at a time, so there are several: a call takes any that is
//! free, or a particular one, such as that of an open file, which records what an fsync of the file has to make durable.
//!
//! A call has one time-out for everything, including the wait for a client. So calls that
//! queue up behind a dead server fail at the end of their own time-outs, not one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_wire::fs::Errno;

use crate::Error;
use crate::client::{Client, ClientOptions, Leases, Locks, Shared};
use crate::config::Configuration;

/// The least time that a call gets: even after a long wait for a client, it can reach a server that replies.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// A slot for a client.
enum Slot {
    /// No call has needed it yet.
    Empty,
    Idle(Box<Client>),
    /// A thread is using it.
    Taken,
}

struct Slots {
    all: Vec<Slot>,
    /// Threads that wait for a client.
    waiting: usize,
}

/// A bounded number of clients of one file system, made when they are needed.
pub struct Clients {
    configuration: Configuration,
    options: ClientOptions,
    slots: Mutex<Slots>,
    returned: Condvar,
    count: usize,
    /// Set once a thread has found no client free: from then on, files are spread over all of them.
    is_shared: AtomicBool,
    next: AtomicUsize,
    shared: Shared,
    last_lock_number: AtomicU64,
}

/// A client for the time of one call.
struct Borrowed<'a> {
    clients: &'a Clients,
    index: usize,
    client: Option<Box<Client>>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // A client whose call has panicked may be in any state, and is replaced.
        let slot = match self.client.take() {
            Some(client) if !std::thread::panicking() => Slot::Idle(client),
            _ => Slot::Empty,
        };
        let mut slots = self.clients.lock();
        slots.all[self.index] = slot;
        // A notification is a system call, even if nobody waits for it.
        if slots.waiting > 0 {
            drop(slots);
            self.clients.returned.notify_all();
        }
    }
}

impl Clients {
    /// Prepares `count` clients, at least one. No connections are made yet.
    pub fn connect(
        configuration: &Configuration,
        options: &ClientOptions,
        count: usize,
    ) -> Result<Self, Error> {
        Self::connect_sharing(
            configuration,
            options,
            count,
            Shared::new(configuration, options)?,
        )
    }

    /// The same for a program that caches names and attributes by these leases.
    pub fn connect_caching(
        configuration: &Configuration,
        options: &ClientOptions,
        count: usize,
        leases: Arc<Leases>,
    ) -> Result<Self, Error> {
        let shared = Shared::new(configuration, options)?.with_leases(leases);
        Self::connect_sharing(configuration, options, count, shared)
    }

    fn connect_sharing(
        configuration: &Configuration,
        options: &ClientOptions,
        count: usize,
        shared: Shared,
    ) -> Result<Self, Error> {
        let first = Client::sharing(configuration, options.clone(), &shared)?;
        let mut slots = vec![Slot::Idle(Box::new(first))];
        slots.resize_with(count.max(1), || Slot::Empty);
        Ok(Self {
            configuration: configuration.clone(),
            options: options.clone(),
            count: slots.len(),
            slots: Mutex::new(Slots {
                all: slots,
                waiting: 0,
            }),
            returned: Condvar::new(),
            is_shared: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            shared,
            last_lock_number: AtomicU64::new(0),
        })
    }

    /// A number for an owner of locks, different from all others.
    pub(crate) fn next_lock_number(&self) -> u64 {
        self.last_lock_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The locks of all these clients.
    pub fn locks(&self) -> &Arc<Locks> {
        &self.shared.locks
    }

    /// The largest number of clients.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The client for the next file that needs one of its own: always the first one, as long as no thread has had to wait
    /// for a client.
    pub fn next(&self) -> usize {
        match self.is_shared.load(Ordering::Relaxed) {
            true => self.next.fetch_add(1, Ordering::Relaxed) % self.count,
            false => 0,
        }
    }

    /// The configuration of the file system.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Carries out a call with this client (below [`Self::count`]), or with any, in the rest of the call's
    /// time.
    pub fn call<T>(
        &self,
        which: Option<usize>,
        work: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.call_within(self.configuration.timeout, which, work)
    }

    /// As [`Self::call`], for a part of a call that has this time left.
    pub fn call_within<T>(
        &self,
        time: Duration,
        which: Option<usize>,
        work: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut borrowed = self.borrow(time, which)?;
        let client = borrowed.client.as_mut();
        work(client.expect("it is returned when this is dropped"))
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn borrow(&self, time: Duration, which: Option<usize>) -> Result<Borrowed<'_>, Error> {
        let deadline = Instant::now() + time;
        let mut slots = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(index) = free(&slots.all, which) {
                let client = match std::mem::replace(&mut slots.all[index], Slot::Taken) {
                    Slot::Idle(client) => Some(client),
                    Slot::Empty | Slot::Taken => None,
                };
                drop(slots);
                let mut borrowed = Borrowed {
                    clients: self,
                    index,
                    client,
                };
                let client = match &mut borrowed.client {
                    Some(client) => client,
                    none => none.insert(Box::new(Client::sharing(
                        &self.configuration,
                        self.options.clone(),
                        &self.shared,
                    )?)),
                };
                client.limit(left.max(LEAST_TIME));
                return Ok(borrowed);
            }
            self.is_shared.store(true, Ordering::Relaxed);
            if left.is_zero() {
                return Err(self.too_late());
            }
            slots.waiting += 1;
            (slots, _) = self
                .returned
                .wait_timeout(slots, left)
                .unwrap_or_else(PoisonError::into_inner);
            slots.waiting -= 1;
        }
    }

    fn too_late(&self) -> Error {
        Error {
            operation: "wait",
            subject: self.configuration.name.escape_debug().to_string(),
            errno: Errno::ETIMEDOUT,
            message: "a call waited behind others that use a server until its time was over"
                .to_owned(),
            server: None,
        }
    }
}

/// The slot to take: this one if it is free; or one with a client, or else an empty one.
fn free(slots: &[Slot], which: Option<usize>) -> Option<usize> {
    match which {
        Some(index) => (!matches!(slots.get(index)?, Slot::Taken)).then_some(index),
        None => {
            let find = |is: fn(&Slot) -> bool| slots.iter().position(is);
            find(|slot| matches!(slot, Slot::Idle(_)))
                .or_else(|| find(|slot| matches!(slot, Slot::Empty)))
        }
    }
}
