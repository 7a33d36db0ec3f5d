//! MPI's files on the parallel file system: those whose names are `causeway:` and a path.
//!
//! [`files`] opens them: it finds the file system's configuration as other programs do, and has one client of each file system in a
//! process, which connects when it is first needed. [`file`](mod@file) is an open file: lists of extents of a view become lists of the
//! client library, which go to each server in one request. [`hints`] are those of the program.
//!
//! This crate does not do the joint steps of MPI's processes. Those are in `causeway_mpi::io`, the same for all kinds of storage.
#![forbid(unsafe_code)]

mod connection;
pub mod file;
pub mod files;
pub mod hints;

pub use files::CausewayFiles;
