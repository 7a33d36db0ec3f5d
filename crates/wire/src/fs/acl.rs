//! POSIX access control lists (the withdrawn draft 1003.1e, as Linux has them).
//!
//! Programs see a list as an extended attribute: a version (`u32`, 2), then for each entry a tag and permissions (`u16` each) and an id
//! (`u32`), all little-endian. Metadata servers store a list in this form, and messages contain it in this form.

use alloc::vec::Vec;

use super::caller::Caller;
use super::errno::Errno;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// The extended attribute by which programs see the access list of an object: which users may
/// access it.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// The extended attribute by which programs see the default list of a directory, which its new
/// entries get.
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
/// Most entries of a list: Linux has room for 4096 bytes of a list that it gets from a mount, and a larger list permits
/// nothing.
pub const MAX_ACL_ENTRIES: usize = 511;

/// Most bytes of a list as an extended attribute.
pub const MAX_ACL_BYTES: usize = HEADER_BYTES + MAX_ACL_ENTRIES * ENTRY_BYTES;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The version, the first field of an encoded list.
const VERSION: u32 = 2;
/// The id in entries that have none; no user or group has it.
const NO_ID: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Which list of an object is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclKind {
    /// The access list: which users may access the object.
    Access,
    /// The default list: what new entries of the directory get.
    Default,
}

impl AclKind {
    /// Its extended attribute.
    pub fn xattr(self) -> &'static [u8] {
        match self {
            Self::Access => ACCESS_ACL,
            Self::Default => DEFAULT_ACL,
        }
    }

    /// The one with this extended attribute.
    pub fn of_xattr(name: &[u8]) -> Option<Self> {
        [Self::Access, Self::Default]
            .into_iter()
            .find(|kind| kind.xattr() == name)
    }
}

/// An access control list. Permissions are those of a mode's digit: 4 to read, 2 to write, 1 to execute or search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    /// Of the owner.
    pub owner: u8,
    /// Of users, by id. The first entry of a user counts.
    pub users: Vec<(u32, u8)>,
    /// Of the owning group.
    pub group: u8,
    /// Of groups, by id.
    pub groups: Vec<(u32, u8)>,
    /// The permissions that `users`, `group` and `groups` have at most. Required if `users` or
    /// `groups` has entries.
    pub mask: Option<u8>,
    /// Of everybody else.
    pub other: u8,
}

/// Why a list is refused: a number, and a reason in words.
pub type AclFault = (Errno, &'static str);

impl Acl {
    /// The list that is equivalent to a mode.
    pub fn of_mode(mode: u16) -> Self {
        Self {
            owner: digit(mode, 6),
            group: digit(mode, 3),
            other: digit(mode, 0),
            ..Self::default()
        }
    }

    /// The same list for an object that has this mode now: if the list has a mask, the mode's group digit is the
    /// mask.
    pub fn with_mode(mut self, mode: u16) -> Self {
        self.owner = digit(mode, 6);
        self.other = digit(mode, 0);
        match &mut self.mask {
            Some(mask) => *mask = digit(mode, 3),
            None => self.group = digit(mode, 3),
        }
        self
    }

    /// The nine bits of the mode of an object that has this list.
    pub fn mode(&self) -> u16 {
        let group = self.mask.unwrap_or(self.group);
        u16::from(self.owner) << 6 | u16::from(group) << 3 | u16::from(self.other)
    }

    /// The mode of the object for clients that do not know its list: the group digit is what the owning group may do, instead of the mask.
    pub fn mode_without(&self, mode: u16) -> u16 {
        match self.mask {
            Some(_) => mode & (!0o070 | u16::from(self.group) << 3),
            None => mode,
        }
    }

    /// Whether a mode expresses everything that the list does.
    pub fn is_minimal(&self) -> bool {
        self.mask.is_none() && self.users.is_empty() && self.groups.is_empty()
    }

    /// Whether the access list of an object with this mode, owner and group gives a user all of the `wanted` permissions. User 0 is as all
    /// others here.
    pub fn allows(&self, mode: u16, (uid, gid): (u32, u32), caller: &Caller, wanted: u8) -> bool {
        let has = |permissions: u8| permissions & wanted == wanted;
        if caller.uid == uid {
            return has(digit(mode, 6));
        }
        // If the list has a mask, the mode's group digit is the mask.
        let (mask, group) = match self.mask {
            Some(_) => (digit(mode, 3), self.group),
            None => (7, digit(mode, 3)),
        };
        if let Some((_, permissions)) = self.users.iter().find(|(user, _)| *user == caller.uid) {
            return has(permissions & mask);
        }
        let owning = (gid, group);
        let is_in = |group: u32| caller.gid == group || caller.groups.contains(&group);
        let all = core::iter::once(owning).chain(self.groups.iter().copied());
        let mut own = all.filter(|(group, _)| is_in(*group)).peekable();
        match own.peek() {
            Some(_) => own.any(|(_, permissions)| has(permissions & mask)),
            None => has(digit(mode, 0)),
        }
    }

    /// What a new entry of a directory with this default list gets: its access list, and its mode, if `mode` was requested.
    pub fn inherited(&self, mode: u16) -> (Self, u16) {
        let mut list = self.clone();
        list.owner &= digit(mode, 6);
        list.other &= digit(mode, 0);
        match &mut list.mask {
            Some(mask) => *mask &= digit(mode, 3),
            None => list.group &= digit(mode, 3),
        }
        let mode = mode & !0o777 | list.mode();
        (list, mode)
    }

    /// Reads an extended attribute; `None` if it has no entries, which removes the list.
    pub fn from_xattr(bytes: &[u8]) -> Result<Option<Self>, AclFault> {
        let wrong = |what| Err((Errno::EINVAL, what));
        let Some((version, entries)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return wrong("an access control list without a version");
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err((
                Errno::EOPNOTSUPP,
                "an access control list of an unknown version",
            ));
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return wrong("an access control list with a part of an entry");
        }
        if entries.is_empty() {
            return Ok(None);
        }
        if entries.len() > MAX_ACL_ENTRIES {
            return Err((
                Errno::ENOSPC,
                "an access control list has at most 511 entries",
            ));
        }
        let mut list = Self::default();
        // Each tag may follow those below it, and itself if it has an id. The first is the owner's, the last that of others.
        let mut last = 0;
        for entry in entries {
            let [t0, t1, p0, p1, id @ ..] = *entry;
            let (tag, permissions) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([p0, p1]));
            let id = u32::from_le_bytes(id);
            let Some(permissions) = u8::try_from(permissions).ok().filter(|bits| *bits <= 7) else {
                return wrong("an entry of an access control list with unknown permissions");
            };
            let named = matches!(tag, USER | GROUP);
            if named && id == NO_ID {
                return wrong("an entry of an access control list for no user or group");
            }
            if tag < last || (tag == last && !named) {
                return wrong("entries of an access control list are not in their order");
            }
            match tag {
                OWNER => list.owner = permissions,
                USER => list.users.push((id, permissions)),
                OWNING_GROUP => list.group = permissions,
                GROUP => list.groups.push((id, permissions)),
                MASK => list.mask = Some(permissions),
                OTHER => list.other = permissions,
                _ => return wrong("an entry of an access control list of an unknown kind"),
            }
            last = tag;
        }
        let has = |tag: u16| {
            let [low, high] = tag.to_le_bytes();
            entries.iter().any(|entry| entry[..2] == [low, high])
        };
        if ![OWNER, OWNING_GROUP, OTHER].into_iter().all(has) {
            return wrong(
                "an access control list needs entries of the owner, the owning group and others",
            );
        }
        if list.mask.is_none() && !list.is_minimal() {
            return wrong("an access control list with named users or groups needs a mask");
        }
        Ok(Some(list))
    }

    /// The list as an extended attribute.
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        let mut put = |tag: u16, permissions: u8, id: u32| {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&u16::from(permissions).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        };
        put(OWNER, self.owner, NO_ID);
        for (id, permissions) in &self.users {
            put(USER, *permissions, *id);
        }
        put(OWNING_GROUP, self.group, NO_ID);
        for (id, permissions) in &self.groups {
            put(GROUP, *permissions, *id);
        }
        if let Some(mask) = self.mask {
            put(MASK, mask, NO_ID);
        }
        put(OTHER, self.other, NO_ID);
        bytes
    }
}

/// A digit of a mode.
fn digit(mode: u16, shift: u16) -> u8 {
    (mode >> shift & 7) as u8
}

impl Wire for Acl {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.to_xattr());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let bytes = input.bytes(MAX_ACL_BYTES, "access control list")?;
        match Self::from_xattr(bytes) {
            // Programs may set meaningless ids in entries without one; peers may not send them,
            // because a list has one encoding.
            Ok(Some(list)) if list.to_xattr() == bytes => Ok(list),
            _ => unknown("access control list", 0u8),
        }
    }
}
