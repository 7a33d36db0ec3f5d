//! Extended attributes of objects.

use causeway_wire::fs::{
    Acl, AclKind, Errno, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, ObjectId, Operation,
    ReplyBody, SetXattrMode, XattrName,
};

use super::call_error::{CallError, object_name, take_reply};
use super::connection::Client;
use crate::Error;

/// Refuses names and values that are too long for a message.
fn check(name: &[u8], value: &[u8]) -> Result<(), CallError> {
    if name.is_empty() || name.len() > MAX_XATTR_NAME_BYTES {
        let message = format!(
            "the name of an extended attribute has 1 to {MAX_XATTR_NAME_BYTES} bytes, not {}",
            name.len()
        );
        return Err(CallError::local(Errno::ERANGE, message));
    }
    if value.len() > MAX_XATTR_VALUE_BYTES {
        let message = format!(
            "an extended attribute has at most {MAX_XATTR_VALUE_BYTES} bytes, not {}",
            value.len()
        );
        return Err(CallError::local(Errno::E2BIG, message));
    }
    Ok(())
}

/// A name that a server has listed. Programs get all names in one buffer, each with a NUL behind it.
fn listed(name: XattrName) -> Result<Vec<u8>, CallError> {
    match name.name.is_empty() || name.name.contains(&0) {
        true => {
            let text =
                "the server listed a name of an extended attribute that is empty or contains NUL";
            Err(CallError::local(Errno::EPROTO, text))
        }
        false => Ok(name.name),
    }
}

impl Client {
    /// Gives an object an extended attribute. The name begins with its name space: `user.`, `trusted.` or `security.`; or it is that of
    /// an access control list, for which `mode` does not matter.
    pub fn set_xattr(
        &mut self,
        object: ObjectId,
        name: &[u8],
        value: &[u8],
        mode: SetXattrMode,
    ) -> Result<(), Error> {
        let subject = object_name(object);
        check(name, value).map_err(|error| error.during("setxattr", &subject))?;
        let operation = Operation::SetXattr {
            object,
            name: name.to_vec(),
            value: value.to_vec(),
            mode,
        };
        self.change_xattr("setxattr", &subject, operation)
    }

    /// Removes an extended attribute; fails with `ENODATA` if there is none of that name.
    pub fn remove_xattr(&mut self, object: ObjectId, name: &[u8]) -> Result<(), Error> {
        let subject = object_name(object);
        check(name, &[]).map_err(|error| error.during("removexattr", &subject))?;
        let operation = Operation::RemoveXattr {
            object,
            name: name.to_vec(),
        };
        self.change_xattr("removexattr", &subject, operation)
    }

    fn change_xattr(
        &mut self,
        verb: &'static str,
        subject: &[u8],
        operation: Operation,
    ) -> Result<(), Error> {
        self.mutate(operation)
            // With an access control list, the mode may have changed.
            .and_then(|reply| take_reply!(reply, ReplyBody::Done | ReplyBody::Node(_) => ()))
            .map_err(|error| error.during(verb, subject))
    }

    /// An object's access control list, or what new entries of a directory get. An object that has no access list of its own has one that
    /// is equivalent to its mode: then this returns `None`.
    pub fn acl(&mut self, object: ObjectId, kind: AclKind) -> Result<Option<Acl>, Error> {
        let value = match self.xattr(object, kind.xattr()) {
            Err(error) if error.errno == Errno::ENODATA => return Ok(None),
            value => value?,
        };
        Acl::from_xattr(&value).map_err(|(errno, why)| {
            CallError::local(errno, why).during("getxattr", &object_name(object))
        })
    }

    /// Replaces a list of an object that the caller owns. The mode follows an access list. Without a list, the present one is removed, and the mode,
    /// whose group digit was the mask, stays. Fails with `EINVAL` for a list with named users or groups but without a mask.
    pub fn set_acl(
        &mut self,
        object: ObjectId,
        kind: AclKind,
        acl: Option<&Acl>,
    ) -> Result<(), Error> {
        match acl {
            Some(acl) => self.set_xattr(object, kind.xattr(), &acl.to_xattr(), SetXattrMode::Any),
            None => self.remove_xattr(object, kind.xattr()),
        }
    }

    /// The value of an extended attribute; fails with `ENODATA` if there is none of that name.
    pub fn xattr(&mut self, object: ObjectId, name: &[u8]) -> Result<Vec<u8>, Error> {
        let operation = Operation::GetXattr {
            object,
            name: name.to_vec(),
        };
        check(name, &[])
            .and_then(|()| self.query(operation))
            .and_then(|reply| take_reply!(reply, ReplyBody::Xattr(value) => value))
            .map_err(|error| error.during("getxattr", &object_name(object)))
    }

    /// The names of an object's extended attributes that the caller may read.
    pub fn xattrs(&mut self, object: ObjectId) -> Result<Vec<Vec<u8>>, Error> {
        self.query(Operation::ListXattrs { object })
            .and_then(|reply| take_reply!(reply, ReplyBody::XattrNames(names) => names))
            .and_then(|names| names.into_iter().map(listed).collect())
            .map_err(|error| error.during("listxattr", &object_name(object)))
    }
}
