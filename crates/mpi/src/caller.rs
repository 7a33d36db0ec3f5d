//! Callers, which carry out operations of several steps.

use crate::error::Result;
use crate::process::{Active, Process};
use crate::status::Status;

/// Carries out an operation of several steps: lends the process for each step, and waits in between. While it waits, functions of the
/// program may be called, which may call MPI.
pub trait Caller {
    /// The name of the program's call, which the checking mode compares in each step.
    fn name(&self) -> &'static str;

    /// Lends the process for a step.
    fn with<R>(&mut self, step: impl FnOnce(&mut Process) -> Result<R>) -> Result<R>;

    /// Waits until an operation is done.
    fn wait(&mut self, active: Active) -> Result<Status>;
}
