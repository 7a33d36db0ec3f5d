//! A processor for each process of a parallel program: where two of them wait for each other on one processor while another is free.
//!
//! A kernel may wake a process on the processor of the one that wakes it, above all where a virtual processor that is idle counts as
//! stopped, and leaves both there for 50 to 500 ms, as each of them has run too lately to be moved: an 8-byte message takes 2.25 µs
//! then instead of 0.13. Most launchers bind no process to a processor. So the process's first thread stays on its processor while it
//! sleeps, and if its yield has run another thread, it moves to the processor that is its own. It may run anywhere afterwards: a
//! program's other threads, and its own choice of processors, stay as they are. Beside CPU-bound threads the same is done: two
//! processes that poll on one processor take its time from each other.

use std::time::{Duration, Instant};

use causeway_sys::pin;

/// The least time between two moves, of which each takes some 10 µs: the kernel may have had a reason to put the thread elsewhere.
const INTERVAL: Duration = Duration::from_millis(1);

/// See the module's page.
#[derive(Debug)]
pub(super) struct Home {
    processor: usize,
    /// When it was last compared with the processor that the thread runs on, and was another.
    moved: Option<Instant>,
}

impl Home {
    pub(super) fn new(processor: usize) -> Self {
        Self {
            processor,
            moved: None,
        }
    }

    /// Moves the calling thread there, if it is the process's first one and elsewhere. `now`: after a yield that has run other
    /// threads.
    pub(super) fn go(&mut self, now: Instant) {
        let is_early = |moved: Instant| now.saturating_duration_since(moved) < INTERVAL;
        if self.moved.is_some_and(is_early) || pin::current_cpu() == self.processor {
            return;
        }
        self.moved = Some(now);
        // The program may have restricted itself to other processors since it started.
        if pin::is_first_thread()
            && let Err(error) = pin::move_to_cpu(self.processor)
        {
            tracing::debug!(%error, processor = self.processor, "cannot move to this processor");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests' threads are not first ones, and stay where they are.
    #[test]
    fn only_the_first_thread_moves_and_seldom() {
        let (start, nowhere) = (Instant::now(), usize::MAX);
        let mut home = Home::new(nowhere);
        home.go(start);
        assert_eq!(home.moved, Some(start));
        home.go(start + INTERVAL / 2);
        assert_eq!(home.moved, Some(start));
        home.go(start + INTERVAL);
        assert_eq!(home.moved, Some(start + INTERVAL));
    }
}
