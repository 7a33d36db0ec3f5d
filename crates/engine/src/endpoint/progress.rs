//! Making progress: polling the methods, ticking them, waiting.

use std::time::{Duration, Instant};

use super::Endpoint;
use super::connections::Delivery;
use super::methods::Polling;
use super::sleep::{SleepOn, Woken};
use crate::conversations::Conversations;
use crate::matcher::Matcher;
use crate::waiting::spin::{LONG_TURN, Next};

/// Polls of the only busy method in a row while waiting.
const SPINS: u32 = 16;

/// One wait. A large message comes in many steps, each of them soon after the last: how long the
/// first took says how long to spin next time, and between steps the spin is more patient.
struct Steps {
    start: Instant,
    first_after: Option<Duration>,
    /// When something happened last, or the wait began.
    last: Instant,
}

impl Steps {
    fn from(start: Instant) -> Self {
        Self {
            start,
            first_after: None,
            last: start,
        }
    }

    /// Something has happened. Answers how long the wait was for the first time that it did.
    fn step(&mut self, now: Instant) -> Duration {
        self.last = now;
        *self
            .first_after
            .get_or_insert_with(|| now.saturating_duration_since(self.start))
    }

    fn has_begun(&self) -> bool {
        self.first_after.is_some()
    }
}

/// What some polls came to.
enum Polled {
    /// What is waited for is there.
    Ready,
    /// Something has happened.
    Something,
    Nothing,
}

impl<M: Matcher> Endpoint<M> {
    /// Polls the methods once; answers whether anything happened.
    #[inline]
    pub(super) fn progress(&mut self) -> bool {
        self.advance(1)
    }

    /// Polls the methods: `spins` times, until something happens, if there is one method to poll.
    #[inline]
    fn advance(&mut self, spins: u32) -> bool {
        if self.pace.count() {
            return self.progress_and_sample();
        }
        let Some(method) = self.methods.only else {
            return self.poll_methods(false);
        };
        let now = self.methods.now();
        let slot = &mut self.methods.slots[method];
        let now = slot.time(now);
        let sink = &mut Delivery {
            conversations: &mut self.conversations,
            connections: &mut self.connections,
            method,
            limits: slot.limits,
        };
        let any = match spins {
            1 => slot.method.poll(now, sink),
            _ => slot.method.spin(now, sink, spins),
        };
        slot.polled(any);
        self.settle();
        any
    }

    /// Polls the methods that are always polled, and those that are `seldom`.
    #[inline(never)]
    fn poll_methods(&mut self, seldom: bool) -> bool {
        let mut any = false;
        let now = self.methods.now();
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            match slot.polling {
                Polling::Always => {}
                Polling::Seldom if seldom => {}
                Polling::Seldom | Polling::Never => continue,
            }
            let sink = &mut Delivery {
                conversations: &mut self.conversations,
                connections: &mut self.connections,
                method,
                limits: slot.limits,
            };
            let polled = slot.method.poll(slot.time(now), sink);
            slot.polled(polled);
            any |= polled;
        }
        self.settle();
        any
    }

    #[cold]
    fn progress_and_sample(&mut self) -> bool {
        // A peer that runs is soon done with memory that it holds.
        self.conversations.retry_held();
        let any = self.poll_methods(true);
        self.methods.choose();
        let now = self.methods.read_clock();
        if self.pace.sample(now) {
            self.tick(now);
        }
        any
    }

    #[cold]
    fn tick(&mut self, now: Instant) {
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            slot.method.tick(
                now,
                &mut Delivery {
                    conversations: &mut self.conversations,
                    connections: &mut self.connections,
                    method,
                    limits: slot.limits,
                },
            );
        }
        self.conversations.retry_held();
        self.settle();
        self.pace.ticked(now, self.methods.deadline());
        self.look(now);
    }

    /// Polls the methods so many times, or until `ready`.
    #[inline]
    fn advance_until(
        &mut self,
        mut polls: u32,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> Polled {
        let mut polled = Polled::Nothing;
        while polls > 0 {
            let spins = polls.min(SPINS);
            if self.advance(spins) {
                polled = Polled::Something;
            }
            if ready(&self.conversations) {
                return Polled::Ready;
            }
            polls -= spins;
        }
        polled
    }

    /// Makes progress until `ready`, at most for `idle` or until another thread wakes us; answers
    /// whether it is ready.
    pub(super) fn wait_until(
        &mut self,
        idle: Duration,
        ready: impl Fn(&Conversations<M>) -> bool,
    ) -> bool {
        if self.turn.count() {
            self.end_turn();
        }
        let polls = self.spin.free_polls();
        if let Polled::Ready = self.advance_until(polls, &ready) {
            self.spin.came_at_once();
            self.waiting_since = None;
            return true;
        }
        let start = self.methods.read_clock();
        let until = start.checked_add(idle);
        // Who waits again and again for a moment, in vain, waits all the time.
        let mut steps = Steps::from(*self.waiting_since.get_or_insert(start));
        loop {
            let is_ready = self.spin_until(&mut steps, until, &ready);
            let now = self.methods.read_clock();
            if is_ready {
                self.came(&mut steps, now);
                return true;
            }
            if until.is_some_and(|until| now >= until) {
                return false;
            }
            let woken = self.rest(until);
            let now = self.methods.read_clock();
            self.turn.begin(now);
            let any = self.progress();
            if ready(&self.conversations) {
                self.came(&mut steps, now);
                return true;
            }
            if woken == Woken::Waker {
                return false;
            }
            if any {
                steps.step(now);
            } else {
                // A method may be unable to sleep just now, for a peer that others keep from running.
                std::thread::yield_now();
            }
        }
    }

    /// Looks at the peers for observers, if it is time to.
    pub(super) fn look(&mut self, now: Instant) {
        let (all, connections) = (&mut self.conversations, &mut self.connections);
        self.watch.look(all, connections, &self.methods, now);
    }

    /// What was waited for is there.
    fn came(&mut self, steps: &mut Steps, now: Instant) {
        self.spin.came_after(steps.step(now));
        self.waiting_since = None;
    }

    /// Lets others run if it is their turn.
    #[cold]
    fn end_turn(&mut self) {
        let now = self.methods.read_clock();
        if self.turn.is_over(now) {
            self.let_others_run(now);
        }
    }

    /// Gives the processor up `now`, and learns from how long that takes. Answers when it is ours again.
    pub(super) fn let_others_run(&mut self, now: Instant) -> Instant {
        std::thread::yield_now();
        let back = self.methods.read_clock();
        let took = back - now;
        if took >= LONG_TURN && self.methods.sleep_is_dear() && self.crowd.explains(took) {
            self.spin.yielded_to_many();
        } else {
            self.spin.yielded(took);
        }
        self.turn.yielded(now, back);
        back
    }

    /// Sleeps until there is something to poll for or another thread calls, at most until `until` or a method's
    /// deadline.
    fn rest(&mut self, until: Option<Instant>) -> Woken {
        let now = self.methods.read_clock();
        self.look(now);
        let Some(on) = self.sleeper.prepare(&mut self.methods) else {
            return self.sleeper.take_call();
        };
        self.sleeps += 1;
        let is_time_up = self.sleep(on, until);
        self.sleeper.end(&mut self.methods, on);
        let now = self.methods.read_clock();
        if is_time_up || on == SleepOn::Descriptors || self.pace.is_due(now) {
            self.tick(now);
        }
        self.sleeper.take_call()
    }

    /// Sleeps as was prepared; returns whether a deadline has ended that. A look at what the operations do, for
    /// onlookers and for the log, does not end the sleep: polling then would hide that a wake-up was lost.
    fn sleep(&mut self, on: SleepOn, until: Option<Instant>) -> bool {
        loop {
            let deadline = self.methods.deadline().into_iter().chain(until).min();
            let look = self.watch.deadline(&self.conversations);
            let first = deadline.into_iter().chain(look).min();
            if self.sleeper.wait(&mut self.methods, on, first) {
                return false;
            }
            let now = self.methods.read_clock();
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.expired_sleeps += u64::from(until.is_some_and(|until| now >= until));
                return true;
            }
            self.look(now);
        }
    }

    /// Spins as long as is worth while, which is counted anew whenever something happens.
    fn spin_until(
        &mut self,
        steps: &mut Steps,
        until: Option<Instant>,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> bool {
        let mut polled_since = self.methods.read_clock();
        loop {
            let polls = self.spin.polls_per_reading();
            let polled = self.advance_until(polls, ready);
            let now = self.methods.read_clock();
            match polled {
                Polled::Ready => return true,
                Polled::Something => drop(steps.step(now)),
                Polled::Nothing => self.spin.polled(polls, now - polled_since),
            }
            // A call is answered by the sleep, which it ends: progress may go on for ever.
            if until.is_some_and(|until| now >= until) || self.sleeper.is_called() {
                return false;
            }
            let spun = now.saturating_duration_since(steps.last);
            polled_since = match self.spin.next(spun, steps.has_begun()) {
                Next::Spin => now,
                Next::Yield => self.let_others_run(now),
                Next::Sleep => return false,
            };
        }
    }
}
