//! A product of dense matrices on a square of processes (§2.4.3): in each step, one process of each row sends its part of
//! the left matrix to the others of the row, all multiply, and the parts of the right matrix move up.

use super::Program;
use super::barrier::{Barrier, HasBarrier, on_arrival, on_release, pass};
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers, Region};

/// One multiplication and addition of the inner loop; every eighth element is read from memory.
const EIGHT_STEPS: Work = Work {
    floating: 16,
    integer: 16,
    cached: 15,
    memory: 1,
};

/// Elements of its part of the product that each process computes directly as well.
const CHECKED: usize = 8;

/// The product of two fixed matrices.
#[derive(Debug, Clone, Copy)]
pub struct Matmul {
    /// Rows and columns of each matrix.
    pub size: usize,
}

impl Matmul {
    /// The side of the square of processes.
    fn side(ranks: u32) -> u32 {
        ranks.isqrt()
    }

    /// The left matrix. Whole numbers, so that the product is exact.
    fn left(row: usize, column: usize) -> f64 {
        ((row * 7 + column * 3) % 17) as f64 - 8.0
    }

    /// The right matrix.
    fn right(row: usize, column: usize) -> f64 {
        ((row * 5 + column * 11) % 13) as f64 - 6.0
    }

    /// One part of a matrix.
    fn part(
        &self,
        of: fn(usize, usize) -> f64,
        row: usize,
        column: usize,
        side: usize,
    ) -> Vec<f64> {
        let own = self.size / side;
        let mut part = Vec::with_capacity(own * own);
        for i in 0..own {
            part.extend((0..own).map(|j| of(row * own + i, column * own + j)));
        }
        part
    }

    fn check(
        &self,
        product: &[f64],
        row: usize,
        column: usize,
        side: usize,
    ) -> Result<(), AmError> {
        let own = self.size / side;
        for sample in 0..CHECKED {
            let place = (sample * 2 + 1) * product.len() / (2 * CHECKED);
            let (i, j) = (row * own + place / own, column * own + place % own);
            let direct: f64 = (0..self.size)
                .map(|k| Self::left(i, k) * Self::right(k, j))
                .sum();
            if product.get(place) != Some(&direct) {
                return Err(AmError::WrongResult(format!(
                    "element {i}, {j} of the product should be {direct}"
                )));
            }
        }
        Ok(())
    }
}

/// Adds the product of two parts to a third.
fn multiply_add(left: &[f64], right: &[f64], product: &mut [f64], own: usize) {
    for (left_row, product_row) in left.chunks_exact(own).zip(product.chunks_exact_mut(own)) {
        for (&factor, right_row) in left_row.iter().zip(right.chunks_exact(own)) {
            for (sum, &other) in product_row.iter_mut().zip(right_row) {
                *sum += factor * other;
            }
        }
    }
}

/// The state that handlers change.
#[derive(Debug, Default)]
pub struct MatmulState {
    barrier: Barrier,
    /// The steps whose left parts have arrived.
    left: Vec<bool>,
    /// How many right parts have arrived.
    right: usize,
    /// How many steps the process above has finished.
    above: usize,
}

impl HasBarrier for MatmulState {
    fn barrier(&mut self) -> &mut Barrier {
        &mut self.barrier
    }
}

const ARRIVE: HandlerId = HandlerId(0);
const RELEASE: HandlerId = HandlerId(1);
const LEFT: HandlerId = HandlerId(2);
const RIGHT: HandlerId = HandlerId(3);
const FINISHED: HandlerId = HandlerId(4);

fn on_left(arrival: &mut Arrival<'_, MatmulState>) -> Result<(), AmError> {
    let step = arrival.word(0)? as usize;
    match arrival.state.left.get_mut(step) {
        Some(has_come) => *has_come = true,
        None => return Err(arrival.refuse("there are not so many steps")),
    }
    Ok(())
}

fn on_right(arrival: &mut Arrival<'_, MatmulState>) -> Result<(), AmError> {
    arrival.state.right += 1;
    Ok(())
}

fn on_finished(arrival: &mut Arrival<'_, MatmulState>) -> Result<(), AmError> {
    arrival.state.above += 1;
    Ok(())
}

/// The position of a process in the square, and its memory.
struct Place {
    side: usize,
    own: usize,
    row: usize,
    column: usize,
    bytes: u64,
    /// Its own left part, and one for the part that arrives in each step.
    mine: Region,
    lefts: Vec<Region>,
    /// The right parts of even and of odd steps.
    rights: [Region; 2],
}

impl Place {
    fn rank(&self, row: usize, column: usize) -> Rank {
        ((row % self.side) * self.side + column % self.side) as Rank
    }

    fn above(&self) -> Rank {
        self.rank(self.row + self.side - 1, self.column)
    }

    fn below(&self) -> Rank {
        self.rank(self.row + 1, self.column)
    }

    fn right(&self, step: usize) -> Region {
        match step.is_multiple_of(2) {
            true => self.rights[0],
            false => self.rights[1],
        }
    }
}

impl Matmul {
    fn settle<A: ActiveMessages<State = MatmulState>>(&self, am: &mut A) -> Result<Place, AmError> {
        let side = Self::side(am.ranks()) as usize;
        let own = self.size / side;
        let bytes = own * own * 8;
        let rank = am.rank() as usize;
        let (row, column) = (rank / side, rank % side);
        let mine = am.make_region(bytes)?;
        let rights = [am.make_region(bytes)?, am.make_region(bytes)?];
        let lefts = (0..side)
            .map(|_| am.make_region(bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let left = self.part(Self::left, row, column, side);
        am.memory_mut().write_numbers(mine.at(0), left);
        let right = self.part(Self::right, row, column, side);
        am.memory_mut().write_numbers(rights[0].at(0), right);
        Ok(Place {
            side,
            own,
            row,
            column,
            bytes: bytes as u64,
            mine,
            lefts,
            rights,
        })
    }

    /// Makes the left part of this step available: its owner sends it along the row.
    fn broadcast<A: ActiveMessages<State = MatmulState>>(
        am: &mut A,
        place: &Place,
        step: usize,
    ) -> Result<Region, AmError> {
        let owner = (place.row + step) % place.side;
        let Some(&into) = place.lefts.get(step) else {
            return Err(AmError::WrongResult(format!("there is no step {step}")));
        };
        if owner != place.column {
            let owner = place.rank(place.row, owner);
            am.wait_until(Awaited::from(owner, "a part of the left matrix"), |state| {
                state.left.get(step) == Some(&true)
            })?;
            return Ok(into);
        }
        for other in 1..place.side {
            let to = place.rank(place.row, place.column + other);
            let span = place.mine.at(0).span(place.bytes);
            am.store(to, span, into.at(0), LEFT, step as u64)?;
        }
        Ok(place.mine)
    }

    /// Moves the right parts up: this one is sent, and the next one arrives.
    fn rotate<A: ActiveMessages<State = MatmulState>>(
        am: &mut A,
        place: &Place,
        step: usize,
    ) -> Result<(), AmError> {
        // The process above uses its other part until it has finished the previous step.
        am.wait_until(Awaited::from(place.above(), "the end of a step"), |state| {
            state.above >= step
        })?;
        let span = place.right(step).at(0).span(place.bytes);
        let into = place.right(step + 1).at(0);
        am.store(place.above(), span, into, RIGHT, step as u64)?;
        am.request(place.below(), FINISHED, &[])?;
        am.wait_until(
            Awaited::from(place.below(), "a part of the right matrix"),
            |state| state.right > step,
        )
    }
}

impl Program for Matmul {
    type State = MatmulState;
    /// The process's part of the product, row by row.
    type Output = Vec<f64>;

    fn handlers() -> &'static Handlers<MatmulState> {
        &[on_arrival, on_release, on_left, on_right, on_finished]
    }

    fn begin(&self, _rank: Rank, ranks: u32) -> Result<MatmulState, AmError> {
        let side = Self::side(ranks);
        if side == 0 || side * side != ranks || !self.size.is_multiple_of(side as usize) {
            return Err(AmError::WrongResult(format!(
                "{} rows need a square of processes whose side divides them, not {ranks}",
                self.size
            )));
        }
        Ok(MatmulState {
            left: vec![false; side as usize],
            ..MatmulState::default()
        })
    }

    fn run<A: ActiveMessages<State = MatmulState>>(&self, am: &mut A) -> Result<Vec<f64>, AmError> {
        let place = self.settle(am)?;
        let elements = place.own * place.own;
        let mut product = vec![0.0; elements];
        for step in 0..place.side {
            let left = Self::broadcast(am, &place, step)?;
            let left: Vec<f64> = am.memory().numbers(left.at(0), elements).collect();
            let right: Vec<f64> = am
                .memory()
                .numbers(place.right(step).at(0), elements)
                .collect();
            multiply_add(&left, &right, &mut product, place.own);
            am.work(EIGHT_STEPS.times((elements * place.own / 8) as u64));
            if place.side > 1 {
                Self::rotate(am, &place, step)?;
            }
        }
        pass(am, ARRIVE, RELEASE)?;
        self.check(&product, place.row, place.column, place.side)?;
        Ok(product)
    }
}
