//! Parallel programs in Active Messages (§2.4), each of which checks its own result.
//!
//! They are ordinary functions that compute real numbers; nothing here depends on being simulated. They report their work as
//! `Work`, in kinds of operations, so that a cost model can turn it into time.
//!
//! [`ping`] is Ping_Pong and Ping_Bulk, [`fft`] a one-dimensional Fourier transform, [`matmul`] a
//! product of matrices, [`is`] a sort of integers, [`replay`] a recorded program, from a [`trace`].
//! They share [`barrier`].

use crate::am::port::Rank;
use crate::am::{ActiveMessages, AmError, Handlers};

pub mod barrier;
pub mod fft;
pub mod is;
pub mod matmul;
pub mod ping;
pub mod replay;
pub mod trace;

#[cfg(test)]
mod tests;

/// A program that every process runs.
pub trait Program: Clone + 'static {
    /// The state that its handlers change.
    type State: 'static;
    /// Its result.
    type Output: 'static;

    /// Its handlers.
    fn handlers() -> &'static Handlers<Self::State>;

    /// The state of process `rank` of `ranks` before anything is sent; an error if the program cannot run on so
    /// many.
    fn begin(&self, rank: Rank, ranks: u32) -> Result<Self::State, AmError>;

    /// Runs it.
    fn run<A: ActiveMessages<State = Self::State>>(
        &self,
        am: &mut A,
    ) -> Result<Self::Output, AmError>;
}
