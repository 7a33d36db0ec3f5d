//! Making progress: polling the methods, ticking them, waiting.

use std::time::{Duration, Instant};

use crate::Bmi;
use crate::core::{Core, Delivery};
use crate::wait::{DOZE, Woken};

/// Polls of the only busy method in a row while waiting.
const SPINS: u32 = 16;

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
        self.settle();
        let deadlines = self.methods.slots.iter();
        let deadline = deadlines.filter_map(|slot| slot.method.deadline()).min();
        self.pace.ticked(now, deadline);
    }

    /// Makes progress until `ready`, at most for `idle` or until another thread wakes us; answers
    /// whether it is ready.
    pub(crate) fn wait_until(&mut self, idle: Duration, ready: impl Fn(&Core) -> bool) -> bool {
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
        let mut drowsy = false;
        loop {
            if self.spin_until(start, idle, &ready) {
                self.spin.came_after(start.elapsed());
                return true;
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return false;
            }
            // A short sleep first: it is the cheaper one, and messages mostly come soon.
            let limit = until.map_or(DOZE, |until| DOZE.min(until - now));
            let dozed = if drowsy {
                None
            } else {
                self.sleeper.doze(&mut self.methods, limit)
            };
            let woken = match dozed {
                Some(woken) => {
                    drowsy = now.elapsed() >= DOZE;
                    woken
                }
                None => {
                    let woken = self.sleeper.sleep(&mut self.methods, until);
                    self.tick(Instant::now());
                    drowsy = false;
                    woken
                }
            };
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
        let budget = self.spin.budget().min(idle);
        let spun = Instant::now();
        loop {
            for _ in 0..self.spin.polls_per_reading() {
                self.advance(SPINS);
                if ready(&self.core) {
                    return true;
                }
            }
            let now = Instant::now();
            if now - spun >= budget || now.saturating_duration_since(start) >= idle {
                return false;
            }
            self.spin.pause(now - spun, now);
        }
    }
}
