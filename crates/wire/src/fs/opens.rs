//! Files that programs have open: what keeps a file that has lost its last name.

use alloc::vec::Vec;

use super::objects::ObjectId;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer};

/// Most files that one message names as open, or as closed.
pub const MAX_NAMED_FILES: usize = 2048;

/// Says that the sender opens the file that a request finds or makes. The server then keeps the file, also without a name, until the
/// handle is closed or the session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Of the program: a number chosen at random. It ends with the last connection by which it has opened or kept files.
    pub session: u128,
    /// For this open file: a number that the program never uses again. The request may be repeated.
    pub handle: u64,
    /// Handles of the session that have been closed. Those that are not known are no error.
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
