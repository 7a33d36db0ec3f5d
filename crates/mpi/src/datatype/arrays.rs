//! Parts of arrays (MPI 5.0 §5.1.3, §5.1.4): subarrays, and the share of one process in a distributed array.

use super::construct::Arguments;
use super::error::{Error, not_negative, product, same_length, sum};
use super::handle::{Combiner, Datatype, Map, Width};

/// In which order an array's elements lie, with its value in the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
#[repr(i32)]
pub enum Order {
    /// The last dimension's are neighbours.
    C = 12,
    /// The first dimension's are.
    Fortran = 15,
}

impl TryFrom<i32> for Order {
    type Error = Error;

    fn try_from(value: i32) -> Result<Self, Error> {
        match value {
            12 => Ok(Self::C),
            15 => Ok(Self::Fortran),
            _ => Err(Error::Argument {
                what: "order",
                value: value.into(),
                why: "it must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
            }),
        }
    }
}

impl Order {
    /// The dimensions, that of neighbours first.
    fn inside_out(self, dimensions: usize) -> Vec<usize> {
        match self {
            Self::C => (0..dimensions).rev().collect(),
            Self::Fortran => (0..dimensions).collect(),
        }
    }
}

/// How a dimension of an array is distributed, with its value in the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's")]
#[repr(i32)]
pub enum Distribution {
    None = 16,
    Block = 17,
    Cyclic = 18,
}

/// `MPI_DISTRIBUTE_DFLT_DARG` in the ABI.
pub const DEFAULT_ARGUMENT: i32 = 19;

impl TryFrom<i32> for Distribution {
    type Error = Error;

    fn try_from(value: i32) -> Result<Self, Error> {
        match value {
            16 => Ok(Self::None),
            17 => Ok(Self::Block),
            18 => Ok(Self::Cyclic),
            _ => Err(Error::Argument {
                what: "array_of_distribs",
                value: value.into(),
                why: "it must be MPI_DISTRIBUTE_NONE, _BLOCK or _CYCLIC",
            }),
        }
    }
}

/// The arguments of `MPI_Type_create_darray`, by dimension where they are arrays.
#[derive(Debug, Clone, Copy)]
pub struct Darray<'a> {
    /// Processes.
    pub size: i32,
    /// This process.
    pub rank: i32,
    /// Elements of the whole array.
    pub sizes: &'a [i64],
    /// How each dimension is distributed.
    pub distributions: &'a [Distribution],
    /// Block lengths, or [`DEFAULT_ARGUMENT`].
    pub arguments: &'a [i32],
    /// Processes along each dimension, whose ranks lie in C's order.
    pub grid: &'a [i32],
    /// The array's order.
    pub order: Order,
}

/// A part of an array under construction: dimensions are added to it one after the other, each
/// around those before.
struct Part {
    map: Map,
    /// Bytes of the whole array's dimensions so far: the next dimension's step.
    step: i64,
    /// Bytes from the whole array's beginning to the part's.
    offset: i64,
}

impl Datatype {
    /// The elements of an array of `sizes` from `starts` on, `subsizes` of them in each dimension, with the extent of
    /// the whole array (`MPI_Type_create_subarray`).
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        same_length("array_of_subsizes", subsizes.len(), sizes.len())?;
        same_length("array_of_starts", starts.len(), sizes.len())?;
        let dimensions = check_dimensions(sizes)?;
        let mut part = Part::of(old);
        for at in order.inside_out(sizes.len()) {
            let (size, subsize, start) = (sizes[at], subsizes[at], starts[at]);
            if !(1..=size).contains(&subsize) {
                return Err(Error::Argument {
                    what: "array_of_subsizes",
                    value: subsize,
                    why: "it must be positive and not exceed the array's size",
                });
            }
            if !(0..=size - subsize).contains(&start) {
                return Err(Error::Argument {
                    what: "array_of_starts",
                    value: start,
                    why: "the part must lie inside the array",
                });
            }
            part.map = part.map.repeated(subsize as u64, part.step)?;
            part.within(start, size)?;
        }
        let arguments = Arguments {
            head: &[dimensions],
            sizes: &[sizes, subsizes, starts],
            tail: &[order as i32],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Subarray, width)
        };
        Self::new(part.finish()?, arguments.contents()?, false)
    }

    /// The share of process `rank` of an array that is distributed over a grid of processes, with the extent of the
    /// whole array (`MPI_Type_create_darray`).
    pub fn darray(of: &Darray<'_>, old: &Self, width: Width) -> Result<Self, Error> {
        let count = of.sizes.len();
        same_length("array_of_distribs", of.distributions.len(), count)?;
        same_length("array_of_dargs", of.arguments.len(), count)?;
        same_length("array_of_psizes", of.grid.len(), count)?;
        let dimensions = check_dimensions(of.sizes)?;
        let places = of.places()?;
        let mut part = Part::of(old);
        for at in of.order.inside_out(count) {
            part.distribute(of, at, i64::from(places[at]))?;
        }
        let distributions: Vec<i32> = of.distributions.iter().map(|it| *it as i32).collect();
        let arguments = Arguments {
            head: &[of.size, of.rank, dimensions],
            sizes: &[of.sizes],
            tail: &[&distributions, of.arguments, of.grid, &[of.order as i32]].concat(),
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Darray, width)
        };
        Self::new(part.finish()?, arguments.contents()?, false)
    }
}

/// Checks an array's sizes; returns how many there are.
fn check_dimensions(sizes: &[i64]) -> Result<i32, Error> {
    for &size in sizes {
        if size < 1 {
            return Err(Error::Argument {
                what: "array_of_sizes",
                value: size,
                why: "it must be positive",
            });
        }
    }
    i32::try_from(sizes.len())
        .ok()
        .filter(|dimensions| *dimensions > 0)
        .ok_or(Error::Argument {
            what: "ndims",
            value: sizes.len() as i64,
            why: "it must be positive",
        })
}

impl Darray<'_> {
    /// Where the process lies in the grid.
    fn places(&self) -> Result<Vec<i32>, Error> {
        let wrong = |what, value: i32, why| Error::Argument {
            what,
            value: value.into(),
            why,
        };
        if !(0..self.size).contains(&self.rank) {
            return Err(wrong("rank", self.rank, "it must be below size"));
        }
        let mut places = vec![0; self.grid.len()];
        let mut rest = self.rank;
        let mut product = 1_i64;
        for (place, &len) in places.iter_mut().zip(self.grid).rev() {
            if len < 1 {
                return Err(wrong("array_of_psizes", len, "it must be positive"));
            }
            product = product.saturating_mul(len.into());
            *place = rest % len;
            rest /= len;
        }
        if product != i64::from(self.size) {
            return Err(wrong(
                "size",
                self.size,
                "it must be the product of array_of_psizes",
            ));
        }
        Ok(places)
    }

    /// The block length of a dimension.
    fn block(&self, at: usize) -> Result<i64, Error> {
        let (size, processes) = (self.sizes[at], i64::from(self.grid[at]));
        let argument = i64::from(self.arguments[at]);
        let is_default = self.arguments[at] == DEFAULT_ARGUMENT;
        let wrong = |why| Error::Argument {
            what: "array_of_dargs",
            value: argument,
            why,
        };
        match self.distributions[at] {
            Distribution::None if processes != 1 => Err(Error::Argument {
                what: "array_of_psizes",
                value: processes,
                why: "a dimension that is not distributed has one process",
            }),
            Distribution::None => Ok(size),
            Distribution::Block if is_default => Ok((size - 1) / processes + 1),
            Distribution::Cyclic if is_default => Ok(1),
            _ if argument < 1 => Err(wrong("it must be positive")),
            Distribution::Block if argument.saturating_mul(processes) < size => {
                Err(wrong("the blocks of all processes must cover the array"))
            }
            Distribution::Block | Distribution::Cyclic => Ok(argument),
        }
    }
}

impl Part {
    fn of(old: &Datatype) -> Self {
        Self {
            map: old.map().clone(),
            step: old.extent(),
            offset: 0,
        }
    }

    /// Is `start` elements into a dimension of `size`.
    fn within(&mut self, start: i64, size: i64) -> Result<(), Error> {
        self.offset = sum(self.offset, product(start, self.step)?)?;
        self.step = product(self.step, size)?;
        Ok(())
    }

    /// Takes the elements that the process at `place` has of dimension `at`: whole blocks at equal distances, and
    /// perhaps a shorter one behind them.
    fn distribute(&mut self, of: &Darray<'_>, at: usize, place: i64) -> Result<(), Error> {
        let (size, block) = (of.sizes[at], of.block(at)?);
        let start = product(place, block)?;
        let round = product(block, of.grid[at].into())?;
        let left = (size - start).max(0);
        // What lies behind the last whole round is a whole block, part of one, or nothing.
        let (whole, rest) = (left / round, (left % round).min(block));
        let (whole, rest) = if rest == block {
            (whole + 1, 0)
        } else {
            (whole, rest)
        };
        let (blocks, distance) = (not_negative("blocks", whole)?, product(round, self.step)?);
        let full = self.map.repeated(block as u64, self.step)?;
        let mut map = full.repeated(blocks, distance)?;
        if rest > 0 {
            let last = self.map.repeated(rest as u64, self.step)?;
            map = map.followed(&last.moved(product(whole, distance)?)?)?;
        }
        self.map = map;
        self.within(if left == 0 { 0 } else { start }, size)
    }

    /// With the extent of the whole array.
    fn finish(self) -> Result<Map, Error> {
        self.map.moved(self.offset)?.resized(0, self.step)
    }
}
