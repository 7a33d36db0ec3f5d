//! Access control lists of copies: a copy has the list of its original, or none. If it cannot have the list, its mode gives no user more
//! permissions than the original does: the original's mode shows the list's mask in the place of the owning group's permissions.
//!
//! A copy of a directory also has the default list of its original, or none. This list is set at the end, because everything made in the
//! directory before is a copy, too, and must not get it.

use std::io;
use std::os::fd::AsFd;

use causeway_fs::Error;
use causeway_fs::client::Client;
use causeway_wire::fs::{ACCESS_ACL, Acl, AclKind, DEFAULT_ACL, Errno, MAX_ACL_BYTES, ObjectId};
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};

use crate::fs::engine::Lost;

/// The mode for an object without its list that gives no user more permissions than mode and list
/// together do.
pub(crate) fn mode_without(mode: u16, acl: Option<&Acl>) -> u16 {
    acl.map_or(mode, |acl| acl.mode_without(mode))
}

/// The list of an open file or directory of this machine, if it has one beside its mode.
pub(crate) fn read_local(file: impl AsFd) -> io::Result<Option<Box<Acl>>> {
    let acl = read_kind(file, AclKind::Access)?;
    Ok(acl.filter(|acl| !acl.is_minimal()))
}

/// The default list of an open directory of this machine, if it has one.
pub(crate) fn read_local_default(directory: impl AsFd) -> io::Result<Option<Box<Acl>>> {
    read_kind(directory, AclKind::Default)
}

fn read_kind(file: impl AsFd, kind: AclKind) -> io::Result<Option<Box<Acl>>> {
    use rustix::io::Errno;

    if !has_local(&file, kind)? {
        return Ok(None);
    }
    let mut bytes = vec![0; MAX_ACL_BYTES];
    let count = match fgetxattr(&file, kind.xattr(), &mut bytes) {
        // It has been removed meanwhile.
        Err(Errno::NODATA) => return Ok(None),
        Err(Errno::RANGE) => return Err(not_copied("it has more than 511 entries")),
        count => count?,
    };
    let read = Acl::from_xattr(bytes.get(..count).unwrap_or_default());
    let acl = read.map_err(|(_, why)| not_copied(why))?;
    Ok(acl.map(Box::new))
}

fn not_copied(why: &str) -> io::Error {
    io::Error::other(format!("its access control list cannot be copied: {why}"))
}

fn has_local(file: impl AsFd, kind: AclKind) -> io::Result<bool> {
    use rustix::io::Errno;

    match fgetxattr(file, kind.xattr(), &mut [0_u8; 0]) {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives a copy on this machine this list and mode, or no list. Returns the mode that is still to be set.
pub(crate) fn set_local(
    file: impl AsFd,
    (acl, mode): (Option<&Acl>, u16),
    lost: &Lost,
) -> io::Result<u16> {
    use rustix::io::Errno;

    let write = |acl: &Acl| fsetxattr(&file, ACCESS_ACL, &acl.to_xattr(), XattrFlags::empty());
    if let Some(acl) = acl {
        match write(&acl.clone().with_mode(mode)) {
            Ok(()) => return Ok(mode),
            // The local file system has no lists, or this user namespace has not all their users and groups.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => Lost::add(&lost.lists),
            Err(error) => return Err(error.into()),
        }
    }
    let mode = mode_without(mode, acl);
    // The copy may have got a list from its directory.
    if has_local(&file, AclKind::Access)? {
        write(&Acl::of_mode(mode))?;
    }
    Ok(mode)
}

/// Gives the copy of a directory on this machine this default list, or none.
pub(crate) fn set_local_default(
    directory: impl AsFd,
    acl: Option<&Acl>,
    lost: &Lost,
) -> io::Result<()> {
    use rustix::io::Errno;

    match acl {
        Some(acl) => match fsetxattr(
            &directory,
            DEFAULT_ACL,
            &acl.to_xattr(),
            XattrFlags::empty(),
        ) {
            Err(Errno::OPNOTSUPP | Errno::INVAL) => Lost::add(&lost.lists),
            set => set?,
        },
        // The copy may have got one from its directory.
        None if has_local(&directory, AclKind::Default)? => {
            fremovexattr(&directory, DEFAULT_ACL)?;
        }
        None => {}
    }
    Ok(())
}

/// The default list of a directory in the file system: none if the metadata server is of an earlier build, without lists.
pub(crate) fn default_list(client: &mut Client, object: ObjectId) -> Result<Option<Acl>, Error> {
    match client.acl(object, AclKind::Default) {
        Err(error) if error.errno == Errno::EOPNOTSUPP => Ok(None),
        acl => acl,
    }
}

/// Gives the copy of a directory in the file system this default list, or none.
pub(crate) fn set_default_list(
    client: &mut Client,
    copy: ObjectId,
    acl: Option<&Acl>,
    lost: &Lost,
) -> Result<(), Error> {
    if default_list(client, copy)?.as_ref() == acl {
        return Ok(());
    }
    match client.set_acl(copy, AclKind::Default, acl) {
        Err(error) if error.errno == Errno::EOPNOTSUPP => Lost::add(&lost.lists),
        set => set?,
    }
    Ok(())
}
