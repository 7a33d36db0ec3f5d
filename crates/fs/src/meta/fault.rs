//! Failures of operations on metadata: short ways to make a [`Failure`].

use causeway_wire::codec::Malformed;
use causeway_wire::fs::{Errno, Failure, ObjectId};

use super::store::{StoreError, StoreErrorKind};
use crate::error::failure;

/// The result of a part of an operation.
pub(super) type Outcome<T> = Result<T, Failure>;

/// A failure with a sentence.
pub(super) fn fail<T>(errno: Errno, message: impl Into<String>) -> Outcome<T> {
    Err(failure(errno, message))
}

/// A failure that its number describes sufficiently.
pub(super) fn plain<T>(errno: Errno) -> Outcome<T> {
    fail(errno, String::new())
}

/// The failure that an object does not exist, or no longer.
pub(super) fn stale(object: ObjectId) -> Failure {
    failure(
        Errno::ESTALE,
        format!("object {} does not exist (any more)", object.0),
    )
}

/// The failure that a record is inconsistent.
pub(super) fn corrupt(what: impl std::fmt::Display) -> Failure {
    failure(
        Errno::CORRUPT,
        format!("{what}; run a check with repair (fsck)"),
    )
}

/// The failure that a record cannot be read.
pub(super) fn malformed(what: impl std::fmt::Display) -> impl FnOnce(Malformed) -> Failure {
    move |error| corrupt(format_args!("{what} is damaged: {error}"))
}

/// Turns the failure that a record is damaged into `None`.
pub(super) fn unless_corrupt<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.errno == Errno::CORRUPT => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A name as messages show it.
pub(super) fn quoted(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let errno = match error.kind {
            StoreErrorKind::Full | StoreErrorKind::TooSmall => Errno::ENOSPC,
            StoreErrorKind::Corrupt | StoreErrorKind::Lost => Errno::CORRUPT,
            StoreErrorKind::Locked | StoreErrorKind::Missing | StoreErrorKind::Io => Errno::EIO,
        };
        failure(errno, error.to_string())
    }
}
