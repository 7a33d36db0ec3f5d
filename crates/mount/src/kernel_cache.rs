//! Has the kernel forget what it caches of attributes and names, and drop pages of files.
//!
//! It forgets attributes at once. It drops a page once a request to read or write it is done, and forgets a name under the lock of the name's directory, which a request of this mount may hold that itself
//! waits for another mount to forget something. No thread that serves the kernel may wait for either: threads of their own do, for names others than for pages, as a reply that waits for pages may hold a
//! directory's lock. A caller waits for names no longer than the kernel would go by them anyway.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_fs::client::Passed;
use causeway_wire::fs::ObjectId;
use fuser::{INodeNo, Notifier};

/// Most threads for names, and for pages: one for each directory whose lock is held, and each file whose pages are. Where an I/O server does not reply, as many files may be read for which replies wait.
const MAX_THREADS: usize = 64;
/// A name that no object has. That the kernel has nothing to forget of it shows only that it could take the lock of the directory.
const NO_NAME: &[u8] = b"\x01 no such name";

/// See the module.
#[derive(Debug)]
pub(crate) struct KernelCache {
    notifier: Notifier,
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
    /// Called when it has forgotten the item.
    then: Box<dyn FnOnce() + Send>,
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
    pub(crate) fn start(notifier: Notifier) -> io::Result<Self> {
        let cache = Self {
            notifier,
            names: Arc::default(),
            pages: Arc::default(),
        };
        cache.start_thread(&cache.pages)?;
        lock(&cache.pages.state).threads = 1;
        Ok(cache)
    }

    fn start_thread(&self, queue: &Arc<Queue>) -> io::Result<()> {
        let (notifier, queue) = (self.notifier.clone(), Arc::clone(queue));
        let thread = std::thread::Builder::new().name("forgets".to_owned());
        thread.spawn(move || queue.run(&notifier)).map(drop)
    }

    /// Has the kernel forget an object's attributes. That waits for nothing: no lock of the object is taken, as none of its content is
    /// forgotten.
    pub(crate) fn forget_attributes(&self, object: ObjectId) {
        forget_attributes(&self.notifier, object);
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
            let batch = Arc::clone(&batch);
            jobs.push(Job {
                locked: *directory,
                item,
                then: Box::new(move || batch.end_one()),
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
                then: Box::new(move || call_last(then)),
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
    fn run(&self, notifier: &Notifier) {
        while let Some(job) = self.next() {
            let forget_name = |name: &[u8]| {
                let directory = INodeNo(job.locked.0);
                log_failure(notifier.inval_entry(directory, OsStr::from_bytes(name)));
            };
            match &job.item {
                CacheItem::Name(name) => forget_name(name),
                CacheItem::Attributes(object) => {
                    forget_name(NO_NAME);
                    forget_attributes(notifier, *object);
                }
                CacheItem::Pages(bytes) => {
                    let len = bytes.end.saturating_sub(bytes.start);
                    // To the kernel, a length of 0 is all that follows.
                    let [start, len] =
                        [bytes.start, len].map(|number| i64::try_from(number).unwrap_or(0));
                    log_failure(notifier.inval_inode(INodeNo(job.locked.0), start, len));
                }
            }
            self.end_job(job.locked);
            (job.then)();
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

fn forget_attributes(notifier: &Notifier, object: ObjectId) {
    log_failure(notifier.inval_inode(INodeNo(object.0), -1, 0));
}

fn log_failure(told: std::io::Result<()>) {
    if let Err(error) = told {
        // The mount is at its end.
        tracing::debug!(%error, "the kernel forgets nothing");
    }
}
