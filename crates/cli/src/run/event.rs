//! What those who watch over a parallel program are told.

use std::process::ExitStatus;

/// What happens to the program. Processes are named by their ranks.
pub(crate) enum Event {
    /// A process has ended.
    Ended(u32, ExitStatus),
    /// A process wants the whole program to end with this code (`MPI_Abort`).
    Aborted(u32, i32),
    /// A process does not speak PMI-1 as it should.
    Nonsense(u32, String),
    /// This process was sent a signal.
    Signal(i32),
}
