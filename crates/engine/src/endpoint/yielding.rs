//! A yield of the processor, measured for the waiting policy. It does not borrow the endpoint,
//! which other threads may use meanwhile.

use causeway_sys::thread;

use crate::clock::Clock;
use crate::waiting::Yielded;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Yielding {
    clock: Clock,
    wants_switches: bool,
    took: Option<Yielded>,
}

impl Yielding {
    /// Prepares a yield. `wants_switches`: whether to find out if another thread has run.
    pub(super) fn new(clock: Clock, wants_switches: bool) -> Self {
        Self {
            clock,
            wants_switches,
            took: None,
        }
    }

    /// The measurements, if the yield has taken place; the run queue was not counted.
    pub(super) fn took(&self) -> Option<Yielded> {
        self.took
    }

    /// Yields the processor.
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
