//! Constructors (MPI 5.0 §5.1.2–§5.1.10): each is a loop, a list, or both, over its component types.

use super::basic::Basic;
use super::bounds::Bounds;
use super::error::{
    Error, not_negative, product, product_of_sizes, same_length, sum, sum_of_sizes,
};
use super::handle::{Combiner, Contents, Datatype, Map, Width};
use super::layout::{Lister, Placed};
use super::signature;

/// What `MPI_UNDEFINED` is in the ABI.
pub(crate) const UNDEFINED: i32 = -32766;

/// A constructor's arguments as a program gave them, before it is known as what `MPI_Type_get_contents` returns them.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    pub(crate) combiner: Combiner,
    pub(crate) width: Width,
    /// `int` in any case, in front of the sizes.
    pub(crate) head: &'a [i32],
    /// Counts, which are `int` or `MPI_Count`.
    pub(crate) sizes: &'a [&'a [i64]],
    /// `int` in any case, behind the sizes.
    pub(crate) tail: &'a [i32],
    /// Displacements, which are `MPI_Aint` or `MPI_Count`.
    pub(crate) addresses: &'a [i64],
    pub(crate) datatypes: &'a [Datatype],
}

impl Arguments<'_> {
    pub(crate) fn of(combiner: Combiner, width: Width) -> Self {
        Self {
            combiner,
            width,
            head: &[],
            sizes: &[],
            tail: &[],
            addresses: &[],
            datatypes: &[],
        }
    }

    pub(crate) fn contents(&self) -> Result<Contents, Error> {
        let sizes = self.sizes.iter().copied().flatten().copied();
        let (middle, addresses, counts): (Vec<i32>, Box<[i64]>, Box<[i64]>) = match self.width {
            Width::Int => (
                sizes
                    .map(|size| i32::try_from(size).map_err(|_| Error::TooLarge))
                    .collect::<Result<_, _>>()?,
                self.addresses.into(),
                Box::default(),
            ),
            Width::Count => {
                let all = sizes.chain(self.addresses.iter().copied());
                (Vec::new(), Box::default(), all.collect())
            }
        };
        Ok(Contents {
            combiner: self.combiner,
            integers: [self.head, &middle, self.tail].concat().into(),
            addresses,
            counts,
            datatypes: self.datatypes.into(),
        })
    }
}

impl Map {
    /// `count` of them, each `stride` bytes behind the one before.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Result<Self, Error> {
        Ok(Self {
            bounds: self.bounds.repeated(count, stride)?,
            layout: self.layout.repeated(count, stride)?,
            signature: self.signature.repeated(count)?,
        })
    }

    /// The same `offset` bytes further on.
    pub(crate) fn moved(&self, offset: i64) -> Result<Self, Error> {
        Ok(Self {
            bounds: self.bounds.moved(offset)?,
            layout: self.layout.moved(offset)?,
            signature: self.signature.clone(),
        })
    }

    /// This one and then another.
    pub(crate) fn followed(&self, next: &Self) -> Result<Self, Error> {
        let mut lister = Lister::default();
        lister.push(self.layout.clone())?;
        lister.push(next.layout.clone())?;
        let mut signatures = signature::Lister::default();
        signatures.push(self.signature.clone());
        signatures.push(next.signature.clone());
        Ok(Self {
            bounds: self.bounds.and(next.bounds),
            layout: lister.finish()?,
            signature: signatures.finish()?,
        })
    }

    /// With these bounds.
    pub(crate) fn resized(&self, lower: i64, extent: i64) -> Result<Self, Error> {
        let bounds = Bounds {
            marks: Some((lower, sum(lower, extent)?)),
            ..self.bounds
        };
        Ok(Self {
            bounds,
            ..self.clone()
        })
    }
}

/// Blocks of one datatype at displacements of their own.
struct Blocks<'a> {
    of: &'a Datatype,
    bounds: Bounds,
    lister: Lister,
    elements: u64,
    /// The block that was added last, at 0: most have one length.
    last: (u64, Placed, Bounds),
}

impl<'a> Blocks<'a> {
    fn of(of: &'a Datatype) -> Self {
        Self {
            of,
            bounds: Bounds::default(),
            lister: Lister::default(),
            elements: 0,
            last: (0, Placed::default(), Bounds::default()),
        }
    }

    fn push(&mut self, len: u64, displacement: i64) -> Result<(), Error> {
        if len != self.last.0 {
            let (map, extent) = (self.of.map(), self.of.extent());
            let block = map.layout.repeated(len, extent)?;
            self.last = (len, block, map.bounds.repeated(len, extent)?);
        }
        let (_, block, bounds) = &self.last;
        if len > 0 {
            self.bounds = self.bounds.and(bounds.moved(displacement)?);
            self.lister.push(block.moved(displacement)?)?;
        }
        self.elements = sum_of_sizes(self.elements, len)?;
        Ok(())
    }

    fn finish(self) -> Result<Map, Error> {
        Ok(Map {
            bounds: self.bounds,
            layout: self.lister.finish()?,
            signature: self.of.map().signature.repeated(self.elements)?,
        })
    }
}

impl Datatype {
    /// `count` of `old`, one behind the other (`MPI_Type_contiguous`).
    pub fn contiguous(count: i64, old: &Self, width: Width) -> Result<Self, Error> {
        let number = not_negative("count", count)?;
        let map = old.map().repeated(number, old.extent())?;
        let arguments = Arguments {
            sizes: &[&[count]],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Contiguous, width)
        };
        Self::new(map, arguments.contents()?, false)
    }

    /// `count` blocks of `block_length` of `old`; from one to the next it is `stride` extents of `old`
    /// (`MPI_Type_vector`).
    pub fn vector(
        count: i64,
        block_length: i64,
        stride: i64,
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        // Where there is no second block, the stride may be anything.
        let bytes = if count > 1 {
            product(stride, old.extent())?
        } else {
            0
        };
        let arguments = Arguments {
            sizes: &[&[count, block_length, stride]],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Vector, width)
        };
        Self::strided(count, block_length, bytes, &arguments)
    }

    /// As [`Datatype::vector`], with a stride in bytes (`MPI_Type_create_hvector`).
    pub fn hvector(
        count: i64,
        block_length: i64,
        stride: i64,
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        let arguments = Arguments {
            sizes: &[&[count, block_length]],
            addresses: &[stride],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Hvector, width)
        };
        Self::strided(count, block_length, stride, &arguments)
    }

    fn strided(
        count: i64,
        block_length: i64,
        stride: i64,
        arguments: &Arguments<'_>,
    ) -> Result<Self, Error> {
        let count = not_negative("count", count)?;
        let len = not_negative("blocklength", block_length)?;
        let old = &arguments.datatypes[0];
        let block = old.map().repeated(len, old.extent())?;
        let map = block.repeated(count, stride)?;
        Self::new(map, arguments.contents()?, false)
    }

    /// Blocks of `old` at displacements in extents of `old` (`MPI_Type_indexed`).
    pub fn indexed(
        block_lengths: &[i64],
        displacements: &[i64],
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        let arguments = Arguments {
            sizes: &[&[block_lengths.len() as i64], block_lengths, displacements],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Indexed, width)
        };
        Self::in_blocks(block_lengths, displacements, old.extent(), &arguments)
    }

    /// Blocks of `old` at displacements in bytes (`MPI_Type_create_hindexed`).
    pub fn hindexed(
        block_lengths: &[i64],
        displacements: &[i64],
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        let arguments = Arguments {
            sizes: &[&[block_lengths.len() as i64], block_lengths],
            addresses: displacements,
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Hindexed, width)
        };
        Self::in_blocks(block_lengths, displacements, 1, &arguments)
    }

    fn in_blocks(
        block_lengths: &[i64],
        displacements: &[i64],
        unit: i64,
        arguments: &Arguments<'_>,
    ) -> Result<Self, Error> {
        same_length(
            "array_of_displacements",
            displacements.len(),
            block_lengths.len(),
        )?;
        let mut blocks = Blocks::of(&arguments.datatypes[0]);
        for (&len, &displacement) in block_lengths.iter().zip(displacements) {
            let len = not_negative("array_of_blocklengths", len)?;
            if len > 0 {
                blocks.push(len, product(displacement, unit)?)?;
            }
        }
        Self::new(blocks.finish()?, arguments.contents()?, false)
    }

    /// Blocks of one length of `old` at displacements in extents of `old` (`MPI_Type_create_indexed_block`).
    pub fn indexed_block(
        block_length: i64,
        displacements: &[i64],
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        let arguments = Arguments {
            sizes: &[&[displacements.len() as i64, block_length], displacements],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::IndexedBlock, width)
        };
        Self::in_equal_blocks(block_length, displacements, old.extent(), &arguments)
    }

    /// Blocks of one length of `old` at displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn hindexed_block(
        block_length: i64,
        displacements: &[i64],
        old: &Self,
        width: Width,
    ) -> Result<Self, Error> {
        let arguments = Arguments {
            sizes: &[&[displacements.len() as i64, block_length]],
            addresses: displacements,
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::HindexedBlock, width)
        };
        Self::in_equal_blocks(block_length, displacements, 1, &arguments)
    }

    fn in_equal_blocks(
        block_length: i64,
        displacements: &[i64],
        unit: i64,
        arguments: &Arguments<'_>,
    ) -> Result<Self, Error> {
        let len = not_negative("blocklength", block_length)?;
        let mut blocks = Blocks::of(&arguments.datatypes[0]);
        if len > 0 {
            for &displacement in displacements {
                blocks.push(len, product(displacement, unit)?)?;
            }
        }
        Self::new(blocks.finish()?, arguments.contents()?, false)
    }

    /// Blocks of several datatypes at displacements in bytes (`MPI_Type_create_struct`).
    pub fn structure(
        block_lengths: &[i64],
        displacements: &[i64],
        datatypes: &[Self],
        width: Width,
    ) -> Result<Self, Error> {
        let count = datatypes.len();
        same_length("array_of_blocklengths", block_lengths.len(), count)?;
        same_length("array_of_displacements", displacements.len(), count)?;
        let mut bounds = Bounds::default();
        let mut lister = Lister::default();
        let mut signatures = signature::Lister::default();
        for ((&len, &displacement), old) in block_lengths.iter().zip(displacements).zip(datatypes) {
            let len = not_negative("array_of_blocklengths", len)?;
            if len > 0 {
                let block = old.map().repeated(len, old.extent())?.moved(displacement)?;
                bounds = bounds.and(block.bounds);
                lister.push(block.layout)?;
                signatures.push(block.signature);
            }
        }
        let map = Map {
            bounds,
            layout: lister.finish()?,
            signature: signatures.finish()?,
        };
        let arguments = Arguments {
            sizes: &[&[count as i64], block_lengths],
            addresses: displacements,
            datatypes,
            ..Arguments::of(Combiner::Struct, width)
        };
        Self::new(map, arguments.contents()?, false)
    }

    /// `old` with other bounds (`MPI_Type_create_resized`).
    pub fn resized(old: &Self, lower: i64, extent: i64, width: Width) -> Result<Self, Error> {
        let map = old.map().resized(lower, extent)?;
        let arguments = Arguments {
            addresses: &[lower, extent],
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Resized, width)
        };
        Self::new(map, arguments.contents()?, false)
    }

    /// A datatype of its own that is the same, and committed if `old` is (`MPI_Type_dup`).
    pub fn duplicate(old: &Self) -> Result<Self, Error> {
        let arguments = Arguments {
            datatypes: std::slice::from_ref(old),
            ..Arguments::of(Combiner::Dup, Width::Int)
        };
        Self::new(old.map().clone(), arguments.contents()?, old.is_committed())
    }

    /// Fortran's real type with at least this many decimal digits and this decimal exponent range
    /// (`MPI_Type_create_f90_real`, MPI 5.0 §19.1.5); `MPI_UNDEFINED` leaves one open. It is committed.
    pub fn f90_real(precision: i32, range: i32) -> Result<Self, Error> {
        Self::f90(
            Combiner::F90Real,
            [Basic::Real4, Basic::Real8, Basic::Real16],
            precision,
            range,
        )
    }

    /// As [`Datatype::f90_real`], for complex numbers.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Self, Error> {
        let kinds = [Basic::Complex8, Basic::Complex16, Basic::Complex32];
        Self::f90(Combiner::F90Complex, kinds, precision, range)
    }

    fn f90(
        combiner: Combiner,
        kinds: [Basic; 3],
        precision: i32,
        range: i32,
    ) -> Result<Self, Error> {
        // Decimal digits and exponents of the three IEEE formats, as Fortran's `precision` and `range` return them.
        const LIMITS: [(i32, i32); 3] = [(6, 37), (15, 307), (33, 4931)];
        let fits = |asked: i32, limit: i32| asked == UNDEFINED || (0..=limit).contains(&asked);
        let found = LIMITS
            .iter()
            .position(|(digits, exponents)| fits(precision, *digits) && fits(range, *exponents));
        let is_open = precision == UNDEFINED && range == UNDEFINED;
        let kind = found.filter(|_| !is_open).map(|at| kinds[at]);
        let kind = kind.ok_or(Error::NoSuchKind { precision, range })?;
        Self::of_kind(kind, combiner, &[precision, range])
    }

    /// Fortran's integer type with at least this many decimal digits (`MPI_Type_create_f90_integer`). It is committed.
    pub fn f90_integer(range: i32) -> Result<Self, Error> {
        let kind = match range {
            0..=2 => Basic::Integer1,
            3..=4 => Basic::Integer2,
            5..=9 => Basic::Integer4,
            10..=18 => Basic::Integer8,
            19..=38 => Basic::Integer16,
            _ => {
                let precision = UNDEFINED;
                return Err(Error::NoSuchKind { precision, range });
            }
        };
        Self::of_kind(kind, Combiner::F90Integer, &[range])
    }

    fn of_kind(kind: Basic, combiner: Combiner, arguments: &[i32]) -> Result<Self, Error> {
        let arguments = Arguments {
            head: arguments,
            ..Arguments::of(combiner, Width::Int)
        };
        let map = Self::from(kind).map().clone();
        Self::new(map, arguments.contents()?, true)
    }
}

/// Bytes that `count` of a datatype have.
pub(crate) fn bytes_of(datatype: &Datatype, count: u64) -> Result<u64, Error> {
    product_of_sizes(count, datatype.size())
}
