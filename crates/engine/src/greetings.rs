//! Greetings that have begun, and by when they are to end (`conversations::greetings`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::patience::{Patience, STEPS};

/// A greeting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ongoing {
    pub(crate) number: u64,
    /// How many times the patience it may take.
    times: u32,
    /// It is late after this many steps of the patience.
    due: u64,
}

/// Greetings that have begun. Those that have come up are not here; those that have failed may be.
#[derive(Debug, Default)]
pub(crate) struct Greetings {
    /// The latest of each peer, by key.
    ongoing: BTreeMap<u64, Ongoing>,
    last_number: u64,
    /// None is due before this step.
    next_due: u64,
}

impl Greetings {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ongoing.is_empty()
    }

    /// A greeting begins, in place of an earlier one of the peer.
    pub(crate) fn begin(&mut self, peer: u64, called: bool, patience: &Patience) {
        let times = if called { 1 } else { 2 };
        // A part of the present step has passed already.
        let due = patience.steps() + 1 + u64::from(times) * STEPS;
        self.next_due = match self.ongoing.is_empty() {
            true => due,
            false => self.next_due.min(due),
        };
        self.last_number += 1;
        let number = self.last_number;
        self.ongoing.insert(peer, Ongoing { number, times, due });
    }

    /// A peer's greeting has ended.
    pub(crate) fn end(&mut self, peer: u64) {
        if !self.ongoing.is_empty() {
            self.ongoing.remove(&peer);
        }
    }

    /// Ends a peer's greeting if it is still that of this number. Returns whether it was.
    pub(crate) fn end_numbered(&mut self, peer: u64, number: u64) -> bool {
        let is_it = (self.ongoing.get(&peer)).is_some_and(|ongoing| ongoing.number == number);
        if is_it {
            self.end(peer);
        }
        is_it
    }

    /// Forgets greetings for which `lasts`, called with the peer's key, returns `false`. Returns those that are late, by peer; they
    /// stay until they [are ended](Greetings::end_numbered), and are not returned again.
    pub(crate) fn take_late(
        &mut self,
        steps: u64,
        lasts: impl Fn(u64) -> bool,
    ) -> Vec<(u64, Ongoing)> {
        if self.ongoing.is_empty() || steps < self.next_due {
            return Vec::new();
        }
        self.ongoing.retain(|peer, _| lasts(*peer));
        let mut late = Vec::new();
        for (peer, ongoing) in &mut self.ongoing {
            if ongoing.due <= steps {
                ongoing.due = u64::MAX;
                late.push((*peer, *ongoing));
            }
        }
        let dues = self.ongoing.values().map(|ongoing| ongoing.due);
        self.next_due = dues.min().unwrap_or(u64::MAX);
        late
    }
}

impl Ongoing {
    /// How long it may take, in milliseconds.
    pub(crate) fn limit_ms(&self, patience: Duration) -> u64 {
        let whole = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        whole.saturating_mul(u64::from(self.times))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn late_greetings_are_returned_once() {
        let patience = Patience::new(Duration::from_secs(8), Instant::now());
        let mut all = Greetings::default();
        for peer in [1, 2, 3] {
            all.begin(peer, peer != 2, &patience);
        }
        let late = |all: &mut Greetings, steps| -> Vec<u64> {
            let late = all.take_late(steps, |peer| peer != 3);
            late.into_iter().map(|(peer, _)| peer).collect()
        };
        assert!(late(&mut all, STEPS).is_empty());
        let first = all.ongoing[&1].number;
        assert_eq!(late(&mut all, STEPS + 1), [1]);
        assert!(late(&mut all, STEPS + 2).is_empty());
        // It was reopened before it was given up.
        all.begin(1, true, &patience);
        assert!(!all.end_numbered(1, first));
        assert!(all.end_numbered(1, all.last_number));
        assert_eq!(late(&mut all, 2 * STEPS + 1), [2]);
        all.end(2);
        assert!(all.is_empty());
    }
}
