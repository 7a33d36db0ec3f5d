//! Extended attributes, as the kernel requests them.

use std::time::Instant;

use causeway_wire::fs::{AclKind, Errno, ObjectId, SetXattrMode};

use crate::attributes::{Failed, Outcome};
use crate::clients::User;
use crate::operations::Mounted;
use crate::unlisted::Asked;

/// Kernels request this attribute before writes. It has no effect here: mounts are `nosuid`.
const CAPABILITY: &[u8] = b"security.capability";
/// Flags of `setxattr`.
const CREATE: i32 = 1;
const REPLACE: i32 = 2;

/// Whether the servers keep no such attribute: programs request many that are outside the name space of users.
fn is_refused(name: &[u8]) -> bool {
    name == CAPABILITY || name.starts_with(b"system.") && AclKind::of_xattr(name).is_none()
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
        let set = self.clients.for_user(user, is_acl, |client| {
            client.set_xattr(object, name, value, mode)
        });
        if is_acl {
            self.unlisted.note_list(object, Instant::now());
        }
        set
    }

    pub(crate) fn xattr(
        &self,
        user: User,
        object: ObjectId,
        name: &[u8],
        size: u32,
    ) -> Outcome<XattrReply> {
        if is_refused(name) {
            return Err(Failed(Errno::EOPNOTSUPP));
        }
        let value = match AclKind::of_xattr(name) {
            // The kernel requests it whenever it checks permissions, for any user.
            Some(kind) => self.acl(Asked::now(user.pid), object, kind)?,
            None => self
                .clients
                .for_user(user, false, |client| client.xattr(object, name))?,
        };
        sized(value, size)
    }

    fn acl(&self, asks: Asked, object: ObjectId, kind: AclKind) -> Outcome<Vec<u8>> {
        if kind == AclKind::Access && self.unlisted.take(object, asks) {
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
