//! Every interleaving of processes that sleep and of those that have to wake them, explored by a model checker. The words are the
//! model's, the code is the real one. A lost notice shows as a deadlock.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::atomic::Ordering::Acquire;

use super::*;

/// Notices, which arrive as messages: each ends a sleep.
#[derive(Default)]
struct Mailbox {
    notices: Mutex<u32>,
    arrived: Condvar,
}

impl Mailbox {
    fn send(&self) {
        *self.notices.lock().unwrap() += 1;
        self.arrived.notify_one();
    }

    fn wait(&self) {
        let mut notices = self.notices.lock().unwrap();
        while *notices == 0 {
            notices = self.arrived.wait(notices).unwrap();
        }
        *notices -= 1;
    }
}

/// Processes that publish phases, each in its own word, as in a collective operation.
struct Phases<const N: usize> {
    bits: AtomicU64,
    wishes: [AtomicU64; N],
    published: [AtomicU64; N],
    mailboxes: [Mailbox; N],
}

impl<const N: usize> Phases<N> {
    fn new() -> Self {
        Self {
            bits: AtomicU64::new(0),
            wishes: std::array::from_fn(|_| AtomicU64::new(0)),
            published: std::array::from_fn(|_| AtomicU64::new(0)),
            mailboxes: std::array::from_fn(|_| Mailbox::default()),
        }
    }

    fn is_over(&self, phase: u64) -> bool {
        self.published
            .iter()
            .all(|word| word.load(Acquire) >= phase)
    }

    fn publish(&self, own: usize, phase: u64) {
        self.published[own].store(phase, Release);
        let bits = sleepers(&self.bits);
        if bits == 0 {
            return;
        }
        let all = (0..N).filter(|rank| bits >> rank & 1 == 1);
        let ready = all.filter(|rank| self.is_over(self.wishes[*rank].load(SeqCst)));
        let taken = take(&self.bits, ready.fold(0, |bits, rank| bits | 1 << rank));
        let woken = (0..N).filter(|rank| taken >> rank & 1 == 1);
        woken.for_each(|rank| self.mailboxes[rank].send());
    }

    fn wait(&self, own: usize, phase: u64) {
        if self.is_over(phase) {
            return;
        }
        loop {
            announce_wish(&self.bits, own as u32, (&self.wishes[own], phase));
            if self.is_over(phase) {
                break;
            }
            self.mailboxes[own].wait();
        }
        withdraw(&self.bits, own as u32);
    }
}

fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn meet<const N: usize>(phases: u64) {
    let all = Arc::new(Phases::<N>::new());
    let run = |own: usize| {
        let all = all.clone();
        move || {
            for phase in 1..=phases {
                all.publish(own, phase);
                all.wait(own, phase);
            }
        }
    };
    let others: Vec<_> = (1..N).map(|own| thread::spawn(run(own))).collect();
    run(0)();
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn loom_two_processes_in_repeated_phases_wake_each_other() {
    explore(4, || meet::<2>(2));
}

#[test]
fn loom_the_last_of_three_wakes_the_sleepers() {
    explore(2, || meet::<3>(1));
}

/// A lock, its waiting processes, and the guarded value.
struct Guarded {
    lock: AtomicU64,
    waiting: AtomicU64,
    value: UnsafeCell<u32>,
    mailboxes: [Mailbox; 3],
}

impl Guarded {
    fn lock(&self, own: u32, exclusive: bool) {
        while try_lock(&self.lock, own, exclusive).is_err() {
            announce(&self.waiting, own);
            if try_lock(&self.lock, own, exclusive).is_ok() {
                return;
            }
            self.mailboxes[own as usize].wait();
        }
    }

    fn unlock(&self, exclusive: bool) {
        unlock(&self.lock, exclusive);
        let bits = sleepers(&self.waiting);
        if bits != 0 {
            let taken = take(&self.waiting, bits);
            let woken = (0..3).filter(|process| taken >> process & 1 == 1);
            woken.for_each(|process| self.mailboxes[process].send());
        }
    }

    fn change(&self, own: u32) {
        self.lock(own, true);
        // SAFETY: this process has the lock alone; the model checker fails if another has it as well.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.unlock(true);
    }

    fn read(&self, own: u32) {
        self.lock(own, false);
        // SAFETY: this process has the lock, so no other changes the value.
        self.value.with(|value| unsafe { *value });
        self.unlock(false);
    }
}

fn share(run: [fn(&Guarded, u32); 3]) {
    let guarded = Arc::new(Guarded {
        lock: AtomicU64::new(0),
        waiting: AtomicU64::new(0),
        value: UnsafeCell::new(0),
        mailboxes: std::array::from_fn(|_| Mailbox::default()),
    });
    let run = |own: usize| {
        let guarded = guarded.clone();
        move || run[own](&guarded, own as u32)
    };
    let others: Vec<_> = (1..3).map(|own| thread::spawn(run(own))).collect();
    run(0)();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(guarded.lock.load(Relaxed), 0);
}

#[test]
fn loom_an_exclusive_lock_excludes_and_its_waiters_are_woken() {
    explore(2, || {
        share([Guarded::change, Guarded::change, Guarded::change])
    });
}

#[test]
fn loom_a_shared_lock_is_shared_and_its_waiters_are_woken() {
    explore(2, || share([Guarded::change, Guarded::read, Guarded::read]));
}
