//! Posted operations: threads of the instance carry them out, as many at a time as there are clients.
//!
//! Operations on one file that may be written are carried out in the order in which they were posted, by the file's client, and so
//! one after the other; a free thread takes operations that another client can carry out meanwhile.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_sys::thread::spawn_worker;

use crate::error::Failure;

/// Most operations that were posted and not yet tested for.
const MOST: usize = 1 << 16;
/// The stack of a thread: a client's call needs some hundred KiB.
const STACK_BYTES: usize = 2 << 20;

type Outcome = Result<u64, Failure>;
type Work = Box<dyn FnOnce() -> Outcome + Send>;

/// An operation that no thread has taken yet.
struct Job {
    op: u64,
    work: Work,
}

/// An operation that was not tested for.
struct Op {
    user: usize,
    outcome: Option<Outcome>,
}

/// A completed operation.
pub(crate) struct Done {
    pub(crate) op: u64,
    pub(crate) user: usize,
    pub(crate) outcome: Outcome,
}

/// All posted operations of an instance.
pub(crate) struct Posted {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    clients: usize,
    broken: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// Jobs by client; the last queue is for those that any client can do.
    queues: Vec<VecDeque<Job>>,
    /// How many jobs there are in all queues.
    queued: usize,
    /// Whether a thread is using this client.
    busy: Vec<bool>,
    ops: HashMap<u64, Op>,
    completed: BTreeSet<u64>,
    last: u64,
    threads: usize,
    /// Threads that wait for a job, or were told that there is one and have not seen it yet.
    idle: usize,
    ended: bool,
}

impl State {
    /// The next job, and the client of its queue.
    fn take(&mut self) -> Option<(usize, Job)> {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            if self.busy[index] {
                continue;
            }
            if let Some(job) = queue.pop_front() {
                self.queued -= 1;
                return Some((index, job));
            }
        }
        None
    }

    fn take_done(&mut self, op: u64) -> Option<Done> {
        if !self.completed.remove(&op) {
            return None;
        }
        let Op { user, outcome } = self.ops.remove(&op)?;
        outcome.map(|outcome| Done { op, user, outcome })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.ended {
                return;
            }
            let Some((index, job)) = state.take() else {
                state.idle += 1;
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            let is_of_client = index < self.clients;
            state.busy[index] = is_of_client;
            drop(state);
            let outcome = catch_unwind(AssertUnwindSafe(job.work)).unwrap_or_else(|_| {
                self.broken.store(true, Ordering::Release);
                Err(Failure::broken())
            });
            state = self.lock();
            state.busy[index] = false;
            if let Some(op) = state.ops.get_mut(&job.op) {
                op.outcome = Some(outcome);
                state.completed.insert(job.op);
            }
            self.done.notify_all();
        }
    }
}

impl Posted {
    /// Operations of an instance with this many clients; `broken` is set if a panic stops an operation.
    pub(crate) fn new(clients: usize, broken: Arc<AtomicBool>) -> Self {
        let mut state = State::default();
        state.queues.resize_with(clients + 1, VecDeque::new);
        state.busy.resize(clients + 1, false);
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                work: Condvar::new(),
                done: Condvar::new(),
                clients,
                broken,
            }),
            workers: Mutex::default(),
        }
    }

    /// Posts an operation for a certain client, or for any. Returns its number.
    pub(crate) fn post(
        &self,
        client: Option<usize>,
        user: usize,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Result<u64, Failure> {
        let mut state = self.shared.lock();
        if state.ended {
            return Err(Failure::handle("this cwfs_t is being disconnected"));
        }
        if state.ops.len() >= MOST {
            let text = format!("{MOST} operations were posted and not tested for");
            return Err(Failure::new(libc::EAGAIN, text));
        }
        // Each idle thread takes one of the jobs that are queued already.
        if state.queued >= state.idle && state.threads < self.shared.clients {
            self.start_worker(&mut state)?;
        }
        state.last += 1;
        let op = state.last;
        state.ops.insert(
            op,
            Op {
                user,
                outcome: None,
            },
        );
        let index = client.unwrap_or(self.shared.clients);
        let work = Box::new(work);
        state.queues[index].push_back(Job { op, work });
        state.queued += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(op)
    }

    fn lock_workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_worker(&self, state: &mut State) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        match spawn_worker("causeway-fs", STACK_BYTES, move || shared.run()) {
            Ok(worker) => {
                state.threads += 1;
                self.lock_workers().push(worker);
                Ok(())
            }
            // The existing threads carry the operation out.
            Err(_) if state.threads > 0 => Ok(()),
            Err(error) => {
                let text = format!("a thread for posted operations cannot be started: {error}");
                Err(Failure::new(libc::EAGAIN, text))
            }
        }
    }

    /// Waits until an operation has completed, for at most this long.
    pub(crate) fn test(&self, op: u64, time: Option<Duration>) -> Result<Option<Done>, Failure> {
        let mut done = None;
        self.wait(time, |state| {
            if !state.ops.contains_key(&op) {
                return Err(Failure::handle(
                    "this operation was tested for already, or never posted",
                ));
            }
            done = state.take_done(op);
            Ok(done.is_some())
        })?;
        Ok(done)
    }

    /// Waits until any operations have completed, for at most this long, unless none are posted. Returns at most `most` of
    /// them.
    pub(crate) fn test_some(
        &self,
        most: usize,
        time: Option<Duration>,
    ) -> Result<Vec<Done>, Failure> {
        let mut found = Vec::new();
        self.wait(time, |state| {
            while found.len() < most
                && let Some(&op) = state.completed.first()
            {
                found.extend(state.take_done(op));
            }
            Ok(!found.is_empty() || state.ops.is_empty() || most == 0)
        })?;
        Ok(found)
    }

    fn wait(
        &self,
        time: Option<Duration>,
        mut is_over: impl FnMut(&mut State) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.shared.lock();
        loop {
            if is_over(&mut state)? {
                return Ok(());
            }
            if state.ended {
                return Err(Failure::handle("this cwfs_t is being disconnected"));
            }
            state = match until {
                None => self
                    .shared
                    .done
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(());
                    }
                    let waited = self.shared.done.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Drops operations that no thread has begun, and waits for the rest.
    pub(crate) fn end(&self) {
        let mut state = self.shared.lock();
        state.ended = true;
        let dropped: Vec<Job> = state.queues.iter_mut().flat_map(std::mem::take).collect();
        state.queued = 0;
        drop(state);
        self.shared.work.notify_all();
        self.shared.done.notify_all();
        drop(dropped);
        let workers = std::mem::take(&mut *self.lock_workers());
        for worker in workers {
            // The thread catches panics.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn posted(clients: usize) -> Posted {
        Posted::new(clients, Arc::new(AtomicBool::new(false)))
    }

    fn post(
        posted: &Posted,
        client: Option<usize>,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> u64 {
        let op = posted.post(client, 7, work);
        op.unwrap_or_else(|_| panic!("it is posted"))
    }

    #[test]
    fn operations_of_one_client_keep_their_order_and_do_not_hold_up_others() {
        let posted = posted(2);
        let (order, seen) = channel();
        let (open, gate) = channel::<()>();
        let first = order.clone();
        let blocked = post(&posted, Some(0), move || {
            let _ = gate.recv();
            let _ = first.send(1);
            Ok(1)
        });
        let next = order.clone();
        let second = post(&posted, Some(0), move || {
            let _ = next.send(2);
            Ok(2)
        });
        let free = post(&posted, None, move || {
            let _ = order.send(3);
            Ok(3)
        });
        let done = posted.test(free, None).ok().flatten();
        assert_eq!(done.map(|done| (done.op, done.user)), Some((free, 7)));
        assert!(matches!(
            posted.test(second, Some(Duration::ZERO)),
            Ok(None)
        ));
        assert!(open.send(()).is_ok());
        for (op, count) in [(second, 2), (blocked, 1)] {
            let done = posted.test(op, None).ok().flatten();
            assert_eq!(done.and_then(|done| done.outcome.ok()), Some(count));
            assert!(posted.test(op, None).is_err(), "it was tested for");
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), [3, 1, 2]);
        assert!(matches!(posted.test_some(5, None), Ok(done) if done.is_empty()));
        posted.end();
        assert!(posted.post(None, 0, || Ok(0)).is_err());
    }

    /// The first one ends when the second one does: a single thread that takes one after the other would wait for ever.
    #[test]
    fn operations_posted_at_once_do_not_wait_for_one_idle_thread() {
        for _ in 0..100 {
            let posted = posted(2);
            let quick = post(&posted, None, || Ok(0));
            assert!(posted.test(quick, None).ok().flatten().is_some());
            while posted.shared.lock().idle == 0 {
                std::thread::yield_now();
            }
            let (open, gate) = channel::<()>();
            let both = [
                post(&posted, None, move || {
                    let _ = gate.recv();
                    Ok(1)
                }),
                post(&posted, None, move || {
                    let _ = open.send(());
                    Ok(2)
                }),
            ];
            for op in both {
                let done = posted.test(op, Some(Duration::from_secs(60)));
                assert!(done.is_ok_and(|done| done.is_some()));
            }
            posted.end();
        }
    }

    #[test]
    fn a_panic_is_an_error_of_its_operation_and_of_the_instance() {
        let posted = posted(1);
        let op = post(&posted, None, || panic!("a test"));
        let done = posted.test(op, None).ok().flatten();
        assert!(done.is_some_and(|done| done.outcome.is_err()));
        assert!(posted.shared.broken.load(Ordering::Acquire));
        posted.end();
    }
}
