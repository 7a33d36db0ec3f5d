//! MPI (the standard's version 5.0) without its C surface.
//!
//! [`datatype`] describes where the elements of a message lie in memory, [`reduction`] combines them;
//! [`topology`] tells who are neighbours.

#![forbid(unsafe_code)]

pub mod datatype;
pub mod reduction;
pub mod topology;
