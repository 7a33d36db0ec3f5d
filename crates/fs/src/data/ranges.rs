//! Locks of ranges: writers of disjoint blocks proceed concurrently, all others in the order of their claims.

use std::sync::{Condvar, Mutex};

use crate::locks::{lock, wait_while};

/// The locked ranges of one datafile.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Ranges that are held or waited for, in the order of arrival. A range is held when no earlier one overlaps it.
    all: Vec<Claim>,
    next: u64,
}

#[derive(Debug)]
struct Claim {
    number: u64,
    spans: Spans,
}

/// Most spans that are compared one by one; more are treated as one span that covers them all.
const MAX_SPANS: usize = 64;

/// Ascending spans of a datafile.
#[derive(Debug, Clone, Default)]
pub(super) struct Spans {
    start: u64,
    end: u64,
    /// The spans, if there are several.
    all: Vec<(u64, u64)>,
}

/// A range that is held until this is dropped.
#[derive(Debug)]
pub(super) struct RangeGuard<'a> {
    ranges: &'a Ranges,
    number: u64,
}

impl Spans {
    /// The span from `start` to `end`.
    pub(super) fn one(start: u64, end: u64) -> Self {
        Self {
            start,
            end,
            all: Vec::new(),
        }
    }

    /// Spans that cover these, which may be in any order.
    pub(super) fn of(spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut is_ascending = true;
        for (start, end) in spans.into_iter().filter(|(start, end)| start < end) {
            match all.last_mut() {
                Some(last) if last.0 <= start && start <= last.1 => last.1 = last.1.max(end),
                last => {
                    is_ascending &= last.is_none_or(|last| last.1 < start);
                    all.push((start, end));
                }
            }
        }
        if !is_ascending {
            all.sort_unstable();
            all.dedup_by(|next, last| {
                let joins = next.0 <= last.1;
                if joins {
                    last.1 = last.1.max(next.1);
                }
                joins
            });
        }
        let start = all.first().map_or(0, |first| first.0);
        let end = all.last().map_or(0, |last| last.1);
        if all.len() == 1 || all.len() > MAX_SPANS {
            all.clear();
        }
        Self { start, end, all }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let hull = |spans: &Self| [(spans.start, spans.end)];
        let near = self.start < other.end && other.start < self.end;
        match (near, &self.all[..], &other.all[..]) {
            (false, ..) => false,
            (true, [], []) => true,
            (true, ours, []) => any_common(ours, &hull(other)),
            (true, [], theirs) => any_common(&hull(self), theirs),
            (true, ours, theirs) => any_common(ours, theirs),
        }
    }
}

/// Whether two ascending lists have a byte in common.
fn any_common(mut one: &[(u64, u64)], mut other: &[(u64, u64)]) -> bool {
    while let ([first, rest @ ..], [second, behind @ ..]) = (one, other) {
        if first.0 < second.1 && second.0 < first.1 {
            return true;
        }
        match first.1 <= second.0 {
            true => one = rest,
            false => other = behind,
        }
    }
    false
}

impl Ranges {
    /// Takes a place in the order, and returns its number, which must be waited for and released.
    pub(super) fn claim(&self, spans: Spans) -> u64 {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        state.all.push(Claim { number, spans });
        number
    }

    /// Waits until no earlier claim overlaps this one.
    pub(super) fn wait(&self, number: u64) {
        drop(wait_while(&self.freed, lock(&self.state), |state| {
            state.is_blocked(number)
        }));
    }

    /// Ends a claim.
    pub(super) fn release(&self, number: u64) {
        let mut state = lock(&self.state);
        state.all.retain(|claim| claim.number != number);
        let waited_for = !state.all.is_empty();
        drop(state);
        if waited_for {
            self.freed.notify_all();
        }
    }

    /// Whether nothing is held or waited for.
    pub(super) fn is_free(&self) -> bool {
        lock(&self.state).all.is_empty()
    }

    /// Waits until nothing that overlaps the spans is held, then holds them. A thread holds one range of a
    /// datafile at a time.
    pub(super) fn lock_spans(&self, spans: Spans) -> RangeGuard<'_> {
        let number = self.claim(spans);
        self.wait(number);
        RangeGuard {
            ranges: self,
            number,
        }
    }

    /// As [`Ranges::lock_spans`], for one span.
    pub(super) fn lock(&self, start: u64, end: u64) -> RangeGuard<'_> {
        self.lock_spans(Spans::one(start, end))
    }

    /// Holds everything.
    pub(super) fn lock_all(&self) -> RangeGuard<'_> {
        self.lock(0, u64::MAX)
    }
}

impl State {
    fn is_blocked(&self, number: u64) -> bool {
        let Some(own) = self.all.iter().position(|claim| claim.number == number) else {
            return false;
        };
        let (earlier, rest) = self.all.split_at(own);
        rest.first()
            .is_some_and(|own| earlier.iter().any(|claim| claim.spans.overlaps(&own.spans)))
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.ranges.release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_overlap_where_they_have_bytes_in_common(
            one in prop::collection::vec((0u64..60, 0u64..9), 0..6),
            other in prop::collection::vec((0u64..60, 0u64..9), 0..6),
        ) {
            let spans = |list: &[(u64, u64)]| list.iter().map(|(at, len)| (*at, at + len)).collect::<Vec<_>>();
            let has = |list: &[(u64, u64)], byte: u64| list.iter().any(|(at, end)| (*at..*end).contains(&byte));
            let (one, other) = (spans(&one), spans(&other));
            let common = (0..80).any(|byte| has(&one, byte) && has(&other, byte));
            prop_assert_eq!(Spans::of(one).overlaps(&Spans::of(other)), common);
        }
    }

    #[test]
    fn what_overlaps_goes_by_the_order_of_claims() {
        let ranges = Ranges::default();
        let first = ranges.claim(Spans::of(vec![(0, 10), (20, 30)]));
        let between = ranges.claim(Spans::one(10, 20));
        let second = ranges.claim(Spans::one(25, 26));
        let is_blocked = |number| lock(&ranges.state).is_blocked(number);
        assert!(!is_blocked(first) && !is_blocked(between) && is_blocked(second));
        ranges.release(between);
        assert!(is_blocked(second));
        ranges.release(first);
        assert!(!is_blocked(second));
        ranges.wait(second);
        assert!(!ranges.is_free());
        ranges.release(second);
        assert!(ranges.is_free());
        drop(ranges.lock_all());
    }
}
