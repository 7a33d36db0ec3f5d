//! Threads for work that would block the server's loop: device reads, large writes, syncs, removals.
//!
//! Threads are started when work waits and no thread is idle, and end after some idle seconds, so that an idle server
//! has none.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use causeway_sys::waits;

use super::pieces::Scratch;
use crate::locks::{lock, wait_timeout_while};
use crate::threads::AbortOnPanic;

/// How long an idle thread stays, so that an idle server has none. No task depends on it.
const LINGER: Duration = Duration::from_secs(5);

type Task = Box<dyn FnOnce(&mut Scratch) + Send>;

/// Work that waits for a thread.
enum Queued {
    /// A task.
    Task(Task),
    /// A function that makes a task; it is called when a thread takes it, before any later one is taken.
    Ordered(Box<dyn FnOnce() -> Task + Send>),
}

impl Queued {
    fn into_task(self) -> Task {
        match self {
            Self::Task(task) => task,
            Self::Ordered(make) => make(),
        }
    }
}

/// A bounded number of threads that run tasks in the order given.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Queued>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl Pool {
    /// A pool of at most `most` threads.
    pub fn new(most: usize) -> Self {
        Self {
            shared: Arc::default(),
            most: most.max(1),
        }
    }

    /// Has `task` run by one of the threads, or by the caller if no thread can be started.
    pub fn run(&self, task: impl FnOnce(&mut Scratch) + Send + 'static) {
        self.queue(Queued::Task(Box::new(task)));
    }

    /// As [`Pool::run`], for tasks that may have to wait for each other: `begin` is called when a thread takes the task,
    /// before any later task is taken, and must not wait. So a task only waits for others that have threads.
    pub fn run_ordered<T>(
        &self,
        begin: impl FnOnce() -> T + Send + 'static,
        task: impl FnOnce(T, &mut Scratch) + Send + 'static,
    ) where
        T: Send + 'static,
    {
        self.queue(Queued::Ordered(Box::new(move || {
            let begun = begin();
            Box::new(move |scratch: &mut Scratch| task(begun, scratch))
        })));
    }

    fn queue(&self, queued: Queued) {
        let mut state = lock(&self.shared.state);
        state.tasks.push_back(queued);
        if state.idle >= state.tasks.len() || state.threads >= self.most {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || shared.serve());
        if started.is_ok() {
            state.threads += 1;
        } else if state.threads == 0
            && let Some(queued) = state.tasks.pop_back()
        {
            drop(state);
            queued.into_task()(&mut Scratch::default());
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).stopping = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    /// The loop of a thread.
    fn serve(&self) {
        let _guard = AbortOnPanic("storage");
        let mut scratch = Scratch::default();
        let mut state = lock(&self.state);
        loop {
            if let Some(queued) = state.tasks.pop_front() {
                let task = queued.into_task();
                drop(state);
                task(&mut scratch);
                state = lock(&self.state);
                continue;
            }
            if state.stopping {
                break;
            }
            state.idle += 1;
            let (woken, is_time_up) =
                wait_timeout_while(&self.work, state, waits::tidy_after(LINGER), |state| {
                    state.tasks.is_empty() && !state.stopping
                });
            state = woken;
            state.idle -= 1;
            if is_time_up {
                break;
            }
        }
        state.threads -= 1;
    }
}
