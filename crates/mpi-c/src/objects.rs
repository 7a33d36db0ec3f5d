//! What the library keeps of sessions, and of what was said of Fortran.

use causeway_mpi::info::Info;

use crate::types::Handle;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) error_handler: Handle,
    pub(crate) hints: Info,
}

/// What was said of Fortran.
#[derive(Debug, Default)]
pub(crate) struct Fortran {
    pub(crate) info: Option<Info>,
    /// True and false, of the same size.
    pub(crate) booleans: Option<(Vec<u8>, Vec<u8>)>,
}
