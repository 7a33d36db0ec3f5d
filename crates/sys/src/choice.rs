//! Which of two ways to do the same is faster, found out while the work is done.
//!
//! Machines differ in it, and a virtual machine's processors are moved about while it runs. So now and then some pieces of
//! work are done in the way that is not preferred, and the times of the fastest runs of either way are compared.

use std::time::Instant;

/// Pieces that are timed together: reading the clock is nothing beside them.
const PIECES: u32 = 16;
/// Blocks of pieces in a cycle that are done in the other way.
const TRIED: u32 = 4;
/// Blocks in the first cycle, and the most in one: trying a way that takes twice as long costs 3 %.
const BLOCKS: (u32, u32) = (16, 128);
/// The other way is preferred from the next cycle on if it has taken less than this part of the time.
const BETTER: f64 = 15.0 / 16.0;

/// See the module's page.
#[derive(Debug)]
pub struct Choice {
    prefers_second: bool,
    /// Pieces left of the block.
    left: u32,
    /// Blocks of the cycle that are over, and how many it has.
    block: u32,
    blocks: u32,
    /// When the block began, and its units so far.
    start: Option<Instant>,
    units: u64,
    /// The least time for a unit in this cycle, in nanoseconds: preferred, and other.
    least: [f64; 2],
}

impl Choice {
    /// A choice that begins with preferring the first or the second way.
    pub fn new(prefers_second: bool) -> Self {
        Self {
            prefers_second,
            left: 0,
            block: 0,
            blocks: BLOCKS.0,
            start: None,
            units: 0,
            least: [f64::INFINITY; 2],
        }
    }

    /// Whether the next piece of work is to be done in the second way.
    #[inline]
    pub fn is_second(&self) -> bool {
        self.prefers_second != (self.block < TRIED)
    }

    /// A piece of work, of so many units, has been done as [`Choice::is_second`] said. Reads the clock now and then.
    #[inline]
    pub fn did(&mut self, units: u64) {
        self.count(units, Instant::now);
    }

    #[inline]
    fn count(&mut self, units: u64, clock: impl FnOnce() -> Instant) {
        self.left = self.left.saturating_sub(1);
        self.units += units;
        if self.left == 0 {
            self.begin_block(clock());
        }
    }

    fn begin_block(&mut self, now: Instant) {
        self.left = PIECES;
        let units = std::mem::take(&mut self.units);
        let Some(start) = self.start.replace(now) else {
            return;
        };
        // The first block in each way finds what the other has left.
        if self.block != 0 && self.block != TRIED {
            let least = &mut self.least[usize::from(self.block < TRIED)];
            let time = now.duration_since(start).as_nanos() as f64;
            *least = least.min(time / units.max(1) as f64);
        }
        self.block += 1;
        if self.block == self.blocks {
            let [preferred, other] = std::mem::replace(&mut self.least, [f64::INFINITY; 2]);
            self.prefers_second ^= other < BETTER * preferred;
            self.block = 0;
            self.blocks = (2 * self.blocks).min(BLOCKS.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Does so many pieces of 100 units, which take so many nanoseconds in either way, and every tenth ten times as
    /// long. Returns how many were done in the second way.
    fn work(choice: &mut Choice, clock: &mut Instant, pieces: u32, nanos: [u64; 2]) -> u32 {
        let mut second = 0;
        for piece in 0..pieces {
            let way = usize::from(choice.is_second());
            second += way as u32;
            let disturbed = if piece % 160 < 16 { 10 } else { 1 };
            *clock += Duration::from_nanos(nanos[way] * disturbed);
            choice.count(100, || *clock);
        }
        second
    }

    #[test]
    fn the_faster_way_is_found_and_found_again_when_that_changes() {
        let (mut choice, mut clock) = (Choice::new(false), Instant::now());
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
            let (mut choice, mut clock) = (Choice::new(prefers_second), Instant::now());
            for _ in 0..20 {
                work(&mut choice, &mut clock, 1000, [100, 101]);
                work(&mut choice, &mut clock, 1000, [101, 100]);
            }
            assert_eq!(choice.prefers_second, prefers_second);
        }
    }
}
