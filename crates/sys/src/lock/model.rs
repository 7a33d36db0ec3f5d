//! Every interleaving of threads that share the lock, explored by a model checker. The words are the model's, the code
//! is the real one; asymmetric fences are full ones on both sides. A lost wake-up shows as a deadlock, two threads inside as
//! a race.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::{FREE, LockMemory};

struct Shared {
    state: AtomicU64,
    waiting: AtomicU64,
    wakes: AtomicU64,
    handover_requested: AtomicU64,
    /// The kernel's queue of the threads that sleep.
    sleeping: (Mutex<()>, Condvar),
    is_live: AtomicBool,
    entries: UnsafeCell<u32>,
}

/// One thread's view.
#[derive(Clone)]
struct Thread {
    shared: Arc<Shared>,
    number: u64,
}

impl LockMemory for Thread {
    type Word = AtomicU64;
    fn state(&self) -> &AtomicU64 {
        &self.shared.state
    }
    fn waiting(&self) -> &AtomicU64 {
        &self.shared.waiting
    }
    fn wakes(&self) -> &AtomicU64 {
        &self.shared.wakes
    }
    fn handover_requested(&self) -> &AtomicU64 {
        &self.shared.handover_requested
    }
    fn thread_number(&self) -> u64 {
        self.number
    }
    fn heavy_fence(&self) {
        fence(SeqCst);
    }
    fn light_fence(&self) {
        fence(SeqCst);
    }
    fn spin_limit(&self) -> u32 {
        // To look again adds nothing that a switch of threads does not.
        0
    }
    fn note_spins(&self, _spins: u32, _is_inside: bool) {}
    fn may_miss_wakes(&self) -> bool {
        false
    }

    fn sleep(&self, wakes: u64, _: bool) {
        let queue = self.shared.sleeping.0.lock().unwrap();
        if self.shared.wakes.load(Relaxed) == wakes {
            drop(self.shared.sleeping.1.wait(queue).unwrap());
        }
    }
    fn wake(&self) {
        let _queue = self.shared.sleeping.0.lock().unwrap();
        self.shared.sleeping.1.notify_all();
    }
}

impl Thread {
    /// Enters, counts and leaves; returns whether the lock still guarded a value.
    fn enter_and_leave(&self) -> bool {
        let is_live = || self.shared.is_live.load(Relaxed);
        if !super::try_enter(self) && super::enter(self, is_live, || {}).is_err() {
            return false;
        }
        let was_live = is_live();
        // SAFETY: this thread is inside; the model checker fails if another is as well.
        self.shared
            .entries
            .with_mut(|entries| unsafe { *entries += 1 });
        super::leave(self);
        was_live
    }

    /// Enters and ends the guarded value.
    fn end(&self) {
        let is_live = || self.shared.is_live.load(Relaxed);
        if super::try_enter(self) || super::enter(self, is_live, || {}).is_ok() {
            self.shared.is_live.store(false, SeqCst);
            super::close(self, FREE);
        }
    }
}

/// Runs the threads in every interleaving of so many involuntary switches; at the end the lock has to be free.
fn explore(switches: usize, threads: &'static [fn(&Thread)]) {
    for asks in [false, true] {
        explore_from(asks, switches, threads);
    }
}

fn explore_from(asks: bool, switches: usize, threads: &'static [fn(&Thread)]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(move || {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(FREE),
            waiting: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            // As if a thread had been woken in vain often enough, or not.
            handover_requested: AtomicU64::new(asks.into()),
            sleeping: (Mutex::new(()), Condvar::new()),
            is_live: AtomicBool::new(true),
            entries: UnsafeCell::new(0),
        });
        let run = |number: usize| {
            let view = Thread {
                shared: shared.clone(),
                number: number as u64,
            };
            move || threads[number](&view)
        };
        let others: Vec<_> = (1..threads.len()).map(|n| thread::spawn(run(n))).collect();
        run(0)();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.state.load(Relaxed), FREE);
        assert_eq!(shared.waiting.load(Relaxed), 0);
    });
}

fn once(thread: &Thread) {
    assert!(thread.enter_and_leave());
}

fn twice(thread: &Thread) {
    once(thread);
    once(thread);
}

fn once_if_live(thread: &Thread) {
    thread.enter_and_leave();
}

#[test]
fn loom_two_threads_that_enter_again_and_again_both_get_in() {
    explore(4, &[twice, twice]);
}

#[test]
fn loom_three_threads_get_in() {
    explore(2, &[twice, once, once]);
}

#[test]
fn loom_the_lock_is_released_after_the_guarded_value_has_ended() {
    explore(3, &[Thread::end, once_if_live, once_if_live]);
}
