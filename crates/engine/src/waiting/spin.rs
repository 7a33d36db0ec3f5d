//! What a waiting process does next: poll on, let others run, or sleep. It knows no clock: what it is told
//! are lengths of time.
//!
//! Waiting is spin, then block (Nagar's Spin Block), as long as messages usually come before the block; where
//! they do not, it blocks at once. Three things are learnt on the way:
//!
//! - How long messages usually take to come.
//! - How many polls take a microsecond: some nanoseconds each over shared memory, a system call over sockets.
//! - Who else wants the processor ([`Company`]): then it takes a while to give it up. Those who wait like us
//!   take short turns, and it is worth going on for many of them: a turn costs less than a sleep, and as long
//!   as all who pass messages to each other stay awake, nobody has to wake anybody, while one who sleeps
//!   makes all others wait the longer, so that they would fall asleep as well and never find out of it.
//!   Somebody who computes takes a long turn. Then a sleep is better, because who wakes up comes
//!   first, and who yields comes last.
//!
//! This is about waits that go on. Who never has to wait for long is made to give the processor up by
//! [`turn`](crate::turn), and what that took is learnt from here as well. It does so beside somebody who computes,
//! too: dozens who wait may together take as long a turn, and one who then kept the processor would be served
//! ten times as often as the others.

use std::time::Duration;

/// How long to poll without giving up the processor where nobody is known to want it.
const BUSY_SPIN: Duration = Duration::from_micros(4);
/// How long to spin where messages are not likely to come soon.
const MIN_SPIN: Duration = Duration::from_micros(2);
/// Where others wait as well, the limit is so many times longer: as long as a few dozen
/// processes need to wake one after the other.
const PATIENCE: u32 = 20;
/// Where so many wait that a turn of all is long, and sleeping is dear: a few such turns.
const PATIENCE_AMONG_MANY: u32 = 200;
/// Giving up the processor takes a system call's time if nobody else wants it, and two switches or more
/// (about 0.4 µs each) if somebody does.
const LONELY_TURN_NS: u64 = 600;
/// A turn longer than this is that of somebody who computes, or of so many who wait that sleeping is as well.
pub(crate) const LONG_TURN: Duration = Duration::from_millis(1);
/// As many waits go without giving up the processor when a long turn follows another; twice as many after the
/// next. So many short ones in between show that it was an exception.
const SHY_WAITS: u32 = 16;
const MOST_SHY_WAITS: u32 = 1024;
const FORGIVING_TURNS: u32 = 64;
/// A batch of polls takes about this long.
const BATCH: Duration = Duration::from_micros(2);
const FEW_POLLS: u32 = 16;
const MOST_POLLS: u32 = 256;
/// Where others wait as well, a turn has this part of a batch: so little that to find nothing costs less than the
/// switch to the next, and a few polls, so that who comes just before its message does not give its turn away.
const TURNS_PER_BATCH: u32 = 16;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Poll.
    Spin,
    /// Let others run, then poll.
    Yield,
    /// Sleep.
    Sleep,
}

/// Who else wants the processor, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    Nobody,
    /// Others lately ran when we let them, and not for long.
    Waiting,
    /// Somebody took long turns.
    Computing,
}

/// Decides how long to spin, and how.
pub(crate) struct Spin {
    limit: Duration,
    /// Smoothed time until something came.
    usual_ns: u64,
    /// Smoothed time that giving up the processor took.
    turn_ns: u64,
    /// Polls that take about [`BATCH`].
    batch: u32,
    /// Waits that are still to go without giving up the processor.
    shy: u32,
    /// How many they will be the next time.
    shy_next: u32,
    /// Turns since the last long one.
    short_turns: u32,
    /// Turns until it is forgotten that a turn was long for how many wait.
    many: u32,
}

impl Spin {
    /// Spins at most `limit` where nobody else wants the processor.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            usual_ns: 0,
            turn_ns: 0,
            batch: FEW_POLLS,
            shy: 0,
            shy_next: SHY_WAITS,
            short_turns: FORGIVING_TURNS,
            many: 0,
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    fn polls_per_turn(&self) -> u32 {
        (self.batch / TURNS_PER_BATCH).max(1)
    }

    fn patience(&self) -> Duration {
        match self.many {
            0 => self.limit * PATIENCE,
            _ => self.limit * PATIENCE_AMONG_MANY,
        }
    }

    fn company(&self) -> Company {
        if self.shy > 0 {
            Company::Computing
        } else if self.turn_ns > LONELY_TURN_NS {
            Company::Waiting
        } else {
            Company::Nobody
        }
    }

    /// How often to poll before the clock is looked at for the first time: while messages come quickly, it
    /// would cost more than they do.
    #[inline]
    pub(crate) fn free_polls(&self) -> u32 {
        if self.limit.is_zero() {
            return 0;
        }
        match self.company() {
            Company::Waiting => self.polls_per_turn(),
            Company::Nobody | Company::Computing => 2 * self.batch,
        }
    }

    /// How often to poll between two looks at the clock.
    pub(crate) fn polls_per_reading(&self) -> u32 {
        if self.limit.is_zero() {
            return 1;
        }
        match self.company() {
            Company::Waiting => self.polls_per_turn(),
            Company::Nobody | Company::Computing => self.batch,
        }
    }

    /// How long to spin this time. A wait that `has_begun` is in the middle of something: a peer that copies or
    /// reads half a megabyte is silent for 50 µs, and sleeping then costs as much again.
    fn budget(&self, has_begun: bool) -> Duration {
        let is_late = Duration::from_nanos(self.usual_ns) > self.patience();
        match self.company() {
            Company::Nobody if has_begun => 2 * self.limit,
            Company::Computing => MIN_SPIN.min(self.limit),
            _ if is_late => MIN_SPIN.min(self.limit),
            Company::Waiting => self.patience(),
            // Also where messages take longer: if that is because we all sleep, we see each other now.
            Company::Nobody => self.limit,
        }
    }

    /// What to do after having spun for so long since the wait began, or since something happened in it,
    /// if it `has_begun`.
    pub(crate) fn next(&self, spun: Duration, has_begun: bool) -> Next {
        if spun >= self.budget(has_begun) {
            return Next::Sleep;
        }
        match self.company() {
            Company::Waiting => Next::Yield,
            Company::Nobody if spun > BUSY_SPIN => Next::Yield,
            Company::Nobody | Company::Computing => Next::Spin,
        }
    }

    /// So many polls found nothing and took this long.
    pub(crate) fn polled(&mut self, polls: u32, took: Duration) {
        let batch_took = took * self.batch / polls.max(1);
        if batch_took > 2 * BATCH {
            // It may as well have been interrupted; then it soon grows again.
            self.batch = (self.batch / 2).max(1);
        } else if batch_took < BATCH / 2 {
            self.batch = (self.batch * 2).min(MOST_POLLS);
        }
    }

    /// Giving up the processor took this long.
    pub(crate) fn yielded(&mut self, took: Duration) {
        if took >= LONG_TURN {
            if self.short_turns >= FORGIVING_TURNS {
                self.shy_next = SHY_WAITS;
            } else {
                self.shy = self.shy_next;
                self.shy_next = (self.shy_next * 2).min(MOST_SHY_WAITS);
            }
            self.short_turns = 0;
            return;
        }
        self.short_turn(took);
    }

    /// Giving up the processor took long, but only for how many others wait: who was taken to compute did not.
    pub(crate) fn yielded_to_many(&mut self) {
        self.many = FORGIVING_TURNS;
        self.shy = 0;
        self.shy_next = SHY_WAITS;
        self.short_turn(LONG_TURN);
    }

    fn short_turn(&mut self, took: Duration) {
        self.short_turns = self.short_turns.saturating_add(1);
        self.many = self.many.saturating_sub(1);
        // One longer turn must not be remembered for hundreds of short ones.
        const LONGEST: Duration = Duration::from_micros(20);
        let took_ns = took.min(LONGEST).as_nanos() as u64;
        self.turn_ns = (7 * self.turn_ns + took_ns) / 8;
    }

    /// Something has come before the clock was looked at.
    #[inline]
    pub(crate) fn came_at_once(&mut self) {
        self.usual_ns -= self.usual_ns / 8;
        self.shy = self.shy.saturating_sub(1);
    }

    /// Something has come after `waited`.
    pub(crate) fn came_after(&mut self, waited: Duration) {
        // One long wait must not outweigh many short ones.
        let bound = 2 * self.patience().max(MIN_SPIN);
        let ns = waited.min(bound).as_nanos() as u64;
        self.usual_ns = (7 * self.usual_ns + ns) / 8;
        self.shy = self.shy.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);
    const US: Duration = Duration::from_micros(1);

    fn crowded() -> Spin {
        let mut spin = Spin::new(LIMIT);
        for _ in 0..8 {
            spin.yielded(3 * US);
        }
        assert_eq!(spin.company(), Company::Waiting);
        spin
    }

    #[test]
    fn who_is_alone_polls_then_yields_then_sleeps_at_the_limit() {
        let spin = Spin::new(LIMIT);
        assert_eq!(spin.next(US, false), Next::Spin);
        assert_eq!(spin.next(10 * US, false), Next::Yield);
        assert_eq!(spin.next(LIMIT, false), Next::Sleep);
        // Between the steps of a large message it is more patient.
        assert_eq!(spin.next(LIMIT, true), Next::Yield);
        assert_eq!(spin.next(2 * LIMIT, true), Next::Sleep);
    }

    #[test]
    fn what_takes_long_is_slept_for_until_something_comes_soon_again() {
        let mut spin = Spin::new(LIMIT);
        for _ in 0..20 {
            spin.came_after(Duration::from_secs(1));
        }
        assert_eq!(spin.next(MIN_SPIN, false), Next::Sleep);
        // As long as it takes to wake a few dozen others: all who sleep could be awake.
        for _ in 0..20 {
            spin.came_after(15 * LIMIT);
        }
        assert_eq!(spin.next(LIMIT - US, false), Next::Yield);
        assert_eq!(spin.next(LIMIT, false), Next::Sleep);
    }

    #[test]
    fn one_long_wait_is_forgiven() {
        let mut spin = Spin::new(LIMIT);
        spin.came_after(Duration::from_secs(3600));
        assert_eq!(spin.next(LIMIT - US, false), Next::Yield);
    }

    #[test]
    fn among_others_who_wait_every_turn_is_short_and_patience_long() {
        let mut spin = crowded();
        assert!(spin.free_polls() <= FEW_POLLS);
        assert!(spin.polls_per_reading() <= FEW_POLLS);
        assert_eq!(spin.next(Duration::ZERO, false), Next::Yield);
        assert_eq!(spin.next(10 * LIMIT, false), Next::Yield);
        assert_eq!(spin.next(PATIENCE * LIMIT, false), Next::Sleep);
        // They fall asleep, or leave.
        for _ in 0..50 {
            spin.yielded(US / 4);
        }
        assert_eq!(spin.company(), Company::Nobody);
        assert_eq!(spin.next(LIMIT, false), Next::Sleep);
    }

    #[test]
    fn among_others_too_what_takes_long_is_slept_for() {
        let mut spin = crowded();
        for _ in 0..20 {
            spin.came_after(Duration::from_millis(5));
        }
        assert_eq!(spin.next(MIN_SPIN, false), Next::Sleep);
        for _ in 0..20 {
            spin.came_after(20 * US);
        }
        assert_eq!(spin.next(10 * LIMIT, false), Next::Yield);
    }

    #[test]
    fn nothing_is_yielded_to_who_computes_for_a_while_which_doubles() {
        let mut spin = crowded();
        let shy_for = |spin: &mut Spin| {
            let mut waits = 0;
            while spin.next(US, false) != Next::Yield {
                assert_eq!(spin.next(MIN_SPIN, false), Next::Sleep);
                spin.came_after(10 * US);
                waits += 1;
            }
            waits
        };
        spin.yielded(LONG_TURN);
        assert_eq!(shy_for(&mut spin), 0);
        spin.yielded(LONG_TURN);
        assert_eq!(shy_for(&mut spin), SHY_WAITS);
        for _ in 0..20 {
            spin.yielded(3 * LONG_TURN);
            shy_for(&mut spin);
        }
        spin.yielded(LONG_TURN);
        assert_eq!(shy_for(&mut spin), MOST_SHY_WAITS);
        // One long turn among many short ones is no reason to sleep.
        for _ in 0..FORGIVING_TURNS {
            spin.yielded(3 * US);
        }
        spin.yielded(LONG_TURN);
        assert_eq!(shy_for(&mut spin), 0);
        spin.yielded(LONG_TURN);
        assert_eq!(shy_for(&mut spin), SHY_WAITS);
    }

    #[test]
    fn a_turn_that_was_long_for_many_ends_shyness_and_makes_patient() {
        let mut spin = crowded();
        spin.yielded(LONG_TURN);
        spin.yielded(LONG_TURN);
        assert_eq!(spin.company(), Company::Computing);
        spin.yielded_to_many();
        assert_eq!(spin.company(), Company::Waiting);
        let long = 2 * PATIENCE * LIMIT;
        for _ in 0..20 {
            spin.came_after(long);
        }
        assert_eq!(spin.next(long, false), Next::Yield);
        assert_eq!(spin.next(PATIENCE_AMONG_MANY * LIMIT, false), Next::Sleep);
        // They leave.
        for _ in 0..FORGIVING_TURNS {
            spin.yielded(3 * US);
        }
        assert_eq!(spin.next(long, false), Next::Sleep);
    }

    #[test]
    fn polls_are_counted_by_what_they_cost() {
        let cost = |ns: u64, polls: u32| Duration::from_nanos(ns) * polls;
        for (ns, most, least) in [(20, 200, 50), (600, 6, 1), (5000, 1, 1)] {
            let mut spin = Spin::new(LIMIT);
            for _ in 0..20 {
                let polls = spin.polls_per_reading();
                spin.polled(polls, cost(ns, polls));
            }
            assert!((least..=most).contains(&spin.polls_per_reading()));
            // Among others a few polls tell as much.
            for _ in 0..8 {
                spin.yielded(3 * US);
            }
            let turn = spin.polls_per_reading();
            assert!(turn == 1 || turn * TURNS_PER_BATCH <= most);
            // An interruption is soon forgotten.
            spin.polled(turn, Duration::from_millis(1));
            for _ in 0..8 {
                spin.polled(turn, cost(ns, turn));
            }
            assert_eq!(spin.polls_per_reading(), turn);
        }
    }

    #[test]
    fn without_a_limit_nothing_is_spun_for() {
        let mut spin = crowded();
        spin.set_limit(Duration::ZERO);
        assert_eq!(spin.free_polls(), 0);
        assert_eq!(spin.next(Duration::ZERO, false), Next::Sleep);
        assert_eq!(spin.next(Duration::ZERO, true), Next::Sleep);
        spin.came_after(Duration::from_secs(1));
    }
}
