//! The operating system as Causeway uses it: memory that other processes can reach, sockets that
//! carry descriptors, waking and sleeping, pinning, positioned file I/O.
//!
//! Read [`memory`] first: everything above posts operations on [`memory::Memory`]. This room knows
//! no protocol. It is one of the two rooms that may use `unsafe` (the other is `transport`); each
//! block says which invariant holds and who upholds it.

pub mod memory;
pub mod net;
