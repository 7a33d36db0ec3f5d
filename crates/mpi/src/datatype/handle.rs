//! A datatype: its type map in the forms that others need, and how it was made.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use super::basic::{Basic, Form};
use super::bounds::Bounds;
use super::error::{Error, product, sum};
use super::layout::{Lister, Placed, Shape};
use super::signature::Signature;

/// A datatype. Clones are the same datatype.
#[derive(Debug, Clone)]
pub struct Datatype(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    basic: Option<Basic>,
    map: Map,
    lower: i64,
    upper: i64,
    contents: Contents,
    committed: AtomicBool,
    /// See [`Datatype::unit`].
    unit: AtomicU64,
}

/// A type map in the forms that others need.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    pub(crate) bounds: Bounds,
    pub(crate) layout: Placed,
    pub(crate) signature: Signature,
}

/// The constructor that made a datatype, with its value in the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's")]
#[repr(i32)]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
}

/// Whether a datatype was made by the functions whose counts are `int` or by those whose counts are `MPI_Count`: the
/// latter's arguments are all given back as counts (MPI 5.0 §5.1.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// `int`, and addresses as `MPI_Aint`.
    #[default]
    Int,
    /// `MPI_Count`.
    Count,
}

/// A constructor's arguments, as `MPI_Type_get_contents` gives them back; the lengths of these arrays are the numbers
/// that `MPI_Type_get_envelope` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Arguments that are `int`.
    pub integers: Box<[i32]>,
    /// Arguments that are `MPI_Aint`.
    pub addresses: Box<[i64]>,
    /// Arguments that are `MPI_Count`.
    pub counts: Box<[i64]>,
    /// The datatypes that it was made of.
    pub datatypes: Box<[Datatype]>,
}

impl PartialEq for Datatype {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Datatype {}

/// All predefined datatypes, in the order of [`Basic::ALL`].
static PREDEFINED: LazyLock<Box<[Datatype]>> =
    LazyLock::new(|| Basic::ALL.iter().map(|basic| predefined(*basic)).collect());

fn predefined(basic: Basic) -> Datatype {
    let map = Map::of(basic);
    let (lower, upper) = (0, basic.extent() as i64);
    let of = Datatype(Arc::new(Inner {
        basic: Some(basic),
        map,
        lower,
        upper,
        contents: Contents {
            combiner: Combiner::Named,
            integers: Box::default(),
            addresses: Box::default(),
            counts: Box::default(),
            datatypes: Box::default(),
        },
        committed: AtomicBool::new(false),
        unit: AtomicU64::new(0),
    }));
    of.commit();
    of
}

impl Map {
    fn of(basic: Basic) -> Self {
        let signature = Signature::of(basic);
        let (bounds, layout) = match basic.form() {
            Form::One(scalar) => (
                Bounds::of_bytes(scalar.size(), scalar.alignment()),
                Placed::bytes(scalar.size() as u64),
            ),
            Form::Pair(value, index) => {
                let end = basic.index_offset() + index.size();
                let mut lister = Lister::default();
                let at = |offset: usize, of: Basic| Placed {
                    offset: offset as i64,
                    ..Placed::bytes(of.size() as u64)
                };
                lister
                    .push(at(0, value))
                    .and_then(|()| lister.push(at(basic.index_offset(), index)))
                    .expect("a pair is small");
                (
                    Bounds::of_bytes(end, basic.alignment()),
                    lister.finish().expect("a pair is small"),
                )
            }
        };
        Self {
            bounds,
            layout,
            signature,
        }
    }
}

impl From<Basic> for Datatype {
    fn from(basic: Basic) -> Self {
        PREDEFINED[basic.index()].clone()
    }
}

impl Datatype {
    /// A datatype that is not committed yet, unless it is `committed`.
    pub(crate) fn new(map: Map, contents: Contents, committed: bool) -> Result<Self, Error> {
        let (lower, upper) = map.bounds.lower_and_upper()?;
        upper.checked_sub(lower).ok_or(Error::TooLarge)?;
        let new = Self(Arc::new(Inner {
            basic: None,
            map,
            lower,
            upper,
            contents,
            committed: AtomicBool::new(false),
            unit: AtomicU64::new(0),
        }));
        if committed {
            new.commit();
        }
        Ok(new)
    }

    pub(crate) fn map(&self) -> &Map {
        &self.0.map
    }

    /// The predefined type that it is; `None` for derived ones, and for those that `MPI_Type_create_f90_real` and its
    /// like return.
    #[inline]
    pub fn basic(&self) -> Option<Basic> {
        self.0.basic
    }

    /// The predefined type whose elements, one behind the other, an array of these consists of: what
    /// an operation such as `MPI_SUM` works on. `None` for pairs too, which [`Datatype::basic`] tells.
    pub fn scalar(&self) -> Option<Basic> {
        self.0.map.signature.only()
    }

    /// Bytes of data (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> u64 {
        self.0.map.signature.bytes()
    }

    /// Lower bound, bytes (`MPI_Type_get_extent`).
    pub fn lower_bound(&self) -> i64 {
        self.0.lower
    }

    /// Upper bound, bytes.
    pub fn upper_bound(&self) -> i64 {
        self.0.upper
    }

    /// Bytes from one element of an array to the next (`MPI_Type_get_extent`). May be negative.
    pub fn extent(&self) -> i64 {
        self.0.upper - self.0.lower
    }

    /// Where the data begin, bytes (`MPI_Type_get_true_extent`).
    pub fn true_lower_bound(&self) -> i64 {
        self.0.map.bounds.data.map_or(0, |(from, _)| from)
    }

    /// Bytes from the beginning of the data to their end (`MPI_Type_get_true_extent`).
    pub fn true_extent(&self) -> i64 {
        self.0.map.bounds.data.map_or(0, |(from, to)| to - from)
    }

    /// The sequence of predefined types.
    pub fn signature(&self) -> &Signature {
        &self.0.map.signature
    }

    /// The signature of `count` of them.
    pub fn signature_of(&self, count: u64) -> Result<Signature, Error> {
        self.0.map.signature.repeated(count)
    }

    /// Whether any number of them, one behind the other, lie in memory without gaps and in order, from the
    /// buffer's address on: such a message is one piece of memory.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let map = self.map();
        match map.layout.shape {
            Shape::Empty => true,
            Shape::Bytes(size) => {
                map.layout.offset == 0 && i64::try_from(size) == Ok(self.extent())
            }
            Shape::Loop(_) | Shape::List(_) => false,
        }
    }

    /// Number of contiguous pieces of one element's data; pieces that happen to be adjacent may count separately.
    pub fn pieces(&self) -> u64 {
        self.map().layout.shape.pieces()
    }

    /// The bytes that `count` of them span, relative to the buffer's address: no data lie outside.
    pub fn hull(&self, count: u64) -> Result<Range<i64>, Error> {
        let Some((from, to)) = self.map().bounds.data.filter(|_| count > 0) else {
            return Ok(0..0);
        };
        let steps = i64::try_from(count - 1).map_err(|_| Error::TooLarge)?;
        let reach = product(steps, self.extent())?;
        Ok(sum(from, reach.min(0))?..sum(to, reach.max(0))?)
    }

    /// How many of them a message of `bytes` bytes holds (`MPI_Get_count`). `None` where the standard says
    /// `MPI_UNDEFINED`.
    pub fn count_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then_some(bytes / size),
        }
    }

    /// How many elements of predefined types a message of `bytes` bytes holds, where it was received as any number of
    /// these (`MPI_Get_elements`). `None` where the standard says `MPI_UNDEFINED`.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        let signature = self.signature();
        if signature.bytes() == 0 {
            return (bytes == 0).then_some(0);
        }
        let whole = bytes / signature.bytes();
        let rest = signature.elements_in(bytes % signature.bytes())?;
        whole.checked_mul(signature.elements())?.checked_add(rest)
    }

    /// How many bytes `elements` elements of predefined types have, of any number of these
    /// (`MPI_Status_set_elements`). `None` if that does not fit in 63 bits.
    pub fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        let signature = self.signature();
        if signature.elements() == 0 {
            return (elements == 0).then_some(0);
        }
        let whole = elements / signature.elements();
        let rest = signature.bytes_of_first(elements % signature.elements());
        whole
            .checked_mul(signature.bytes())?
            .checked_add(rest)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// Allows it to be used for communication (`MPI_Type_commit`).
    pub fn commit(&self) {
        self.0.committed.store(true, Ordering::Relaxed);
        if self.is_contiguous() {
            self.0.unit.store(self.size(), Ordering::Relaxed);
        }
    }

    /// Bytes of one, if it may be used for communication and [is contiguous](Datatype::is_contiguous); otherwise 0.
    #[inline]
    pub fn unit(&self) -> u64 {
        self.0.unit.load(Ordering::Relaxed)
    }

    /// Whether it may be used for communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.0.committed.load(Ordering::Relaxed)
    }

    /// Whether two are the same datatype, and not only alike.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How it was made. Predefined types have nothing but [`Combiner::Named`].
    pub fn contents(&self) -> &Contents {
        &self.0.contents
    }
}

/// Datatypes that hold each other are dropped one after the other: the chain may be longer than a stack is deep.
impl Drop for Inner {
    fn drop(&mut self) {
        let mut held = std::mem::take(&mut self.contents.datatypes).into_vec();
        while let Some(Datatype(next)) = held.pop() {
            if let Some(mut last) = Arc::into_inner(next) {
                held.append(&mut std::mem::take(&mut last.contents.datatypes).into_vec());
            }
        }
    }
}
