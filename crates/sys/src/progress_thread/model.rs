//! Every interleaving of a program's threads with the one that makes progress in their stead, explored by a model checker. The words are
//! the model's, the code is the real one. The program ends when all its operations are complete: a lost call shows as a deadlock.

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// State behind the lock: operations in progress, and whether the thread is to end.
#[derive(Default)]
struct Library {
    pending: u32,
    has_ended: bool,
}

struct Shared {
    idle: AtomicU64,
    calls: AtomicU64,
    waiting: AtomicU64,
    /// The kernel's queue of the thread that sleeps.
    sleeping: (Mutex<()>, Condvar),
    library: Mutex<Library>,
    done: Condvar,
}

impl ProgressThreadMemory for Shared {
    type Word = AtomicU64;
    fn idle(&self) -> &AtomicU64 {
        &self.idle
    }
    fn calls(&self) -> &AtomicU64 {
        &self.calls
    }
    fn waiting(&self) -> &AtomicU64 {
        &self.waiting
    }
    fn sleep(&self, calls: u64) {
        let queue = self.sleeping.0.lock().unwrap();
        if self.calls.load(Relaxed) == calls {
            drop(self.sleeping.1.wait(queue).unwrap());
        }
    }
    fn wake(&self) {
        let _queue = self.sleeping.0.lock().unwrap();
        self.sleeping.1.notify_all();
    }
}

impl Shared {
    /// The thread that makes progress, until the program has ended. It does one operation in a round.
    fn make_progress(&self) {
        loop {
            let (calls, is_free) = begin_round(self);
            let mut has_work = false;
            if is_free {
                let mut library = self.library.lock().unwrap();
                if library.has_ended {
                    return;
                }
                look(self);
                has_work = end_round(self, library.pending > 0);
                if has_work {
                    library.pending -= 1;
                    self.done.notify_all();
                }
            }
            if !has_work {
                sleep(self, calls);
            }
        }
    }

    /// A call that leaves an operation in progress.
    fn begin(&self) {
        let mut library = self.library.lock().unwrap();
        library.pending += 1;
        leave(self, || library.pending > 0);
    }

    /// A call that waits while operations of other calls may be in progress, and one that notifies the thread of these.
    fn wait(&self) {
        begin_wait(self);
        drop(self.library.lock().unwrap());
        end_wait(self);
        let library = self.library.lock().unwrap();
        leave(self, || library.pending > 0);
    }

    /// Waits until the thread that makes progress has completed all operations: this one computes meanwhile.
    fn compute(&self) {
        let mut library = self.library.lock().unwrap();
        while library.pending > 0 {
            library = self.done.wait(library).unwrap();
        }
    }

    fn end(&self) {
        self.library.lock().unwrap().has_ended = true;
        call(self);
    }
}

fn explore(preemptions: usize, programs: &'static [fn(&Shared)]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let shared = Arc::new(Shared {
            idle: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            sleeping: (Mutex::new(()), Condvar::new()),
            library: Mutex::new(Library::default()),
            done: Condvar::new(),
        });
        let spawn = |run: fn(&Shared)| {
            let shared = shared.clone();
            thread::spawn(move || run(&shared))
        };
        let progress_thread = spawn(Shared::make_progress);
        let others: Vec<_> = programs[1..]
            .iter()
            .map(|program| spawn(*program))
            .collect();
        programs[0](&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
        shared.compute();
        shared.end();
        progress_thread.join().unwrap();
    });
}

fn begin_twice(shared: &Shared) {
    shared.begin();
    shared.begin();
}

fn begin_and_wait(shared: &Shared) {
    shared.begin();
    shared.wait();
}

#[test]
fn loom_operations_that_a_call_leaves_are_completed() {
    explore(4, &[begin_twice]);
}

#[test]
fn loom_operations_are_completed_during_a_wait() {
    explore(4, &[begin_and_wait]);
}

#[test]
fn loom_operations_are_completed_during_a_wait_of_another_thread() {
    explore(2, &[Shared::begin, Shared::wait]);
}
