//! Finds out which of several ways to do the same work is fastest, while the work is done.
//!
//! The fastest way differs between machines, and a virtual machine's processors are moved about while it runs. So work is divided
//! into *samples*, which are timed, and samples into cycles. In each cycle, the last samples are done in one of the other ways, each of
//! those in its cycle, and the times of the fastest samples of that way and of the preferred way are compared.

use std::time::{Duration, Instant};

/// Samples at the end of a cycle that are done in another way.
const TRIED: u32 = 4;
/// Samples in the first cycle, and in each later one. With so many, trying a way that takes twice as long costs 3 %.
const SAMPLES: (u32, u32) = (16, 128);
const SHORT_SAMPLES: u32 = 8;
/// If a way took several times as long as the preferred one when it was last tried, the cycle in which it is tried again has as
/// many times more samples, up to this factor: trying it then costs as little as trying a faster way.
const LONGER: u32 = 8;
/// Samples of the preferred way that count: the last ones before another way's, so that both have found the same machine.
const COMPARED: u32 = 16;
/// The other way is preferred from the next cycle on if it has taken less than this part of the time.
const BETTER: f64 = 15.0 / 16.0;

/// The present way among `WAYS`, and the times that they have taken. See the module's page.
#[derive(Debug)]
pub struct Choice<const WAYS: usize> {
    preferred: usize,
    /// The way that is tried in this cycle.
    tried: usize,
    /// Samples of the cycle that have begun, and how many it has.
    sample: u32,
    samples: u32,
    /// Samples of a cycle without slow ways.
    usual: u32,
    /// The least time for a unit in this cycle, in nanoseconds: preferred, and tried.
    least: [f64; 2],
    /// How many times as long as the preferred way each has taken when it was tried last.
    slowness: [u32; WAYS],
}

/// A sample: work that is done in one way.
#[derive(Debug)]
pub struct Sample {
    way: usize,
    is_other: bool,
    counts: bool,
    start: Instant,
}

impl Sample {
    /// The way, by its number from 0 on.
    #[inline]
    pub fn way(&self) -> usize {
        self.way
    }
}

impl<const WAYS: usize> Choice<WAYS> {
    /// A choice that begins with preferring the way of this number, which is below `WAYS`.
    pub fn new(preferred: usize) -> Self {
        Self::with_samples(preferred, SAMPLES.0)
    }

    fn with_samples(preferred: usize, samples: u32) -> Self {
        const { assert!(WAYS > 1) };
        Self {
            preferred,
            tried: (preferred + 1) % WAYS,
            sample: 0,
            samples,
            usual: samples,
            least: [f64::INFINITY; 2],
            slowness: [1; WAYS],
        }
    }

    /// Begins a sample. There is one at a time.
    pub fn begin(&mut self) -> Sample {
        self.begin_at(Instant::now())
    }

    fn begin_at(&mut self, start: Instant) -> Sample {
        if self.sample == self.samples {
            self.next_cycle();
        }
        let tried_from = self.samples - TRIED;
        let is_other = self.sample >= tried_from;
        // The first sample of a way does not count: it finds the caches as another way has left them.
        let is_first = self.sample == 0 || self.sample == tried_from;
        let counts = !is_first && self.sample + COMPARED >= tried_from;
        self.sample += 1;
        Sample {
            way: if is_other { self.tried } else { self.preferred },
            is_other,
            counts,
            start,
        }
    }

    fn next_cycle(&mut self) {
        let [preferred, other] = std::mem::replace(&mut self.least, [f64::INFINITY; 2]);
        // Too large values saturate.
        self.slowness[self.tried] = ((other / preferred) as u32).clamp(1, LONGER);
        if other < BETTER * preferred {
            self.slowness[self.preferred] = 1;
            self.preferred = self.tried;
        }
        self.tried = (self.tried + 1) % WAYS;
        if self.tried == self.preferred {
            self.tried = (self.tried + 1) % WAYS;
        }
        self.sample = 0;
        self.usual = (2 * self.usual).min(SAMPLES.1);
        self.samples = self.usual * self.slowness[self.tried];
    }

    /// Ends a sample in which so many units of work were done.
    pub fn end(&mut self, sample: &Sample, units: u64) {
        self.end_at(sample, units, Instant::now());
    }

    fn end_at(&mut self, sample: &Sample, units: u64, now: Instant) {
        if sample.counts && units > 0 {
            let least = &mut self.least[usize::from(sample.is_other)];
            let time: Duration = now.duration_since(sample.start);
            *least = least.min(time.as_nanos() as f64 / units as f64);
        }
    }
}

/// A sample has this many pieces, or fewer if they have this many units together: compared with that, reading the clock
/// takes no time.
const PIECES: (u32, u64) = (16, 32 << 10);

/// A choice for short pieces of work, some of which make a sample. A unit is a copied byte, or work that takes about as long.
#[derive(Debug)]
pub struct ShortChoice<const WAYS: usize> {
    choice: Choice<WAYS>,
    sample: Option<Sample>,
    /// Pieces left of the sample, and units so far.
    left: u32,
    units: u64,
}

impl<const WAYS: usize> ShortChoice<WAYS> {
    /// As [`Choice::new`].
    pub fn new(preferred: usize) -> Self {
        Self {
            choice: Choice::with_samples(preferred, SHORT_SAMPLES),
            sample: None,
            left: 0,
            units: 0,
        }
    }

    /// The way in which the next piece of work is to be done, by its number.
    #[inline]
    pub fn way(&self) -> usize {
        match &self.sample {
            Some(sample) => sample.way,
            None => self.choice.preferred,
        }
    }

    /// Notes that a piece of work of so many units has been done in the way that [`ShortChoice::way`] returned.
    /// Reads the clock now and then.
    #[inline]
    pub fn did(&mut self, units: u64) {
        self.count(units, Instant::now);
    }

    #[inline]
    fn count(&mut self, units: u64, clock: impl FnOnce() -> Instant) {
        self.left = self.left.saturating_sub(1);
        self.units += units;
        if self.left == 0 || self.units >= PIECES.1 {
            self.next_sample(clock());
        }
    }

    fn next_sample(&mut self, now: Instant) {
        self.left = PIECES.0;
        let units = std::mem::take(&mut self.units);
        if let Some(sample) = &self.sample {
            self.choice.end_at(sample, units, now);
        }
        self.sample = Some(self.choice.begin_at(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time of a piece of 100 units that takes so many ns when undisturbed: every tenth sample takes ten times as long.
    fn time(piece: u32, nanos: u64) -> Duration {
        let disturbed = if piece % 160 < 16 { 10 } else { 1 };
        Duration::from_nanos(nanos * disturbed)
    }

    /// Does so many pieces; returns how many of them in each way.
    fn work<const WAYS: usize>(
        choice: &mut ShortChoice<WAYS>,
        clock: &mut Instant,
        pieces: u32,
        times: [u64; WAYS],
    ) -> [u32; WAYS] {
        let mut done = [0; WAYS];
        for piece in 0..pieces {
            let way = choice.way();
            done[way] += 1;
            *clock += time(piece, times[way]);
            choice.count(100, || *clock);
        }
        done
    }

    #[test]
    fn the_fastest_way_is_found_and_found_again_when_that_changes() {
        let (mut choice, mut clock) = (ShortChoice::new(0), Instant::now());
        for times in [[300, 200, 100], [100, 200, 300], [200, 100, 150]] {
            work(&mut choice, &mut clock, 30_000, times);
            let done = work(&mut choice, &mut clock, 30_000, times);
            let fastest = times.iter().position(|&time| time == 100).unwrap();
            assert!(done[fastest] > 28_500, "{times:?} {done:?}");
        }
    }

    #[test]
    fn a_way_that_is_much_slower_is_tried_less_often() {
        let (mut choice, mut clock) = (ShortChoice::new(0), Instant::now());
        let mut spent = [0, 0];
        for (of, times) in [[100, 200], [100, 800]].into_iter().enumerate() {
            work(&mut choice, &mut clock, 20_000, times);
            let [_, slow] = work(&mut choice, &mut clock, 200_000, times);
            assert!(slow > 0);
            spent[of] = slow * (times[1] - times[0]) as u32;
        }
        assert!(spent[1] < 2 * spent[0], "{spent:?}");
    }

    #[test]
    fn ways_that_hardly_differ_are_not_exchanged() {
        for preferred in [0, 1] {
            let (mut choice, mut clock) = (ShortChoice::new(preferred), Instant::now());
            for _ in 0..20 {
                work(&mut choice, &mut clock, 1000, [100, 101]);
                work(&mut choice, &mut clock, 1000, [101, 100]);
            }
            assert_eq!(choice.choice.preferred, preferred);
        }
    }

    /// Time between two samples counts for neither way, and samples without work do not count.
    #[test]
    fn samples_are_timed_from_their_beginnings_to_their_ends() {
        let (mut choice, mut clock) = (Choice::<2>::new(1), Instant::now());
        let mut first = 0;
        for number in 0..1000 {
            let sample = choice.begin_at(clock);
            first += u32::from(sample.way() == 0);
            let units = u64::from(number % 7 != 0);
            clock += Duration::from_micros([10, 20][sample.way()] * units);
            choice.end_at(&sample, units, clock);
            clock += Duration::from_micros([100, 1][sample.way()]);
        }
        assert!(first > 900, "{first}");
    }
}
