//! Loop programs: where the bytes of a type map lie, in the order in which they are sent, as nested strided loops over
//! contiguous pieces. What is adjacent is merged while a program is made, loops of loops with one stride become one,
//! lists with equal steps become loops; so a program's size does not grow with the counts that it was made from, and
//! no loop and no list is contiguous as a whole.

use std::sync::Arc;

use causeway_sys::blocks::Offsets;

use super::error::{Error, MOST_LEVELS, product_of_sizes, sum, sum_of_sizes};

/// A record of more pieces is copied one piece after the other.
pub(super) const RECORD_PIECES: usize = 16;

/// A program whose first byte of data lies at 0.
#[derive(Debug, Clone, Default)]
pub(crate) enum Shape {
    /// No data.
    #[default]
    Empty,
    /// This many contiguous bytes.
    Bytes(u64),
    /// One shape several times.
    Loop(Arc<Loop>),
    /// Several shapes.
    List(Arc<List>),
}

/// A shape `count` times, each `stride` bytes behind the one before.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) count: u64,
    pub(crate) stride: i64,
    pub(crate) body: Shape,
    pub(crate) body_size: u64,
    pub(crate) size: u64,
    levels: u32,
}

/// Shapes at offsets of their own, the first at 0.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) offsets: Offsets,
    pub(crate) parts: Parts,
    pub(crate) size: u64,
    levels: u32,
}

/// The shapes of a [`List`]. Where there are ends, they say how many bytes of data this part and those before it have.
#[derive(Debug)]
pub(crate) enum Parts {
    /// The same shape at each offset.
    Equal { shape: Shape, size: u64 },
    /// Contiguous bytes at each offset.
    Pieces { ends: Box<[u64]> },
    /// Any.
    Mixed {
        ends: Box<[u64]>,
        shapes: Box<[Shape]>,
    },
}

/// A shape that begins at an offset from the buffer's address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placed {
    pub(crate) offset: i64,
    pub(crate) shape: Shape,
}

impl Shape {
    /// Bytes of data.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(size) => *size,
            Self::Loop(it) => it.size,
            Self::List(it) => it.size,
        }
    }

    /// Loops and lists that are nested.
    pub(crate) fn levels(&self) -> u32 {
        match self {
            Self::Empty | Self::Bytes(_) => 0,
            Self::Loop(it) => it.levels,
            Self::List(it) => it.levels,
        }
    }

    /// Contiguous pieces, where those of neighbouring rounds of a loop count separately.
    pub(crate) fn pieces(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(_) => 1,
            Self::Loop(it) => it.count.saturating_mul(it.body.pieces()),
            Self::List(it) => it.pieces(),
        }
    }

    /// Whether both are known to be the same without comparing their components.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Empty, Self::Empty) => true,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Loop(a), Self::Loop(b)) => Arc::ptr_eq(a, b),
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn level_above(levels: u32) -> Result<u32, Error> {
        if levels < MOST_LEVELS {
            Ok(levels + 1)
        } else {
            Err(Error::TooDeep)
        }
    }

    /// This shape `count` times.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Result<Self, Error> {
        let body_size = self.size();
        let size = product_of_sizes(count, body_size)?;
        if size == 0 {
            return Ok(Self::Empty);
        }
        if count == 1 {
            return Ok(self.clone());
        }
        match self {
            Self::Bytes(len) if i64::try_from(*len) == Ok(stride) => Ok(Self::Bytes(size)),
            Self::Loop(inner) if inner.reach() == Some(stride) => Self::new_loop(
                product_of_sizes(count, inner.count)?,
                inner.stride,
                inner.body.clone(),
                inner.body_size,
            ),
            _ => Self::new_loop(count, stride, self.clone(), body_size),
        }
    }

    fn new_loop(count: u64, stride: i64, body: Self, body_size: u64) -> Result<Self, Error> {
        Ok(Self::Loop(Arc::new(Loop {
            count,
            stride,
            body_size,
            size: product_of_sizes(count, body_size)?,
            levels: Self::level_above(body.levels())?,
            body,
        })))
    }
}

impl Loop {
    /// From the first round to the one that would follow the last.
    pub(crate) fn reach(&self) -> Option<i64> {
        self.stride.checked_mul(i64::try_from(self.count).ok()?)
    }
}

impl List {
    fn pieces(&self) -> u64 {
        match &self.parts {
            Parts::Equal { shape, .. } => shape.pieces().saturating_mul(self.offsets.len() as u64),
            Parts::Pieces { .. } => self.offsets.len() as u64,
            Parts::Mixed { shapes, .. } => shapes
                .iter()
                .fold(0, |sum: u64, shape| sum.saturating_add(shape.pieces())),
        }
    }

    /// Whether all parts are contiguous.
    pub(crate) fn are_pieces(&self) -> bool {
        match &self.parts {
            Parts::Equal { shape, .. } => matches!(shape, Shape::Bytes(_)),
            Parts::Pieces { .. } => true,
            Parts::Mixed { .. } => false,
        }
    }

    /// The length of each part, if all are contiguous and equally long, in bytes.
    pub(crate) fn part_len(&self) -> Option<usize> {
        match &self.parts {
            Parts::Equal {
                shape: Shape::Bytes(len),
                ..
            } => usize::try_from(*len).ok(),
            _ => None,
        }
    }

    /// The part at `index`; `None` if it is a piece of bytes, for which [`List::range`] says all.
    pub(crate) fn shape(&self, index: usize) -> Option<&Shape> {
        match &self.parts {
            Parts::Equal { shape, .. } => Some(shape),
            Parts::Pieces { .. } => None,
            Parts::Mixed { shapes, .. } => Some(&shapes[index]),
        }
    }

    /// Where the data of the part at `index` begin and end among the list's.
    pub(crate) fn range(&self, index: usize) -> (u64, u64) {
        match &self.parts {
            Parts::Equal { size, .. } => (index as u64 * size, (index as u64 + 1) * size),
            Parts::Pieces { ends } | Parts::Mixed { ends, .. } => {
                let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
                (begin, ends[index])
            }
        }
    }

    /// The part that has the byte at `position` of the list's data; a number that no part has if there is none.
    pub(crate) fn find(&self, position: u64) -> usize {
        match &self.parts {
            Parts::Equal { size, .. } => (position / size) as usize,
            Parts::Pieces { ends } | Parts::Mixed { ends, .. } => {
                ends.partition_point(|end| *end <= position)
            }
        }
    }
}

impl Placed {
    /// `size` bytes at 0.
    pub(crate) fn bytes(size: u64) -> Self {
        Self {
            offset: 0,
            shape: if size == 0 {
                Shape::Empty
            } else {
                Shape::Bytes(size)
            },
        }
    }

    /// `count` of them, each `stride` bytes behind the one before.
    pub(crate) fn repeated(&self, count: u64, stride: i64) -> Result<Self, Error> {
        Ok(Self {
            offset: self.offset,
            shape: self.shape.repeated(count, stride)?,
        })
    }

    /// The same `offset` bytes further on.
    pub(crate) fn moved(&self, offset: i64) -> Result<Self, Error> {
        if matches!(self.shape, Shape::Empty) {
            return Ok(Self::default());
        }
        Ok(Self {
            offset: sum(self.offset, offset)?,
            shape: self.shape.clone(),
        })
    }
}

/// The words of equal length that pieces of different lengths consist of, if there are few of them in a piece: copying two such words
/// takes less time than copying one piece after the decision how.
fn in_words(parts: &[Placed]) -> Option<Vec<Placed>> {
    /// Words of a piece, on average and at most.
    const WORDS: usize = 2;
    if parts.len() <= RECORD_PIECES {
        return None;
    }
    let (mut word, mut bytes) = (0, 0);
    for part in parts {
        let Shape::Bytes(len) = part.shape else {
            return None;
        };
        word = common_divisor(word, len);
        bytes = sum_of_sizes(bytes, len).ok()?;
    }
    let words = usize::try_from(bytes / word).ok()?;
    if words == parts.len() || words / WORDS > parts.len() {
        return None;
    }
    let mut list = Vec::with_capacity(words);
    for part in parts {
        for begin in (0..part.shape.size()).step_by(usize::try_from(word).ok()?) {
            list.push(Placed {
                offset: part.offset.checked_add_unsigned(begin)?,
                shape: Shape::Bytes(word),
            });
        }
    }
    Some(list)
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Makes one program of several, in their order.
#[derive(Debug, Default)]
pub(crate) struct Lister {
    parts: Vec<Placed>,
}

impl Lister {
    /// Adds one.
    pub(crate) fn push(&mut self, part: Placed) -> Result<(), Error> {
        if matches!(part.shape, Shape::Empty) {
            return Ok(());
        }
        if let Some(last) = self.parts.last_mut()
            && let (Shape::Bytes(before), Shape::Bytes(more)) = (&mut last.shape, &part.shape)
            && i64::try_from(*before)
                .ok()
                .and_then(|len| last.offset.checked_add(len))
                == Some(part.offset)
        {
            *before = sum_of_sizes(*before, *more)?;
            return Ok(());
        }
        self.parts.push(part);
        Ok(())
    }

    /// The program of all.
    pub(crate) fn finish(self) -> Result<Placed, Error> {
        let parts = match in_words(&self.parts) {
            Some(words) => words,
            None => self.parts,
        };
        let Some(first) = parts.first() else {
            return Ok(Placed::default());
        };
        let offset = first.offset;
        if let [one] = &parts[..] {
            return Ok(one.clone());
        }
        let is_equal = parts.iter().all(|part| part.shape.is_same(&first.shape));
        let step = parts[1].offset.checked_sub(offset);
        if is_equal && let Some(step) = step {
            let mut pairs = parts.windows(2);
            if pairs.all(|pair| pair[1].offset.checked_sub(pair[0].offset) == Some(step)) {
                return first.repeated(parts.len() as u64, step);
            }
        }
        let levels = parts.iter().map(|part| part.shape.levels()).max();
        let levels = Shape::level_above(levels.unwrap_or(0))?;
        let offsets = parts
            .iter()
            .map(|part| part.offset.checked_sub(offset).ok_or(Error::TooLarge))
            .collect::<Result<_, _>>()?;
        let mut size = 0;
        let mut ends = Vec::with_capacity(parts.len());
        for part in &parts {
            size = sum_of_sizes(size, part.shape.size())?;
            ends.push(size);
        }
        let are_pieces = parts
            .iter()
            .all(|part| matches!(part.shape, Shape::Bytes(_)));
        let parts = if is_equal {
            let shape = first.shape.clone();
            let size = shape.size();
            Parts::Equal { shape, size }
        } else if are_pieces {
            Parts::Pieces { ends: ends.into() }
        } else {
            Parts::Mixed {
                ends: ends.into(),
                shapes: parts.into_iter().map(|part| part.shape).collect(),
            }
        };
        let list = List {
            offsets,
            parts,
            size,
            levels,
        };
        Ok(Placed {
            offset,
            shape: Shape::List(Arc::new(list)),
        })
    }
}
