//! Bounds of a type map (MPI 5.0 §5.1.6–§5.1.8).

use super::error::{Error, product, sum};

/// Where the entries of a type map begin and end, in bytes relative to the buffer's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    /// First byte of data and the byte behind the last; `None` if there is none.
    pub(crate) data: Option<(i64, i64)>,
    /// Lower and upper bound where `MPI_Type_create_resized` has set them, as the extremes of all that were set.
    pub(crate) marks: Option<(i64, i64)>,
    /// The largest alignment of an entry.
    pub(crate) alignment: i64,
}

/// The hull of two ranges.
fn union(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, None) | (None, one) => one,
    }
}

/// A range that begins at each of the two ends of `count` steps.
fn repeat(range: (i64, i64), count: u64, stride: i64) -> Result<(i64, i64), Error> {
    let steps = i64::try_from(count - 1).map_err(|_| Error::TooLarge)?;
    let reach = product(steps, stride)?;
    Ok((sum(range.0, reach.min(0))?, sum(range.1, reach.max(0))?))
}

impl Bounds {
    /// Of `size` bytes.
    pub(crate) fn of_bytes(size: usize, alignment: usize) -> Self {
        Self {
            data: Some((0, size as i64)),
            marks: None,
            alignment: alignment as i64,
        }
    }

    /// Of `count` of them, each `stride` bytes behind the one before.
    pub(crate) fn repeated(self, count: u64, stride: i64) -> Result<Self, Error> {
        if count == 0 {
            return Ok(Self::default());
        }
        Ok(Self {
            data: self.data.map(|it| repeat(it, count, stride)).transpose()?,
            marks: self.marks.map(|it| repeat(it, count, stride)).transpose()?,
            alignment: self.alignment,
        })
    }

    /// Of the same `offset` bytes further on.
    pub(crate) fn moved(self, offset: i64) -> Result<Self, Error> {
        let moved = |(from, to)| Ok((sum(from, offset)?, sum(to, offset)?));
        Ok(Self {
            data: self.data.map(moved).transpose()?,
            marks: self.marks.map(moved).transpose()?,
            alignment: self.alignment,
        })
    }

    /// Of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            data: union(self.data, other.data),
            marks: union(self.marks, other.marks),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// Lower and upper bound: the marks, or else the data's with the upper one rounded up so that an array's
    /// elements are aligned.
    pub(crate) fn lower_and_upper(self) -> Result<(i64, i64), Error> {
        if let Some(marks) = self.marks {
            return Ok(marks);
        }
        let Some((from, to)) = self.data else {
            return Ok((0, 0));
        };
        let len = to.checked_sub(from).ok_or(Error::TooLarge)? as u64;
        let rounded = len
            .checked_next_multiple_of(self.alignment.max(1) as u64)
            .and_then(|len| i64::try_from(len).ok())
            .ok_or(Error::TooLarge)?;
        Ok((from, sum(from, rounded)?))
    }
}
