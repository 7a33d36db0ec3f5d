//! The one user for whom a connection speaks whose handshake was made by a node's agent: the process at its end holds no key, and the
//! server accepts no requests for other users from it.

use alloc::vec::Vec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer};

/// Most supplementary groups; an agent leaves further ones out, as clients of the file system do.
pub const MAX_GROUPS: usize = crate::fs::MAX_GROUPS;

/// The longest encoding of a [`User`].
pub const MAX_USER_BYTES: usize = 4 + 4 + 4 + 4 * MAX_GROUPS;

/// A user, as the kernel of the user's node knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
}

record! { User { uid: u32, gid: u32, groups: u32s(MAX_GROUPS) } }

impl User {
    /// Whether the user is in this group.
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_user_has_its_golden_bytes_and_bounded_groups() {
        let user = User {
            uid: 0x0403_0201,
            gid: 5,
            groups: vec![6, 7],
        };
        let golden = b"\x01\x02\x03\x04\x05\0\0\0\x02\0\0\0\x06\0\0\0\x07\0\0\0";
        assert_eq!(user.to_bytes(), golden);
        assert_eq!(User::from_bytes(golden), Ok(user.clone()));
        assert!(user.is_in(5) && user.is_in(7) && !user.is_in(8));
        let most = User {
            groups: vec![1; MAX_GROUPS],
            ..user.clone()
        };
        assert_eq!(most.to_bytes().len(), MAX_USER_BYTES);
        assert_eq!(User::from_bytes(&most.to_bytes()), Ok(most));
        let too_many = User {
            groups: vec![1; MAX_GROUPS + 1],
            ..user
        };
        assert!(User::from_bytes(&too_many.to_bytes()).is_err());
    }
}
