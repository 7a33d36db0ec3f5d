//! Active Messages in the terms of GAM 1.1 (§2.4): request, reply, store, get and poll.
//!
//! Nothing here depends on being simulated. A program uses [`ActiveMessages`]; [`Endpoint`]
//! implements it once, over any [`Port`] that carries short messages and fragments in order. The
//! simulator's port lets virtual time pass; a port over a real transport may ignore the work that
//! is reported to it.
//!
//! Reading order: [`port`] (the layer below), [`memory`] (the memory of bulk transfers),
//! [`handlers`] (the functions that messages run), [`interface`] (the interface for programs),
//! [`endpoint`] (the layer itself).
//!
//! These parts of GAM 1.1 are implemented: a program is one of equal processes with consecutive ranks;
//! handlers are named by index into a table that is the same everywhere; a request carries up to
//! [`port::ARGUMENTS`] words and may get one reply, a reply gets none; a store names the destination's
//! memory and runs a handler there when all of it has arrived; a get reads the source's memory and runs a
//! handler here; a process that waits polls. Not implemented are asynchronous stores with an end function
//! of their own.

pub mod endpoint;
pub mod handlers;
pub mod interface;
pub mod memory;
pub mod port;

#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub use handlers::{Arrival, Handler, Handlers};
pub use interface::{ActiveMessages, AmError};
pub use memory::{Memory, Place, Region, Span};
pub use port::{Awaited, Function, HandlerId, Port, Rank, Step, Stop, Work};
