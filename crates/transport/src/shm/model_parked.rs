//! Every interleaving of a sleep that is detached from the instance: a peer rings while one thread
//! sleeps and another uses the instance, polls it and takes the events that would have ended the
//! sleep. Run as `model.rs`.

use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::doorbell::{self, BellMemory, SleepOn};
use crate::wake::WakeFlag;

/// The state that the threads and the peer share.
struct Shared {
    armed: AtomicU64,
    summary: AtomicU64,
    bitmap: AtomicU64,
    /// The kernel's queue of the threads that sleep on `armed`.
    parked: (Mutex<()>, Condvar),
    descriptors: (Mutex<Descriptors>, Condvar),
    flag: WakeFlag,
    instance: Mutex<Instance>,
}

/// Readable descriptors.
#[derive(Default)]
struct Descriptors {
    record: bool,
    event: bool,
}

/// State of a thread inside the instance.
#[derive(Default)]
struct Instance {
    /// The peer's packets were polled.
    has_news: bool,
    /// The peer is polled, and does not ring.
    is_hot: bool,
    /// The announced sleep, and the state at that time.
    announced: u64,
    had_news: bool,
    sleeps: u64,
}

/// What the other thread does last before it leaves.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// It wakes the sleeper, if the sleeper has to check for itself.
    Looks,
    /// Nothing.
    Blindly,
}

impl BellMemory for Shared {
    type Word = AtomicU64;
    fn armed(&self) -> &AtomicU64 {
        &self.armed
    }
    fn summary(&self) -> &AtomicU64 {
        &self.summary
    }
    fn bitmap(&self, _: usize) -> &AtomicU64 {
        &self.bitmap
    }
    fn full_fence(&self) {
        fence(SeqCst);
    }
    fn wake_parked(&self) {
        let _queue = self.parked.0.lock().unwrap();
        self.parked.1.notify_all();
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            armed: AtomicU64::new(0),
            summary: AtomicU64::new(0),
            bitmap: AtomicU64::new(0),
            parked: (Mutex::new(()), Condvar::new()),
            descriptors: (Mutex::default(), Condvar::new()),
            flag: WakeFlag::default(),
            instance: Mutex::default(),
        })
    }

    fn make_readable(&self, change: impl FnOnce(&mut Descriptors)) {
        change(&mut self.descriptors.0.lock().unwrap());
        self.descriptors.1.notify_all();
    }

    /// The peer.
    fn ring(&self) {
        if let Some(sleep) = doorbell::ring(self, 0)
            && !doorbell::call(self, sleep)
        {
            self.make_readable(|readable| readable.record = true);
            doorbell::woken(self, sleep);
        }
    }

    /// Takes all events: bits first, then records.
    fn poll(&self, instance: &mut Instance) {
        let mut rung = Vec::new();
        doorbell::collect(self, &mut rung);
        if !rung.is_empty() {
            instance.has_news = true;
            instance.is_hot = true;
        }
        self.descriptors.0.lock().unwrap().record = false;
    }

    /// Another thread.
    fn use_instance(&self, leaves: Leaves) {
        let mut instance = self.instance.lock().unwrap();
        self.poll(&mut instance);
        let sleep = instance.announced;
        let stays_armed =
            self.armed.load(Relaxed) == sleep && !instance.is_hot && !doorbell::is_rung(self);
        let may_sleep = instance.has_news == instance.had_news && stays_armed;
        if leaves == Leaves::Looks && sleep != 0 && !may_sleep {
            if self.flag.set() {
                self.make_readable(|readable| readable.event = true);
            }
            doorbell::unpark(self);
        }
    }

    /// Announces a sleep, unless there is an event to poll for.
    fn prepare(&self, instance: &mut Instance, on: SleepOn) -> Option<u64> {
        instance.sleeps += 1;
        let sleep = doorbell::sleep(instance.sleeps, on);
        doorbell::arm(self, sleep);
        instance.is_hot = false;
        fence(SeqCst);
        let may_sleep = match on {
            SleepOn::Word => doorbell::is_quiet(self, [&self.flag]),
            SleepOn::Descriptors => doorbell::is_quiet(self, []) && self.flag.begin_sleep(),
        };
        if !may_sleep {
            self.finish(instance);
            return None;
        }
        instance.announced = sleep;
        instance.had_news = instance.has_news;
        Some(sleep)
    }

    fn finish(&self, instance: &mut Instance) {
        instance.announced = 0;
        self.flag.end_sleep();
        doorbell::disarm(self);
        self.flag.take();
    }

    /// Sleeps outside.
    fn sleep(&self, sleep: u64, on: SleepOn) {
        match on {
            SleepOn::Word => {
                let queue = self.parked.0.lock().unwrap();
                if self.armed.load(Relaxed) == sleep {
                    drop(self.parked.1.wait(queue).unwrap());
                }
            }
            SleepOn::Descriptors => {
                let mut readable = self.descriptors.0.lock().unwrap();
                while !readable.record && !readable.event {
                    readable = self.descriptors.1.wait(readable).unwrap();
                }
                readable.event = false;
            }
        }
    }

    /// Waits until the peer's packets were polled by any thread.
    fn wait(&self, on: SleepOn) {
        loop {
            let mut instance = self.instance.lock().unwrap();
            self.poll(&mut instance);
            if instance.has_news {
                return;
            }
            let prepared = self.prepare(&mut instance, on);
            drop(instance);
            if let Some(sleep) = prepared {
                self.sleep(sleep, on);
                self.finish(&mut self.instance.lock().unwrap());
            }
        }
    }
}

fn explore(on: SleepOn, leaves: Leaves, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        // An instance that the model gives up as deadlocked must not be dropped.
        let shared = ManuallyDrop::new(Shared::new());
        let peer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.ring()
        });
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.use_instance(leaves)
        });
        shared.wait(on);
        peer.join().unwrap();
        other.join().unwrap();
        drop(ManuallyDrop::into_inner(shared));
    });
}

#[test]
fn loom_events_that_another_thread_takes_end_a_detached_sleep() {
    explore(SleepOn::Word, Leaves::Looks, 3);
    explore(SleepOn::Descriptors, Leaves::Looks, 3);
}

/// A thread that reads a record off the socket and leaves without a check hides it: the model finds that. (A thread that
/// sleeps on the word is woken by the peer itself, also if another thread polls.)
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_thread_that_reads_a_record_unchecked_is_caught() {
    explore(SleepOn::Descriptors, Leaves::Blindly, 3);
}
