//! Access control lists.

use causeway_wire::fs::Acl;

pub(super) fn list() -> Acl {
    Acl {
        users: vec![(1000, 7)],
        mask: Some(5),
        ..Acl::of_mode(0o750)
    }
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
