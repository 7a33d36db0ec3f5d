//! Every interleaving of followers with a thread that calls them and one that ends its wait for all. The words are the model's, the code is
//! the real one. A lost wake-up shows as a deadlock.

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::{AWAKE, FollowerMemory};

struct FollowerWord {
    state: AtomicU64,
    /// The kernel's queue of the thread that sleeps.
    sleeping: (Mutex<()>, Condvar),
}

impl FollowerMemory for FollowerWord {
    type Word = AtomicU64;
    fn state(&self) -> &AtomicU64 {
        &self.state
    }
    fn sleep(&self, state: u64) -> bool {
        let queue = self.sleeping.0.lock().unwrap();
        if self.state.load(Relaxed) == state {
            drop(self.sleeping.1.wait(queue).unwrap());
        }
        true
    }
    fn wake(&self) {
        let _queue = self.sleeping.0.lock().unwrap();
        self.sleeping.1.notify_all();
    }
}

/// An instance whose threads wait until `done` is not 0. The mutex stands for its lock, and holds the words of those that follow.
struct Shared {
    waiter: AtomicU64,
    words: Mutex<Vec<Arc<FollowerWord>>>,
    done: AtomicU64,
}

impl Shared {
    /// Waits as threads of an instance do: without a look before it sleeps, so that only calls can end that.
    fn wait(&self) {
        let word = Arc::new(FollowerWord {
            state: AtomicU64::new(AWAKE),
            sleeping: (Mutex::new(()), Condvar::new()),
        });
        loop {
            let mut words = self.words.lock().unwrap();
            words.retain(|other| !Arc::ptr_eq(other, &word));
            if self.done.load(Relaxed) != 0 {
                // Another takes over waiting for all, if no thread does.
                if self.waiter.load(SeqCst) == 0 {
                    self.hand_on(words);
                }
                return;
            }
            if self.waiter.load(SeqCst) == 0 {
                // It waits for all, and finds at once what all wait for.
                self.waiter.store(1, SeqCst);
                self.done.store(1, Relaxed);
                super::end_waiter(&self.waiter);
                return self.hand_on(words);
            }
            word.state.store(AWAKE, Relaxed);
            words.push(word.clone());
            drop(words);
            super::sleep(&*word, &self.waiter);
        }
    }

    fn hand_on(&self, words: loom::sync::MutexGuard<'_, Vec<Arc<FollowerWord>>>) {
        let next = super::successor(words.iter().map(|word| &**word));
        let next = next.filter(|word| super::call(*word));
        let next = next.and_then(|next| words.iter().find(|word| std::ptr::eq(&***word, next)));
        let next = next.cloned();
        drop(words);
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Finds what all wait for, calls them, and goes on waiting for all.
    fn call_all(&self) {
        let words = self.words.lock().unwrap();
        self.done.store(1, Relaxed);
        let called = words.iter().filter(|word| super::call(&***word));
        let called: Vec<_> = called.cloned().collect();
        drop(words);
        called.iter().for_each(|word| word.wake());
    }
}

fn explore(switches: usize, followers: usize, main: fn(&Shared)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(move || {
        let shared = Arc::new(Shared {
            waiter: AtomicU64::new(1),
            words: Mutex::new(Vec::new()),
            done: AtomicU64::new(0),
        });
        let follow = |_| {
            let shared = shared.clone();
            thread::spawn(move || shared.wait())
        };
        let threads: Vec<_> = (0..followers).map(follow).collect();
        main(&shared);
        threads.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[test]
fn loom_a_follower_that_is_called_looks() {
    explore(4, 1, Shared::call_all);
}

#[test]
fn loom_followers_take_over_when_no_thread_waits_for_all() {
    explore(3, 2, |shared| {
        let words = shared.words.lock().unwrap();
        super::end_waiter(&shared.waiter);
        shared.hand_on(words);
    });
}
