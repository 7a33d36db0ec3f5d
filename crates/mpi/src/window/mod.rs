//! One-sided communication (MPI 5.0 chapter 12): windows of memory that other processes read, write and combine with.
//!
//! A `Window` has one of two kinds of memory (`WindowMemory`), for all of its processes alike:
//!
//! - **An area** (`area`): memory that all of them have mapped, where `MPI_Win_allocate` and `MPI_Win_allocate_shared` are called by
//!   processes of one host. The accessing process uses loads and stores; the process whose memory it is takes no part.
//!   Locks are words of the area.
//! - **Memory of each process's own**: a process sends the owner its accesses, and the owner does them when it is inside of MPI
//!   (`sending`, `serving`). Locks are requested in the same way.
//!
//! `creation` agrees on the kind when the window is made. So the two never meet in one window, and each has one way to make
//! accumulates atomic, element by element, whatever their operation, datatype and count:
//!
//! - In an area, the accessing process holds one of the *stripes* of the target's memory, a word that it changes with an atomic instruction,
//!   while it works on the elements that begin in one block of 4 KiB. A block has one stripe, wherever an access comes from, so that large
//!   accumulates, which are vectorised, exclude small ones and each other, block by block. An atomic instruction for each element would be
//!   atomic only with regard to other such instructions, and cost as much for each element as a stripe does for a block.
//! - Of its own memory, only the owner changes elements, one access after the other, its own ones too.
//!
//! What accesses do to elements is the same in both cases (`combining`): a put is an access that replaces bytes, a get is one that leaves them as
//! they are and returns them. Those two hold no stripes, as the standard asks for no atomicity there.
//!
//! `access` begins all accesses, but for those to one integer that are done at once (`single`); `ordering` and `locking` order them: fences, post and start, flushes, locks. Their state is in `state`, `epoch` and `channel`. A process that waits for others in one of these
//! functions watches them: the death of one of them is an error of the wait, never a hang.

mod access;
mod area;
mod channel;
mod combining;
mod creation;
mod epoch;
mod finding;
mod locking;
mod ordering;
mod sending;
mod serving;
mod single;
pub(crate) mod state;
mod waiting;

pub use access::{Access, Action};
pub use creation::{Begun, Offered};
pub use single::Change;
pub use state::{Flavor, Window};
