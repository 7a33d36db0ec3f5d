//! The user that a client makes a request for.

use alloc::vec::Vec;

/// The user that root of another host is where it is not trusted.
pub const NOBODY: u32 = 65534;

/// The identity that permissions are checked against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
    /// Bits that the mode of a new object lacks, unless the directory has a default access control list: that says it then. At most 0o777.
    pub umask: u16,
}
