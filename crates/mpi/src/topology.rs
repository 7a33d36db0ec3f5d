//! Virtual topologies (MPI 5.0 chapter 8): grids.

use std::sync::Arc;

use crate::abi;
use crate::error::{Error, Result};

/// A topology that a communicator has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cartesian(Arc<Cartesian>),
}

/// A grid of processes. The last dimension changes fastest with the rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cartesian {
    /// The processes in each dimension.
    pub dims: Vec<i32>,
    /// Whether each dimension is a ring.
    pub periods: Vec<bool>,
}

impl Cartesian {
    /// A grid of at most `size` processes.
    pub fn new(dims: &[i32], periods: Vec<bool>, size: u32) -> Result<Self> {
        let mut cells = 1i64;
        for dim in dims {
            if *dim <= 0 {
                return Err(Error::new(
                    abi::ERR_DIMS,
                    format!("a dimension of {dim} processes"),
                ));
            }
            cells = cells.saturating_mul((*dim).into());
        }
        if cells > i64::from(size) {
            let text = format!("a grid of {cells} processes, of which there are {size}");
            return Err(Error::new(abi::ERR_DIMS, text));
        }
        Ok(Self {
            dims: dims.to_vec(),
            periods,
        })
    }

    /// How many processes the grid has.
    pub fn size(&self) -> i32 {
        self.dims.iter().product()
    }

    /// The rank of a place. Coordinates of rings may lie outside.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        let mut rank = 0;
        for ((&coord, &dim), &is_ring) in coords.iter().zip(&self.dims).zip(&self.periods) {
            if !is_ring && !(0..dim).contains(&coord) {
                let text = format!("the coordinate {coord} in a dimension of {dim}");
                return Err(Error::new(abi::ERR_ARG, text));
            }
            rank = rank * dim + coord.rem_euclid(dim);
        }
        Ok(rank)
    }

    /// The place of a rank.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>> {
        if !(0..self.size()).contains(&rank) {
            let text = format!("rank {rank} in a grid of {}", self.size());
            return Err(Error::new(abi::ERR_RANK, text));
        }
        let (mut left, mut coords) = (rank, self.dims.clone());
        for coord in coords.iter_mut().rev() {
            let dim = *coord;
            *coord = left % dim;
            left /= dim;
        }
        Ok(coords)
    }

    /// The ranks from where and to where data move that are shifted along a dimension, or `MPI_PROC_NULL`.
    pub fn shift(&self, rank: i32, dimension: i32, by: i32) -> Result<(i32, i32)> {
        let at = usize::try_from(dimension)
            .ok()
            .filter(|at| *at < self.dims.len());
        let at = at.ok_or_else(|| {
            let text = format!("dimension {dimension} of {}", self.dims.len());
            Error::new(abi::ERR_ARG, text)
        })?;
        let coords = self.coords(rank)?;
        let neighbour = |by: i64| {
            let coord = i64::from(coords[at]) + by;
            let dim = i64::from(self.dims[at]);
            let mut coords = coords.clone();
            if self.periods[at] {
                coords[at] = coord.rem_euclid(dim) as i32;
            } else if (0..dim).contains(&coord) {
                coords[at] = coord as i32;
            } else {
                return Ok(abi::PROC_NULL);
            }
            self.rank(&coords)
        };
        Ok((neighbour(-i64::from(by))?, neighbour(by.into())?))
    }

    /// The grid of the dimensions that remain, and the number of the part that a rank is in.
    pub fn part(&self, remain: &[bool], rank: i32) -> Result<(Self, i32)> {
        let coords = self.coords(rank)?;
        let (mut part, mut number) = (Self::default(), 0);
        for (at, &remains) in remain.iter().enumerate() {
            if remains {
                part.dims.push(self.dims[at]);
                part.periods.push(self.periods[at]);
            } else {
                number = number * self.dims[at] + coords[at];
            }
        }
        Ok((part, number))
    }
}

/// Dimensions, as equal as possible and not increasing, for a grid of `nodes` processes: those that are 0 are chosen
/// (`MPI_Dims_create`).
pub fn create_dims(nodes: i32, dims: &mut [i32]) -> Result<()> {
    let bad = |text: String| Err(Error::new(abi::ERR_DIMS, text));
    if nodes <= 0 || dims.iter().any(|dim| *dim < 0) {
        return bad(format!("{nodes} processes in the dimensions {dims:?}"));
    }
    let fixed = dims.iter().filter(|dim| **dim > 0);
    let fixed = fixed.fold(1i64, |product, dim| product.saturating_mul((*dim).into()));
    if i64::from(nodes) % fixed != 0 {
        return bad(format!("{nodes} processes cannot be divided as {dims:?}"));
    }
    let open = dims.iter().filter(|dim| **dim == 0).count();
    let left = (i64::from(nodes) / fixed) as i32;
    if open == 0 {
        return match left {
            1 => Ok(()),
            _ => bad(format!("{nodes} processes do not fill {dims:?}")),
        };
    }
    let mut chosen = vec![1; open];
    // The largest factors first, each into the smallest dimension so far.
    for factor in factors(left).into_iter().rev() {
        if let Some(smallest) = chosen.iter_mut().min() {
            *smallest *= factor;
        }
    }
    chosen.sort_unstable_by(|a, b| b.cmp(a));
    let places = dims.iter_mut().filter(|dim| **dim == 0);
    places.zip(chosen).for_each(|(dim, chosen)| *dim = chosen);
    Ok(())
}

/// The prime factors, increasing.
fn factors(mut number: i32) -> Vec<i32> {
    let (mut found, mut factor) = (Vec::new(), 2);
    while factor <= number / factor {
        while number % factor == 0 {
            found.push(factor);
            number /= factor;
        }
        factor += 1;
    }
    if number > 1 {
        found.push(number);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_places_belong_together() {
        let grid = Cartesian::new(&[2, 3, 2], vec![false, true, false], 13).expect("it fits");
        for rank in 0..12 {
            let coords = grid.coords(rank).expect("a rank");
            assert_eq!(grid.rank(&coords).expect("a place"), rank);
        }
        assert!(grid.coords(12).is_err());
        assert_eq!(grid.rank(&[0, -1, 0]).expect("a ring"), 4);
        assert!(grid.rank(&[-1, 0, 0]).is_err());
        assert_eq!(
            grid.shift(0, 0, 1).expect("a dimension"),
            (abi::PROC_NULL, 6)
        );
        assert_eq!(grid.shift(0, 1, 1).expect("a dimension"), (4, 2));
        assert!(grid.shift(0, 3, 1).is_err());
        let (part, number) = grid.part(&[false, true, true], 7).expect("a rank");
        assert_eq!((part.dims, number), (vec![3, 2], 1));
        assert!(Cartesian::new(&[3, 5], vec![false; 2], 14).is_err());
    }

    #[test]
    fn dimensions_are_as_equal_as_factors_allow() {
        for (nodes, given, expected) in [
            (6, vec![0, 0], vec![3, 2]),
            (7, vec![0, 0], vec![7, 1]),
            (6, vec![0, 3, 0], vec![2, 3, 1]),
            (24, vec![0, 0, 0], vec![4, 3, 2]),
            (1, vec![0, 0], vec![1, 1]),
        ] {
            let mut dims = given;
            create_dims(nodes, &mut dims).expect("it can be divided");
            assert_eq!(dims, expected);
        }
        assert!(create_dims(7, &mut [0, 3, 0]).is_err());
        assert!(create_dims(7, &mut [2]).is_err());
        assert!(create_dims(0, &mut [0]).is_err());
    }
}
