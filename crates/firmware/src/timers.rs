//! One deadline for each virtual interface, with fast access to the earliest.

use alloc::vec;
use alloc::vec::Vec;

use crate::pool::NONE;
use crate::setup::Time;

/// A binary heap with an index: `place` has each virtual interface's position in it.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<(Time, u32)>,
    place: Vec<u32>,
}

impl Timers {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            heap: Vec::with_capacity(count),
            place: vec![NONE; count],
        }
    }

    pub(crate) fn earliest(&self) -> Option<Time> {
        self.heap.first().map(|&(time, _)| time)
    }

    /// A virtual interface whose deadline has passed, the longest ago first.
    pub(crate) fn due(&self, now: Time) -> Option<u32> {
        match self.heap.first() {
            Some(&(time, vi)) if time <= now => Some(vi),
            _ => None,
        }
    }

    /// Sets or clears a deadline.
    pub(crate) fn set(&mut self, vi: u32, time: Option<Time>) {
        let at = self.place[vi as usize];
        match (at, time) {
            (NONE, None) => {}
            (NONE, Some(time)) => {
                self.heap.push((time, vi));
                self.place[vi as usize] = self.heap.len() as u32 - 1;
                self.up(self.heap.len() - 1);
            }
            (at, Some(time)) => {
                self.heap[at as usize].0 = time;
                let at = self.up(at as usize);
                self.down(at);
            }
            (at, None) => {
                let at = at as usize;
                self.heap.swap_remove(at);
                self.place[vi as usize] = NONE;
                if let Some(&(_, moved)) = self.heap.get(at) {
                    self.place[moved as usize] = at as u32;
                    let at = self.up(at);
                    self.down(at);
                }
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            self.place[self.heap[at].1 as usize] = at as u32;
        }
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_whatever_is_set_and_cleared() {
        let mut timers = Timers::new(16);
        let mut model = [None; 16];
        let mut random = causeway_wire::random::SplitMix64::new(1);
        for _ in 0..2000 {
            let vi = random.below(16) as u32;
            let time = (random.below(4) > 0).then(|| random.below(1 << 16));
            timers.set(vi, time);
            model[vi as usize] = time;
            assert_eq!(timers.earliest(), model.iter().flatten().min().copied());
        }
        while let Some(vi) = timers.due(Time::MAX) {
            assert_eq!(model[vi as usize], timers.earliest());
            timers.set(vi, None);
        }
        assert_eq!(timers.earliest(), None);
    }
}
