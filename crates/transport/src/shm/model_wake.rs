//! Every interleaving of a wait's end: peers ring, another thread calls, the relay reports, a timer runs out, and
//! polls in between take rung bits. Run as `model.rs`, whose doorbell this uses.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, fence};
use loom::thread;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::doorbell::{self, SleepOn};
use super::model::Bell;
use crate::wake::WakeFlag;

/// State shared by the waiter's thread and the threads that may end its wait.
struct Waiter {
    bell: Bell,
    /// Another thread's call.
    called: WakeFlag,
    /// The relay's report.
    reported: WakeFlag,
    /// The timer has run out.
    is_time_up: AtomicBool,
}

/// A cause that ends a wait.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    Ring,
    Call,
    Report,
    Timer,
}

/// When the waiter checks whether it was called.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// Behind the announcement, as the code does.
    Within,
    /// Before it.
    Before,
    /// Only at the bits of the doorbell, of which a call rings one.
    AtBits,
}

/// The waiter, as long as the model runs: one that the model gives up as deadlocked must not be dropped.
struct Kept(ManuallyDrop<Arc<Waiter>>);

impl Drop for Kept {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the field is not used after this drop.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl Waiter {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bell: Bell::new(),
            called: WakeFlag::default(),
            reported: WakeFlag::default(),
            is_time_up: AtomicBool::new(false),
        })
    }

    /// An action of another thread or process.
    fn cause(&self, cause: Cause, look: Look) {
        match cause {
            Cause::Ring => self.bell.ring_bit(0),
            Cause::Call if look == Look::AtBits => {
                self.called.set();
                self.bell.ring_bit(1);
            }
            Cause::Call => {
                if self.called.set() {
                    self.bell.notify();
                }
                doorbell::unpark(&self.bell);
            }
            Cause::Report => {
                self.reported.set();
                doorbell::unpark(&self.bell);
            }
            Cause::Timer => {
                self.is_time_up.store(true, Relaxed);
                self.bell.time_is_up();
            }
        }
    }

    /// Sleeps once, unless there is a reason not to. A timer interrupts the sleep for a check of other events.
    fn sleep(&self, number: u64, on: SleepOn, look: Look) {
        if look == Look::Before && self.called.is_set() {
            return;
        }
        let sleep = doorbell::sleep(number, on);
        doorbell::arm(&self.bell, sleep);
        fence(SeqCst);
        let looks_at = |flag| (look == Look::Within).then_some(flag);
        let may_sleep = match on {
            SleepOn::Word => {
                let flags = looks_at(&self.called).into_iter().chain([&self.reported]);
                doorbell::is_quiet(&self.bell, flags)
            }
            SleepOn::Descriptors => doorbell::is_quiet(&self.bell, []) && self.called.begin_sleep(),
        };
        if may_sleep {
            self.bell.sleep(sleep, on);
            while self.is_time_up.swap(false, Relaxed) {
                self.bell.sleep(sleep, on);
            }
        }
        self.called.end_sleep();
        doorbell::disarm(&self.bell);
    }

    /// Waits until all of `causes` except timers have occurred.
    fn wait(&self, causes: &[Cause], on: SleepOn, look: Look) {
        let mut missing: Vec<_> = causes.iter().filter(|c| **c != Cause::Timer).collect();
        let (mut number, mut rung) = (0, Vec::new());
        loop {
            doorbell::collect(&self.bell, &mut rung);
            let has_rung = rung.drain(..).any(|bit| bit == 0);
            missing.retain(|cause| match cause {
                Cause::Ring => !has_rung,
                Cause::Call => true,
                Cause::Report => !self.reported.take(),
                Cause::Timer => false,
            });
            if missing.is_empty() {
                return;
            }
            number += 1;
            self.sleep(number, on, look);
            if self.called.take() {
                missing.retain(|cause| **cause != Cause::Call);
            }
        }
    }
}

fn explore(causes: &'static [Cause], on: SleepOn, look: Look, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        let waiter = Kept(ManuallyDrop::new(Waiter::new()));
        let others: Vec<_> = causes
            .iter()
            .map(|&cause| {
                let waiter = Arc::clone(&waiter.0);
                thread::spawn(move || waiter.cause(cause, look))
            })
            .collect();
        waiter.0.wait(causes, on, look);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn loom_a_parked_wait_ends_by_ring_call_and_report() {
    explore(&[Cause::Call], SleepOn::Word, Look::Within, 4);
    explore(&[Cause::Ring, Cause::Call], SleepOn::Word, Look::Within, 2);
    explore(
        &[Cause::Call, Cause::Report],
        SleepOn::Word,
        Look::Within,
        3,
    );
    explore(
        &[Cause::Ring, Cause::Call, Cause::Report],
        SleepOn::Word,
        Look::Within,
        1,
    );
}

/// After the timer, the same sleep goes on without being announced anew.
#[test]
fn loom_a_timer_hides_no_event() {
    explore(&[Cause::Timer, Cause::Ring], SleepOn::Word, Look::Within, 2);
    explore(&[Cause::Timer, Cause::Call], SleepOn::Word, Look::Within, 2);
    explore(
        &[Cause::Timer, Cause::Ring, Cause::Call],
        SleepOn::Word,
        Look::Within,
        1,
    );
}

#[test]
fn loom_a_wait_on_descriptors_ends_by_ring_and_call() {
    explore(&[Cause::Call], SleepOn::Descriptors, Look::Within, 4);
    explore(
        &[Cause::Ring, Cause::Call],
        SleepOn::Descriptors,
        Look::Within,
        2,
    );
}

/// A check of the flag before the announcement loses calls: the model finds it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_check_before_the_announcement_is_caught() {
    explore(&[Cause::Call], SleepOn::Word, Look::Before, 3);
}

/// A call that only rings a bit is consumed by a poll: the model finds it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_an_unpark_consumed_by_a_poll_is_caught() {
    explore(&[Cause::Call], SleepOn::Word, Look::AtBits, 3);
}
