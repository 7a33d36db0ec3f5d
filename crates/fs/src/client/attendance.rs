//! For how much of a call's time this process has run.
//!
//! A process that was stopped, by Ctrl-Z, a scheduler or with its whole machine, finds on its return that the time of its
//! call has passed, although no server has let it wait. Such time is not a server's: however long the process was
//! away, one step of the time counts. So a call looks every step while it waits. (The message layer's
//! greetings are counted in the same way.)

use std::time::{Duration, Instant};

/// Steps of a call's time.
const STEPS: u32 = 8;

/// So that a time of nothing has some.
const SHORTEST_STEP: Duration = Duration::from_millis(1);

/// The time of the present call.
#[derive(Debug)]
pub(super) struct Attendance {
    step: Duration,
    looked: Instant,
    away: Duration,
}

impl Attendance {
    /// A call begins that may take this long.
    pub(super) fn begin(timeout: Duration, now: Instant) -> Self {
        Self {
            step: (timeout / STEPS).max(SHORTEST_STEP),
            looked: now,
            away: Duration::ZERO,
        }
    }

    /// Notes the time. The process was away if it has not looked for longer than a step.
    pub(super) fn look(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.looked);
        self.away += since.saturating_sub(self.step);
        self.looked = now;
    }

    /// When a time ends that was to end at `deadline`.
    pub(super) fn extended(&self, deadline: Instant) -> Instant {
        deadline.checked_add(self.away).unwrap_or(deadline)
    }

    /// The longest wait between two looks.
    pub(super) fn step(&self) -> Duration {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_process_is_stopped_counts_as_one_step() {
        let begun = Instant::now();
        let timeout = Duration::from_secs(8);
        let mut attendance = Attendance::begin(timeout, begun);
        let mut now = begun;
        let mut left_after = |seconds| {
            now += Duration::from_secs(seconds);
            attendance.look(now);
            let ends = attendance.extended(begun + timeout);
            ends.saturating_duration_since(now).as_secs()
        };
        assert_eq!([left_after(1), left_after(1)], [7, 6]);
        assert_eq!(left_after(3600), 5);
        assert_eq!([left_after(0), left_after(1), left_after(100)], [5, 4, 3]);
    }

    #[test]
    fn any_time_has_steps() {
        let now = Instant::now();
        for timeout in [Duration::ZERO, Duration::MAX] {
            let mut attendance = Attendance::begin(timeout, now);
            attendance.look(now + Duration::from_millis(5));
            assert!(!attendance.step().is_zero());
            assert!(attendance.extended(now) >= now);
        }
    }
}
