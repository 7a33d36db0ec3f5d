//! Objects with their attributes, and access control lists.

use causeway_wire::codec::Wire;
use causeway_wire::fs::{Acl, Node, ObjectId};

use super::{attributes, bodies};

fn list() -> Acl {
    Acl {
        users: vec![(1000, 7)],
        mask: Some(5),
        ..Acl::of_mode(0o750)
    }
}

/// A node with each kind of body.
pub(super) fn each() -> impl Iterator<Item = Node> {
    bodies().into_iter().map(|body| Node {
        object: ObjectId(42),
        attributes: attributes(),
        body,
        acl: Some(Box::new(list())),
    })
}

pub(in crate::decoders) fn encoded() -> Vec<Vec<u8>> {
    each().map(|node| node.to_bytes()).collect()
}

/// As extended attributes.
pub(in crate::decoders) fn acls() -> Vec<Vec<u8>> {
    let with_groups = Acl {
        groups: vec![(100, 6), (u32::MAX - 1, 0)],
        ..list()
    };
    [Acl::of_mode(0o640), list(), with_groups]
        .iter()
        .map(Acl::to_xattr)
        .collect()
}
