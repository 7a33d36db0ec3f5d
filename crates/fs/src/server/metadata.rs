//! The metadata service inside a server's loop.
//!
//! The loop executes requests that change nothing at once, on the last committed state; those that read many records
//! go to a thread (`scans`). Changes of a relaxed file system are made in the loop, all of one wake-up in one batch.
//! Changes of a synced one go to a thread that commits all that wait as one batch with one sync (group commit), while
//! the loop continues.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use causeway_wire::fs::{Failure, Generation, Incarnation, Reply, Request};

use super::revocation::Revocation;
use super::scans::{Scanner, is_scan};
use super::thread_state::{Deliver, Finished, SharedService, Wakeups, apply, no_thread};
use super::ticket::Ticket;
use crate::clock;
use crate::config::{Configuration, Durability};
use crate::failed_syncs::FailureCount;
use crate::locks::{lock, wait_timeout_while, wait_while};
use crate::meta::cache_leases::CacheLeases;
use crate::meta::{Format, Layout, Leases, Reader, Service, Settings};
use crate::threads::{AbortOnPanic, JoinOnDrop};

/// Environment variable that makes every change wait for a sync of its own, to measure what group
/// commit is worth.
const COMMIT_EACH: &str = "CAUSEWAY_COMMIT_EACH";
/// Pause after the metadata could not record that programs may have files open.
const MARK_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Most changes of one batch.
const MAX_BATCH: usize = 512;
/// Object numbers reserved for each millisecond since 1970: more than a server gives out in that time, and 64 bits suffice
/// for tens of thousands of years.
const NUMBERS_PER_MS: u64 = 1 << 14;
/// Longest time that a commit waits for further requests; then it begins with those that have come. The wait ends
/// early with the last request that was expected.
const LONGEST_PATIENCE: Duration = Duration::from_millis(2);

/// The metadata service of this server.
pub(super) struct Metadata {
    service: SharedService,
    reader: Reader,
    failed_syncs: Option<Arc<FailureCount>>,
    /// How long replies are kept, which clients' time-outs extend.
    pub(super) kept_replies: Leases,
    caches: Arc<CacheLeases>,
    wakeups: Wakeups,
    /// Changes of this wake-up, in a relaxed file system.
    batch: Vec<(Ticket, Request)>,
    writer: Option<Writer>,
    scanner: Scanner,
    /// When to try again to record that programs may have files open: no event shows when a record can succeed.
    mark_again: Cell<Option<Instant>>,
}

struct Writer {
    queue: Arc<Queue>,
    _thread: JoinOnDrop,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<(Ticket, Request)>,
    /// How many requests must wait before the commit thread is woken.
    wanted: usize,
    stopping: bool,
}

/// How many requests the next commit waits for, and how long.
///
/// Clients whose requests were committed just now tend to send the next ones at once. Without waiting for them, these
/// clients and those whose requests came during the commit form two half-sized groups that alternate, each of which
/// pays for a sync. So a commit waits until as many wait as were committed last or waited then, but
/// never longer than half of what the last commit took; a client on its own never waits.
#[derive(Default)]
struct Pace {
    expected: usize,
    patience: Duration,
}

impl Pace {
    /// Notes that a commit of `committed` requests took `elapsed`, while `waiting` others came.
    fn observe(&mut self, committed: usize, waiting: usize, elapsed: Duration) {
        self.expected = committed + waiting;
        self.patience = (elapsed / 2).min(LONGEST_PATIENCE);
    }
}

impl Metadata {
    /// Opens the metadata in `directory`, which were made when it got its `generation`.
    pub(super) fn open(
        directory: &Path,
        configuration: &Configuration,
        generation: Generation,
        wakeups: Wakeups,
        deliver: Deliver,
    ) -> Result<Self, Failure> {
        let settings = Settings {
            generation,
            format: Format::Refused,
            ..settings(configuration)
        };
        let mut service = Service::open(directory, settings)?;
        service.skip_numbers(first_number(SystemTime::now()));
        let reader = service.reader();
        let failed_syncs = service.failed_syncs();
        let kept_replies = service.leases();
        let caches = Arc::clone(service.caches());
        let service = Arc::new(Mutex::new(service));
        let writer = match configuration.durability {
            Durability::Relaxed => None,
            Durability::Synced => {
                let deliver = Arc::clone(&deliver);
                let writer = Writer::start(Arc::clone(&service), wakeups.clone(), deliver);
                Some(writer?)
            }
        };
        let scanner = Scanner::start(
            reader.clone(),
            Arc::clone(&service),
            wakeups.clone(),
            deliver,
        )?;
        Ok(Self {
            service,
            reader,
            failed_syncs,
            kept_replies,
            caches,
            wakeups,
            batch: Vec::new(),
            writer,
            scanner,
            mark_again: Cell::new(None),
        })
    }

    /// The I/O servers.
    pub(super) fn layout(&self) -> Arc<Layout> {
        self.reader.layout()
    }

    /// The incarnation of the metadata.
    pub(super) fn incarnation(&self) -> Incarnation {
        lock(&self.service).incarnation()
    }

    /// A number that changes when a sync has failed.
    pub(super) fn failed_syncs(&self) -> u64 {
        self.failed_syncs
            .as_ref()
            .map_or(0, |counter| counter.count())
    }

    /// Has capabilities revoked at the I/O servers, and then the reply delivered.
    pub(super) fn revoke(&self, revocation: Revocation) {
        self.wakeups.revoker.put(revocation);
    }

    /// The leases on names and attributes.
    pub(super) fn caches(&self) -> &Arc<CacheLeases> {
        &self.caches
    }

    /// What requests read.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Records that programs may have files open, before the first one opens a file. If the disk cannot record it, files can still be read.
    pub(super) fn expect_open_files(&self) {
        let is_tried = |again: Instant| Instant::now() < again;
        if self.reader.opens().is_marked() || self.mark_again.get().is_some_and(is_tried) {
            return;
        }
        if let Err(failure) = lock(&self.service).mark_programs(true) {
            self.mark_again.set(Some(Instant::now() + MARK_RETRY_PAUSE));
            tracing::warn!(
                failure.message,
                "open files without a name may be gone if the server is started again now"
            );
        }
    }

    /// Records at the end of the server that no program can have a file open, if that is so: the next start then waits for none.
    pub(super) fn expect_no_open_files(&self) {
        if self.reader.opens().is_empty()
            && let Err(failure) = lock(&self.service).mark_programs(false)
        {
            tracing::warn!(
                failure.message,
                "the next start of the server waits for programs with open files, though there are none"
            );
        }
    }

    /// Wakes the thread that removes files without a name: programs have closed some.
    pub(super) fn notify_of_orphans(&self) {
        if self.reader.opens().has_released() {
            self.wakeups.orphans.notify();
        }
    }

    /// The service, for threads that work beside the loop.
    pub(super) fn service(&self) -> SharedService {
        Arc::clone(&self.service)
    }

    /// The reply to a request that changes nothing and takes little time; `None` for one that goes to
    /// [`Metadata::take`].
    pub(super) fn reply_to(&self, request: &Request) -> Option<Reply> {
        match is_scan(&request.operation) {
            true => None,
            false => self.reader.answer(request),
        }
    }

    /// Takes a request that [`Metadata::reply_to`] leaves. Its reply comes from [`Metadata::apply_batch`] or is delivered.
    pub(super) fn take(&mut self, ticket: Ticket, request: Request) {
        match &self.writer {
            _ if is_scan(&request.operation) => self.scanner.put(ticket, request),
            Some(writer) => writer.queue.put(ticket, request),
            None => self.batch.push((ticket, request)),
        }
    }

    /// Carries out one request while no others are in progress.
    pub(super) fn now(&self, request: Request) -> Option<Reply> {
        lock(&self.service).apply(&[request], clock::now()).pop()
    }

    /// Makes the changes of this wake-up and returns the outcome of each.
    pub(super) fn apply_batch(&mut self) -> Vec<(Ticket, Finished)> {
        if self.batch.is_empty() {
            return Vec::new();
        }
        apply(&self.service, &self.wakeups, &mut self.batch)
    }
}

/// First object number of a server that starts now. It is above all numbers that were given out before, also by metadata of which
/// an older copy was restored meanwhile, unless those gave out more than [`NUMBERS_PER_MS`] all the time, or the
/// clock was set back since the copy was made.
pub(super) fn first_number(now: SystemTime) -> u64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    (since.unwrap_or_default().as_millis() as u64).saturating_mul(NUMBERS_PER_MS)
}

/// The settings of a metadata service, however it is started.
fn settings(configuration: &Configuration) -> Settings {
    Settings {
        file_system: configuration.id,
        durability: configuration.durability,
        distribution: configuration.default_distribution(),
        io_servers: configuration.io_names(),
        open_files: configuration.open_files,
        lease_time: configuration.lease_time(),
        root_owner: (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
        ..Settings::default()
    }
}

/// Makes empty metadata in `directory`, with the configuration's I/O servers as the layout.
pub(super) fn format(
    directory: &Path,
    configuration: &Configuration,
    generation: Generation,
    incarnation: Incarnation,
) -> Result<(), Failure> {
    let settings = Settings {
        generation,
        incarnation,
        format: Format::Allowed,
        ..settings(configuration)
    };
    Service::open(directory, settings).map(drop)
}

impl Writer {
    fn start(service: SharedService, wakeups: Wakeups, deliver: Deliver) -> Result<Self, Failure> {
        let queue = Arc::new(Queue::default());
        let most = match std::env::var_os(COMMIT_EACH) {
            Some(value) if value == "1" => 1,
            _ => MAX_BATCH,
        };
        let shared = Arc::clone(&queue);
        let work = move || {
            let _guard = AbortOnPanic("commit");
            let mut pace = Pace::default();
            while let Some(mut batch) = shared.take(most, &pace) {
                let (begun, committed) = (Instant::now(), batch.len());
                let replies = apply(&service, &wakeups, &mut batch);
                pace.observe(committed, shared.waiting(), begun.elapsed());
                deliver(replies);
            }
        };
        let thread =
            JoinOnDrop::spawn("commit", work).map_err(|error| no_thread("commit", &error))?;
        Ok(Self {
            queue,
            _thread: thread,
        })
    }
}

impl Queue {
    fn put(&self, ticket: Ticket, request: Request) {
        let mut state = lock(&self.state);
        state.requests.push_back((ticket, request));
        if state.requests.len() >= state.wanted {
            self.work.notify_one();
        }
    }

    fn waiting(&self) -> usize {
        lock(&self.state).requests.len()
    }

    /// The waiting requests, at most `most`, once the expected ones have come; `None` at the end.
    fn take(&self, most: usize, pace: &Pace) -> Option<Vec<(Ticket, Request)>> {
        let mut state = lock(&self.state);
        state.wanted = 1;
        state = wait_while(&self.work, state, |state| {
            state.requests.is_empty() && !state.stopping
        });
        state.wanted = pace.expected.min(most);
        (state, _) = wait_timeout_while(&self.work, state, Some(pace.patience), |state| {
            state.requests.len() < state.wanted && !state.stopping
        });
        let count = state.requests.len().min(most);
        (count > 0).then(|| state.requests.drain(..count).collect())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.queue.state).stopping = true;
        self.queue.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::fs::{Caller, Operation, Target};

    fn request() -> (Ticket, Request) {
        let ticket = Ticket {
            slot: 0,
            generation: 0,
        };
        let request = Request {
            reply_tag: 0,
            target: Target::default(),
            client: 0,
            slot: 0,
            sequence: 0,
            caller: Caller::default(),
            capability: None,
            opening: None,
            holder: None,
            operation: Operation::Commit,
        };
        (ticket, request)
    }

    fn queue_of(count: usize) -> Queue {
        let queue = Queue::default();
        for _ in 0..count {
            let (ticket, request) = request();
            queue.put(ticket, request);
        }
        queue
    }

    #[test]
    fn a_commit_waits_for_expected_requests_but_not_for_ever() {
        let mut pace = Pace::default();
        pace.observe(2, 1, Duration::from_millis(4));
        assert_eq!(pace.expected, 3);
        // The third request never comes: the commit begins with the two that have come.
        let taken = queue_of(2).take(MAX_BATCH, &pace);
        assert_eq!(taken.map(|batch| batch.len()), Some(2));
        let taken = queue_of(5).take(MAX_BATCH, &pace);
        assert_eq!(taken.map(|batch| batch.len()), Some(5));
        let taken = queue_of(5).take(1, &pace);
        assert_eq!(taken.map(|batch| batch.len()), Some(1));
    }

    #[test]
    fn requests_that_come_during_the_wait_join_the_commit() {
        let queue = Arc::new(queue_of(1));
        let pace = Pace {
            expected: 2,
            patience: Duration::from_secs(60),
        };
        let other = Arc::clone(&queue);
        let second = std::thread::spawn(move || {
            let (ticket, request) = request();
            other.put(ticket, request);
        });
        let taken = queue.take(MAX_BATCH, &pace);
        assert_eq!(taken.map(|batch| batch.len()), Some(2));
        assert!(second.join().is_ok());
    }

    #[test]
    fn the_end_wakes_a_waiting_commit() {
        let queue = Queue::default();
        lock(&queue.state).stopping = true;
        assert!(queue.take(MAX_BATCH, &Pace::default()).is_none());
    }
}
