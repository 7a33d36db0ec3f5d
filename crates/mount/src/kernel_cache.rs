//! Has the kernel forget what it caches of attributes and names, and drop pages of files.
//!
//! It forgets attributes at once. It drops a page once a request to read or write it is done, and forgets a name under the lock of the name's directory, which a request of this mount may hold that itself
//! waits for another mount to forget something. No thread that serves the kernel may wait for either: threads of their own do, for names others than for pages, as a reply that waits for pages may hold a
//! directory's lock. A caller waits for names no longer than the kernel would go by them anyway. These threads have no files but one device ([`notices`](crate::notices)), so what is to be done when pages are dropped, such as to reply to
//! a request, others do.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_fs::client::Passed;
use causeway_wire::fs::ObjectId;

use crate::notices::Notices;

/// Most threads for names, and for pages: one for each directory whose lock is held, and each file whose pages are. Where an I/O server does not reply, as many files may be read for which replies wait.
const MAX_THREADS: usize = 64;
/// A name that no object has. That the kernel has nothing to forget of it shows only that it could take the lock of the directory.
const NO_NAME: &[u8] = b"\x01 no such name";

/// See the module.
#[derive(Debug)]
pub(crate) struct KernelCache {
    device: Notices,
    names: Arc<Queue>,
    pages: Arc<Queue>,
}

/// Work for threads that wait for the kernel's locks.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Directories for whose locks threads wait, or files for whose pages.
    busy: HashSet<ObjectId>,
    threads: usize,
    idle: usize,
    is_ended: bool,
}

/// An item that the kernel forgets under the lock of a directory, or of a file's pages.
struct Job {
    locked: ObjectId,
    item: CacheItem,
    then: Then,
}

/// What is done when the kernel has forgotten an item.
enum Then {
    /// One job less of a batch is left.
    End(Arc<Batch>),
    /// This is called, by a thread that has the process's files.
    Call(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for Job {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut job = formatter.debug_struct("Job");
        job.field("locked", &self.locked).field("item", &self.item);
        job.finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum CacheItem {
    Name(Vec<u8>),
    /// The attributes of an object that the kernel may be about to learn of.
    Attributes(ObjectId),
    /// Pages of the file itself with these bytes.
    Pages(Range<u64>),
}

/// Jobs of one recall that are waited for together.
#[derive(Debug, Default)]
struct Batch {
    left: Mutex<usize>,
    done: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KernelCache {
    /// Starts a thread for pages; others are started when they are needed.
    pub(crate) fn start(device: OwnedFd) -> io::Result<Self> {
        let cache = Self {
            device: Notices::by(device),
            names: Arc::default(),
            pages: Arc::default(),
        };
        cache.start_thread(&cache.pages)?;
        lock(&cache.pages.state).threads = 1;
        Ok(cache)
    }

    fn start_thread(&self, queue: &Arc<Queue>) -> io::Result<()> {
        let queue = Arc::clone(queue);
        // The sender waits until the other thread is free: it takes no job whose end nobody could report.
        let (sender, calls) = sync_channel::<Box<dyn FnOnce() + Send>>(0);
        let thread = std::thread::Builder::new().name("forgotten".to_owned());
        thread.spawn(move || calls.into_iter().for_each(|call| call()))?;
        self.device
            .start_thread(move |notices| queue.run(notices, &sender))
    }

    /// Has the kernel forget an object's attributes, which waits for nothing.
    pub(crate) fn forget_attributes(&self, object: ObjectId) {
        self.device.forget_attributes(object);
    }

    /// Has the kernel forget what was passed on to it. Returns once it has, or goes by none of that any more.
    pub(crate) fn forget(&self, passed: &[Passed]) {
        let batch = Arc::new(Batch::default());
        let mut jobs = Vec::new();
        let mut last: Option<Instant> = None;
        for passed in passed {
            let (directory, item, until) = match passed {
                Passed::Attributes { until: None, .. } => continue,
                Passed::Attributes {
                    object,
                    behind: None,
                    ..
                } => {
                    self.forget_attributes(*object);
                    continue;
                }
                Passed::Attributes {
                    object,
                    behind: Some(directory),
                    until: Some(until),
                } => (directory, CacheItem::Attributes(*object), until),
                Passed::Name {
                    directory,
                    name,
                    until,
                } => (directory, CacheItem::Name(name.clone()), until),
            };
            last = last.max(Some(*until));
            *lock(&batch.left) += 1;
            jobs.push(Job {
                locked: *directory,
                item,
                then: Then::End(Arc::clone(&batch)),
            });
        }
        if let Some(until) = last {
            self.put(&self.names, jobs);
            batch.wait(until);
        }
    }

    /// Has the kernel drop the pages of files that have these bytes, and calls `then` when it has dropped all of them.
    pub(crate) fn drop_pages(
        &self,
        pages: Vec<(ObjectId, Range<u64>)>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let then = Arc::new(Mutex::new(then));
        let job = |(file, bytes)| {
            let then = Arc::clone(&then);
            Job {
                locked: file,
                item: CacheItem::Pages(bytes),
                then: Then::Call(Box::new(move || call_last(then))),
            }
        };
        let jobs = pages.into_iter().map(job).collect();
        call_last(then);
        self.put(&self.pages, jobs);
    }

    fn put(&self, queue: &Arc<Queue>, jobs: Vec<Job>) {
        let mut state = lock(&queue.state);
        state.jobs.extend(jobs);
        let jobs = state.jobs.iter().map(|job| job.locked);
        let free: HashSet<ObjectId> = jobs.filter(|locked| !state.busy.contains(locked)).collect();
        let wanted = free.len().saturating_sub(state.idle);
        for _ in 0..wanted.min(MAX_THREADS - state.threads.min(MAX_THREADS)) {
            match self.start_thread(queue) {
                Ok(()) => state.threads += 1,
                Err(error) => {
                    tracing::warn!(%error, "what the kernel has to forget waits, and names at most until their time is over");
                }
            }
        }
        drop(state);
        queue.work.notify_all();
    }
}

impl Drop for KernelCache {
    fn drop(&mut self) {
        for queue in [&self.names, &self.pages] {
            lock(&queue.state).is_ended = true;
            queue.work.notify_all();
        }
    }
}

impl Queue {
    /// Runs in a thread that has no files but the device.
    fn run(&self, notices: &Notices, calls: &SyncSender<Box<dyn FnOnce() + Send>>) {
        while let Some(job) = self.next() {
            match &job.item {
                CacheItem::Name(name) => notices.forget_name(job.locked, name),
                CacheItem::Attributes(object) => {
                    notices.forget_name(job.locked, NO_NAME);
                    notices.forget_attributes(*object);
                }
                CacheItem::Pages(bytes) => notices.drop_pages(job.locked, bytes),
            }
            self.end_job(job.locked);
            match job.then {
                Then::End(batch) => batch.end_one(),
                Then::Call(call) => {
                    if let Err(unsent) = calls.send(call) {
                        // The other thread has panicked. This one must not close the files that the call may own.
                        std::mem::forget(unsent);
                    }
                }
            }
        }
    }

    /// Others may work under the same lock now.
    fn end_job(&self, locked: ObjectId) {
        lock(&self.state).busy.remove(&locked);
        self.work.notify_all();
    }

    /// Waits for a job under a lock that no other thread waits for; `None` at the end of the mount.
    fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            let is_free = |job: &Job| !state.busy.contains(&job.locked);
            let free = state.jobs.iter().position(is_free);
            if let Some(job) = free.and_then(|free| state.jobs.remove(free)) {
                state.busy.insert(job.locked);
                return Some(job);
            }
            if state.is_ended {
                return None;
            }
            state.idle += 1;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Batch {
    fn end_one(&self) {
        let mut left = lock(&self.left);
        *left -= 1;
        if *left == 0 {
            self.done.notify_all();
        }
    }

    fn wait(&self, until: Instant) {
        let mut left = lock(&self.left);
        while *left > 0 {
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return;
            }
            let waited = self.done.wait_timeout(left, time);
            (left, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Calls a function with which others are done.
fn call_last(function: Arc<Mutex<impl FnOnce()>>) {
    if let Some(function) = Arc::into_inner(function) {
        let function = function.into_inner();
        function.unwrap_or_else(PoisonError::into_inner)();
    }
}
