//! The permissions of a user to an object, by its mode and its access control list if it has one.

use causeway_wire::fs::{Acl, Caller, Node};

/// Permission to read.
pub(crate) const READ: u16 = 4;
/// Permission to write.
pub(crate) const WRITE: u16 = 2;

/// The attributes of an object on which permissions depend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permissions<'a> {
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) acl: Option<&'a Acl>,
}

impl<'a> Permissions<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            mode: node.attributes.mode,
            uid: node.attributes.uid,
            gid: node.attributes.gid,
            acl: node.acl.as_deref(),
        }
    }

    /// Whether `caller` has all of the wanted permissions. User 0 has every one.
    pub(crate) fn allow(&self, caller: &Caller, wanted: u16) -> bool {
        let allows = |acl: &Acl| {
            let owners = (self.uid, self.gid);
            acl.allows(self.mode, owners, caller, (wanted & 7) as u8)
        };
        caller.uid == 0
            || match self.acl {
                // As on Linux: under an empty mask the list has no effect, and its users and groups count as others.
                Some(acl) if self.mode & 0o070 != 0 => allows(acl),
                _ => allows(&Acl::of_mode(self.mode)),
            }
    }
}

/// The permissions of `caller` through a handle of the file. Its owner may always read and write, as with NFS: the client
/// checked permissions when it opened the file, and a file may be created read-only for writing.
pub(crate) fn of_handle(node: &Node, caller: &Caller) -> u16 {
    if caller.uid == 0 || caller.uid == node.attributes.uid {
        return READ | WRITE;
    }
    let permissions = Permissions::of(node);
    let granted = [READ, WRITE].into_iter();
    granted
        .filter(|wanted| permissions.allow(caller, *wanted))
        .fold(0, |all, one| all | one)
}
