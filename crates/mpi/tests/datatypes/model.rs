//! Datatypes as the standard defines them: plain lists of predefined types and their displacements.

use causeway_mpi::datatype::{
    Basic, Combiner, Darray, Datatype, Distribution, Error, Form, Order, Width,
};

/// How to make a datatype.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Named(Basic),
    Contiguous(i64, Box<Plan>),
    Vector(i64, i64, i64, Box<Plan>),
    Hvector(i64, i64, i64, Box<Plan>),
    Indexed(Vec<(i64, i64)>, Box<Plan>),
    Hindexed(Vec<(i64, i64)>, Box<Plan>),
    IndexedBlock(i64, Vec<i64>, Box<Plan>),
    HindexedBlock(i64, Vec<i64>, Box<Plan>),
    Struct(Vec<(i64, i64, Plan)>),
    Resized(i64, i64, Box<Plan>),
    /// Sizes, subsizes and starts.
    Subarray(Vec<(i64, i64, i64)>, Order, Box<Plan>),
    /// Of each dimension: size, distribution, block length if not the default, processes; and the rank modulo all.
    Darray(
        Vec<(i64, Distribution, Option<i32>, i32)>,
        i32,
        Order,
        Box<Plan>,
    ),
    Dup(Box<Plan>),
}

/// A type map.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    pub(crate) entries: Vec<(i64, Basic)>,
    pub(crate) marks: Option<(i64, i64)>,
}

fn unzip(blocks: &[(i64, i64)]) -> (Vec<i64>, Vec<i64>) {
    blocks.iter().copied().unzip()
}

impl Plan {
    /// The datatype built by the code under test.
    pub(crate) fn build(&self, width: Width) -> Result<Datatype, Error> {
        let old = |plan: &Plan| plan.build(width);
        match self {
            Self::Named(basic) => Ok((*basic).into()),
            Self::Contiguous(count, of) => Datatype::contiguous(*count, &old(of)?, width),
            Self::Vector(count, len, stride, of) => {
                Datatype::vector(*count, *len, *stride, &old(of)?, width)
            }
            Self::Hvector(count, len, stride, of) => {
                Datatype::hvector(*count, *len, *stride, &old(of)?, width)
            }
            Self::Indexed(blocks, of) => {
                let (lens, at) = unzip(blocks);
                Datatype::indexed(&lens, &at, &old(of)?, width)
            }
            Self::Hindexed(blocks, of) => {
                let (lens, at) = unzip(blocks);
                Datatype::hindexed(&lens, &at, &old(of)?, width)
            }
            Self::IndexedBlock(len, at, of) => Datatype::indexed_block(*len, at, &old(of)?, width),
            Self::HindexedBlock(len, at, of) => {
                Datatype::hindexed_block(*len, at, &old(of)?, width)
            }
            Self::Struct(blocks) => {
                let lens: Vec<_> = blocks.iter().map(|block| block.0).collect();
                let at: Vec<_> = blocks.iter().map(|block| block.1).collect();
                let of: Result<Vec<_>, _> = blocks.iter().map(|block| old(&block.2)).collect();
                Datatype::structure(&lens, &at, &of?, width)
            }
            Self::Resized(lower, extent, of) => {
                Datatype::resized(&old(of)?, *lower, *extent, width)
            }
            Self::Subarray(dimensions, order, of) => {
                let sizes: Vec<_> = dimensions.iter().map(|it| it.0).collect();
                let subsizes: Vec<_> = dimensions.iter().map(|it| it.1).collect();
                let starts: Vec<_> = dimensions.iter().map(|it| it.2).collect();
                Datatype::subarray(&sizes, &subsizes, &starts, *order, &old(of)?, width)
            }
            Self::Darray(dimensions, rank, order, of) => {
                let sizes: Vec<_> = dimensions.iter().map(|it| it.0).collect();
                let distributions: Vec<_> = dimensions.iter().map(|it| it.1).collect();
                let default = causeway_mpi::datatype::DEFAULT_ARGUMENT;
                let arguments: Vec<_> = dimensions
                    .iter()
                    .map(|it| it.2.unwrap_or(default))
                    .collect();
                let grid: Vec<_> = dimensions.iter().map(|it| it.3).collect();
                let size = grid.iter().product();
                let darray = Darray {
                    size,
                    rank: rank % size,
                    sizes: &sizes,
                    distributions: &distributions,
                    arguments: &arguments,
                    grid: &grid,
                    order: *order,
                };
                Datatype::darray(&darray, &old(of)?, width)
            }
            Self::Dup(of) => Datatype::duplicate(&old(of)?),
        }
    }

    /// The constructor's name.
    pub(crate) fn combiner(&self) -> Combiner {
        match self {
            Self::Named(_) => Combiner::Named,
            Self::Contiguous(..) => Combiner::Contiguous,
            Self::Vector(..) => Combiner::Vector,
            Self::Hvector(..) => Combiner::Hvector,
            Self::Indexed(..) => Combiner::Indexed,
            Self::Hindexed(..) => Combiner::Hindexed,
            Self::IndexedBlock(..) => Combiner::IndexedBlock,
            Self::HindexedBlock(..) => Combiner::HindexedBlock,
            Self::Struct(_) => Combiner::Struct,
            Self::Resized(..) => Combiner::Resized,
            Self::Subarray(..) => Combiner::Subarray,
            Self::Darray(..) => Combiner::Darray,
            Self::Dup(_) => Combiner::Dup,
        }
    }

    /// Its type map as the standard defines it.
    pub(crate) fn map(&self) -> Map {
        match self {
            Self::Named(basic) => Map::named(*basic),
            Self::Dup(of) => of.map(),
            Self::Contiguous(count, of) => {
                let old = of.map();
                old.at((0..*count).map(|n| n * old.extent()))
            }
            Self::Vector(count, len, stride, of) => {
                let old = of.map();
                let ext = old.extent();
                old.at((0..*count).flat_map(|n| (0..*len).map(move |k| (n * stride + k) * ext)))
            }
            Self::Hvector(count, len, stride, of) => {
                let old = of.map();
                let ext = old.extent();
                old.at((0..*count).flat_map(|n| (0..*len).map(move |k| n * stride + k * ext)))
            }
            Self::Indexed(blocks, of) => {
                let old = of.map();
                let ext = old.extent();
                old.in_blocks(blocks.iter().map(|(len, at)| (*len, at * ext)))
            }
            Self::Hindexed(blocks, of) => of.map().in_blocks(blocks.iter().copied()),
            Self::IndexedBlock(len, at, of) => {
                let old = of.map();
                let ext = old.extent();
                old.in_blocks(at.iter().map(|at| (*len, at * ext)))
            }
            Self::HindexedBlock(len, at, of) => of.map().in_blocks(at.iter().map(|at| (*len, *at))),
            Self::Struct(blocks) => {
                let mut all = Map::default();
                for (len, at, of) in blocks {
                    all.append(of.map().in_blocks([(*len, *at)].into_iter()));
                }
                all
            }
            Self::Resized(lower, extent, of) => {
                let mut map = of.map();
                map.marks = Some((*lower, lower + extent));
                map
            }
            Self::Subarray(dimensions, order, of) => {
                let owned = dimensions.iter().map(|it| (it.2..it.2 + it.1).collect());
                let sizes = dimensions.iter().map(|it| it.0).collect();
                part_of_array(&of.map(), sizes, owned.collect(), *order)
            }
            Self::Darray(dimensions, rank, order, of) => {
                let size: i32 = dimensions.iter().map(|it| it.3).product();
                let mut rest = rank % size;
                let mut owned = Vec::new();
                for (size, distribution, argument, processes) in dimensions.iter().rev() {
                    let place = i64::from(rest % processes);
                    rest /= processes;
                    let processes = i64::from(*processes);
                    let block = match distribution {
                        Distribution::None => *size,
                        Distribution::Block => {
                            argument.map_or((size + processes - 1) / processes, i64::from)
                        }
                        Distribution::Cyclic => argument.map_or(1, i64::from),
                    };
                    let is_mine = |at: &i64| at / block % processes == place;
                    owned.insert(0, (0..*size).filter(is_mine).collect());
                }
                let sizes = dimensions.iter().map(|it| it.0).collect();
                part_of_array(&of.map(), sizes, owned, *order)
            }
        }
    }
}

/// The elements of an array whose indices along each dimension are `owned`.
fn part_of_array(old: &Map, mut sizes: Vec<i64>, mut owned: Vec<Vec<i64>>, order: Order) -> Map {
    if order == Order::Fortran {
        sizes.reverse();
        owned.reverse();
    }
    let mut indices = vec![0];
    for (size, owned) in sizes.iter().zip(&owned) {
        let within = |at: &i64| {
            owned
                .iter()
                .map(|mine| at * size + mine)
                .collect::<Vec<_>>()
        };
        indices = indices.iter().flat_map(within).collect();
    }
    let ext = old.extent();
    let mut map = old.at(indices.into_iter().map(|at| at * ext));
    map.marks = Some((0, sizes.iter().product::<i64>() * ext));
    map
}

impl Map {
    pub(crate) fn named(basic: Basic) -> Self {
        let entries = match basic.form() {
            Form::One(_) => vec![(0, basic)],
            Form::Pair(value, index) => vec![(0, value), (basic.index_offset() as i64, index)],
        };
        Self {
            entries,
            marks: None,
        }
    }

    fn append(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.marks = match (self.marks, other.marks) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    fn at(&self, displacements: impl Iterator<Item = i64>) -> Self {
        let mut all = Self::default();
        for by in displacements {
            all.append(Self {
                entries: self.entries.iter().map(|(at, of)| (at + by, *of)).collect(),
                marks: self.marks.map(|(from, to)| (from + by, to + by)),
            });
        }
        all
    }

    fn in_blocks(&self, blocks: impl Iterator<Item = (i64, i64)>) -> Self {
        let ext = self.extent();
        self.at(blocks.flat_map(|(len, at)| (0..len).map(move |k| at + k * ext)))
    }

    /// `count` of them.
    pub(crate) fn times(&self, count: u64) -> Self {
        self.at((0..count as i64).map(|n| n * self.extent()))
    }

    /// First byte of data and the one behind the last.
    pub(crate) fn data(&self) -> (i64, i64) {
        let from = self.entries.iter().map(|(at, _)| *at).min();
        let to = self
            .entries
            .iter()
            .map(|(at, of)| at + of.size() as i64)
            .max();
        (from.unwrap_or(0), to.unwrap_or(0))
    }

    pub(crate) fn bounds(&self) -> (i64, i64) {
        let (from, to) = self.data();
        let alignment = self
            .entries
            .iter()
            .map(|(_, of)| of.alignment() as i64)
            .max();
        let len = (to - from + alignment.unwrap_or(1) - 1) / alignment.unwrap_or(1)
            * alignment.unwrap_or(1);
        self.marks.unwrap_or((from, from + len))
    }

    pub(crate) fn extent(&self) -> i64 {
        let (from, to) = self.bounds();
        to - from
    }

    pub(crate) fn size(&self) -> u64 {
        self.entries.iter().map(|(_, of)| of.size() as u64).sum()
    }

    /// The offset of each byte of data, in order.
    pub(crate) fn bytes(&self) -> Vec<i64> {
        let bytes = |(at, of): &(i64, Basic)| (*at..*at + of.size() as i64).collect::<Vec<_>>();
        self.entries.iter().flat_map(bytes).collect()
    }
}
