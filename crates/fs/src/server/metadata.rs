//! The metadata service inside a server's loop.
//!
//! Requests that change nothing are answered at once from the last committed state. Changes of a
//! relaxed file system are made in the loop, all of one wake-up in one batch. Changes of a synced one
//! go to a thread that makes everything that waits in one batch with one sync (group commit), while
//! the loop goes on answering.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use causeway_wire::fs::{Errno, Failure, Operation, Reply, Request, Timestamp};

use super::Ticket;
use super::reclaim::Bell;
use crate::config::{Configuration, Durability};
use crate::meta::{Reader, Service, Settings};

/// Environment variable that makes every change wait for a sync of its own, to measure what group
/// commit is worth.
const COMMIT_EACH: &str = "CAUSEWAY_COMMIT_EACH";
/// Most changes of one batch.
const MAX_BATCH: usize = 512;

/// The service as several threads share it.
pub(super) type SharedService = Arc<Mutex<Service>>;

/// Locks the service.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The metadata service of this server.
pub(super) struct Metadata {
    service: SharedService,
    reader: Reader,
    /// Rung when datafiles may have to be removed.
    bell: Bell,
    /// Changes of this wake-up, in a relaxed file system.
    batch: Vec<(Ticket, Request)>,
    writer: Option<Writer>,
}

struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<(Ticket, Request)>,
    stopping: bool,
}

/// Where the writer's replies go.
pub(super) type Deliver = Box<dyn Fn(Vec<(Ticket, Reply)>) + Send>;

impl Metadata {
    /// Opens the metadata in `directory`.
    pub(super) fn open(
        directory: &Path,
        configuration: &Configuration,
        bell: Bell,
        deliver: Deliver,
    ) -> Result<Self, Failure> {
        let mut settings = Settings {
            file_system: configuration.id,
            root_owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            ..Settings::default()
        };
        settings.durability = configuration.durability;
        settings.io_servers = configuration.io_servers().len() as u16;
        settings.distribution = configuration.default_distribution();
        let service = Service::open(directory, settings)?;
        let reader = service.reader();
        let service = Arc::new(Mutex::new(service));
        let writer = match configuration.durability {
            Durability::Relaxed => None,
            Durability::Synced => Some(Writer::start(Arc::clone(&service), deliver)?),
        };
        Ok(Self {
            service,
            reader,
            bell,
            batch: Vec::new(),
            writer,
        })
    }

    /// The service, for the reclaimer.
    pub(super) fn service(&self) -> SharedService {
        Arc::clone(&self.service)
    }

    /// The reply to a request that changes nothing; `None` for one that must be [`Metadata::change`]d.
    pub(super) fn answer(&self, request: &Request) -> Option<Reply> {
        self.reader.answer(request)
    }

    /// Takes a change. Its reply comes from [`Metadata::settle`] or is delivered.
    pub(super) fn change(&mut self, ticket: Ticket, request: Request) {
        if removes(&request.operation) {
            self.bell.ring();
        }
        match &self.writer {
            Some(writer) => writer.queue.put(ticket, request),
            None => self.batch.push((ticket, request)),
        }
    }

    /// Carries one request out at once, while no others are in progress.
    pub(super) fn now(&self, request: Request) -> Option<Reply> {
        lock(&self.service).apply(&[request], now()).pop()
    }

    /// Makes the changes of this wake-up and answers their replies.
    pub(super) fn settle(&mut self) -> Vec<(Ticket, Reply)> {
        if self.batch.is_empty() {
            return Vec::new();
        }
        apply(&self.service, std::mem::take(&mut self.batch))
    }
}

fn apply(service: &Mutex<Service>, batch: Vec<(Ticket, Request)>) -> Vec<(Ticket, Reply)> {
    let (tickets, requests): (Vec<Ticket>, Vec<Request>) = batch.into_iter().unzip();
    let replies = lock(service).apply(&requests, now());
    tickets.into_iter().zip(replies).collect()
}

/// Whether datafiles may have to be removed afterwards.
fn removes(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Unlink { .. } | Operation::Rename { .. } | Operation::Check { repair: true, .. }
    )
}

impl Writer {
    fn start(service: SharedService, deliver: Deliver) -> Result<Self, Failure> {
        let queue = Arc::new(Queue::default());
        let most = match std::env::var_os(COMMIT_EACH) {
            Some(value) if value == "1" => 1,
            _ => MAX_BATCH,
        };
        let shared = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("commit".to_owned())
            .spawn(move || {
                while let Some(batch) = shared.take(most) {
                    deliver(apply(&service, batch));
                }
            })
            .map_err(|error| Failure {
                errno: Errno::EAGAIN,
                message: format!("the commit thread cannot be started: {error}"),
            })?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }
}

impl Queue {
    fn put(&self, ticket: Ticket, request: Request) {
        lock(&self.state).requests.push_back((ticket, request));
        self.work.notify_one();
    }

    /// What waits, at most `most`; `None` at the end.
    fn take(&self, most: usize) -> Option<Vec<(Ticket, Request)>> {
        let mut state = lock(&self.state);
        loop {
            let count = state.requests.len().min(most);
            if count > 0 {
                return Some(state.requests.drain(..count).collect());
            }
            if state.stopping {
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.queue.state).stopping = true;
        self.queue.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // It only fails by a panic, which was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The present time.
fn now() -> Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: since.as_secs() as i64,
        nanoseconds: since.subsec_nanos(),
    }
}
