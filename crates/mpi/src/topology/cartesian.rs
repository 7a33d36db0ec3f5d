//! Grids (MPI 5.0 §8.5.1–§8.5.6).

use super::error::{Error, check_rank, same_length};
use super::neighbours::{Neighbour, Neighbours};

/// A grid of processes, whose ranks lie in C's order: the last dimension's are neighbours. Without dimensions, it is one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cartesian {
    /// The processes in each dimension.
    pub dims: Vec<i32>,
    /// Whether each dimension is a ring.
    pub periods: Vec<bool>,
}

/// A process's part of a grid that is divided (`MPI_Cart_sub`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The part's grid.
    pub grid: Cartesian,
    /// The number of the part among the parts: a colour as `MPI_Comm_split` has it.
    pub colour: i32,
    /// The process's rank in the part.
    pub rank: i32,
}

impl Cartesian {
    /// A grid of at most `size` processes (`MPI_Cart_create`).
    pub fn new(dims: &[i32], periods: &[bool], size: i32) -> Result<Self, Error> {
        same_length("periods", periods.len(), dims.len())?;
        let wrong = || Error::Dims {
            nodes: size,
            dims: dims.to_vec(),
        };
        let product = dims.iter().try_fold(1_i32, |product, dim| {
            product.checked_mul(*dim).filter(|_| *dim > 0)
        });
        if product.ok_or_else(wrong)? > size {
            return Err(wrong());
        }
        Ok(Self {
            dims: dims.to_vec(),
            periods: periods.to_vec(),
        })
    }

    /// How many processes it has.
    pub fn size(&self) -> i32 {
        self.dims.iter().product()
    }

    /// The rank of the process at these coordinates (`MPI_Cart_rank`). Those of a ring may be outside of it.
    pub fn rank(&self, coordinates: &[i32]) -> Result<i32, Error> {
        same_length("coords", coordinates.len(), self.dims.len())?;
        let mut rank = 0;
        for ((at, dim), is_ring) in coordinates.iter().zip(&self.dims).zip(&self.periods) {
            if !is_ring && !(0..*dim).contains(at) {
                return Err(Error::Argument {
                    what: "coords",
                    value: (*at).into(),
                    why: "it must lie inside of a dimension that is no ring",
                });
            }
            rank = rank * dim + at.rem_euclid(*dim);
        }
        Ok(rank)
    }

    /// The coordinates of a process (`MPI_Cart_coords`).
    pub fn coordinates(&self, rank: i32) -> Result<Vec<i32>, Error> {
        check_rank(rank, self.size())?;
        let mut coordinates = vec![0; self.dims.len()];
        let mut rest = rank;
        for (at, dim) in coordinates.iter_mut().zip(&self.dims).rev() {
            *at = rest % dim;
            rest /= dim;
        }
        Ok(coordinates)
    }

    /// The processes that are `displacement` before and behind one in a dimension (`MPI_Cart_shift`): source and
    /// destination of a shift. `None` stands for `MPI_PROC_NULL`.
    pub fn shift(
        &self,
        rank: i32,
        dimension: i32,
        displacement: i32,
    ) -> Result<(Option<i32>, Option<i32>), Error> {
        let at = usize::try_from(dimension)
            .ok()
            .filter(|at| *at < self.dims.len())
            .ok_or(Error::Argument {
                what: "direction",
                value: dimension.into(),
                why: "it must be a dimension's number",
            })?;
        let mut coordinates = self.coordinates(rank)?;
        let (here, dim) = (i64::from(coordinates[at]), i64::from(self.dims[at]));
        let mut there = |by: i64| {
            let place = here + by;
            if !self.periods[at] && !(0..dim).contains(&place) {
                return Ok(None);
            }
            // In the dimension, which is an `i32`.
            coordinates[at] = place.rem_euclid(dim) as i32;
            self.rank(&coordinates).map(Some)
        };
        let by = i64::from(displacement);
        Ok((there(-by)?, there(by)?))
    }

    /// Keeps some of the dimensions; returns the part that a process is in (`MPI_Cart_sub`).
    pub fn part(&self, rank: i32, remain: &[bool]) -> Result<Part, Error> {
        same_length("remain_dims", remain.len(), self.dims.len())?;
        let coordinates = self.coordinates(rank)?;
        let mut grid = Self {
            dims: Vec::new(),
            periods: Vec::new(),
        };
        let (mut colour, mut inside) = (0, 0);
        for (at, remains) in remain.iter().enumerate() {
            let (here, dim) = (coordinates[at], self.dims[at]);
            if *remains {
                grid.dims.push(dim);
                grid.periods.push(self.periods[at]);
                inside = inside * dim + here;
            } else {
                colour = colour * dim + here;
            }
        }
        Ok(Part {
            grid,
            colour,
            rank: inside,
        })
    }

    /// A process's neighbours: in each dimension, the one before and the one behind.
    pub(super) fn neighbours(&self, rank: i32) -> Neighbours {
        let mut all = Neighbours::default();
        for dimension in 0..self.dims.len() {
            let Ok((before, behind)) = self.shift(rank, dimension as i32, 1) else {
                return Neighbours::default();
            };
            let (backward, forward) = (2 * dimension as u32, 2 * dimension as u32 + 1);
            let neighbour = |rank, label| Neighbour { rank, label };
            all.destinations.push(neighbour(before, backward));
            all.destinations.push(neighbour(behind, forward));
            // Blocks from the process before were sent forward.
            all.sources.push(neighbour(before, forward));
            all.sources.push(neighbour(behind, backward));
        }
        all
    }
}
