//! What a file's mode lets a user do with it once it is open.

use causeway_wire::fs::{Attributes, Caller};

/// Permission to read.
pub(crate) const READ: u16 = 4;
/// Permission to write.
pub(crate) const WRITE: u16 = 2;

/// What `caller` may do through a handle of the file: a set of permissions. Its owner may read and write always, as with NFS: that
/// was checked when the file was opened, and it may be created read-only for writing.
pub(crate) fn of_handle(attributes: &Attributes, caller: &Caller) -> u16 {
    if caller.uid == 0 || caller.uid == attributes.uid {
        return READ | WRITE;
    }
    let in_group = caller.gid == attributes.gid || caller.groups.contains(&attributes.gid);
    let granted = match in_group {
        true => attributes.mode >> 3,
        false => attributes.mode,
    };
    granted & (READ | WRITE)
}
