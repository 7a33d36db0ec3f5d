//! Extended attributes, as the kernel requests them.

use causeway_wire::fs::{AclKind, Errno, Kind, Node, ObjectId, SetXattrMode};

use crate::attributes::{Failed, Outcome};
use crate::clients::User;
use crate::operations::Mounted;

/// Kernels request this attribute before writes. It has no effect here: mounts are `nosuid`.
const CAPABILITY: &[u8] = b"security.capability";
/// `ls -l` requests this one of each file until it is told that there are none. Hosts with SELinux give all files of a FUSE mount one label, and refuse
/// others themselves.
const LABEL: &[u8] = b"security.selinux";
/// Flags of `setxattr`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Whether the servers keep no such attribute: programs request many that are outside the name space of users.
fn is_refused(name: &[u8]) -> bool {
    name == CAPABILITY
        || name == LABEL
        || name.starts_with(b"system.") && AclKind::of_xattr(name).is_none()
}

/// The reply to a request that has room for `size` bytes.
pub(crate) enum XattrReply {
    /// The number of bytes: the program has asked for no more.
    Size(u32),
    /// The bytes.
    Data(Vec<u8>),
}

fn sized(bytes: Vec<u8>, size: u32) -> Outcome<XattrReply> {
    let len = u32::try_from(bytes.len()).map_err(|_| Failed(Errno::E2BIG))?;
    match size {
        0 => Ok(XattrReply::Size(len)),
        _ if len <= size => Ok(XattrReply::Data(bytes)),
        _ => Err(Failed(Errno::ERANGE)),
    }
}

impl Mounted {
    pub(crate) fn set_xattr(
        &self,
        user: User,
        object: ObjectId,
        (name, value): (&[u8], &[u8]),
        flags: i32,
    ) -> Outcome {
        if is_refused(name) {
            return Err(Failed(Errno::EOPNOTSUPP));
        }
        let mode = match flags {
            0 => SetXattrMode::Any,
            CREATE => SetXattrMode::Create,
            REPLACE => SetXattrMode::Replace,
            _ => return Err(Failed(Errno::EINVAL)),
        };
        // A list may clear the set-group-ID bit of a file whose owner is not in its group.
        let is_acl = AclKind::of_xattr(name).is_some();
        self.clients.for_user(user, is_acl, |client| {
            client.set_xattr(object, name, value, mode)
        })
    }

    /// Replies with an attribute's value, or how long it is.
    pub(crate) fn reply_with_xattr(
        &self,
        user: User,
        object: ObjectId,
        name: &[u8],
        size: u32,
        reply: impl FnOnce(Outcome<XattrReply>),
    ) {
        let kind = AclKind::of_xattr(name);
        if kind.is_some() {
            self.caches.note_list(object);
        }
        if kind != Some(AclKind::Access) {
            return reply(self.xattr(user, object, name, size));
        }
        // The kernel keeps a list until the lease of the attributes ends or it asks for them again. A list that was read without a lease
        // may have changed before there was one.
        let node = || self.caches.node(object).map(|(node, _)| node);
        let before = node();
        // It has no list from a time without a lease, or it would not ask. Of a directory it may have the default list.
        let is_directory = |node: &Node| node.attributes.kind == Kind::Directory;
        if before.as_ref().is_some_and(|node| !is_directory(node)) {
            self.caches.note_known(object);
        }
        reply(self.xattr(user, object, name, size));
        if before.is_none() || node() != before {
            self.caches.forget(object);
        }
    }

    fn xattr(&self, user: User, object: ObjectId, name: &[u8], size: u32) -> Outcome<XattrReply> {
        if is_refused(name) {
            return Err(Failed(Errno::EOPNOTSUPP));
        }
        let value = match AclKind::of_xattr(name) {
            // The kernel asks for it whenever it checks permissions, on behalf of anybody.
            Some(kind) => self.acl(object, kind)?,
            None => self
                .clients
                .for_user(user, false, |client| client.xattr(object, name))?,
        };
        sized(value, size)
    }

    fn acl(&self, object: ObjectId, kind: AclKind) -> Outcome<Vec<u8>> {
        let cached = self.caches.node(object);
        if kind == AclKind::Access && cached.is_some_and(|(node, _)| node.acl.is_none()) {
            return Err(Failed(Errno::ENODATA));
        }
        let found = self.clients.own(|client| {
            // Most objects have no list, which is not logged. Servers of earlier builds have no lists at all.
            match client.xattr(object, kind.xattr()) {
                Err(error) if matches!(error.errno, Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
                found => found.map(Some),
            }
        })?;
        found.ok_or(Failed(Errno::ENODATA))
    }

    /// The names, each with a NUL behind it.
    pub(crate) fn xattrs(&self, user: User, object: ObjectId, size: u32) -> Outcome<XattrReply> {
        let names = self
            .clients
            .for_user(user, false, |client| client.xattrs(object))?;
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend_from_slice(&name);
            bytes.push(0);
        }
        sized(bytes, size)
    }

    pub(crate) fn remove_xattr(&self, user: User, object: ObjectId, name: &[u8]) -> Outcome {
        if is_refused(name) {
            return Err(Failed(Errno::EOPNOTSUPP));
        }
        self.clients
            .for_user(user, false, |client| client.remove_xattr(object, name))
    }
}
