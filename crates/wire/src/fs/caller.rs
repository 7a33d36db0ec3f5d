//! The user for whom a client makes a request.

use alloc::vec::Vec;

/// The user as which root of another host acts where that root is not trusted.
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
    /// Bits that the mode of a new object lacks, unless the directory has a default access control list, which then determines the mode.
    /// At most 0o777.
    pub umask: u16,
}
