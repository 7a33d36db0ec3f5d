//! Attributes, as tuples.

use causeway_wire::fs::{Kind, Node, ObjectId, Timestamp};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

/// Mode, object, size, links, user, group, and three times in nanoseconds: last access, change of content, change of
/// attributes.
pub(crate) type Attributes = (u32, u64, u64, u32, u32, u32, i128, i128, i128);

/// The attributes of an object as a tuple.
pub(crate) fn of(object: ObjectId, attributes: &causeway_wire::fs::Attributes) -> Attributes {
    const KINDS: [(Kind, u32); 3] = [
        (Kind::File, 0o100_000),
        (Kind::Directory, 0o040_000),
        (Kind::SymbolicLink, 0o120_000),
    ];
    let kind = KINDS.iter().find(|(kind, _)| *kind == attributes.kind);
    let mode = kind.map_or(0, |(_, bits)| *bits) | u32::from(attributes.mode);
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
    )
}

const NS_PER_S: i128 = 1_000_000_000;

/// The attributes of a node as a tuple.
pub(crate) fn of_node(node: &Node) -> Attributes {
    of(node.object, &node.attributes)
}

/// Converts a time from Python.
pub(crate) fn timestamp(ns: i128) -> PyResult<Timestamp> {
    let seconds = i64::try_from(ns.div_euclid(NS_PER_S))
        .map_err(|_| PyValueError::new_err("the time is out of range"))?;
    Ok(Timestamp {
        seconds,
        nanoseconds: ns.rem_euclid(NS_PER_S) as u32,
    })
}
