//! A resource that serves one request at a time.

use crate::engine::Time;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// Serves requests one after the other in the order in which they come, and counts its use.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    free_at: Time,
    busy: Time,
    waited: Time,
    uses: u64,
}

impl Shared {
    /// Occupies the resource `for_time` as soon as it is free.
    pub fn occupy(&mut self, now: Time, for_time: Time) -> Span {
        let start = now.max(self.free_at);
        let end = start.saturating_add(for_time);
        self.free_at = end;
        self.busy += for_time;
        self.waited += start - now;
        self.uses += 1;
        Span { start, end }
    }

    /// The time from which on it is not reserved.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// How long it has been in use, reservations for the future included.
    pub fn busy(&self) -> Time {
        self.busy
    }

    /// How long requests have waited for it in all.
    pub fn waited(&self) -> Time {
        self.waited
    }

    /// The number of requests.
    pub fn uses(&self) -> u64 {
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_first_is_served_first() {
        let mut shared = Shared::default();
        assert_eq!(shared.occupy(10, 5), Span { start: 10, end: 15 });
        assert_eq!(shared.occupy(12, 5), Span { start: 15, end: 20 });
        assert_eq!(shared.occupy(30, 1), Span { start: 30, end: 31 });
        assert_eq!((shared.busy(), shared.waited(), shared.uses()), (11, 3, 3));
    }
}
