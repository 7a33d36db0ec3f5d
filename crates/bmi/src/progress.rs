//! Making progress: polling the methods, ticking them, waiting.

use std::time::{Duration, Instant};

use crate::Bmi;
use crate::core::{Core, Delivery};
use crate::wait::{DOZE, Woken};

/// Polls of the only busy method in a row while waiting.
const SPINS: u32 = 16;

/// One wait. A large message comes in many steps, each of them soon after the last: how long the
/// first took says how long to spin next time, and between steps the spin is more patient.
struct Steps {
    start: Instant,
    first_after: Option<Duration>,
}

impl Steps {
    fn from(start: Instant) -> Self {
        Self {
            start,
            first_after: None,
        }
    }

    /// Something has happened. Answers how long the wait was for the first time that it did.
    fn step(&mut self, now: Instant) -> Duration {
        *self
            .first_after
            .get_or_insert_with(|| now.saturating_duration_since(self.start))
    }

    fn has_begun(&self) -> bool {
        self.first_after.is_some()
    }
}

impl Bmi {
    /// Does what the last call has left to do.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.core.has_work() {
            self.core.run(&mut self.methods);
        }
    }

    /// Polls the methods once; answers whether anything happened.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
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
        let slot = &mut self.methods.slots[method];
        let sink = &mut Delivery {
            core: &mut self.core,
            method,
        };
        let any = slot.method.spin(sink, spins);
        slot.polled(any);
        self.settle();
        any
    }

    #[inline(never)]
    fn poll_methods(&mut self, all: bool) -> bool {
        let mut any = false;
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            if slot.skip && !all {
                continue;
            }
            let polled = slot.method.poll(&mut Delivery {
                core: &mut self.core,
                method,
            });
            slot.polled(polled);
            any |= polled;
        }
        self.settle();
        any
    }

    #[cold]
    fn progress_and_sample(&mut self) -> bool {
        // A peer that runs is soon done with memory that it holds.
        self.core.retry_endings();
        let any = self.poll_methods(true);
        self.methods.choose();
        let now = Instant::now();
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
                    core: &mut self.core,
                    method,
                },
            );
        }
        self.core.retry_endings();
        self.settle();
        let deadlines = self.methods.slots.iter();
        let deadline = deadlines.filter_map(|slot| slot.method.deadline()).min();
        self.pace.ticked(now, deadline);
        self.watch.look(&mut self.core, &self.methods, now);
    }

    /// Makes progress until `ready`, at most for `idle` or until another thread wakes us; answers
    /// whether it is ready.
    pub(crate) fn wait_until(&mut self, idle: Duration, ready: impl Fn(&Core) -> bool) -> bool {
        if self.turn.count() {
            self.end_turn();
        }
        // While messages come quickly, the clock would cost more than they do.
        for _ in 0..self.spin.free_polls() {
            self.advance(SPINS);
            if ready(&self.core) {
                self.spin.came_at_once();
                return true;
            }
        }
        let start = Instant::now();
        let until = start.checked_add(idle);
        let mut steps = Steps::from(start);
        let mut drowsy = false;
        loop {
            if self.spin_until(&mut steps, until, &ready) {
                self.spin.came_after(steps.step(Instant::now()));
                return true;
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return false;
            }
            let woken = self.rest(until, &mut drowsy);
            let now = Instant::now();
            self.turn.begin(now);
            let any = self.progress();
            if ready(&self.core) {
                self.spin.came_after(steps.step(now));
                return true;
            }
            if any {
                steps.step(now);
            }
            if woken == Woken::Waker {
                return false;
            }
        }
    }

    /// Lets others run if it is their turn.
    #[cold]
    fn end_turn(&mut self) {
        let now = Instant::now();
        if self.turn.is_over(now) {
            std::thread::yield_now();
            let back = Instant::now();
            self.spin.yielded(back - now);
            self.turn.yielded(now, back);
        }
    }

    /// Sleeps, at most until `until`: dozes if that is possible and has not just been in vain (`drowsy`), since
    /// it is cheaper and messages mostly come soon.
    fn rest(&mut self, until: Option<Instant>, drowsy: &mut bool) -> Woken {
        let now = Instant::now();
        let limit = until.map_or(DOZE, |until| until.saturating_duration_since(now).min(DOZE));
        if !*drowsy && let Some(woken) = self.sleeper.doze(&mut self.methods, limit) {
            *drowsy = now.elapsed() >= DOZE;
            return woken;
        }
        *drowsy = false;
        self.watch.look(&mut self.core, &self.methods, now);
        let watch = self.watch.deadline(&self.core);
        let wake = until.into_iter().chain(watch).min();
        let woken = self.sleeper.sleep(&mut self.methods, wake);
        self.tick(Instant::now());
        woken
    }

    /// Spins as long as is worth while, which is counted anew whenever something happens.
    fn spin_until(
        &mut self,
        steps: &mut Steps,
        until: Option<Instant>,
        ready: &impl Fn(&Core) -> bool,
    ) -> bool {
        let mut spun = Instant::now();
        loop {
            let mut any = false;
            for _ in 0..self.spin.polls_per_reading() {
                any |= self.advance(SPINS);
                if ready(&self.core) {
                    return true;
                }
            }
            let now = Instant::now();
            if any {
                steps.step(now);
                spun = now;
            }
            let budget = match steps.has_begun() {
                false => self.spin.budget(),
                true => self.spin.budget_between_steps(),
            };
            let over = now - spun >= budget || until.is_some_and(|until| now >= until);
            // A call is answered by the sleep, which it ends: progress may go on for ever.
            if over || self.sleeper.is_called() {
                return false;
            }
            self.spin.pause(now - spun, now);
        }
    }
}
