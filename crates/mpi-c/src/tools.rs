//! What the library keeps for tools (MPI 5.0 chapter 15).

use std::ffi::c_int;

use causeway_mpi::tool::Settings;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// How often `MPI_T_init_thread` was called more often than `MPI_T_finalize`.
    pub(crate) users: u32,
    pub(crate) settings: Settings,
    /// Open handles of measures, by session.
    pub(crate) sessions: Vec<Option<Vec<Option<c_int>>>>,
}
