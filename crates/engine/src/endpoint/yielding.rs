//! A yield of the processor, measured for the policy of waiting. It borrows nothing from the endpoint, which other threads may use meanwhile.

use std::time::{Duration, Instant};

use causeway_sys::thread;

use super::Endpoint;
use crate::clock::Clock;
use crate::matcher::Matcher;
use crate::waiting::Yielded;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Yielding {
    clock: Clock,
    wants_switches: bool,
    took: Option<Yielded>,
}

impl Yielding {
    /// Yields.
    pub(super) fn pass(&mut self) {
        let switches = || self.wants_switches.then(thread::switches).flatten();
        let before = switches();
        let from = self.clock.read();
        std::thread::yield_now();
        let until = self.clock.read();
        self.took = Some(Yielded {
            from,
            until,
            switched: before.map(|before| switches() != Some(before)),
            run_queue: None,
        });
    }
}

impl<M: Matcher> Endpoint<M> {
    /// Yields the processor, measuring what the policy wants to know of it. Returns the time afterwards.
    #[cold]
    pub(super) fn yield_processor(&mut self) -> Instant {
        let mut yielding = self.begin_yield();
        yielding.pass();
        self.end_yield(&yielding);
        self.methods.read_clock()
    }

    /// A yield that other threads may use the endpoint during.
    pub(super) fn begin_yield(&self) -> Yielding {
        Yielding {
            clock: self.methods.clock.clone(),
            wants_switches: self.policy.wants_switches(),
            took: None,
        }
    }

    /// The policy learns of a yield.
    pub(super) fn end_yield(&mut self, yielding: &Yielding) {
        let Some(took) = yielding.took else {
            return;
        };
        // Where parking is cheap, parked processes are served as well, and nothing is to be told apart.
        let is_wanted = self.policy.wants_run_queue(took.until - took.from);
        let run_queue = match is_wanted && self.methods.is_parking_costly() {
            true => self.run_queue(),
            false => None,
        };
        self.policy.yielded(Yielded { run_queue, ..took });
    }

    /// How long a thread that has another one wait for all stays awake beside it, yielding the processor.
    #[inline]
    pub fn awake_beside(&self) -> Duration {
        self.policy.awake_beside()
    }

    /// A thread that has waited for all returns to its caller: what the next one waits for is something else.
    pub fn end_wait(&mut self) {
        if self.policy.is_waiting() {
            let now = self.methods.read_clock();
            self.policy.arrived(now);
        }
    }
}
