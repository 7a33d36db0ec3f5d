//! Greetings that have begun, and since when (`conversations::greetings`).

use std::time::{Duration, Instant};

/// Greetings that have ended are removed when so many have begun since the last time, besides as
/// many as had not ended then.
pub(crate) const MOST_ENDED: usize = 64;

/// A greeting that has begun and may have ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// The peer, by key.
    pub(crate) peer: u64,
    pub(crate) number: u64,
    /// How many times the patience it may take.
    pub(crate) times: u32,
    pub(crate) since: Option<Instant>,
}

/// Greetings that have begun.
#[derive(Debug, Default)]
pub(crate) struct Greetings {
    pub(crate) begun: Vec<Begun>,
    /// How many of them have been given the time when they began.
    pub(crate) timed: usize,
    last_number: u64,
    /// With this many entries, those that have ended are removed.
    pub(crate) purge_at: usize,
    /// When the first one may have taken too long.
    pub(crate) due: Option<Instant>,
}

impl Greetings {
    /// A greeting begins. Returns its number.
    pub(crate) fn begin(&mut self, peer: u64, called: bool) -> u64 {
        self.last_number += 1;
        self.begun.push(Begun {
            peer,
            number: self.last_number,
            times: if called { 1 } else { 2 },
            since: None,
        });
        self.last_number
    }

    /// Notes the time for those that have begun since the last call.
    pub(crate) fn set_times(&mut self, now: Instant, patience: Duration) {
        for begun in &mut self.begun[self.timed..] {
            begun.since = Some(now);
        }
        self.timed = self.begun.len();
        let ends = self.begun.iter();
        self.due = ends.filter_map(|begun| begun.end(patience)).min();
    }
}

impl Begun {
    /// When it has taken too long.
    pub(crate) fn end(&self, patience: Duration) -> Option<Instant> {
        self.since?.checked_add(patience.checked_mul(self.times)?)
    }
}
