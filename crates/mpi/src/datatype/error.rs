//! Why a datatype cannot be made, or its elements not be moved.

/// An error of this module's functions. The C surface maps each to an error class (MPI 5.0 §9.4).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A count, a block length or a size of an array is negative (`MPI_ERR_COUNT` or `MPI_ERR_ARG`).
    #[error("{what} is {value}, which is negative")]
    Negative {
        /// The argument's name in the standard.
        what: &'static str,
        /// Its value.
        value: i64,
    },
    /// An argument is none of the values that the standard allows (`MPI_ERR_ARG`).
    #[error("{what} is {value}: {why}")]
    Argument {
        /// The argument's name in the standard.
        what: &'static str,
        /// Its value.
        value: i64,
        /// What it must be.
        why: &'static str,
    },
    /// Arrays that belong together differ in length (`MPI_ERR_ARG`).
    #[error("{what} has {len} entries, not {expected}")]
    Lengths {
        /// The array's name in the standard.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The length that the other arguments ask for.
        expected: usize,
    },
    /// A size or an offset does not fit in 63 bits (`MPI_ERR_VALUE_TOO_LARGE`).
    #[error("the datatype's bytes or offsets do not fit in 63 bits")]
    TooLarge,
    /// Datatypes are nested in each other too deeply (`MPI_ERR_TYPE`).
    #[error("datatypes are nested deeper than {MOST_LEVELS} levels that cannot be merged")]
    TooDeep,
    /// The memory does not hold all the elements (`MPI_ERR_BUFFER` or `MPI_ERR_TRUNCATE`).
    #[error("the elements span {needed} bytes, the memory has {len}")]
    OutOfBounds {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that there are.
        len: u64,
    },
    /// A representation has no value for one of the data, such as an integer with fewer bytes (`MPI_ERR_CONVERSION`).
    #[error("{0} cannot be converted")]
    Conversion(&'static str),
    /// No predefined type has the requested precision and range (`MPI_ERR_ARG`).
    #[error("there is no type of {precision} digits and range {range}")]
    NoSuchKind {
        /// Decimal digits, or `MPI_UNDEFINED`.
        precision: i32,
        /// Decimal exponents, or `MPI_UNDEFINED`.
        range: i32,
    },
}

/// Levels of loops and lists that a datatype may have. Levels that merge with others, as those of contiguous types do,
/// do not count. The bound keeps recursion over a datatype bounded.
pub const MOST_LEVELS: u32 = 256;

/// `count`, `blocklength` and their like.
pub(crate) fn not_negative(what: &'static str, value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::Negative { what, value })
}

/// An array's length.
pub(crate) fn same_length(what: &'static str, len: usize, expected: usize) -> Result<(), Error> {
    if len == expected {
        Ok(())
    } else {
        Err(Error::Lengths {
            what,
            len,
            expected,
        })
    }
}

/// A product that must fit.
pub(crate) fn product(a: i64, b: i64) -> Result<i64, Error> {
    a.checked_mul(b).ok_or(Error::TooLarge)
}

/// A sum that must fit.
pub(crate) fn sum(a: i64, b: i64) -> Result<i64, Error> {
    a.checked_add(b).ok_or(Error::TooLarge)
}

/// A product of numbers of bytes or elements.
pub(crate) fn product_of_sizes(a: u64, b: u64) -> Result<u64, Error> {
    a.checked_mul(b)
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or(Error::TooLarge)
}

/// A sum of numbers of bytes or elements.
pub(crate) fn sum_of_sizes(a: u64, b: u64) -> Result<u64, Error> {
    a.checked_add(b)
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or(Error::TooLarge)
}
