//! Turns of the processor, for those who wait for each other on fewer processors than they are.
//!
//! A client whose server is quick finds each answer before its spin would let others run, so it would keep the
//! processor until the kernel takes it away, some milliseconds and a thousand answers later, while its
//! neighbours ask nothing: fair over minutes, with waits of a hundred milliseconds. So whoever has been
//! awake for a turn gives the processor up at the beginning of the next wait, when what it asks for is on its
//! way.
//!
//! What that takes shows who is there. If nobody is, turns grow until asking costs nothing. Among others who
//! wait as we do, all have the shortest turns, and so the same. Somebody who computes takes all that the
//! kernel gives him, and what is left of our time slice is lost by giving up; but having had more than his
//! share, he then does not take the processor when it is given up again: that makes turns grow as well.

use std::time::{Duration, Instant};

/// The shortest turn: some ten answers of a quick server. A switch takes about 1 µs.
const SHORTEST: Duration = Duration::from_micros(25);
/// The longest turn: so much shorter than those of somebody who computes that nobody takes one for the other.
const LONGEST: Duration = Duration::from_micros(200);
/// Giving up the processor takes less if nobody else wants it.
const LONELY_YIELD: Duration = Duration::from_nanos(600);
/// How many waits pass between two looks at the clock in long turns. In short ones, every wait looks.
const WAITS_PER_READING: u32 = 8;

/// When it is others' turn.
pub(crate) struct Turn {
    /// When the processor was given up last.
    began: Instant,
    length: Duration,
    countdown: u32,
}

impl Turn {
    /// A turn begins.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            length: SHORTEST,
            countdown: 1,
        }
    }

    /// Counts a wait; answers whether to ask [`Turn::is_over`].
    #[inline]
    pub(crate) fn count(&mut self) -> bool {
        self.countdown -= 1;
        self.countdown == 0
    }

    /// Whether others may run now.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        self.countdown = match self.length > 4 * SHORTEST {
            true => WAITS_PER_READING,
            false => 1,
        };
        now.saturating_duration_since(self.began) >= self.length
    }

    /// Others may have run: the process has slept.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// The processor was given up from `from` until now, here or in a wait that went on.
    pub(crate) fn yielded(&mut self, from: Instant, now: Instant) {
        let took = now.saturating_duration_since(from);
        self.began = now;
        let length = match took < LONELY_YIELD {
            true => 4 * self.length,
            false => self.length / 2,
        };
        self.length = length.clamp(SHORTEST, LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits of `each` until the turn is over; answers how many.
    fn waits(turn: &mut Turn, now: &mut Instant, each: Duration) -> u32 {
        for waits in 1..100_000 {
            *now += each;
            if turn.count() && turn.is_over(*now) {
                return waits;
            }
        }
        panic!("the turn does not end");
    }

    /// Gives the processor up for so long; answers how long the next turn is.
    fn give_up(turn: &mut Turn, now: &mut Instant, took: Duration) -> Duration {
        let from = *now;
        *now += took;
        turn.yielded(from, *now);
        turn.length
    }

    #[test]
    fn turns_are_short_among_many_and_long_where_nobody_else_is() {
        let mut now = Instant::now();
        let mut turn = Turn::new(now);
        let each = Duration::from_micros(2);
        for _ in 0..3 {
            let count = waits(&mut turn, &mut now, each);
            assert!((12..=14).contains(&count), "{count}");
            give_up(&mut turn, &mut now, 63 * SHORTEST);
        }
        for _ in 0..10 {
            give_up(&mut turn, &mut now, Duration::from_nanos(300));
        }
        let count = waits(&mut turn, &mut now, each);
        assert!((100..120).contains(&count), "{count}");
        for _ in 0..6 {
            give_up(&mut turn, &mut now, 63 * SHORTEST);
        }
        assert_eq!(turn.length, SHORTEST);
    }

    #[test]
    fn beside_somebody_who_computes_turns_grow() {
        let mut now = Instant::now();
        let mut turn = Turn::new(now);
        for _ in 0..10 {
            give_up(&mut turn, &mut now, Duration::from_millis(4));
            give_up(&mut turn, &mut now, Duration::from_nanos(300));
        }
        assert_eq!(turn.length, LONGEST);
    }

    #[test]
    fn a_sleep_begins_a_turn() {
        let mut now = Instant::now();
        let mut turn = Turn::new(now);
        for _ in 0..100 {
            now += SHORTEST / 2;
            turn.begin(now);
            assert!(!turn.count() || !turn.is_over(now + SHORTEST / 4));
        }
    }

    /// Clients of one processor whose server answers at once, half of whom have been alone before.
    #[test]
    fn many_who_share_a_processor_are_soon_served_alike() {
        let mut now = Instant::now();
        let mut clients: Vec<_> = (0..64).map(|_| (Turn::new(now), 0_u32, now)).collect();
        for (turn, ..) in clients.iter_mut().step_by(2) {
            turn.length = LONGEST;
        }
        for round in 0..40 {
            for (turn, served, gave_up) in &mut clients {
                if round > 0 {
                    turn.yielded(*gave_up, now);
                }
                let count = waits(turn, &mut now, Duration::from_micros(2));
                if round >= 10 {
                    *served += count;
                }
                *gave_up = now;
            }
        }
        let served = clients.iter().map(|(_, served, _)| *served);
        let (most, least) = (served.clone().max().unwrap(), served.min().unwrap());
        assert!(4 * most <= 5 * least, "{least} to {most}");
    }
}
