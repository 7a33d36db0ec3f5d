//! Making progress: polling the methods, ticking them, waiting.

use std::time::{Duration, Instant};

use crate::Bmi;
use crate::core::{Core, Delivery};
use crate::wait::Woken;

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
        let sample = self.pace.count();
        let mut any = false;
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            if slot.skip && !sample {
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
        if sample {
            self.methods.choose();
            let now = Instant::now();
            if self.pace.sample(now) {
                self.tick(now);
            }
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
        self.settle();
        let deadlines = self.methods.slots.iter();
        let deadline = deadlines.filter_map(|slot| slot.method.deadline()).min();
        self.pace.ticked(now, deadline);
        self.watch.look(&mut self.core, &self.methods, now);
    }

    /// Makes progress until `ready`, at most for `idle` or until another thread wakes us; answers
    /// whether it is ready.
    pub(crate) fn wait_until(&mut self, idle: Duration, ready: impl Fn(&Core) -> bool) -> bool {
        // While messages come quickly, the clock would cost more than they do.
        for _ in 0..self.spin.free_polls() {
            self.progress();
            if ready(&self.core) {
                self.spin.came_at_once();
                return true;
            }
        }
        let start = Instant::now();
        let until = start.checked_add(idle);
        loop {
            if self.spin_until(start, idle, &ready) {
                self.spin.came_after(start.elapsed());
                return true;
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return false;
            }
            self.watch.look(&mut self.core, &self.methods, now);
            let watch = self.watch.deadline(&self.core);
            let wake = until.into_iter().chain(watch).min();
            let woken = self.sleeper.sleep(&mut self.methods, wake);
            self.tick(Instant::now());
            self.progress();
            if ready(&self.core) {
                self.spin.came_after(start.elapsed());
                return true;
            }
            if woken == Woken::Waker {
                return false;
            }
        }
    }

    /// Spins as long as is worth while.
    fn spin_until(
        &mut self,
        start: Instant,
        idle: Duration,
        ready: &impl Fn(&Core) -> bool,
    ) -> bool {
        const POLLS_PER_READING: u32 = 16;
        let budget = self.spin.budget().min(idle);
        let spun = Instant::now();
        loop {
            for _ in 0..POLLS_PER_READING {
                self.progress();
                if ready(&self.core) {
                    return true;
                }
            }
            let now = Instant::now();
            if now - spun >= budget || now.saturating_duration_since(start) >= idle {
                return false;
            }
            self.spin.pause(now - spun);
        }
    }
}
