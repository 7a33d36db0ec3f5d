//! The library's state of sessions, and properties of Fortran that were set.

use causeway_mpi::info::Info;

use crate::types::Handle;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) error_handler: Handle,
}

/// Properties of Fortran that were set.
#[derive(Debug, Default)]
pub(crate) struct Fortran {
    pub(crate) info: Option<Info>,
    /// True and false, of the same size.
    pub(crate) booleans: Option<(Vec<u8>, Vec<u8>)>,
}
