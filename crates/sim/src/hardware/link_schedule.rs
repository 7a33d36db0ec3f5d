//! The schedule of one direction of a link.

use std::collections::VecDeque;

use crate::engine::Time;

/// Reservations of one direction of a link.
///
/// A frame's whole path is reserved when it is sent, so that a frame that will arrive late, after
/// waiting elsewhere, may have its reservation before one that arrives early. The early one takes
/// the gap before it, if it fits.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkSchedule {
    /// The reserved spans: in order, without overlap.
    taken: VecDeque<(Time, Time)>,
    /// Reservations before this time are dropped.
    forgotten: Time,
}

/// A gap in a schedule's reservations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    place: usize,
    pub(super) start: Time,
    pub(super) end: Time,
}

impl LinkSchedule {
    /// The first gap of `length` from `earliest` on. Reservations before `now` are no longer
    /// needed.
    pub(super) fn gap(&mut self, now: Time, earliest: Time, length: Time) -> Gap {
        while let Some(&(_, end)) = self.taken.front().filter(|(_, end)| *end <= now) {
            self.forgotten = end;
            self.taken.pop_front();
        }
        let mut start = earliest.max(self.forgotten);
        let mut place = 0;
        for &(from, to) in &self.taken {
            if start.saturating_add(length) <= from {
                break;
            }
            start = start.max(to);
            place += 1;
        }
        Gap {
            place,
            start,
            end: start.saturating_add(length),
        }
    }

    /// The time from which on nothing is reserved.
    pub(super) fn free_at(&self) -> Time {
        self.taken.back().map_or(self.forgotten, |(_, end)| *end)
    }

    /// Reserves a gap that was just found.
    pub(super) fn take(&mut self, gap: Gap) {
        self.taken.insert(gap.place, (gap.start, gap.end));
        self.join(gap.place);
    }

    /// Extends the reservation that began at `start` until `end`, if that is later.
    pub(super) fn hold(&mut self, start: Time, end: Time) {
        let found = self
            .taken
            .iter()
            .position(|&(from, to)| (from..to).contains(&start));
        if let Some(place) = found {
            self.taken[place].1 = self.taken[place].1.max(end);
            self.join(place);
        }
    }

    /// Merges the entry at `place` with those that it touches.
    fn join(&mut self, place: usize) {
        let mut place = place;
        if place > 0 && self.taken[place - 1].1 >= self.taken[place].0 {
            place -= 1;
        }
        while let Some(&(from, to)) = self.taken.get(place + 1) {
            if self.taken[place].1 < from {
                break;
            }
            self.taken[place].1 = self.taken[place].1.max(to);
            self.taken.remove(place + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_and_neighbours_joined() {
        let mut schedule = LinkSchedule::default();
        let take = |schedule: &mut LinkSchedule, now, earliest, length| {
            let gap = schedule.gap(now, earliest, length);
            schedule.take(gap);
            gap.start
        };
        assert_eq!(take(&mut schedule, 0, 100, 50), 100);
        assert_eq!(take(&mut schedule, 0, 0, 40), 0, "before it");
        assert_eq!(take(&mut schedule, 0, 20, 60), 40, "between them");
        assert_eq!(take(&mut schedule, 0, 20, 1), 150, "all is one now");
        assert_eq!(schedule.taken, [(0, 151)]);
        assert_eq!(take(&mut schedule, 0, 200, 10), 200);
        schedule.hold(151, 160);
        schedule.hold(200, 230);
        assert_eq!(schedule.taken, [(0, 151), (200, 230)]);
        schedule.hold(100, 190);
        assert_eq!(take(&mut schedule, 195, 150, 10), 190);
        assert_eq!(schedule.taken, [(190, 230)]);
    }
}
