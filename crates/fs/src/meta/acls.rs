//! Access control lists: kept as extended attributes, checked by the permissions of each request, and given to new entries of directories.
//!
//! An access list that only repeats the mode is not kept. The mode of an object with a list has the mask as its group digit, and the list's entries
//! for the owner and for others as the other digits, so that a change of the mode changes the list.

use causeway_wire::fs::{Acl, AclKind, Errno, Kind, ObjectId, ReplyBody};
use causeway_wire::store::{HAS_ACL, HAS_DEFAULT_ACL, StoredXattr, XattrsRecord};

use super::change::{Change, SET_GID};
use super::fault::{Outcome, corrupt, fail, plain};
use super::query::{Query, StoredObject, owns};

/// The bit of a record's mode that marks an object with such a list.
pub(super) fn flag_of(kind: AclKind) -> u16 {
    match kind {
        AclKind::Access => HAS_ACL,
        AclKind::Default => HAS_DEFAULT_ACL,
    }
}

/// The list in an extended attribute that a program sets.
pub(super) fn read_acl(value: &[u8]) -> Outcome<Option<Acl>> {
    Acl::from_xattr(value).or_else(|(errno, why)| fail(errno, why))
}

fn stored(kind: AclKind, acl: &Acl) -> StoredXattr {
    StoredXattr {
        name: kind.xattr().to_vec(),
        value: acl.to_xattr(),
    }
}

impl Query<'_> {
    /// An object's list as an extended attribute, which all users may read.
    pub(super) fn get_acl(&self, found: &StoredObject, kind: AclKind) -> Outcome<ReplyBody> {
        let acl = match (kind, found.record.kind()) {
            (_, Kind::SymbolicLink) => return links_have_none(),
            (AclKind::Access, _) => self.acl(found.object, &found.record)?,
            (AclKind::Default, _) => self.default_acl(found)?,
        };
        match acl {
            Some(acl) => Ok(ReplyBody::Xattr(acl.to_xattr())),
            None => plain(Errno::ENODATA),
        }
    }

    /// The list that new entries of a directory get.
    pub(super) fn default_acl(&self, directory: &StoredObject) -> Outcome<Option<Acl>> {
        if directory.record.mode & HAS_DEFAULT_ACL == 0 {
            return Ok(None);
        }
        let all = self.xattrs(directory.object)?.xattrs;
        let default = AclKind::Default.xattr();
        let stored = all.iter().find(|xattr| xattr.name == default);
        match stored.map(|xattr| Acl::from_xattr(&xattr.value)) {
            Some(Ok(Some(acl))) => Ok(Some(acl)),
            _ => Err(corrupt(format_args!(
                "the default access control list of directory {} cannot be read",
                directory.object.0
            ))),
        }
    }
}

impl Change<'_> {
    /// Replaces one of an object's lists, or removes it. The mode follows an access list. Returns the node.
    pub(super) fn set_acl(
        &mut self,
        object: ObjectId,
        kind: AclKind,
        acl: Option<Acl>,
    ) -> Outcome<ReplyBody> {
        let mut found = self.found(object)?;
        if !owns(&found.record, self.caller) {
            return fail(
                Errno::EPERM,
                format!("user {} does not own object {}", self.caller.uid, object.0),
            );
        }
        let had_xattrs = self.query().xattrs(object)?;
        let record = &mut found.record;
        let kept = match (kind, record.kind()) {
            (_, Kind::SymbolicLink) => return links_have_none(),
            (AclKind::Default, Kind::Directory) => acl,
            (AclKind::Default, _) if acl.is_none() => return self.node_reply(found),
            (AclKind::Default, _) => {
                return fail(
                    Errno::EACCES,
                    "only directories have default access control lists",
                );
            }
            (AclKind::Access, _) => {
                if let Some(acl) = &acl {
                    record.mode = record.mode & !0o777 | acl.mode();
                    if !self.may_set_group_id(record.gid) {
                        record.mode &= !SET_GID;
                    }
                }
                acl.filter(|acl| !acl.is_minimal())
            }
        };
        let flag = flag_of(kind);
        match kept {
            Some(_) => record.mode |= flag,
            None => record.mode &= !flag,
        }
        let mut all = had_xattrs.clone();
        all.xattrs.retain(|xattr| xattr.name != kind.xattr());
        if let Some(acl) = &kept {
            let new = stored(kind, acl);
            let place = all.xattrs.partition_point(|xattr| xattr.name < new.name);
            all.xattrs.insert(place, new);
        }
        if all == had_xattrs {
            found.record.changed = self.now;
            self.put_object(object, &found.record);
        } else {
            self.put_xattrs(found, &all)?;
        }
        self.node_reply(self.found(object)?)
    }

    /// The mode and the lists of a new object of a directory. The caller's umask applies if the directory has no default list.
    pub(super) fn inherit_acls(
        &self,
        directory: &StoredObject,
        mode: u16,
        kind: Kind,
    ) -> Outcome<(u16, XattrsRecord)> {
        let mut all = XattrsRecord::default();
        if kind == Kind::SymbolicLink {
            return Ok((mode, all));
        }
        let Some(default) = self.query().default_acl(directory)? else {
            return Ok((mode & !self.caller.umask, all));
        };
        let (access, mut mode) = default.inherited(mode);
        if !access.is_minimal() {
            mode |= HAS_ACL;
            all.xattrs.push(stored(AclKind::Access, &access));
        }
        if kind == Kind::Directory {
            mode |= HAS_DEFAULT_ACL;
            all.xattrs.push(stored(AclKind::Default, &default));
        }
        Ok((mode, all))
    }
}

fn links_have_none<T>() -> Outcome<T> {
    fail(
        Errno::EOPNOTSUPP,
        "symbolic links have no access control lists",
    )
}
