//! Type signatures (MPI 5.0 §5.1): the sequence of predefined types of a type map, without where they lie.
//!
//! A sequence is kept as runs, loops and lists, so that its size does not grow with counts. Its hash is a polynomial
//! over its elements, which follows from the hashes of its parts: two signatures of any length are compared at once.

use std::sync::Arc;

use super::basic::{Basic, Form, Scalar};
use super::error::{Error, MOST_LEVELS, product_of_sizes, sum_of_sizes};

/// A sequence of predefined types that are no pairs.
#[derive(Debug, Clone, Default)]
enum Sequence {
    #[default]
    Empty,
    /// One type as often as the signature has elements.
    Run(Basic),
    /// A sequence several times.
    Loop(Arc<Loop>),
    /// Sequences one behind the other.
    List(Arc<[Part]>),
}

#[derive(Debug)]
struct Loop {
    count: u64,
    body: Signature,
}

#[derive(Debug)]
struct Part {
    of: Signature,
    /// Elements and bytes of the parts before.
    elements_before: u64,
    bytes_before: u64,
}

/// A type signature.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    sequence: Sequence,
    elements: u64,
    bytes: u64,
    hash: Hash,
    external32: u64,
    levels: u32,
}

/// A polynomial hash and the power of its base that belongs to the length, modulo 2⁶¹ − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash {
    value: u64,
    power: u64,
}

const MODULUS: u64 = (1 << 61) - 1;
/// Any large number will do: no program chooses signatures to collide.
const BASE: u64 = 0x0bad_5eed_0c0f_fee5 % MODULUS;

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64
}

impl Default for Hash {
    fn default() -> Self {
        Self { value: 0, power: 1 }
    }
}

impl Hash {
    fn of(kind: u64) -> Self {
        Self {
            value: kind,
            power: BASE,
        }
    }

    fn then(self, next: Self) -> Self {
        Self {
            value: (times(self.value, next.power) + next.value) % MODULUS,
            power: times(self.power, next.power),
        }
    }

    fn repeated(self, mut count: u64) -> Self {
        let (mut result, mut doubled) = (Self::default(), self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(doubled);
            }
            doubled = doubled.then(doubled);
            count >>= 1;
        }
        result
    }
}

/// What must be equal for two elements to match. Types of different names with one representation do, since
/// programs in two languages, or with `int` here and `int32_t` there, do exchange them; the standard asks for the same
/// type, and for no check.
fn kind(basic: Basic) -> u64 {
    let Form::One(scalar) = basic.form() else {
        return 0;
    };
    match scalar {
        Scalar::Packed => Scalar::Byte as u64 + 1,
        other => other as u64 + 1,
    }
}

impl Signature {
    /// Of one predefined type.
    pub(crate) fn of(basic: Basic) -> Self {
        match basic.form() {
            Form::One(scalar) => Self {
                sequence: Sequence::Run(basic),
                elements: 1,
                bytes: scalar.size() as u64,
                hash: Hash::of(kind(basic)),
                external32: basic.external32_size() as u64,
                levels: 0,
            },
            Form::Pair(value, index) => {
                let mut lister = Lister::default();
                lister.push(Self::of(value));
                lister.push(Self::of(index));
                lister.finish().expect("two elements are few")
            }
        }
    }

    /// This signature `count` times.
    pub(crate) fn repeated(&self, count: u64) -> Result<Self, Error> {
        if count == 0 || self.elements == 0 {
            return Ok(Self::default());
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let sequence = match &self.sequence {
            Sequence::Run(_) | Sequence::Empty => self.sequence.clone(),
            Sequence::Loop(inner) => Sequence::Loop(Arc::new(Loop {
                count: product_of_sizes(count, inner.count)?,
                body: inner.body.clone(),
            })),
            Sequence::List(_) => Sequence::Loop(Arc::new(Loop {
                count,
                body: self.clone(),
            })),
        };
        let levels = match self.sequence {
            Sequence::List(_) => level_above(self.levels)?,
            _ => self.levels,
        };
        Ok(Self {
            sequence,
            levels,
            elements: product_of_sizes(count, self.elements)?,
            bytes: product_of_sizes(count, self.bytes)?,
            hash: self.hash.repeated(count),
            external32: product_of_sizes(count, self.external32)?,
        })
    }

    /// How many elements of predefined types there are; a pair counts as two.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of data in the representation `external32`.
    pub(crate) fn external32_bytes(&self) -> u64 {
        self.external32
    }

    /// A number that is equal for equal signatures and differs for others, but for one in 2⁶⁰ by chance. It does not
    /// depend on the process.
    pub fn hash(&self) -> u64 {
        self.hash.value
    }

    /// The one predefined type that all elements have. `None` if there are several, or no elements.
    pub fn only(&self) -> Option<Basic> {
        match self.sequence {
            Sequence::Run(basic) => Some(basic),
            _ => None,
        }
    }

    /// How many whole elements the first `bytes` bytes hold (`MPI_Get_elements_x`). `None` if they end inside of one,
    /// or behind the last.
    pub(crate) fn elements_in(&self, bytes: u64) -> Option<u64> {
        if bytes == self.bytes {
            return Some(self.elements);
        }
        if bytes > self.bytes {
            return None;
        }
        let (mut of, mut rest, mut found) = (self, bytes, 0);
        loop {
            match &of.sequence {
                Sequence::Empty => return (rest == 0).then_some(found),
                Sequence::Run(basic) => {
                    let size = basic.size() as u64;
                    return rest.is_multiple_of(size).then_some(found + rest / size);
                }
                Sequence::Loop(it) => {
                    found += rest / it.body.bytes * it.body.elements;
                    rest %= it.body.bytes;
                    of = &it.body;
                }
                Sequence::List(parts) => {
                    let at = parts.partition_point(|part| part.bytes_before <= rest) - 1;
                    let part = &parts[at];
                    found += part.elements_before;
                    rest -= part.bytes_before;
                    of = &part.of;
                }
            }
        }
    }

    /// Bytes of the first `elements` elements, which must not be more than there are.
    pub(crate) fn bytes_of_first(&self, elements: u64) -> u64 {
        let (mut of, mut rest, mut found) = (self, elements, 0);
        loop {
            match &of.sequence {
                Sequence::Empty => return found,
                Sequence::Run(basic) => return found + rest * basic.size() as u64,
                Sequence::Loop(it) => {
                    found += rest / it.body.elements * it.body.bytes;
                    rest %= it.body.elements;
                    of = &it.body;
                }
                Sequence::List(parts) => {
                    let at = parts.partition_point(|part| part.elements_before <= rest) - 1;
                    found += parts[at].bytes_before;
                    rest -= parts[at].elements_before;
                    of = &parts[at].of;
                }
            }
        }
    }

    /// The signature's first `elements` elements' hash, to compare a message with a receive of more elements. `None` if
    /// there are not so many.
    pub fn hash_of_first(&self, elements: u64) -> Option<u64> {
        if elements > self.elements {
            return None;
        }
        let (mut of, mut rest, mut hash) = (self, elements, Hash::default());
        loop {
            match &of.sequence {
                Sequence::Empty => return Some(hash.value),
                Sequence::Run(basic) => {
                    return Some(hash.then(Hash::of(kind(*basic)).repeated(rest)).value);
                }
                Sequence::Loop(it) => {
                    hash = hash.then(it.body.hash.repeated(rest / it.body.elements));
                    rest %= it.body.elements;
                    of = &it.body;
                }
                Sequence::List(parts) => {
                    let at = parts.partition_point(|part| part.elements_before <= rest) - 1;
                    for part in &parts[..at] {
                        hash = hash.then(part.of.hash);
                    }
                    rest -= parts[at].elements_before;
                    of = &parts[at].of;
                }
            }
        }
    }

    /// Gives `each` the runs of equal elements in their order, neighbours perhaps of one type.
    pub(crate) fn for_each_run<E>(
        &self,
        each: &mut impl FnMut(Basic, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.sequence {
            Sequence::Empty => Ok(()),
            Sequence::Run(basic) => each(*basic, self.elements),
            Sequence::Loop(it) => (0..it.count).try_for_each(|_| it.body.for_each_run(each)),
            Sequence::List(parts) => parts.iter().try_for_each(|part| part.of.for_each_run(each)),
        }
    }

    /// Both signatures as one repetition, if each of them is the same sequence or repetitions of it;
    /// otherwise `None`.
    fn joined(&self, next: &Self) -> Option<Result<Self, Error>> {
        let repeated =
            |body: &Self, a: u64, b: u64| sum_of_sizes(a, b).and_then(|count| body.repeated(count));
        match (&self.sequence, &next.sequence) {
            (Sequence::Run(a), Sequence::Run(b)) if a == b => {
                Some(repeated(&Self::of(*a), self.elements, next.elements))
            }
            (Sequence::List(a), Sequence::List(b)) if Arc::ptr_eq(a, b) => {
                Some(repeated(self, 1, 1))
            }
            (Sequence::Loop(a), _) if a.body.is_same(next) => Some(repeated(next, a.count, 1)),
            (_, Sequence::Loop(b)) if b.body.is_same(self) => Some(repeated(self, 1, b.count)),
            (Sequence::Loop(a), Sequence::Loop(b)) if a.body.is_same(&b.body) => {
                Some(repeated(&a.body, a.count, b.count))
            }
            _ => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.sequence, &other.sequence) {
            (Sequence::List(a), Sequence::List(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

fn level_above(levels: u32) -> Result<u32, Error> {
    if levels < MOST_LEVELS {
        Ok(levels + 1)
    } else {
        Err(Error::TooDeep)
    }
}

/// Puts signatures one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Lister {
    parts: Vec<Signature>,
    /// The error, if two parts were joined to one that is too large.
    failed: Option<Error>,
}

impl Lister {
    /// Adds one.
    pub(crate) fn push(&mut self, part: Signature) {
        if part.elements == 0 {
            return;
        }
        if let Some(last) = self.parts.last_mut()
            && let Some(joined) = last.joined(&part)
        {
            match joined {
                Ok(joined) => *last = joined,
                Err(error) => self.failed = Some(error),
            }
            return;
        }
        self.parts.push(part);
    }

    /// All of them.
    pub(crate) fn finish(self) -> Result<Signature, Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.parts.len() < 2 {
            return Ok(self.parts.into_iter().next().unwrap_or_default());
        }
        let mut all = Signature::default();
        let mut parts = Vec::with_capacity(self.parts.len());
        for of in self.parts {
            let (elements_before, bytes_before) = (all.elements, all.bytes);
            all.elements = sum_of_sizes(all.elements, of.elements)?;
            all.bytes = sum_of_sizes(all.bytes, of.bytes)?;
            all.external32 = sum_of_sizes(all.external32, of.external32)?;
            all.hash = all.hash.then(of.hash);
            all.levels = all.levels.max(of.levels);
            parts.push(Part {
                of,
                elements_before,
                bytes_before,
            });
        }
        all.levels = level_above(all.levels)?;
        all.sequence = Sequence::List(parts.into());
        Ok(all)
    }
}
