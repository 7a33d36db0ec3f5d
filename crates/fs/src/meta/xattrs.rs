//! Extended attributes: named values of an object, which all of its names share.
//!
//! An attribute's name begins with its name space, which determines its readers and writers, as on Linux: `user.` follows the permissions of
//! the object's content, `trusted.` is user 0's, `security.` may be read by everybody and is set by user 0. Two of `system.` are the
//! object's access control lists (`acls`).

use causeway_wire::codec::Wire as _;
use causeway_wire::fs::{AclKind, Errno, Kind, ObjectId, ReplyBody, SetXattrMode, XattrName};
use causeway_wire::store::{MAX_XATTRS, MAX_XATTRS_BYTES, StoredXattr, XattrsRecord, xattrs_key};

use super::acls::{flag_of, read_acl};
use super::change::{Change, STICKY};
use super::fault::{Outcome, fail, plain, quoted};
use super::query::{Query, READ, StoredObject, WRITE, find_record, owns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    Acl(AclKind),
}

/// The name space of an attribute.
fn space_of(name: &[u8]) -> Outcome<Space> {
    if let Some(kind) = AclKind::of_xattr(name) {
        return Ok(Space::Acl(kind));
    }
    let spaces: [(&[u8], Space); 3] = [
        (b"user.", Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    let found = spaces.iter().find(|(prefix, _)| name.starts_with(prefix));
    match found {
        Some((prefix, _)) if name.len() == prefix.len() => {
            fail(Errno::EINVAL, "an extended attribute without a name")
        }
        _ if name.contains(&0) => fail(Errno::EINVAL, "a name cannot contain a NUL byte"),
        Some((_, space)) => Ok(*space),
        None => fail(
            Errno::EOPNOTSUPP,
            format!(
                "extended attribute {}: there are those of user., trusted. and security., and access control lists",
                quoted(name)
            ),
        ),
    }
}

/// Whether an object has attributes of users: other objects than files and directories have none, as their
/// permissions do not concern content.
fn has_users(found: &StoredObject) -> bool {
    matches!(found.record.kind(), Kind::File | Kind::Directory)
}

impl Query<'_> {
    pub(super) fn xattrs(&self, object: ObjectId) -> Outcome<XattrsRecord> {
        let what = format_args!("the extended attributes of object {}", object.0);
        let record = find_record(self.view, &xattrs_key(object), what)?;
        Ok(record.unwrap_or_default())
    }

    pub(super) fn get_xattr(&self, object: ObjectId, name: &[u8]) -> Outcome<ReplyBody> {
        let record = self.object(object)?;
        let found = StoredObject { object, record };
        match space_of(name)? {
            Space::User if !has_users(&found) => return plain(Errno::ENODATA),
            Space::User => self.check(&found, READ)?,
            Space::Trusted if self.caller.uid != 0 => return plain(Errno::ENODATA),
            Space::Trusted | Space::Security => {}
            Space::Acl(kind) => return self.get_acl(&found, kind),
        }
        let xattrs = self.xattrs(object)?.xattrs;
        let xattr = xattrs.into_iter().find(|xattr| xattr.name == name);
        match xattr {
            Some(xattr) => Ok(ReplyBody::Xattr(xattr.value)),
            None => plain(Errno::ENODATA),
        }
    }

    /// The names of attributes that the caller may see.
    pub(super) fn list_xattrs(&self, object: ObjectId) -> Outcome<ReplyBody> {
        let record = self.object(object)?;
        let all = self.xattrs(object)?.xattrs.into_iter();
        let is_shown = |xattr: &StoredXattr| match AclKind::of_xattr(&xattr.name) {
            Some(kind) => record.mode & flag_of(kind) != 0,
            None => self.caller.uid == 0 || !xattr.name.starts_with(b"trusted."),
        };
        let shown = all.filter(is_shown);
        Ok(ReplyBody::XattrNames(
            shown
                .map(|StoredXattr { name, .. }| XattrName { name })
                .collect(),
        ))
    }
}

impl Change<'_> {
    /// The object, if the caller may change its attributes of that name space.
    fn with_xattr(&self, object: ObjectId, name: &[u8]) -> Outcome<StoredObject> {
        let found = self.found(object)?;
        match space_of(name)? {
            Space::User if !has_users(&found) => fail(
                Errno::EPERM,
                "only files and directories have extended attributes of users",
            ),
            // Every user may write to such a directory, but must not fill it for others.
            Space::User
                if found.record.kind() == Kind::Directory
                    && found.record.mode & STICKY != 0
                    && !owns(&found.record, self.caller) =>
            {
                fail(
                    Errno::EPERM,
                    format!(
                        "directory {} is sticky, and user {} does not own it",
                        object.0, self.caller.uid
                    ),
                )
            }
            Space::User => self.query().check(&found, WRITE).map(|()| found),
            Space::Trusted | Space::Security if self.caller.uid != 0 => fail(
                Errno::EPERM,
                format!("only user 0 may change extended attribute {}", quoted(name)),
            ),
            // These are changed in another way.
            Space::Trusted | Space::Security | Space::Acl(_) => Ok(found),
        }
    }

    /// Gives an object an extended attribute.
    pub(super) fn set_xattr(
        &mut self,
        object: ObjectId,
        name: &[u8],
        value: &[u8],
        mode: SetXattrMode,
    ) -> Outcome<ReplyBody> {
        if let Some(kind) = AclKind::of_xattr(name) {
            return self.set_acl(object, kind, read_acl(value)?);
        }
        let found = self.with_xattr(object, name)?;
        let mut all = self.query().xattrs(object)?;
        let place = all
            .xattrs
            .binary_search_by(|xattr| xattr.name[..].cmp(name));
        let new = StoredXattr {
            name: name.to_vec(),
            value: value.to_vec(),
        };
        match place {
            Ok(_) if mode == SetXattrMode::Create => return plain(Errno::EEXIST),
            Ok(at) => all.xattrs[at] = new,
            Err(_) if mode == SetXattrMode::Replace => return plain(Errno::ENODATA),
            Err(at) => all.xattrs.insert(at, new),
        }
        self.put_xattrs(found, &all)
    }

    /// Removes an extended attribute.
    pub(super) fn remove_xattr(&mut self, object: ObjectId, name: &[u8]) -> Outcome<ReplyBody> {
        if let Some(kind) = AclKind::of_xattr(name) {
            return self.set_acl(object, kind, None);
        }
        let found = self.with_xattr(object, name)?;
        let mut all = self.query().xattrs(object)?;
        let before = all.xattrs.len();
        all.xattrs.retain(|xattr| xattr.name != name);
        match all.xattrs.len() == before {
            true => plain(Errno::ENODATA),
            false => self.put_xattrs(found, &all),
        }
    }

    /// Puts an object with all of its extended attributes.
    pub(super) fn put_xattrs(
        &mut self,
        mut found: StoredObject,
        all: &XattrsRecord,
    ) -> Outcome<ReplyBody> {
        let sizes = all.xattrs.iter().map(|x| x.name.len() + x.value.len());
        if sizes.sum::<usize>() > MAX_XATTRS_BYTES || all.xattrs.len() > MAX_XATTRS {
            return fail(
                Errno::ENOSPC,
                format!(
                    "an object has at most {MAX_XATTRS} extended attributes, of {MAX_XATTRS_BYTES} bytes in all"
                ),
            );
        }
        let key = xattrs_key(found.object);
        match all.xattrs.is_empty() {
            true => self.state.remove(key),
            false => self.state.put(key, all.to_bytes()),
        }
        found.record.changed = self.now;
        self.put_object(found.object, &found.record);
        Ok(ReplyBody::Done)
    }
}
