//! Locks of ranges: writers of disjoint blocks go on together, all others in the order in which they came.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The locked ranges of one datafile.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Ranges that are held or waited for, by arrival. One is held when no earlier one overlaps it.
    all: Vec<Claim>,
    next: u64,
}

#[derive(Debug)]
struct Claim {
    number: u64,
    start: u64,
    end: u64,
}

/// A range that is held until this goes.
#[derive(Debug)]
pub(super) struct Held<'a> {
    ranges: &'a Ranges,
    number: u64,
}

impl Ranges {
    /// Waits until nothing that overlaps `start..end` is held, then holds that. A thread holds one range of a
    /// datafile at a time.
    pub(super) fn lock(&self, start: u64, end: u64) -> Held<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.all.push(Claim { number, start, end });
        while state.is_blocked(number, start, end) {
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Held {
            ranges: self,
            number,
        }
    }

    /// Holds everything.
    pub(super) fn lock_all(&self) -> Held<'_> {
        self.lock(0, u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_blocked(&self, number: u64, start: u64, end: u64) -> bool {
        self.all
            .iter()
            .take_while(|claim| claim.number < number)
            .any(|claim| claim.start < end && start < claim.end)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.ranges.state();
        state.all.retain(|claim| claim.number != self.number);
        let waited_for = !state.all.is_empty();
        drop(state);
        if waited_for {
            self.ranges.freed.notify_all();
        }
    }
}
