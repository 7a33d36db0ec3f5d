//! Attributes, as tuples.

use causeway_wire::fs::{ObjectId, Timestamp};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

/// Mode, object, size, links, user, group, and three times in nanoseconds: last access, change of content, change of
/// attributes. Last, how many units of 512 bytes are stored, if that was asked for.
pub(crate) type Attributes = (u32, u64, u64, u32, u32, u32, i128, i128, i128, Option<u64>);

/// The attributes of an object as a tuple, with the number of bytes that are stored of the content.
pub(crate) fn of(
    object: ObjectId,
    attributes: &causeway_wire::fs::Attributes,
    stored: Option<u64>,
) -> Attributes {
    let mode = attributes.kind.mode_bits() | u32::from(attributes.mode);
    let ns = |at: Timestamp| i128::from(at.seconds) * NS_PER_S + i128::from(at.nanoseconds);
    (
        mode,
        object.0,
        attributes.size,
        attributes.links,
        attributes.uid,
        attributes.gid,
        ns(attributes.accessed),
        ns(attributes.modified),
        ns(attributes.changed),
        stored.map(|bytes| bytes.div_ceil(SECTOR_BYTES)),
    )
}

const NS_PER_S: i128 = 1_000_000_000;

/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

/// Converts a time from Python.
pub(crate) fn timestamp(ns: i128) -> PyResult<Timestamp> {
    let seconds = i64::try_from(ns.div_euclid(NS_PER_S))
        .map_err(|_| PyValueError::new_err("the time is out of range"))?;
    Ok(Timestamp {
        seconds,
        nanoseconds: ns.rem_euclid(NS_PER_S) as u32,
    })
}
