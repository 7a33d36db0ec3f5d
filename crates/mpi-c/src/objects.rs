//! The library's state of sessions and error handlers, how far the program is, and properties of Fortran that were set.

use std::sync::atomic::{AtomicBool, AtomicI32};

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

/// An error handler of the program's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) function: usize,
    /// How many objects it is set for.
    pub(crate) holders: u32,
    /// How many handles of it the program has, to be freed one by one.
    pub(crate) handles: u32,
}

/// The state that any thread may query at any time (MPI 5.0 §11.6.1).
pub(crate) struct Stage {
    /// `MPI_Init` was called.
    pub(crate) is_initialized: AtomicBool,
    /// `MPI_Finalize` was.
    pub(crate) is_finalized: AtomicBool,
    /// What threads may do.
    pub(crate) thread_level: AtomicI32,
    /// The kernel's number of the thread that has called `MPI_Init`, or 0.
    pub(crate) main_thread: AtomicI32,
}
