//! Which of two ways to do the same is faster, found out while the work is done.
//!
//! Machines differ in it, and a virtual machine's processors are moved about while it runs. So now and then some pieces of
//! work are done in the way that is not preferred, and the times of the fastest runs of either way are compared.

use std::time::{Duration, Instant};

/// Turns of a cycle that go to the other way: the last ones.
const TRIED: u32 = 4;
/// Turns in the first cycle, and the most in one: trying a way that takes twice as long costs 3 %.
const TURNS: (u32, u32) = (16, 128);
/// The other way is preferred from the next cycle on if it has taken less than this part of the time.
const BETTER: f64 = 15.0 / 16.0;

/// Whose turn it is, and what each way has taken. See the module's page.
#[derive(Debug)]
pub struct Choice {
    prefers_second: bool,
    /// Turns of the cycle that have begun, and how many it has.
    turn: u32,
    turns: u32,
    /// The least time for a unit in this cycle, in nanoseconds: preferred, and other.
    least: [f64; 2],
}

/// Work that is done in one way.
#[derive(Debug)]
pub struct Turn {
    second: bool,
    is_other: bool,
    /// The turn before was the other way's: this one finds what that has left, and does not count.
    is_first: bool,
    start: Instant,
}

impl Turn {
    /// Whether it is the second way's.
    #[inline]
    pub fn is_second(&self) -> bool {
        self.second
    }
}

impl Choice {
    /// A choice that begins with preferring the first or the second way.
    pub fn new(prefers_second: bool) -> Self {
        Self {
            prefers_second,
            turn: 0,
            turns: TURNS.0,
            least: [f64::INFINITY; 2],
        }
    }

    /// Begins a turn. There is one at a time.
    pub fn begin(&mut self) -> Turn {
        self.begin_at(Instant::now())
    }

    fn begin_at(&mut self, start: Instant) -> Turn {
        if self.turn == self.turns {
            let [preferred, other] = std::mem::replace(&mut self.least, [f64::INFINITY; 2]);
            self.prefers_second ^= other < BETTER * preferred;
            self.turn = 0;
            self.turns = (2 * self.turns).min(TURNS.1);
        }
        let tried_from = self.turns - TRIED;
        let is_other = self.turn >= tried_from;
        let is_first = self.turn == 0 || self.turn == tried_from;
        self.turn += 1;
        Turn {
            second: self.prefers_second != is_other,
            is_other,
            is_first,
            start,
        }
    }

    /// So many units have been done in a turn.
    pub fn end(&mut self, turn: &Turn, units: u64) {
        self.end_at(turn, units, Instant::now());
    }

    fn end_at(&mut self, turn: &Turn, units: u64, now: Instant) {
        if !turn.is_first && units > 0 {
            let least = &mut self.least[usize::from(turn.is_other)];
            let time: Duration = now.duration_since(turn.start);
            *least = least.min(time.as_nanos() as f64 / units as f64);
        }
    }
}

/// Pieces that are timed together: reading the clock is nothing beside them.
const PIECES: u32 = 16;

/// A choice for short pieces of work, many of which make a turn.
#[derive(Debug)]
pub struct ShortChoice {
    choice: Choice,
    turn: Option<Turn>,
    /// Pieces left of the turn, and units so far.
    left: u32,
    units: u64,
}

impl ShortChoice {
    /// A choice that begins with preferring the first or the second way.
    pub fn new(prefers_second: bool) -> Self {
        Self {
            choice: Choice::new(prefers_second),
            turn: None,
            left: 0,
            units: 0,
        }
    }

    /// Whether the next piece of work is to be done in the second way.
    #[inline]
    pub fn is_second(&self) -> bool {
        match &self.turn {
            Some(turn) => turn.second,
            None => self.choice.prefers_second,
        }
    }

    /// A piece of work, of so many units, has been done as [`ShortChoice::is_second`] said. Reads the clock now and then.
    #[inline]
    pub fn did(&mut self, units: u64) {
        self.count(units, Instant::now);
    }

    #[inline]
    fn count(&mut self, units: u64, clock: impl FnOnce() -> Instant) {
        self.left = self.left.saturating_sub(1);
        self.units += units;
        if self.left == 0 {
            self.next_turn(clock());
        }
    }

    fn next_turn(&mut self, now: Instant) {
        self.left = PIECES;
        let units = std::mem::take(&mut self.units);
        if let Some(turn) = &self.turn {
            self.choice.end_at(turn, units, now);
        }
        self.turn = Some(self.choice.begin_at(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long each of so many pieces of 100 units takes in either way: every tenth turn ten times as long.
    fn nanos(piece: u32, second: bool, nanos: [u64; 2]) -> Duration {
        let disturbed = if piece % 160 < 16 { 10 } else { 1 };
        Duration::from_nanos(nanos[usize::from(second)] * disturbed)
    }

    /// Returns how many of so many pieces were done in the second way.
    fn work(choice: &mut ShortChoice, clock: &mut Instant, pieces: u32, times: [u64; 2]) -> u32 {
        let mut second = 0;
        for piece in 0..pieces {
            let way = choice.is_second();
            second += u32::from(way);
            *clock += nanos(piece, way, times);
            choice.count(100, || *clock);
        }
        second
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_when_that_changes() {
        let (mut choice, mut clock) = (ShortChoice::new(false), Instant::now());
        work(&mut choice, &mut clock, 1000, [200, 100]);
        let second = work(&mut choice, &mut clock, 10_000, [200, 100]);
        assert!(second > 9_500, "{second}");
        work(&mut choice, &mut clock, 5000, [100, 200]);
        let second = work(&mut choice, &mut clock, 10_000, [100, 200]);
        assert!(second < 500, "{second}");
    }

    #[test]
    fn ways_that_hardly_differ_are_not_exchanged() {
        for prefers_second in [false, true] {
            let (mut choice, mut clock) = (ShortChoice::new(prefers_second), Instant::now());
            for _ in 0..20 {
                work(&mut choice, &mut clock, 1000, [100, 101]);
                work(&mut choice, &mut clock, 1000, [101, 100]);
            }
            assert_eq!(choice.choice.prefers_second, prefers_second);
        }
    }

    /// What passes between two turns counts for neither way, and turns of no work do not count.
    #[test]
    fn turns_are_timed_from_their_beginnings_to_their_ends() {
        let (mut choice, mut clock) = (Choice::new(true), Instant::now());
        let mut first = 0;
        for number in 0..1000 {
            let turn = choice.begin_at(clock);
            first += u32::from(!turn.is_second());
            let units = u64::from(number % 7 != 0);
            clock += Duration::from_micros(if turn.is_second() { 20 } else { 10 } * units);
            choice.end_at(&turn, units, clock);
            clock += Duration::from_micros(if turn.is_second() { 1 } else { 100 });
        }
        assert!(first > 900, "{first}");
    }
}
