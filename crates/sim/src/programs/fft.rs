//! A one-dimensional Fourier transform (§2.4.2): butterflies on a cyclic layout, an all-to-all by `am_get` to a blocked layout,
//! butterflies on that.
//!
//! With N points on P processes, the first log₂(N/P) levels of the decimation in frequency combine
//! elements whose distance is a multiple of P, and are local while process p holds the elements
//! that are p modulo P; the last log₂P levels combine neighbours, and are local in blocks of N/P.
//! The elements that one process needs from another are contiguous there.

use std::rc::Rc;

use super::Program;
use super::barrier::{Barrier, HasBarrier, on_arrival, on_release, pass};
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};

/// One butterfly: a complex multiplication and two complex additions, four complex accesses, twiddle factor and loop; an
/// access each misses the cache, in an array that is larger.
const BUTTERFLY: Work = Work {
    floating: 10,
    integer: 10,
    cached: 10,
    memory: 4,
};

/// Storing one element in its place after the exchange.
const PLACE: Work = Work {
    floating: 0,
    integer: 4,
    cached: 4,
    memory: 2,
};

/// Bytes of an element: its real and its imaginary part.
const ELEMENT_BYTES: u64 = 16;

/// Elements of its result that each process computes directly as well.
const CHECKED: usize = 2;

type Complex = (f64, f64);

fn multiply((a, b): Complex, (c, d): Complex) -> Complex {
    (a * c - b * d, a * d + b * c)
}

fn add((a, b): Complex, (c, d): Complex) -> Complex {
    (a + c, b + d)
}

fn subtract((a, b): Complex, (c, d): Complex) -> Complex {
    (a - c, b - d)
}

/// The powers of the N-th root of unity.
///
/// Built from halved angles and products, which every machine rounds alike, and not from sine and cosine,
/// which it does not.
#[derive(Debug)]
struct Roots {
    half: Vec<Complex>,
}

impl Roots {
    fn new(points: usize) -> Self {
        let levels = points.trailing_zeros() as usize;
        // e^(-2πi/2^level)
        let mut of_level = vec![(1.0, 0.0), (-1.0, 0.0), (0.0, -1.0)];
        while of_level.len() <= levels {
            let (cosine, sine) = of_level.last().copied().unwrap_or((1.0, 0.0));
            let halved: f64 = ((1.0 + cosine) / 2.0_f64).sqrt();
            of_level.push((halved, sine / (2.0 * halved)));
        }
        let mut half: Vec<Complex> = Vec::with_capacity(points / 2);
        half.push((1.0, 0.0));
        for power in 1..points / 2 {
            let bit = power.ilog2() as usize;
            let rest = half.get(power - (1 << bit)).copied().unwrap_or_default();
            let step = of_level.get(levels - bit).copied().unwrap_or_default();
            half.push(multiply(rest, step));
        }
        Self { half }
    }

    /// The root to the power of `power`.
    fn power(&self, power: usize) -> Complex {
        let points = 2 * self.half.len();
        let power = power % points;
        match self.half.get(power) {
            Some(&root) => root,
            None => {
                let (real, imaginary) = self
                    .half
                    .get(power - self.half.len())
                    .copied()
                    .unwrap_or_default();
                (-real, -imaginary)
            }
        }
    }
}

/// The transform of a fixed sequence of numbers.
#[derive(Debug, Clone)]
pub struct Fft {
    points: usize,
    roots: Rc<Roots>,
}

impl Fft {
    /// A transform of `points`, a power of two from 4 on.
    pub fn new(points: usize) -> Result<Self, AmError> {
        if !points.is_power_of_two() || points < 4 {
            return Err(AmError::WrongResult(format!(
                "a transform needs a power of two of points, 4 or more, not {points}"
            )));
        }
        Ok(Self {
            points,
            roots: Rc::new(Roots::new(points)),
        })
    }

    /// The `index`-th number of the sequence.
    fn input(index: usize) -> Complex {
        let scale = 1.0 / (1_u64 << 53) as f64;
        let number = |seed: u64| (scramble(seed) >> 11) as f64 * scale - 0.5;
        (number(2 * index as u64), number(2 * index as u64 + 1))
    }

    /// Where the result of position `position` belongs in the spectrum: its bits reversed.
    fn frequency(&self, position: usize) -> usize {
        position.reverse_bits() >> (usize::BITS - self.points.ilog2())
    }

    /// All levels from distance `from` down to distance `to`. `elements` are those whose index is `first` modulo `stride`,
    /// or, with a stride of 1, those from `first` on.
    fn levels(
        &self,
        elements: &mut [Complex],
        first: usize,
        stride: usize,
        from: usize,
        to: usize,
    ) {
        let mut distance = from;
        while distance >= to && distance > 0 {
            let step = self.points / (2 * distance);
            let local = distance / stride;
            for block in elements.chunks_exact_mut(2 * local) {
                let (low, high) = block.split_at_mut(local);
                for (j, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let index = match stride {
                        1 => j,
                        _ => j * stride + first,
                    };
                    let difference = subtract(*a, *b);
                    *a = add(*a, *b);
                    *b = multiply(difference, self.roots.power((index % distance) * step));
                }
            }
            distance /= 2;
        }
    }

    /// The spectrum at `frequency`, by definition.
    fn direct(&self, frequency: usize) -> Complex {
        let mut sum = (0.0, 0.0);
        let mut power = 0;
        for index in 0..self.points {
            sum = add(sum, multiply(Self::input(index), self.roots.power(power)));
            power = (power + frequency) % self.points;
        }
        sum
    }

    /// Compares some of this process's results, which begin at `first`, with the definition.
    fn check(&self, result: &[Complex], first: usize) -> Result<(), AmError> {
        let tolerance = 1e-12 * self.points as f64;
        for sample in 0..CHECKED {
            let place = (sample * 2 + 1) * result.len() / (2 * CHECKED);
            let frequency = self.frequency(first + place);
            let (real, imaginary) = subtract(
                result.get(place).copied().unwrap_or((f64::NAN, f64::NAN)),
                self.direct(frequency),
            );
            let off = real.abs().max(imaginary.abs());
            if off.is_nan() || off > tolerance {
                return Err(AmError::WrongResult(format!(
                    "frequency {frequency} of {} is off by {off:e}",
                    self.points
                )));
            }
        }
        Ok(())
    }
}

/// A number from a number, without a pattern.
pub(super) fn scramble(seed: u64) -> u64 {
    let spread = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    causeway_wire::random::mix(spread.wrapping_add(0x1234_5678_9abc_def1))
}

/// The state that handlers change.
#[derive(Debug, Default)]
pub struct FftState {
    barrier: Barrier,
    landed: u32,
}

impl HasBarrier for FftState {
    fn barrier(&mut self) -> &mut Barrier {
        &mut self.barrier
    }
}

const ARRIVE: HandlerId = HandlerId(0);
const RELEASE: HandlerId = HandlerId(1);
const LANDED: HandlerId = HandlerId(2);

fn on_landed(arrival: &mut Arrival<'_, FftState>) -> Result<(), AmError> {
    arrival.landing()?;
    arrival.state.landed += 1;
    Ok(())
}

impl Program for Fft {
    type State = FftState;
    /// The process's part of the spectrum, in the order of reversed bits.
    type Output = Vec<(f64, f64)>;

    fn handlers() -> &'static Handlers<FftState> {
        &[on_arrival, on_release, on_landed]
    }

    fn begin(&self, _rank: Rank, ranks: u32) -> Result<FftState, AmError> {
        let square = (ranks as usize).saturating_mul(ranks as usize);
        match ranks.is_power_of_two() && square <= self.points {
            true => Ok(FftState::default()),
            false => Err(AmError::WrongResult(format!(
                "{} points need a power of two of processes whose square is not larger, not {ranks}",
                self.points
            ))),
        }
    }

    fn run<A: ActiveMessages<State = FftState>>(
        &self,
        am: &mut A,
    ) -> Result<Self::Output, AmError> {
        let (rank, ranks) = (am.rank() as usize, am.ranks() as usize);
        let own = self.points / ranks;
        let part = own / ranks;
        let part_bytes = part as u64 * ELEMENT_BYTES;
        let cyclic = am.make_region(own * ELEMENT_BYTES as usize)?;
        let staging = am.make_region(own * ELEMENT_BYTES as usize)?;

        let mut elements: Vec<Complex> = (0..own).map(|j| Self::input(j * ranks + rank)).collect();
        self.levels(&mut elements, rank, ranks, self.points / 2, ranks);
        let local_levels = u64::from(own.ilog2());
        am.work(BUTTERFLY.times(local_levels * own as u64 / 2));
        let parts = elements
            .iter()
            .flat_map(|&(real, imaginary)| [real, imaginary]);
        am.memory_mut().write_numbers(cyclic.at(0), parts);

        pass(am, ARRIVE, RELEASE)?;
        for other in (1..ranks).map(|step| (rank + step) % ranks) {
            let source = cyclic.at(rank as u64 * part_bytes).span(part_bytes);
            let into = staging.at(other as u64 * part_bytes);
            am.get(other as Rank, source, into, LANDED, other as u64)?;
        }
        let next = (rank + 1) % ranks;
        am.wait_until(
            Awaited::from(next as Rank, "elements, and from the others"),
            |state| state.landed as usize >= ranks - 1,
        )?;
        // A process that computes does not poll: others may still be reading elements from here.
        pass(am, ARRIVE, RELEASE)?;

        let mut blocked = vec![(0.0, 0.0); own];
        for other in 0..ranks {
            let from = match other == rank {
                true => cyclic.at(rank as u64 * part_bytes),
                false => staging.at(other as u64 * part_bytes),
            };
            let numbers: Vec<f64> = am.memory().numbers(from, 2 * part).collect();
            for (j, pair) in numbers.chunks_exact(2).enumerate() {
                if let (Some(place), [real, imaginary]) = (blocked.get_mut(j * ranks + other), pair)
                {
                    *place = (*real, *imaginary);
                }
            }
        }
        am.work(PLACE.times(own as u64));
        self.levels(&mut blocked, rank * own, 1, ranks / 2, 1);
        am.work(BUTTERFLY.times(u64::from(ranks.ilog2()) * own as u64 / 2));
        self.check(&blocked, rank * own)?;
        Ok(blocked)
    }
}
