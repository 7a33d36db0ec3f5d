//! Files that programs have open, which keeps files that have lost their last name.

use alloc::vec::Vec;

use super::objects::ObjectId;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer};

/// Most files that one message names as open, or as closed.
pub const MAX_NAMED_FILES: usize = 2048;

/// States that the sender opens the file that a request finds or makes. The server then keeps the
/// file, even without a name, until the handle is closed or the session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The program's session: a number chosen at random. It ends with the last connection by which
    /// it has opened or kept files.
    pub session: u128,
    /// The handle of this open file: a number that the program never reuses. The request may be
    /// repeated.
    pub handle: u64,
    /// Handles of the session that have been closed. Unknown ones are no error.
    pub closed: Vec<u64>,
}

/// A file that a program has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHandle {
    /// See [`Opening::handle`].
    pub handle: u64,
    /// The file.
    pub object: ObjectId,
}

record! { Opening { session: u128, handle: u64, closed: u64s(MAX_NAMED_FILES) } }
record! { OpenHandle { handle: u64, object: wire } }
