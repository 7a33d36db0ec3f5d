//! Collective operations in memory that all processes of a communicator have mapped, if they are on one host.
//!
//! Blocking operations of up to some size are done there (`area`, `operation`, `uneven`): each process writes its data where all read it, once, and
//! nothing is matched. In many longer ones it writes where its data lie, and processes read each other's memory (`reading`). Other operations, nonblocking ones, and those with functions of the program are done by messages
//! ([`crate::collective`]), as are all in the checking mode. `docs/mpi-collectives.md` has the limits and their measurements.
//!
//! The memory is [shared](crate::sharing) when a communicator is used for the third time (`creation`), and freed with it. All processes decide alike:
//! by the order of their blocking operations, and by sizes that MPI has them agree on. A wait polls for a while, then sleeps until it
//! gets a notice (`waiting`).
//!
//! Each process publishes what it calls, with how many bytes, at the beginning of these operations, also of those that are done by messages then (`call`). Where
//! two calls do not belong together, a process that finds it reports that in the area (`failure`), with the phase from which on operations fail, and all processes return an error that names the calls.
//! As some may be operations ahead of others, all fail until each process has noticed; operations that none has begun by then are done by messages. So that messages of one operation are not
//! taken for those of another, operations in areas take numbers as well.
//!
//! A call that a process does not begin because of its arguments leaves no trace there: the others may not have called. If they have, the process finds that when its next call is compared, and
//! counts the refused one as an operation (`state`).

pub(crate) mod area;
mod blocks;
mod call;
mod creation;
pub(crate) mod failure;
pub(crate) mod operation;
mod parts;
mod reading;
mod starting;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod uneven;
mod waiting;

pub use creation::make_area;
pub use starting::{Operands, Started};
pub use uneven::Side;
