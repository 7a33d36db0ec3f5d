//! Has the kernel forget what it caches of attributes and names, and the last pages of files.
//!
//! Where a file ends, the kernel fills the page with zeros. When it learns that the file has grown, it sets the size before it drops that page, and may wait for a request to read another page
//! meanwhile: a program that reads just then gets the zeros as content (seen on Linux 6.18, also with a file system of libfuse's). So it is told to drop the page before it can learn of the size.
//!
//! It forgets attributes at once. It drops a page once a request to read it is done, and forgets a name under the lock of the name's directory, which a request of this mount may hold that itself
//! waits for another mount to forget something: so threads of their own do that, and the caller waits
//! for them no longer than the kernel would go by the name anyway, and for pages not much longer than a read takes.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_fs::client::Passed;
use causeway_wire::fs::ObjectId;
use fuser::{INodeNo, Notifier};

/// Most threads: one for each directory whose lock is held, or file that is being read.
const MAX_THREADS: usize = 16;
/// How long a recall waits until pages are dropped. A request to read them may be behind others of this mount that wait, as another mount carries out a recall.
const PATIENCE: Duration = Duration::from_millis(20);
/// A name that no object has. That the kernel has nothing to forget of it shows only that it could take the lock of the directory.
const NO_NAME: &[u8] = b"\x01 no such name";

/// See the module.
#[derive(Debug)]
pub(crate) struct KernelCache {
    notifier: Notifier,
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Directories under whose locks threads are working, and files whose pages they wait for.
    busy: HashSet<ObjectId>,
    threads: usize,
    idle: usize,
    is_ended: bool,
}

/// An item that the kernel forgets under the lock of a directory, or of a file's page.
#[derive(Debug)]
struct Job {
    locked: ObjectId,
    item: CacheItem,
    batch: Arc<Batch>,
}

#[derive(Debug)]
enum CacheItem {
    Name(Vec<u8>),
    /// The attributes of an object that the kernel may be about to learn of.
    Attributes(ObjectId),
    /// Pages of the file itself.
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
    pub(crate) fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            queue: Arc::default(),
        }
    }

    /// Has the kernel forget an object's attributes. That waits for nothing: no lock of the object is taken, as none of its content is
    /// forgotten.
    pub(crate) fn forget_attributes(&self, object: ObjectId) {
        forget_attributes(&self.notifier, object);
    }

    /// Has the kernel forget what was passed on to it, and drop the last pages of files, of which `tail` returns the place. Returns once it has, or goes by none of that any more.
    pub(crate) fn forget(&self, passed: &[Passed], tail: impl Fn(ObjectId) -> Option<Range<u64>>) {
        let (pages, names) = (Arc::new(Batch::default()), Arc::new(Batch::default()));
        let job = |locked: ObjectId, item, batch: &Arc<Batch>| {
            *lock(&batch.left) += 1;
            let batch = Arc::clone(batch);
            Job {
                locked,
                item,
                batch,
            }
        };
        let mut jobs = Vec::new();
        let mut last: Option<Instant> = None;
        // Nothing waits for what a change of the mount's own makes outdated, as that is over already: it holds pages itself.
        let (mut wanted, patience) = (None, Instant::now() + PATIENCE);
        for passed in passed {
            if let Passed::Attributes { object, until, .. } = passed
                && let Some(tail) = tail(*object)
            {
                jobs.push(job(*object, CacheItem::Pages(tail), &pages));
                wanted = wanted.max(Some(*until.min(&patience)));
            }
            let (directory, item, until) = match passed {
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
                    until,
                } => (directory, CacheItem::Attributes(*object), until),
                Passed::Name {
                    directory,
                    name,
                    until,
                } => (directory, CacheItem::Name(name.clone()), until),
            };
            last = last.max(Some(*until));
            jobs.push(job(*directory, item, &names));
        }
        if jobs.is_empty() {
            return;
        }
        self.put(jobs);
        for (batch, until) in [(pages, wanted), (names, last)] {
            if let Some(until) = until {
                batch.wait(until);
            }
        }
    }

    fn put(&self, jobs: Vec<Job>) {
        let mut state = lock(&self.queue.state);
        state.jobs.extend(jobs);
        let wanted = state.jobs.len().saturating_sub(state.idle);
        for _ in 0..wanted.min(MAX_THREADS - state.threads.min(MAX_THREADS)) {
            let (notifier, queue) = (self.notifier.clone(), Arc::clone(&self.queue));
            let thread = std::thread::Builder::new().name("forgets-names".to_owned());
            match thread.spawn(move || queue.run(&notifier)) {
                Ok(_) => state.threads += 1,
                Err(error) => {
                    tracing::warn!(%error, "the kernel goes by names until their time is over");
                }
            }
        }
        drop(state);
        self.queue.work.notify_all();
    }
}

impl Drop for KernelCache {
    fn drop(&mut self) {
        lock(&self.queue.state).is_ended = true;
        self.queue.work.notify_all();
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
                CacheItem::Pages(pages) => {
                    let len = pages.end.saturating_sub(pages.start);
                    let (start, len) = (pages.start as i64, len.max(1) as i64);
                    log_failure(notifier.inval_inode(INodeNo(job.locked.0), start, len));
                }
            }
            job.batch.end_one();
            self.end_job(job.locked);
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

fn forget_attributes(notifier: &Notifier, object: ObjectId) {
    log_failure(notifier.inval_inode(INodeNo(object.0), -1, 0));
}

fn log_failure(told: std::io::Result<()>) {
    if let Err(error) = told {
        // The mount is at its end.
        tracing::debug!(%error, "the kernel forgets nothing");
    }
}
