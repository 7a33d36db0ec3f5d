//! Parallel programs in Active Messages (§2.4), each of which checks its own result.
//!
//! They are ordinary functions that compute real numbers; nothing here depends on being simulated. They report their work as
//! `Work`, in kinds of operations, so that a cost model can turn it into time.
//!
//! [`ping`] is Ping_Pong and Ping_Bulk, [`fft`] a one-dimensional Fourier transform, [`matmul`] a product of matrices,
//! [`is`] a sort of integers, [`replay`] what was recorded of another one in a [`trace`]. [`barrier`] is what they share.

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
    /// What its handlers change.
    type State: 'static;
    /// What it finds out.
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
