//! Linearizability of recorded histories: is there an order of operations, each at one moment between its
//! call and its return, that explains every result?
//!
//! The search is Wing and Gong's: try every operation that may come first, undo, try the next. States that
//! were reached before with the same operations done are not entered again (Lowe), which keeps the search
//! short where results leave few orders. Objects that have nothing to do with each other are checked separately:
//! the caller makes a history for each. A call that never returned may have taken effect at any moment
//! afterwards, or never.
//!
//! [`models`] has what histories of file systems need: names and sizes. [`register`] needs no search, and knows
//! writes that were given up.

pub mod models;
pub mod register;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential object: what each operation does, and what it returns.
pub trait Model {
    /// What the object remembers.
    type State: Clone + Eq + Hash;
    /// An operation on it.
    type Call: Debug;
    /// What it returns.
    type Return: Debug;

    /// The state before the history.
    fn start(&self) -> Self::State;

    /// The state behind `call`, if it may return `returned` in `state`; `None` if the returned value
    /// is unknown. There may be several states: all that cannot be distinguished yet.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        returned: Option<&Self::Return>,
    ) -> Vec<Self::State>;
}

/// An operation of a history. Moments are numbers from one counter, all different.
#[derive(Debug, Clone)]
pub struct Event<C, R> {
    /// The operation.
    pub call: C,
    /// When.
    pub called: u64,
    /// The returned value and when; `None` if the outcome is unknown.
    pub returned: Option<(R, u64)>,
}

impl<C, R> Event<C, R> {
    /// The last moment at which it may have taken effect.
    fn end(&self) -> u64 {
        self.returned.as_ref().map_or(u64::MAX, |(_, at)| *at)
    }
}

/// Outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains the history.
    Linearizable,
    /// There is none. The longest explained part has this many operations.
    Violated {
        /// How many operations could be put into an order.
        explained: usize,
    },
    /// The search was given up after this many states.
    TooLong {
        /// States that were searched.
        states: usize,
    },
}

/// Most states that one search visits: some seconds, and some hundred megabytes.
pub const MOST_STATES: usize = 2_000_000;

/// Searches for an order that explains `events`.
pub fn check<M: Model>(model: &M, events: &[Event<M::Call, M::Return>]) -> Verdict {
    let mut search = Search {
        model,
        events,
        seen: HashSet::new(),
        done: vec![0; events.len().div_ceil(64)],
        explained: 0,
    };
    match search.run(model.start()) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Violated {
            explained: search.explained,
        },
        None => Verdict::TooLong {
            states: search.seen.len(),
        },
    }
}

struct Search<'a, M: Model> {
    model: &'a M,
    events: &'a [Event<M::Call, M::Return>],
    /// Which operations were done, with the state behind them.
    seen: HashSet<(Vec<u64>, M::State)>,
    done: Vec<u64>,
    explained: usize,
}

/// A node of the search tree: the states that can be entered from it and have not been yet.
struct SearchNode<S> {
    /// The operation that led here.
    by: Option<usize>,
    next: Vec<(usize, S)>,
}

impl<M: Model> Search<'_, M> {
    /// `None` if there are too many states.
    fn run(&mut self, start: M::State) -> Option<bool> {
        let mut path = vec![SearchNode {
            by: None,
            next: self.choices(&start),
        }];
        if self.is_complete() {
            return Some(true);
        }
        while let Some(place) = path.last_mut() {
            let Some((index, state)) = place.next.pop() else {
                if let Some(index) = place.by {
                    self.done[index / 64] &= !(1 << (index % 64));
                }
                path.pop();
                continue;
            };
            self.done[index / 64] |= 1 << (index % 64);
            if !self.seen.insert((self.done.clone(), state.clone())) {
                self.done[index / 64] &= !(1 << (index % 64));
                continue;
            }
            if self.is_complete() {
                return Some(true);
            }
            if self.seen.len() > MOST_STATES {
                return None;
            }
            self.explained = self.explained.max(path.len());
            path.push(SearchNode {
                by: Some(index),
                next: self.choices(&state),
            });
        }
        Some(false)
    }

    fn is_done(&self, index: usize) -> bool {
        self.done[index / 64] >> (index % 64) & 1 == 1
    }

    /// Whether every operation that returned has its moment.
    fn is_complete(&self) -> bool {
        let mut open = (0..self.events.len()).filter(|&index| !self.is_done(index));
        open.all(|index| self.events[index].returned.is_none())
    }

    /// The operations that may come next, with the states behind them: those that were called before any
    /// other open one returned. The first to try is the last of them.
    fn choices(&self, state: &M::State) -> Vec<(usize, M::State)> {
        let open = || (0..self.events.len()).filter(|&index| !self.is_done(index));
        let first_end = open().map(|index| self.events[index].end()).min();
        let first_end = first_end.unwrap_or(u64::MAX);
        let mut choices = Vec::new();
        for index in open() {
            let event = &self.events[index];
            if event.called > first_end {
                continue;
            }
            let returned = event.returned.as_ref().map(|(returned, _)| returned);
            let behind = self.model.step(state, &event.call, returned);
            choices.extend(behind.into_iter().map(|state| (index, state)));
        }
        // The operation that ended first most likely happened first.
        choices.sort_by_key(|(index, _)| std::cmp::Reverse(self.events[*index].end()));
        choices
    }
}
